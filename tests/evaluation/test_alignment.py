"""Where two runs part, against plain Python, and what has to hold of any alignment."""

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, strategies as st
from polars.testing import assert_frame_equal

import orchestrace as ot
from reference.lanes import aligned, lanes_of
from samples.examples import examples
from samples.hand_runs import event, read, run
from samples.random_runs import Document, corpora

PAIR = ["trace_a", "trace_b"]


def calls(
    number: int, tools: str, reward: float | None = 1.0, agent: str = "a", task: str = "task"
) -> Document:
    """A run in which one agent calls tools of one letter."""
    return run(
        number, reward, [event(n, agent, "tool_call", tool=tool) for n, tool in enumerate(tools)], task=task
    )


def both(a: int, b: int) -> pl.DataFrame:
    return pl.DataFrame({"trace_a": [a], "trace_b": [b]})


def test_the_worked_example() -> None:
    corpus = read([calls(0, "ABC"), calls(1, "AXY", 0.0)])
    [row] = ot.evaluation.align(corpus).rows(named=True)
    assert (row["trace_a"], row["trace_b"], row["prefix"], row["edits"]) == (1, 0, 1, 4)
    assert (row["seq_a"], row["seq_b"], row["sustained"], row["outcome_delta"]) == (1, 1, True, -1.0)
    assert row["similarity"] == pytest.approx(1 / 3)
    script = ot.evaluation.edit_script(corpus, pairs=both(1, 0))
    assert script.select("edit", "tool").rows() == [
        ("same", "A"),
        ("only_a", "X"),
        ("only_a", "Y"),
        ("only_b", "B"),
        ("only_b", "C"),
    ]


def test_runs_rejoin_after_three_equal_steps() -> None:
    corpus = read([calls(0, "AXBCDE"), calls(1, "AYZBCDF")])
    row = ot.evaluation.align(corpus, pairs=both(0, 1)).row(0, named=True)
    assert (row["prefix"], row["rejoin_a"], row["rejoin_b"], row["sustained"]) == (1, 2, 3, False)
    apart = ot.evaluation.align(corpus, pairs=both(0, 1), rejoin=4).row(0, named=True)
    assert (apart["rejoin_a"], apart["sustained"]) == (None, True)


@pytest.mark.parametrize("key", ["shape", "exact"])
@examples(60)
@given(corpora(max_traces=4, max_events=14), st.integers(1, 4))
def test_equals_plain_python(key: str, documents: list[Document], rejoin: int) -> None:
    corpus = read(documents)
    runs = lanes_of(corpus, key)
    pairs = pl.DataFrame([(a, b) for a in runs for b in runs], schema=PAIR, orient="row")
    found = ot.evaluation.align(corpus, pairs=pairs, key=key, rejoin=rejoin)  # type: ignore[arg-type]
    by_pair = found.partition_by(PAIR, as_dict=True)
    for (a, b), rows in by_pair.items():
        lanes = sorted({*runs[a].lanes, *runs[b].lanes})
        named = rows.rows(named=True)
        if not lanes:
            assert [row["reason"] for row in named] == ["support.absent"]
            continue
        assert [(row["label"], row["ordinal"]) for row in named] == lanes
        if named[0]["reason"] == "field.absent":
            assert key == "exact"
            continue
        firsts = 0
        for row, lane in zip(named, lanes, strict=True):
            expected = aligned(runs[a].lanes.get(lane, []), runs[b].lanes.get(lane, []), rejoin)
            assert {name: row[name] for name in expected} == pytest.approx(expected)
            firsts += row["first"]
        assert firsts == any(row["seq_a"] is not None or row["seq_b"] is not None for row in named)


@examples(40)
@given(corpora(max_traces=4, max_events=14))
def test_scripts_hold_every_step_once_and_agree_with_the_counts(documents: list[Document]) -> None:
    corpus = read(documents)
    runs = lanes_of(corpus, "shape")
    pairs = pl.DataFrame([(a, b) for a in runs for b in runs], schema=PAIR, orient="row")
    found = ot.evaluation.align(corpus, pairs=pairs).filter(pl.col("label").is_not_null())
    script = ot.evaluation.edit_script(corpus, pairs=pairs)
    keys = [*PAIR, "label", "ordinal"]
    edits = script.group_by(keys).agg(
        pl.col("seq_a").drop_nulls(), pl.col("seq_b").drop_nulls(), edits=(pl.col("edit") != "same").sum()
    )
    checked = found.join(edits, on=keys, suffix="_script")
    assert len(checked) == len(found) == len(edits)
    assert (checked["edits"] == checked["edits_script"]).all()
    for row in checked.rows(named=True):
        lane = (row["label"], row["ordinal"])
        assert row["seq_a_script"] == [seq for seq, _ in runs[row["trace_a"]].lanes.get(lane, [])]
        assert row["seq_b_script"] == [seq for seq, _ in runs[row["trace_b"]].lanes.get(lane, [])]


