"""Schedules: the survey's numbers, anomalies, options, and what they say of traces that have no schedule."""

import io
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from corpora.test_survey_artifact import native_files
from orchestrace.schedules.scheduling import replay_schedule
from samples.random_runs import Document, jsonl

ROOT = Path(__file__).resolve().parents[2]
OURS = [
    path
    for pattern in ("samples/*.jsonl", "importers/*/input.json*")
    for path in (ROOT / "data").glob(pattern)
]


def run(
    lengths: list[float], edges: list[tuple[int, int]], *, agents: list[str] | None = None, **event: Any
) -> Document:
    """Events with durations; `edges` are pairs of event numbers."""
    return {
        "trace_id": "run",
        "task_id": "task",
        "events": [
            {
                "id": f"e{n}",
                "t": n,
                "type": "message",
                "agent": agents[n] if agents else "lead",
                "duration_s": d,
                **event,
            }
            for n, d in enumerate(lengths)
        ],
        "edges": [{"src": f"e{u}", "dst": f"e{v}", "type": "causal"} for u, v in edges],
        "rewards": {"team": 1.0},
        "costs": {"tokens": 0, "wall_clock_s": 0},
    }


def read(*documents: Document, basis: str = "seconds") -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(list(documents))), time_basis=basis)


def makespan(corpus: ot.Corpus, intervention: Any, **options: Any) -> float:
    return replay_schedule(corpus, [intervention], **options)["makespan_cf"][0]


# --- the recording comes back -------------------------------------------------------------------------


def assert_identity(corpus: ot.Corpus, *, durations: Any = "auto") -> int:
    """Every recorded time of traces whose edges never lead back in time; how many events that were."""
    table = ot.schedules.simulate(corpus, release="recorded", durations=durations)
    curve = ot.schedules.scaling_curve(corpus, slots=[None], durations="gap")
    events = corpus.events.select("trace", "seq", "t", "duration_s", "t_end").collect()
    edges = corpus.edges.collect()
    back = edges
    for end in ("src", "dst"):
        named = events.select("trace", pl.col("seq").alias(end), pl.col("t").alias(f"t_{end}"))
        back = back.join(named, on=["trace", end])
    odd = back.filter(pl.col("t_src") > pl.col("t_dst"))["trace"].unique()
    both = events.with_columns(table.select("finish", "reason", "duration"))
    both = both.filter(~pl.col("trace").is_in(odd.implode()), pl.col("finish").is_not_null())
    # Times count from the beginning of the first event: what is the same everywhere is t - finish.
    shift = both.with_columns(shift=pl.col("t") - pl.col("finish"), whole=pl.col("t").floor() == pl.col("t"))
    by_trace = shift.group_by("trace").agg(
        spread=pl.col("shift").max() - pl.col("shift").min(),
        most=pl.col("t").abs().max() + pl.col("shift").abs().max(),
        whole=pl.col("whole").all() & pl.col("duration_s").is_null().all(),
    )
    assert (by_trace["spread"] <= 1e-12 * by_trace["most"].clip(lower_bound=1.0)).all()
    assert (by_trace.filter("whole")["spread"] == 0).all()
    spans = events.group_by("trace").agg(recorded=pl.col("t").max() - pl.col("t").min())
    makespans = curve.join(spans, on="trace", suffix="_t").filter(~pl.col("trace").is_in(odd.implode()))
    wanted = pl.col("recorded_t")
    known = makespans.filter(pl.col("reason").is_null() | (pl.col("reason") == "time.steps"))
    # Without release times nobody waits for a human.
    humans = table.filter(pl.col("source") == "outside")["trace"].unique()
    assert (known["makespan"] <= known["recorded"] * (1.0 + 1e-12)).all()
    known = known.filter(~pl.col("trace").is_in(humans.implode()))
    assert known.filter((pl.col("makespan") - wanted).abs() > 1e-12 * wanted.clip(1.0)).is_empty()
    assert known["makespan"].equals(known["recorded"])
    return both.height


@pytest.mark.parametrize("durations", ["auto", "gap"])
@pytest.mark.parametrize("path", sorted(OURS), ids=lambda path: path.parent.name + "/" + path.name)
def test_the_identity_returns_every_recorded_time_of_our_files(path: Path, durations: str) -> None:
    corpus = ot.read_traces(path)
    # A file of labels has no traces.
    assert assert_identity(corpus, durations=durations) > 0 or not len(corpus)


