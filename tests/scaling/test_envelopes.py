"""Published sizes, sizes of recorded runs, and the gap between them: values by hand, edges, mistakes."""

import io
import json
import math
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.scaling.axes import AXES, scale_of
from orchestrace.scaling.published_sizes import duration_seconds

NAMES = [axis.name for axis in AXES]
K26 = "Kimi K2.6 Agent Swarm (reported envelope)"


# --- the table --------------------------------------------------------------------------------------


def test_facts_keep_their_sources_and_blanks() -> None:
    table = ot.scaling.list_envelopes()
    assert table.height == 35 and table["system"].is_unique().all()
    assert table["source"].null_count() == 0 and table["source"].str.len_chars().min() > 0
    assert table["kind"].value_counts(sort=True).rows() == [("academic", 21), ("industrial", 14)]
    swarm = table.filter(system=K26).row(0, named=True)
    assert (swarm["agents_max"], swarm["parallel_agents_max"], swarm["steps_max"]) == (300, 300, 4000.0)
    assert swarm["tokens_max"] is None and swarm["wall_clock"] is None and swarm["group_size"] is None
    # what is not of one run is not taken for one
    assert table.filter(scope="project")["agents_max"].to_list() == [16]
    assert table.filter(scope="training")["parallel_agents_max"].to_list() == [100_000]
    assert (table["scope"] == "trace").sum() == 33
    sizes = table.select("agents_max", "parallel_agents_max", "tool_calls_max", "steps_max", "tokens_max")
    assert all(column.drop_nulls().min() > 0 for column in sizes)  # type: ignore[operator]
    assert [str(sizes[name].dtype) for name in sizes.columns] == [
        "Int64",
        "Int64",
        "Int64",
        "Float64",
        "Int64",
    ]
    for axis in AXES:
        assert axis.envelope is None or axis.envelope in table.columns


def test_plain_durations_have_seconds() -> None:
    written = ot.scaling.list_envelopes().drop_nulls("wall_clock").select("wall_clock", "wall_clock_s")
    assert dict(written.iter_rows()) == {
        **{"12 h+": None, "13 h": 13 * 3600.0, "5 days": 5 * 86_400.0, "2 weeks": 14 * 86_400.0},
    }
    assert duration_seconds("1.5 min") == 90.0
    assert duration_seconds("1 day") == duration_seconds("24 h")
    for text in ("", "h", "12h", "about 2 h", "2-3 h", "-1 h", "1 month", "1.2.3 h", "² h"):
        assert duration_seconds(text) is None, text


def test_a_changed_copy_changes_nothing_else() -> None:
    ot.scaling.list_envelopes().insert_column(0, pl.Series("mine", [0] * 35))
    assert ot.scaling.list_envelopes().columns[0] == "system"


# --- sizes of recorded runs -------------------------------------------------------------------------