@examples(40)
@given(corpora(max_traces=4, max_events=14))
def test_a_run_is_like_itself_and_pairs_are_alike_from_both_sides(documents: list[Document]) -> None:
    corpus = read(documents)
    itself = pl.DataFrame([(n, n) for n in range(len(documents))], schema=PAIR, orient="row")
    rows = ot.evaluation.align(corpus, pairs=itself).drop_nulls("label")
    assert rows.filter((pl.col("similarity") != 1.0) | pl.col("sustained") | pl.col("first")).is_empty()
    there = ot.evaluation.align(corpus, pairs="all")
    back = ot.evaluation.align(corpus, pairs=there.select(trace_a="trace_b", trace_b="trace_a"))
    turned = back.select(
        trace_a="trace_b", trace_b="trace_a", label="label", ordinal="ordinal", prefix="prefix", edits="edits"
    ).sort(*PAIR, "label", "ordinal", nulls_last=True)
    assert_frame_equal(turned, there.select(turned.columns))


def test_names_within_a_role_change_nothing() -> None:
    def team(number: int, names: str, tools: str) -> Document:
        events = [
            event(n, name, "tool_call", tool=tool, role="lead" if name == "L" else "worker")
            for n, (name, tool) in enumerate(zip(names, tools, strict=True))
        ]
        return run(number, 1.0, events)

    first, other = read([team(0, "LPQP", "abcd"), team(1, "LQPQ", "abxd")]), None
    other = read([team(0, "LPQP", "abcd"), team(1, "LUVU", "abxd")])
    columns = ["label", "ordinal", "prefix", "edits", "first"]
    one, two = (ot.evaluation.align(corpus, pairs="all").select(columns) for corpus in (first, other))
    assert_frame_equal(one, two)
    assert one.rows() == [("lead", 0, 1, 0, False), ("worker", 0, 2, 0, False), ("worker", 1, 0, 2, True)]


def test_in_canonical_order_a_run_is_one_lane() -> None:
    events = [event(0, "a", "tool_call", tool="x"), event(1, "b", "tool_call", tool="y")]
    turned = [event(0, "b", "tool_call", tool="y"), event(1, "a", "tool_call", tool="x")]
    corpus = read([run(0, 1.0, events), run(1, 1.0, turned)])
    assert ot.evaluation.align(corpus, pairs="all")["edits"].to_list() == [0, 0]
    [row] = ot.evaluation.align(corpus, pairs="all", order="canonical").rows(named=True)
    assert (row["label"], row["edits"], row["prefix"]) == (None, 2, 0)


def test_exact_keys_see_what_an_agent_got() -> None:
    def asked(number: int, arguments: str, result: str) -> Document:
        events = [
            event(0, "a", "tool_call", tool="x", args_hash="q"),
            event(1, "a", "tool_result", tool="x", content_hash=result),
            event(2, "a", "tool_call", tool="x", args_hash=arguments),
        ]
        return run(number, 1.0, events, [(0, 1)])

    corpus = read([asked(0, "q", "r"), asked(1, "q", "r"), asked(2, "q", "s"), asked(3, "p", "r")])
    prefix = {
        (row["trace_a"], row["trace_b"]): row["prefix"]
        for row in ot.evaluation.align(corpus, pairs="all", key="exact").rows(named=True)
    }
    assert (prefix[0, 1], prefix[0, 2], prefix[0, 3]) == (2, 1, 1)
    shape = ot.evaluation.align(corpus, pairs="all")
    assert (shape["prefix"] == 2).all()


def test_exact_keys_that_are_not_recorded_are_refused() -> None:
    corpus = read([calls(0, "ABC"), calls(1, "ABD", 0.0)])
    [row] = ot.evaluation.align(corpus, key="exact").rows(named=True)
    assert (row["reason"], row["prefix"], row["edits"]) == ("field.absent", None, None)


def test_a_lane_beyond_the_budget_says_so() -> None:
    corpus = read([calls(0, "ABCD" * 20), calls(1, "AXYZ" * 20, 0.0)])
    [row] = ot.evaluation.align(corpus, budget=100).rows(named=True)
    assert (row["prefix"], row["edits"], row["reason"]) == (1, None, "budget.exceeded")
    assert ot.evaluation.edit_script(corpus, pairs=both(1, 0), budget=100).is_empty()
    assert ot.evaluation.align(corpus)["reason"].to_list() == [None]