def test_the_identity_returns_every_recorded_time_of_generated_runs() -> None:
    assert assert_identity(ot.generate(traces=40, seed=5)) > 500
    assert assert_identity(ot.synthetic.planted(traces=40, seed=5)[0]) > 100


def test_the_numbers_of_the_survey_example(corpora: Path) -> None:
    corpus = ot.read_traces(corpora / "survey-artifact" / "example_trace.json")
    (row,) = ot.schedules.scaling_curve(corpus, slots=[None]).iter_rows(named=True)
    assert (row["work"], row["span"], row["speedup"]) == (8.0, 7.0, 8 / 7)
    assert (row["unit"], row["reason"], row["support"]) == ("steps", "time.steps", 0.0)
    (row,) = ot.schedules.scaling_curve(corpus, slots=[None], program_order=True).iter_rows(named=True)
    assert (row["work"], row["span"], row["speedup"]) == (7.0, 7.0, 1.0)
    assert ot.schedules.simulate(corpus)["finish"].to_list() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    assert assert_identity(corpus) == 8


def test_the_identity_returns_every_recorded_time_of_published_runs(corpora: Path) -> None:
    for path in native_files(corpora):
        if "schema" not in path.name:
            assert assert_identity(ot.read_traces(path, format="native")) > 0
    files = sorted((corpora / "who-and-when").glob("*.jsonl.gz"))
    corpus = ot.read_traces(files)
    assert assert_identity(corpus) == corpus.events.select(pl.len()).collect().item()


# --- what theory says -------------------------------------------------------------------------------

#: Nine tasks of R. L. Graham, SIAM J. Appl. Math. 17(2), 1969: T1 before T9, T4 before T5 to T8.
GRAHAM = [3.0, 2.0, 2.0, 2.0, 4.0, 4.0, 4.0, 4.0, 9.0]
BEFORE = [(0, 8), (3, 4), (3, 5), (3, 6), (3, 7)]


def test_grahams_anomalies() -> None:
    """Another slot, shorter tasks or fewer edges: each makes this schedule longer, none passes the bound."""
    corpus = read(run(GRAHAM, BEFORE))
    assert makespan(corpus, ot.interventions.concurrency(3)) == 12.0
    assert makespan(corpus, ot.interventions.concurrency(4)) == 15.0
    shorter = read(run([d - 1 for d in GRAHAM], BEFORE))
    assert makespan(shorter, ot.interventions.concurrency(3)) == 13.0
    fewer = read(run(GRAHAM, [edge for edge in BEFORE if edge not in [(3, 4), (3, 5)]]))
    assert makespan(fewer, ot.interventions.concurrency(3)) == 16.0
    curve = ot.schedules.scaling_curve(corpus, slots=[3, 4])
    assert (curve["makespan"] <= curve["upper"]).all()


def test_removal_passes_order_on_and_a_drop_takes_what_depends_on_it() -> None:
    class Drop:
        def spec(self) -> dict[str, Any]:
            return {"kind": "drop", "event": "e1", "agent": None, "mode": "subtree", "lost": "all"}

    document = run([1.0, 2.0, 4.0, 1.0], [(0, 1), (1, 2), (0, 3)], tokens=5)
    found = replay_schedule(read(document), [ot.interventions.skip(event="e1"), Drop()])
    assert found["makespan"].to_list() == [7.0, 7.0]
    assert found["makespan_cf"].to_list() == [5.0, 2.0]
    assert found["tokens"].to_list() == [20, 20] and found["tokens_cf"].to_list() == [15, 10]


# --- what has no schedule, and what is told beside numbers --------------------------------------------------


def test_cycles_single_events_steps_and_huge_times() -> None:
    cycle = run([1.0, 1.0], [(0, 1), (1, 0)])
    single = run([2.0], []) | {"trace_id": "single"}
    untimed = run([1.0, 1.0], [(0, 1)]) | {"trace_id": "untimed"}
    for event in untimed["events"]:
        del event["duration_s"]
    huge = run([1e308, 1e308], [(0, 1)]) | {"trace_id": "huge"}
    corpus = read(cycle, single, untimed, huge, basis="ordinal")
    found = replay_schedule(corpus, [ot.interventions.run_sequentially()])
    assert found["makespan_cf"].to_list() == [None, 2.0, 1.0, None]
    assert found["tier"].to_list() == [None, "schedule", "schedule", None]
    assert found["reason"].to_list() == ["graph.cycle", None, "time.steps", "result.range"]
    table = ot.schedules.simulate(corpus)
    assert table.filter(trace=0)["reason"].to_list() == ["graph.cycle"] * 2
    assert table.filter(trace=2)["unit"].to_list() == ["steps"] * 2
    # One step is a gap of one, not one second.
    assert replay_schedule(
        corpus.filter(pl.col("trace") == 2), [ot.interventions.run_sequentially()], durations="explicit"
    )["reason"][0] == ("field.absent")