def document(events: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    numbered = [{"id": f"e{n}", "t": n, "agent": "lead", **event} for n, event in enumerate(events)]
    costs = {"tokens": 0, "wall_clock_s": 0, **more.pop("costs", {})}
    return {
        **{"trace_id": "one", "task_id": "task", "events": numbered, "edges": []},
        **{"rewards": {"team": 1}, "costs": costs},
        **more,
    }


def read(*documents: dict[str, Any], **options: Any) -> ot.Corpus:
    return ot.read_traces(io.BytesIO("\n".join(map(json.dumps, documents)).encode()), **options)


SPAWN, WORK = {"type": "spawn", "role": "worker"}, {"type": "tool_call", "tool": "search"}
#: lead from 0 to 7; a from 1 to its return at 4; b from 2 to its despawn at 5; c from 6, never acting
TEAM = [
    {"type": "orchestrator_decision"},
    {**SPAWN, "to": "a"},
    {**SPAWN, "to": "b"},
    {**WORK, "agent": "a"},
    {"type": "return", "agent": "a", "to": "lead"},
    {"type": "despawn", "to": "b"},
    {**SPAWN, "to": "c"},
    {"type": "message", "to": "a", "tokens_in": 30, "tokens_out": 12},
]


def test_sizes_by_hand() -> None:
    row = scale_of(read(document(TEAM, costs={"tokens": 999, "wall_clock_s": 60}))).row(0, named=True)
    assert row == {
        **{"trace": 0, "trace_id": "one"},
        "n_agents": 2,  # b and c are spawned and own nothing
        "peak_concurrency": 3,  # lead, a and b from 2 to 4
        "n_steps": 3,  # the decision, the call, the return
        "n_tool_calls": 1,
        "depth": 1,
        "tokens": 42.0,  # of the events; the cost is another account
        "wall_clock_s": 60.0,  # times are in steps: only the cost has seconds
        "group_size": 1,
    }


def test_times_in_seconds_are_the_wall_clock() -> None:
    timed = [{**event, "t": 10.0 + n} for n, event in enumerate(TEAM)]
    timed[3] |= {"t_end": 30.0}
    corpus = read(document(timed, costs={"wall_clock_s": 60}), time_basis="seconds")
    assert scale_of(corpus)["wall_clock_s"].to_list() == [20.0]


def test_what_is_not_recorded_is_null() -> None:
    row = scale_of(read(document([{"type": "message", "agent": "user"}]))).row(0, named=True)
    assert (row["n_agents"], row["n_steps"], row["n_tool_calls"]) == (0, 0, 0)
    assert row["peak_concurrency"] is None and row["depth"] is None
    assert row["tokens"] is None and row["wall_clock_s"] is None
    told = read(document([{"type": "message"}], costs={"tokens": 7}))
    assert scale_of(told)["tokens"].to_list() == [7.0]
    # a user who spawns an agent that never acts: it is there, but there is no tree
    asked = scale_of(read(document([{**SPAWN, "agent": "user", "to": "a"}])))
    assert asked.select("n_agents", "peak_concurrency", "depth").row(0) == (0, 1, None)


def test_tokens_of_a_whole_run_count_and_its_wall_clock_stands_apart() -> None:
    timed = [{"type": "message", "t": 10.0}, {"type": "message", "t": 15.0}]
    corpus = read(document(timed, costs={"tokens": 7, "wall_clock_s": 60}), time_basis="seconds")
    columns = ("tokens", "wall_clock_s")
    assert scale_of(corpus).select(columns).row(0) == (7.0, 5.0)
    table = ot.metrics(corpus)
    assert table.select(columns).row(0) == (7, 60.0)
    both = [ot.scaling.distance_to_published(given).row(0, named=True) for given in (corpus, table)]
    assert [one["log10_tokens"] for one in both] == [pytest.approx(math.log10(7))] * 2
    assert [one["log10_wall_clock_s"] for one in both] == [
        pytest.approx(math.log10(seconds)) for seconds in (5, 60)
    ]


@pytest.mark.parametrize(
    ("events", "peak"),
    [
        # nobody was spawned: from the first to the last event of each; they meet in one moment
        (
            [
                {"type": "message"},
                {**WORK, "agent": "a"},
                {**WORK, "agent": "b", "t": 1},
                {"type": "message"},
            ],
            3,
        ),
        ([{"type": "message"}, {**WORK, "agent": "a"}, {**WORK, "agent": "b"}, {"type": "message"}], 2),
        # spawned again after its return: it lives to the last return
        (
            [
                *({**SPAWN, "to": "a"}, {"type": "return", "agent": "a"}, {**SPAWN, "to": "b"}),
                *({"type": "return", "agent": "b"}, {**SPAWN, "to": "a"}, {"type": "return", "agent": "a"}),
            ],
            3,
        ),
        # a returns at 1, b is spawned at 2: never three at once
        ([{**SPAWN, "to": "a"}, {"type": "return", "agent": "a"}, {**SPAWN, "to": "b"}], 2),
        # a return from before the spawn leaves a moment
        (
            [
                {"type": "return", "agent": "a"},
                {"type": "message"},
                {**SPAWN, "to": "a"},
                {"type": "message"},
            ],
            2,
        ),
        # a despawn ends whom it names; one that names nobody ends nobody
        ([{**SPAWN, "to": "a"}, {"type": "despawn", "to": "a"}, {**SPAWN, "to": "b"}], 2),
        ([{**SPAWN, "to": "a"}, {"type": "despawn"}, {**SPAWN, "to": "b"}], 3),
        ([{**SPAWN, "to": "user"}, {"type": "message"}], 1),
        ([{"type": "orchestrator_decision"}], 1),
    ],
)
def test_peak_concurrency_by_hand(events: list[dict[str, Any]], peak: int) -> None:
    assert scale_of(read(document(events)))["peak_concurrency"].to_list() == [peak]


def test_groups_are_counted_over_the_corpus() -> None:
    documents = [document(TEAM, trace_id=f"run{n}", task_id="t" if n else "u") for n in range(4)]
    assert scale_of(read(*documents))["group_size"].to_list() == [1, 3, 3, 3]


def test_an_empty_corpus() -> None:
    assert scale_of(read()).shape == (0, 10) and ot.scaling.distance_to_published(read()).height == 0
    assert ot.scaling.distance_to_published(read(), by="axis")["traces"].to_list() == [0] * 8


# --- the gap ----------------------------------------------------------------------------------------

PUBLISHED = pl.DataFrame(
    {
        "system": ["small", "large", "blank", "only steps"],
        "kind": ["academic", "industrial", "academic", "academic"],
        "agents_max": [10, 1000, None, None],
        "steps_max": [10.0, 10_000.0, None, 100.0],
    }
)


def test_coordinates_distances_and_ratios_by_hand() -> None:
    runs = pl.DataFrame(
        {
            "trace": [7, 8, 9, 10],
            "n_agents": [1, 100, None, None],
            "n_steps": [10, 10_000, 100, None],
            "depth": [0, 9, None, None],
        }
    )
    table = ot.scaling.distance_to_published(runs, published=PUBLISHED, against="large")
    assert table["trace"].to_list() == [7, 8, 9, 10]
    assert table["log10_n_agents"].to_list() == [0.0, 2.0, None, None]
    assert table["log10_depth"].to_list() == [0.0, 1.0, None, None]
    assert table["log10_tokens"].to_list() == [None] * 4
    # (|0 - 1| + |1 - 1|) / 2 decades; (|2 - 3| + |4 - 4|) / 2
    assert table["nearest"].to_list() == ["small", "large", None, None]
    assert table["nearest_kind"].to_list() == ["academic", "industrial", None, None]
    assert table["distance"].to_list() == [0.5, 0.5, None, None]
    assert table["axes_used"].to_list() == [2, 2, None, None]
    assert table["reason"].to_list() == [None, None, "support.absent", "field.absent"]
    assert table["log10_ratio_n_agents"].to_list() == [-3.0, -1.0, None, None]
    assert table["log10_ratio_n_steps"].to_list() == [-3.0, 0.0, -2.0, None]
    assert table["log10_ratio_depth"].to_list() == [None] * 4
    lone = ot.scaling.distance_to_published(runs, published=PUBLISHED, min_axes=1)
    assert lone["nearest"].to_list() == ["small", "large", "only steps", None]
    assert lone["distance"].to_list() == [0.5, 0.5, 0.0, None]
    # one axis asked about: one is enough, and a tie goes to the first row
    steps = ot.scaling.distance_to_published(runs, published=PUBLISHED, axes=["n_steps"])
    assert steps["nearest"].to_list() == ["small", "large", "only steps", None]
    assert steps["axes_used"].to_list() == [1, 1, 1, None]


def test_ties_go_to_more_axes_then_to_the_first() -> None:
    published = pl.DataFrame(
        {"system": ["a", "b", "c"], "steps_max": [10.0, 10.0, 10.0], "agents_max": [None, 10, 10]}
    )
    runs = pl.DataFrame({"n_agents": [10], "n_steps": [10]})
    table = ot.scaling.distance_to_published(runs, published=published, min_axes=1)
    assert table.select("nearest", "distance", "axes_used", "nearest_kind").row(0) == ("b", 0.0, 2, None)


def test_percentiles_share_the_middle_of_equal_values() -> None:
    runs = pl.DataFrame({"tokens": [5.0, 20.0, 20.0, None, 80.0, 0.0]})
    # four have a place: ranks 1, 2.5, 2.5, 4
    assert ot.scaling.distance_to_published(runs)["percentile_tokens"].to_list() == [
        12.5,
        50.0,
        50.0,
        None,
        87.5,
        None,
    ]
    assert ot.scaling.distance_to_published(runs.head(1))["percentile_tokens"].to_list() == [50.0]


def test_zero_has_no_place_on_a_logarithmic_axis() -> None:
    table = ot.scaling.distance_to_published(pl.DataFrame({"tokens": [0], "depth": [0]}), min_axes=1)
    assert table.select("log10_tokens", "log10_depth").row(0) == (None, 0.0)
    # no published depth
    assert table["reason"].to_list() == ["support.absent"]


def test_sizes_at_the_ends_of_floats_have_finite_ratios() -> None:
    runs = pl.DataFrame({"tokens": [5e-324, 1.7e308], "trace": [0, 1]})
    published = pl.DataFrame({"system": ["a"], "tokens_max": [1e308]})
    ratio = ot.scaling.distance_to_published(runs, published=published, against="a")["log10_ratio_tokens"]
    assert ratio.to_list() == pytest.approx([math.log10(5e-324) - 308, math.log10(1.7)])
    summary = ot.scaling.distance_to_published(
        runs.head(1), published=published, against="a", by="axis"
    ).filter(axis="tokens")
    assert summary["log10_gap"][0] == pytest.approx(-ratio[0]) == -summary["log10_ratio_max"][0]


def test_steps_come_before_events() -> None:
    runs = pl.DataFrame({"n_events": [1000], "n_steps": [10]})
    assert ot.scaling.distance_to_published(runs)["log10_n_steps"].to_list() == [1.0]
    assert ot.scaling.distance_to_published(runs.drop("n_steps"))["log10_n_steps"].to_list() == [3.0]
    column = ot.scaling.distance_to_published(runs.drop("n_steps"), by="axis").filter(axis="n_steps")[
        "column"
    ]
    assert column.to_list() == ["n_events"]
    assert ot.scaling.distance_to_published(pl.DataFrame({"total_steps": [100], "n_events": [1000]}))[
        "log10_n_steps"
    ].to_list() == [2.0]
    assert ot.scaling.distance_to_published(pl.DataFrame({"agent_depth": [9]}))["log10_depth"].to_list() == [
        1.0
    ]


def test_numbers_of_a_project_are_nearest_to_nobody() -> None:
    """A run like a published project is compared with published runs; it can be asked for by name."""
    runs = pl.DataFrame({"n_agents": [16], "peak_concurrency": [16], "tokens": [2_140_000_000]})
    table = ot.scaling.distance_to_published(runs, against="C compiler")
    assert "compiler" not in table["nearest"][0] and table["distance"][0] > 0
    assert table.select("log10_ratio_n_agents", "log10_ratio_tokens").row(0) == (0.0, 0.0)


def test_the_summary_by_axis_by_hand() -> None:
    runs = pl.DataFrame({"n_agents": [2, 4, None, 10], "n_steps": [0, 40, 100, 1000]}).lazy()
    table = ot.scaling.distance_to_published(runs, by="axis", against="K2.6 Agent Swarm")
    assert table["axis"].to_list() == NAMES
    agents = table.filter(axis="n_agents").row(0, named=True)
    assert (agents["traces"], agents["absent"], agents["column"]) == (3, 1, "n_agents")
    assert (agents["min"], agents["median"], agents["max"]) == (2.0, 4.0, 10.0)
    assert agents["p90"] == pytest.approx(8.8)  # linear between 4 and 10
    assert (agents["published_max"], agents["published_by"]) == (300.0, K26)
    assert agents["log10_gap"] == pytest.approx(math.log10(30))
    assert agents["against"] == 300.0
    assert agents["log10_ratio_median"] == pytest.approx(math.log10(4 / 300))
    steps = table.filter(axis="n_steps").row(0, named=True)
    assert (steps["traces"], steps["absent"], steps["min"]) == (3, 1, 40.0)  # 0 has no place
    tokens = table.filter(axis="tokens").row(0, named=True)
    assert (tokens["traces"], tokens["absent"], tokens["max"], tokens["log10_gap"]) == (0, 4, None, None)
    assert tokens["column"] is None and tokens["published_max"] == 500_000.0
    # the fleet of a whole training run is no run
    assert table.filter(axis="peak_concurrency")["published_max"].to_list() == [300.0]
    assert table.filter(axis="depth").select("published_max", "published_by").row(0) == (None, None)


def test_a_corpus_is_measured_first() -> None:
    corpus = ot.generate(traces=30, seed=5)
    table = ot.scaling.distance_to_published(corpus, against=K26)
    assert table.equals(ot.scaling.distance_to_published(scale_of(corpus), against=K26))
    assert table["trace_id"].to_list() == corpus.traces.select("trace_id").collect()["trace_id"].to_list()
    assert table["reason"].null_count() == 30
    assert table.columns[:2] == ["trace", "trace_id"] and table.width == 2 + 3 * len(AXES) + 5


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ({"n_agents": [1]}, {"against": "Kimi K2.6"}, "envelope 'Kimi K2.6' may be several: Kimi K2.6 Agent"),
        ({"n_agents": [1]}, {"against": "MALTT"}, "unknown envelope 'MALTT'; did you mean 'MALT'? (35 are"),
        ({"n_agents": [1]}, {"against": ""}, "against is '', expected the name of an envelope"),
        ({"n_agents": [1]}, {"against": 3}, "against is 3, expected text"),
        ({"n_agents": [1]}, {"by": "run"}, "by is 'run', expected 'trace' or 'axis'"),
        ({"n_agents": [1]}, {"min_axes": 0}, "min_axes is 0, expected 1 to 8"),
        ({"n_agents": [1]}, {"min_axes": 9}, "min_axes is 9, expected 1 to 8"),
        ({"n_agents": [1]}, {"min_axes": 1.5}, "min_axes is 1.5, expected a whole number"),
        ({"n_agents": [1]}, {"axes": ["n_agents"], "min_axes": 2}, "min_axes is 2, expected 1 to 1"),
        ({"n_agents": [1]}, {"axes": ["agents"]}, "unknown axis 'agents'; did you mean 'n_agents'?"),
        ({"n_agents": [1]}, {"axes": "n_agents"}, "axes is 'n_agents', expected a list of names of axes"),
        ({"n_agents": [1]}, {"axes": []}, "axes is [], expected a list"),
        ({"size": [1]}, {}, "data has no axis of scale (expected some of: n_agents, peak_concurrency,"),
        ({"n_agents": [-1]}, {}, "data.n_agents has the value -1.0, expected numbers of 0 or more"),
        ({"tokens": [1.0, float("nan")]}, {}, "data.tokens has the value nan, expected numbers of 0 or more"),
        ({"tokens": [float("inf")]}, {}, "data.tokens has the value inf"),
        ({"tokens": ["many"]}, {}, "data.tokens has type String, expected numbers"),
        ({"n_agents": [1]}, {"published": 3}, "published is 3, expected a frame or None"),
        ({"n_agents": [1]}, {"published": pl.DataFrame({"a": [1]})}, "published has no column 'system'"),
        ({"n_agents": [1]}, {"published": pl.DataFrame({"system": ["a"]})}, "published has no axis of scale"),
        (
            {"n_agents": [1]},
            {"published": pl.DataFrame({"system": ["a"], "agents_max": [-3]})},
            "published.agents_max has the value -3.0",
        ),
    ],
)
def test_mistakes_are_told_in_one_line(data: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ot.ParameterError) as error:
        ot.scaling.distance_to_published(pl.DataFrame(data), **options)
    assert str(error.value).startswith(message) and "\n" not in str(error.value)


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(ot.ParameterError, match="data is \\[1, 2\\], expected a corpus or a frame"):
        ot.scaling.distance_to_published([1, 2])  # type: ignore[arg-type]


def test_all_null_columns_of_any_type_are_absent() -> None:
    table = ot.scaling.distance_to_published(
        pl.DataFrame({"n_agents": [None, None], "tokens": [None, "x"]}).with_columns(tokens=None)
    )
    assert table["reason"].to_list() == ["field.absent"] * 2