def test_two_corpora_are_compared_task_by_task() -> None:
    old = read([calls(0, "AB", task="x"), calls(1, "AC", 0.0, task="y")])
    new = read([calls(0, "AC", 0.0, task="x"), calls(1, "AC", task="z"), calls(2, "AB", task="x")])
    rows = ot.evaluation.align(old, new).select(*PAIR, "prefix", "outcome_delta").rows()
    assert rows == [(0, 0, 1, 1.0), (0, 2, 2, 0.0)]


@examples(15)
@given(corpora(max_traces=6, max_events=10))
def test_on_disk_and_on_any_threads_it_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, documents: list[Document]
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    source = folder / "runs.jsonl"
    source.write_text("\n".join(map(json.dumps, documents)))
    corpus = ot.read_traces(source)
    ot.ingest(source, folder / "disk", partitions=3)
    disk = ot.read_corpus(folder / "disk")
    columns = ["label", "ordinal", "prefix", "edits", "seq_a", "first"]

    def named(of: ot.Corpus, rows: pl.DataFrame) -> list[tuple[object, ...]]:
        names = dict(of.traces.select("trace", "trace_id").collect().iter_rows())
        return sorted(
            (
                (*sorted((names[row[0]], names[row[1]])), *map(str, row[2:]))
                for row in rows.select(*PAIR, "label", "ordinal", "prefix", "edits").iter_rows()
            ),
            key=str,
        )

    one = ot.evaluation.align(corpus, pairs="all")
    assert_frame_equal(one, ot.evaluation.align(corpus, pairs="all", threads=1))
    assert named(corpus, one) == named(disk, ot.evaluation.align(disk, pairs="all"))
    assert set(columns) <= set(one.columns)


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (pl.DataFrame({"a": [0]}), "pairs has the columns a, expected trace_a and trace_b"),
        (both(0, 7), "pairs names trace 7 in trace_b, which is none of 2 traces"),
    ],
)
def test_wrong_pairs_are_refused(pairs: pl.DataFrame, message: str, tmp_path: Path) -> None:
    corpus = read([calls(0, "AB"), calls(1, "AC")])
    with pytest.raises(ot.ParameterError, match=message):
        ot.evaluation.align(corpus, pairs=pairs)


def test_differences_of_tasks_are_those_of_their_pairs() -> None:
    old = read([calls(0, "AB", task="x"), calls(1, "AB", 0.0, task="x"), calls(2, "P", task="only old")])
    new = read([calls(0, "AC", task="x"), calls(1, "AB", task="x"), calls(2, "AC", task="x")])
    rows = {row["task_id"]: row for row in ot.evaluation.task_differences(old, new).rows(named=True)}
    assert rows["only old"]["reason"] == "siblings.absent"
    row = rows["x"]
    assert (row["n_a"], row["n_b"], row["pass_rate_a"], row["pass_rate_b"], row["change"]) == (
        2,
        3,
        0.5,
        1.0,
        0.5,
    )
    assert row["alike"] == pytest.approx(2 / 6)
    assert row["similarity"] == pytest.approx((4 * 0.5 + 2 * 1.0) / 6)
    assert (row["label"], row["step_a"], row["step_b"]) == ("a", "tool_call B", "tool_call C")
    assert (row["share"], row["trace_a"], row["trace_b"]) == (pytest.approx(4 / 6), 0, 0)


def test_a_lane_that_is_too_long_is_no_reason_to_call_runs_alike() -> None:
    def long(letters: str) -> Document:
        events = [event(0, "lead", "tool_call", tool="same")]
        events += [event(n, "worker", "tool_call", tool=f"{letters}{n}") for n in range(1, 60)]
        return run(0, 1.0, events)

    [row] = ot.evaluation.task_differences(read([long("p")]), read([long("q")]), budget=100).rows(named=True)
    assert (row["similarity"], row["alike"], row["reason"]) == (None, 0.0, "budget.exceeded")
    assert (row["label"], row["step_a"], row["step_b"]) == ("worker", "tool_call p1", "tool_call q1")


def test_steps_without_exact_keys_are_in_no_script() -> None:
    corpus = read([calls(0, "ABC"), calls(1, "ABD")])
    assert ot.evaluation.edit_script(corpus, pairs=both(0, 1), key="exact").is_empty()


def test_numbers_of_traces_are_whole() -> None:
    corpus = read([calls(0, "AB"), calls(1, "AC")])
    with pytest.raises(ot.ParameterError, match="pairs has Float64 in trace_a, expected whole numbers"):
        ot.evaluation.align(corpus, pairs=pl.DataFrame({"trace_a": [0.5], "trace_b": [1]}))