def test_a_trace_without_what_is_selected_says_so() -> None:
    with_tool = run([1.0], [], type="tool_result", tool="web")
    without = run([1.0], []) | {"trace_id": "without"}
    found = replay_schedule(read(with_tool, without), [ot.interventions.speed_up(2, tool="web")])
    assert found["reason"].to_list() == [None, "selection.empty"]
    assert found["makespan_cf"].to_list() == [0.5, 1.0]


def test_of_no_trace_nothing_is_wrong() -> None:
    nothing = ot.generate(traces=1, seed=2).filter(pl.lit(False))
    asked = [ot.interventions.concurrency([2, None]), ot.interventions.speed_up(2, type="tool_result")]
    assert replay_schedule(nothing, asked).is_empty() and ot.schedules.simulate(nothing).is_empty()
    assert ot.schedules.scaling_curve(nothing).is_empty()
    assert ot.replay(nothing, ot.interventions.skip(agent="whoever")).is_empty()


def test_what_is_said_of_a_scenario() -> None:
    corpus = ot.generate(traces=1, seed=0)
    found = replay_schedule(
        corpus,
        [ot.interventions.speed_up(2) & ot.interventions.concurrency([1, None], queue="critical_path")],
    )
    assert found["intervention"].to_list() == [
        "speed_up(2) & concurrency(1, queue='critical_path')",
        "speed_up(2) & concurrency(None, queue='critical_path')",
    ]
    params = json.loads(found["params"][0])
    assert (
        params["slots"] == 1 and params["changes"][0]["factor"] == 2 and params["version"] == ot.__version__
    )


WRONG: list[tuple[Any, str]] = [
    (lambda c: ot.interventions.concurrency(0), "slots has 0"),
    (lambda c: ot.interventions.concurrency([]), "slots is empty"),
    (lambda c: ot.interventions.concurrency(2.5), "slots is 2.5"),  # type: ignore[arg-type]
    (lambda c: ot.interventions.concurrency(2, pool="agent"), "did you mean 'agents'"),  # type: ignore[arg-type]
    (lambda c: ot.interventions.speed_up(0), "factor is 0"),
    (lambda c: ot.interventions.speed_up(float("nan")), "factor is nan"),
    (lambda c: ot.interventions.speed_up(2, tool="web", agent="x"), "select by one of them"),
    (lambda c: ot.interventions.speed_up(2, type="tool_results"), "did you mean 'tool_result'"),
    (lambda c: ot.interventions.cap_stragglers(1.5), "quantile is 1.5"),
    (lambda c: ot.interventions.skip(), "skip what"),
    (lambda c: ot.interventions.merge(["one"]), "at least two agents"),
    (lambda c: ot.interventions.split("x", 65), "parts is 65"),
    (
        lambda c: replay_schedule(c, [ot.interventions.skip(agent="orchestrater")]),
        "did you mean 'orchestrator'",
    ),
    (
        lambda c: replay_schedule(c, [ot.interventions.skip(event="nope")]),
        "no trace has an event with the id 'nope'",
    ),
    (
        lambda c: replay_schedule(c, [ot.interventions.concurrency(1) & ot.interventions.concurrency(2)]),
        "given twice",
    ),
    (
        lambda c: replay_schedule(
            c, [ot.interventions.split("orchestrator") & ot.interventions.split("orchestrator")]
        ),
        "split twice",
    ),
    (lambda c: replay_schedule(c, [3]), "an intervention is of type int"),
    (lambda c: replay_schedule(c, [], durations="gaps"), "did you mean 'gap'"),
    (lambda c: ot.schedules.simulate(c, durations="gaps"), "did you mean 'gap'"),  # type: ignore[arg-type]
    (lambda c: ot.schedules.fit_scaling(pl.DataFrame({"k": [1]})), "curve has no column 'trace'"),
    (lambda c: ot.schedules.fit_scaling(c), "curve is a value of type Corpus, expected a frame"),  # type: ignore[arg-type]
    (lambda c: ot.schedules.simulate(c, slots=[1, 2]), "expected one number or None"),  # type: ignore[arg-type]
    (lambda c: ot.replay(c, ot.interventions.skip(role="nobody")), "unknown role 'nobody'"),
    (lambda c: ot.replay(c, ot.interventions.skip(tool="serch")), "unknown tool 'serch'"),
    (lambda c: ot.schedules.fit_scaling(ot.schedules.scaling_curve(c, slots=[2])), "no row with k = 1"),
    (
        lambda c: ot.schedules.fit_scaling(ot.schedules.scaling_curve(c), by="role"),
        "by is 'role', expected 'trace' or None",
    ),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "said"), WRONG, ids=[said for _, said in WRONG])
def test_mistakes_are_one_clear_line(call: Any, said: str) -> None:
    with pytest.raises(ot.ParameterError) as caught:
        call(ot.generate(traces=2, seed=0))
    assert said in str(caught.value) and "\n" not in str(caught.value)


# --- scaling laws -----------------------------------------------------------------------------------


def law(k: int, alpha: float, beta: float) -> float:
    return k / (1 + alpha * (k - 1) + beta * k * (k - 1))


def points(alpha: float, beta: float, ks: list[int]) -> pl.DataFrame:
    return pl.DataFrame(
        {"trace": [0] * len(ks), "k": ks, "makespan": [100 / law(k, alpha, beta) for k in ks]}
    )


def test_planted_laws_are_found() -> None:
    amdahl, usl = ot.schedules.fit_scaling(points(0.05, 0.002, [1, 2, 4, 8, 16, 32])).iter_rows(named=True)
    assert usl["alpha"] == pytest.approx(0.05) and usl["beta"] == pytest.approx(0.002)
    assert usl["k_best"] == pytest.approx(((1 - 0.05) / 0.002) ** 0.5) and usl["rmse"] < 1e-9
    assert amdahl["rmse"] > 0.1 and amdahl["k_best"] is None
    amdahl, usl = ot.schedules.fit_scaling(points(0.2, 0.0, [1, 2, 4, 8])).iter_rows(named=True)
    assert amdahl["alpha"] == pytest.approx(0.2) and amdahl["alpha_stderr"] < 1e-6
    assert usl["beta"] == pytest.approx(0, abs=1e-9)


def test_too_few_points_give_no_number() -> None:
    amdahl, usl = ot.schedules.fit_scaling(points(0.2, 0.01, [1, 2])).iter_rows(named=True)
    assert amdahl["alpha"] is not None and amdahl["alpha_stderr"] is None
    assert (usl["alpha"], usl["reason"], usl["tier"]) == (None, "support.absent", None)
    both = pl.concat([points(0.2, 0, [1, 2]), points(0.1, 0, [2, 4]).with_columns(trace=pl.lit(1, pl.Int64))])
    found = ot.schedules.fit_scaling(both, by="trace")
    assert found["reason"].to_list() == [None, "support.absent", "field.absent", "field.absent"]


def test_a_lazy_curve_is_a_curve() -> None:
    curve = ot.schedules.scaling_curve(ot.generate(traces=3, seed=0), slots=[1, 2, 4])
    assert ot.schedules.fit_scaling(curve.lazy()).equals(ot.schedules.fit_scaling(curve))


def test_seconds_and_steps_are_not_put_together() -> None:
    curve = points(0.2, 0, [1, 2]).with_columns(unit=pl.Series(["seconds", "steps"]))
    with pytest.raises(ot.ParameterError, match="seconds and steps"):
        ot.schedules.fit_scaling(curve)


def test_seconds_of_work_among_steps_have_no_makespan_as_recorded() -> None:
    """1, 20 and 2 seconds at three steps are 23 s of work; how long all of it took is not recorded."""
    corpus = read(run([1.0, 20.0, 2.0], [(0, 1), (1, 2)]), basis="ordinal")
    curve = ot.schedules.scaling_curve(corpus, slots=[None])
    assert curve["recorded"].to_list() == [None]
    assert curve["unit"].to_list() == ["seconds"] and curve["makespan"].to_list() == [23.0]


def test_a_schedule_as_recorded_starts_at_0_where_its_first_duration_is_cut() -> None:
    """The second event says that it took 5 s until 1: it had waited for the first one until 0."""
    table = ot.schedules.simulate(read(run([1.0, 5.0], [(0, 1)])), release="recorded")
    assert table["start"].to_list() == [0.0, 1.0] and table["finish"].to_list() == [1.0, 2.0]
