"""Metrics: every one by hand on a drawn trace, options, means, comparisons, the checklist."""

import io
import math
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.corpus.samples import samples_path
from samples.random_runs import Document, jsonl

FORK_EDGES = [(0, 1), (0, 2), (1, 3), (2, 6), (3, 4), (4, 5), (6, 7), (7, 8), (5, 9), (8, 9)]


def drawn(
    name: str,
    events: list[dict[str, Any]],
    edges: list[tuple[int, int]],
    kinds: str | list[str] = "causal",
    **more: Any,
) -> Document:
    kinds = [kinds] * len(edges) if isinstance(kinds, str) else kinds
    return {
        "trace_id": name,
        "task_id": f"task of {name}",
        "events": [{"id": f"e{n}", "t": n, **event} for n, event in enumerate(events)],
        "edges": [
            {"src": f"e{u}", "dst": f"e{v}", "type": kind} for (u, v), kind in zip(edges, kinds, strict=True)
        ],
        "rewards": {"team": 1.0},
        "costs": {"tokens": 0, "wall_clock_s": 0},
        **more,
    }


def read(*documents: Document, basis: str = "seconds") -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(list(documents))), time_basis=basis)


def fork() -> Document:
    """A lead gives the same call to two agents, of whom the second takes twice as long."""
    lead, ann, bob = ({"agent": name} for name in ("lead", "ann", "bob"))
    call = {"type": "tool_call", "tool": "run", "args_hash": "x", "duration_s": 0}
    result = {"type": "tool_result", "tool": "run", "agent": "run"}
    events = [
        {**lead, "type": "orchestrator_decision", "t": 1, "duration_s": 1, "tokens": 10},
        {**lead, "type": "spawn", "to": "ann", "t": 1, "duration_s": 0, "tokens": 2},
        {**lead, "type": "spawn", "to": "bob", "t": 1, "duration_s": 0, "tokens": 2},
        {**ann, **call, "t": 1},
        {**result, "t": 4, "duration_s": 3, "tokens": 20, "ok": True},
        {**ann, "type": "return", "to": "lead", "t": 4, "duration_s": 0, "tokens": 5},
        {**bob, **call, "t": 1},
        {**result, "t": 6, "duration_s": 5, "ok": False},
        {**bob, "type": "return", "to": "lead", "t": 7, "duration_s": 1, "tokens": 5},
        {**lead, "type": "aggregate", "t": 9, "duration_s": 2, "tokens": 16, "cost_usd": 0.5},
    ]
    return drawn("fork", events, FORK_EDGES, metrics={"task_success": 1.0, "train_step": 3})


USAGE = ("tokens_fresh", "tokens_cached", "tokens_cache_write", "tokens_out", "tokens_reasoning")
UNTOLD = dict.fromkeys((*USAGE, "scorer_tokens", "scorer_cost_usd", "cache_share"), "field.absent")


def solo() -> Document:
    """One agent, no durations, no tokens, nothing that is an outcome."""
    events = [
        {"agent": "solo", "type": "tool_call", "tool": "web", "t": 0},
        {"agent": "web", "type": "tool_result", "tool": "web", "t": 1},
        {"agent": "solo", "type": "message", "to": "user", "t": 3},
    ]
    return drawn("solo", events, [(0, 1), (1, 2)], ["tool_dependency", "causal"])


ABSENT = {
    **UNTOLD,
    **dict.fromkeys(("n_tool_errors", "tokens", "cost_usd", "critical_token_share"), "field.absent"),
    **dict.fromkeys(("protocol_overhead", "call_redundancy", "shared_calls", "call_streak"), "field.absent"),
    **dict.fromkeys(("finish_rate", "straggler_gap", "straggler_cost"), "ratio.empty"),
    **dict.fromkeys(("message_redundancy", "shared_messages", "coordination_complexity"), "ratio.empty"),
    **dict.fromkeys(("delegation_entropy", "delegation_evenness", "effective_agents"), "ratio.empty"),
    "delegation_dominance": "ratio.empty",
    **dict.fromkeys(("utilization", "utilization_mean", "useless_agents"), "outcome.absent"),
    **dict.fromkeys(("dead_events", "dead_work", "dead_tokens"), "outcome.absent"),
    **dict.fromkeys(("n_dominators", "dominator_share", "n_dominator_agents"), "outcome.absent"),
}


def debate() -> Document:
    """Nobody is spawned; two agents say the same to each other, and what a third does leads nowhere."""
    lead = {"agent": "lead"}
    said = {"type": "message"}
    events = [
        {**lead, "type": "orchestrator_decision", "t": 0, "tokens_in": 3, "tokens_out": 1},
        {**lead, **said, "to": "ann", "t": 1, "content_hash": "x", "tokens": 2},
        {**lead, **said, "to": "bob", "t": 1, "content_hash": "x", "tokens": 2},
        {**lead, **said, "to": "eve", "t": 2, "content_hash": "y", "tokens": 2},
        {"agent": "ann", **said, "to": "bob", "t": 4, "content_hash": "z", "tokens": 4},
        {"agent": "bob", **said, "to": "ann", "t": 4, "content_hash": "z", "tokens": 4},
        {"agent": "eve", "type": "tool_call", "tool": "web", "args_hash": "q", "t": 5, "tokens": 1},
        {"agent": "bob", "type": "return", "to": "lead", "t": 6, "tokens": 6},
        {**lead, "type": "aggregate", "t": 10, "tokens": 0},
    ]
    edges = [(0, 1), (0, 2), (0, 3), (1, 4), (2, 5), (3, 6), (4, 7), (5, 7), (7, 8)]
    kinds = ["causal"] * 3 + ["message"] * 4 + ["causal", "return"]
    return drawn("debate", events, edges, kinds, topology="debate")


DEBATE = {
    "n_events": 9,
    "n_edges": 9,
    "n_agents": 4,
    "n_spawned": 0,
    "n_turns": 5,
    "n_decisions": 1,
    "n_messages": 5,
    "n_tool_calls": 1,
    "n_tool_errors": "field.absent",
    "agent_depth": 0,
    "graph_depth": 4,
    "graph_width": 3,
    "tokens": 25,
    "cost_usd": "field.absent",
    "elapsed": 10,
    **UNTOLD,
    "tokens_fresh": 3,
    "tokens_out": 1,
    "work": 19,
    "span": 10,
    "parallelism": 1.9,
    "slack_mean": 10 / 9,
    "n_critical": 5,
    "critical_owners": 3,
    "critical_token_share": 16 / 25,
    "critical_root_share": 0.5,
    "average_concurrency": 1.9,
    "peak_concurrency": 3,
    "recorded_share": 0,
    "n_stages": 2,
    "critical_steps": 3,
    "total_steps": 4,
    "step_speedup": 0.25,
    "finish_rate": "ratio.empty",
    "max_fan_out": 2,
    "straggler_gap": 1.2,
    "straggler_cost": 0,
    "protocol_overhead": 18 / 25,
    "message_density": 1,
    "message_redundancy": 0.4,
    "shared_messages": 1 / 3,
    "call_redundancy": 0,
    "shared_calls": 0,
    "n_links": 4,
    "coordination_complexity": 4 / 6 * math.log(4),
    "call_streak": 1,
    "utilization": 3 / 4,
    "utilization_mean": 2 / 3,
    "useless_agents": 1,
    "dead_events": 2 / 9,
    "dead_work": 5 / 19,
    "dead_tokens": 3 / 25,
    "n_delegations": 3,
    "delegation_entropy": math.log(3),
    "delegation_evenness": 1,
    "effective_agents": 3,
    "delegation_dominance": 1 / 3,
    "work_dominance": 31 / 81,
    "n_dominators": 3,
    "dominator_share": 3 / 7,
    "n_dominator_agents": 2,
}


def test_every_metric_by_hand() -> None:
    corpus = read(debate())
    row = ot.metrics(corpus).row(0, named=True)
    for name, value in DEBATE.items():
        if isinstance(value, str):
            assert (row[name], row["reason"][name]) == (None, value), name
        else:
            assert row["reason"][name] is None, name
            assert row[name] == pytest.approx(value, abs=1e-12), name
    drawn_groups = ["scale", "span", "usage", "stages", "protocol", "utilization", "dominators", "delegation"]
    assert set(ot.metrics(corpus, groups=drawn_groups)["reason"].struct.fields) == set(DEBATE)


def test_what_a_lone_agent_does_not_have_has_a_reason() -> None:
    names = list(DEBATE)
    row = ot.metrics(read(solo(), basis="ordinal")).row(0, named=True)
    assert {name: row["reason"][name] for name in names if row[name] is None} == ABSENT


def test_critical_steps_of_the_survey() -> None:
    """Stages (1,[3,5,2]), (1,[]), (1,[4]): 12 critical of 17 steps."""
    events: list[dict[str, Any]] = []
    for teams in ([("a", 3), ("b", 5), ("c", 2)], [], [("d", 4)]):
        events.append({"agent": "lead", "type": "orchestrator_decision"})
        events += [{"agent": "lead", "type": "spawn", "to": name} for name, _ in teams]
        events += [{"agent": name, "type": "tool_call"} for name, steps in teams for _ in range(steps)]
    row = ot.metrics(read(drawn("stages", events, []))).row(0, named=True)
    assert (row["critical_steps"], row["total_steps"]) == (12, 17)


def test_the_example_of_the_survey() -> None:
    """T1 = 8, T∞ = 7 over the edges alone; 7 and 7 with program order."""
    types = [
        "orchestrator_decision",
        "spawn",
        "spawn",
        "message",
        "tool_call",
        "tool_result",
        "return",
        "aggregate",
    ]
    agents = ["lead", "lead", "lead", "planner", "executor", "browser", "executor", "lead"]
    to = {1: "planner", 2: "executor", 3: "executor", 6: "lead"}
    events = [
        {
            "agent": agent,
            "type": kind,
            **({"to": to[n]} if n in to else {}),
            **({"tool": "w"} if "tool" in kind else {}),
        }
        for n, (kind, agent) in enumerate(zip(types, agents, strict=True))
    ]
    edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7)]
    corpus = read(drawn("example", events, edges), basis="ordinal")
    for program_order, expected in ((False, (8, 7, 8 / 7)), (True, (7, 7, 1))):
        row = ot.metrics(corpus, program_order=program_order).row(0, named=True)
        assert (row["work"], row["span"], row["parallelism"]) == pytest.approx(expected)
        assert row["time_unit"] == "steps"


def test_members_by_hand() -> None:
    rows = ot.metrics(read(fork()), by="agent").sort("agent").to_dicts()
    by_name = {row["agent"]: row for row in rows}
    lead, bob = by_name["lead"], by_name["bob"]
    assert (lead["n_events"], lead["n_spawns"], lead["n_messages_received"], lead["tokens"]) == (4, 2, 2, 30)
    assert (lead["work"], lead["critical_work"], lead["critical_share"]) == pytest.approx((3, 3, 1 / 3))
    assert (bob["n_tool_errors"], bob["work"], bob["critical_work"], bob["lifetime"]) == (1, 6, 6, 6)
    assert by_name["ann"]["slack_min"] == 3
    answers = {name: (row["n_answers"], row["n_answers_used"]) for name, row in by_name.items()}
    assert answers == {"lead": (0, 0), "ann": (1, 1), "bob": (1, 1)}
    assert sum(row["n_events"] for row in rows) == 10


def test_families_and_measures() -> None:
    row = ot.metrics(read(fork())).row(0, named=True)
    assert (row["task_success"], row["train_step"], row["wall_clock_s"]) == (1.0, 3.0, 0.0)
    few = ot.metrics(read(solo(), basis="ordinal"), groups=["span"])
    assert "n_families" not in few.columns


def test_means_by_topology_and_task() -> None:
    corpus = read(fork(), debate())
    table = ot.metrics(corpus, by="topology")
    debates = table.filter(pl.col("topology") == "debate", metric="parallelism").row(0, named=True)
    assert (debates["mean"], debates["lower"], debates["n_traces"]) == (pytest.approx(1.9), None, 1)
    tasks = ot.metrics(corpus, by="task").filter(metric="n_events")
    assert tasks["mean"].to_list() == [10, 9]


def test_recorded_times_are_averaged_over_one_unit() -> None:
    """Durations of all events are seconds; `elapsed` is in the unit of `t`, which differs."""
    ordinal = [{**solo(), "trace_id": f"o{n}"} for n in range(2)]
    events = [[{**event, "duration_s": 1} for event in one["events"]] for one in ordinal]
    corpus = read(*({**one, "events": of} for one, of in zip(ordinal, events, strict=True)), basis="ordinal")
    row = ot.metrics(corpus).row(0, named=True)
    assert (row["time_unit"], row["clock_unit"]) == ("seconds", "steps")
    means = ot.metrics(corpus, by="importer")
    units = {row["metric"]: row["time_unit"] for row in means.iter_rows(named=True)}
    assert (units["work"], units["elapsed"], units["parallelism"]) == ("seconds", "steps", None)


def test_harnesses_are_kept_apart() -> None:
    runs = [{**fork(), "trace_id": f"r{n}", "task_id": "t"} for n in range(3)]
    for run, harness in zip(runs, ("x", "x", "y"), strict=True):
        run["events"] = [{**event, "harness_hash": harness} for event in run["events"]]
    apart = ot.metrics(read(*runs), by="task").filter(metric="span")
    assert apart.select("harness_hash", "n_traces").rows() == [("x", 2), ("y", 1)]
    pooled = ot.metrics(read(*runs), by="task", pool_harnesses=True).filter(metric="span")
    assert pooled.select("harness_hash", "n_traces").rows() == [(None, 3)]


def test_times_of_two_units_have_no_common_mean() -> None:
    timed = {**fork(), "system": "s"}
    untimed = {**solo(), "system": "s"}
    stepped = [{**untimed, "trace_id": f"solo{n}"} for n in range(2)]
    # durations of all events are seconds, whatever the basis; the two without any are in steps
    table = ot.metrics(read(timed, *stepped, basis="ordinal"), by="system")
    row = table.filter(metric="span").row(0, named=True)
    assert (row["mean"], row["time_unit"], row["n_traces"], row["n_null"]) == (3, "steps", 2, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "agnt"}, "did you mean 'agent'"),
        ({"groups": ["spam"]}, "did you mean 'span'"),
        ({"groups": "span"}, r"expected a list of names: \['span'\]"),
        ({"by": "agent", "groups": ["span"]}, "groups cannot be chosen"),
        ({"durations": "gaps"}, "did you mean 'gap'"),
        ({"confidence": 2}, "confidence is 2"),
    ],
)
def test_mistakes_are_one_clear_line(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ot.ParameterError, match=message) as error:
        ot.metrics(read(fork()), **options)
    assert "\n" not in str(error.value)


def test_no_metric_is_minus_zero() -> None:
    """What has no work that is lost has none of it, not -0.0 of it."""
    table = ot.metrics(ot.read_traces(samples_path()))
    values = [table[name] for name in table.columns if table[name].dtype == pl.Float64]
    zeros = [value for column in values for value in column.drop_nulls() if value == 0.0]
    assert zeros and all(math.copysign(1.0, value) > 0.0 for value in zeros)


def test_a_cycle_is_told() -> None:
    row = ot.metrics(read(drawn("loop", fork()["events"], [(0, 1), (1, 0)]))).row(0, named=True)
    assert row["span"] is None and row["reason"]["span"] == "graph.cycle"
    assert row["reason"]["utilization"] == "graph.cycle" and row["n_events"] == 10
    path = ot.schedules.critical_path(read(drawn("loop", fork()["events"], [(0, 1), (1, 0)])))
    assert path["reason"].to_list() == ["graph.cycle"] and path["critical"].to_list() == [None]


def test_empty_corpora() -> None:
    nothing = ot.generate(traces=2, seed=0).filter(pl.lit(False))
    assert ot.metrics(nothing).height == ot.metrics(nothing, by="agent").height == 0
    assert ot.metrics(nothing, by="task").height == ot.schedules.critical_path(nothing).height == 0
    assert ot.schedules.concurrency_profile(nothing).height == 0
    assert (
        ot.evaluation.report_checklist(nothing)["share"].null_count()
        == ot.evaluation.report_checklist(nothing).height
    )


def test_comparison_is_paired_by_task() -> None:
    def runs(values: dict[str, list[float]]) -> pl.DataFrame:
        rows = [(task, value) for task, of in values.items() for value in of]
        tasks, numbers = zip(*rows, strict=True)
        return pl.DataFrame(
            {"trace": range(len(rows)), "task_id": tasks, "parallelism": numbers}
        ).with_columns(time_unit=pl.lit("seconds"))

    a = runs({"x": [1.0, 3.0], "y": [2.0], "only a": [50.0]})
    b = runs({"x": [4.0], "y": [3.0, 5.0], "only b": [90.0]})
    row = ot.evaluation.compare_metrics(a, b).row(0, named=True)
    assert (row["mean_a"], row["mean_b"], row["difference"], row["ratio"]) == (2, 4, 2, 2)
    assert (row["n_tasks"], row["n_traces_a"], row["n_traces_b"], row["share_above"]) == (2, 3, 3, 1)
    # both tasks have the same difference: that tells nothing of how far others would be
    assert (row["lower"], row["upper"], row["interval_reason"]) == (None, None, "group.degenerate")
    apart = ot.evaluation.compare_metrics(a.filter(task_id="only a"), b).row(0, named=True)
    assert (apart["difference"], apart["reason"]) == (None, "support.absent")
    assert apart["interval_reason"] == "support.absent"
    alone = ot.evaluation.compare_metrics(a.filter(task_id="x"), b).row(0, named=True)
    assert (alone["difference"], alone["lower"], alone["reason"]) == (2, None, None)
    assert (alone["n_tasks"], alone["interval_reason"]) == (1, "support.absent")


def test_checkpoints_of_one_corpus_are_compared() -> None:
    table = ot.metrics(ot.generate(traces=32, seed=1))
    halves = [table.filter(pl.col("trace") % 2 == rest) for rest in (0, 1)]
    told = ot.evaluation.compare_metrics(*halves, names=["span", "utilization"])
    assert told["n_tasks"].to_list() == [4, 4]
    assert (told["lower"] <= told["difference"]).all() and (told["difference"] <= told["upper"]).all()
    with pytest.raises(ot.ParameterError, match="did you mean 'utilization'"):
        ot.evaluation.compare_metrics(*halves, names=["utilisation"])
    with pytest.raises(ot.ParameterError, match="expected a corpus or a frame"):
        ot.evaluation.compare_metrics(halves[0], 3)  # type: ignore[arg-type]


#: Turns, success, overhead in per cent and efficiency of arXiv 2512.08296, Table 5 (one agent: 7.2 turns).
PUBLISHED = [
    ("independent", 11.4, 0.370, 58.3, 0.234),
    ("decentralised", 26.1, 0.477, 262.5, 0.132),
    ("centralised", 27.7, 0.463, 284.7, 0.120),
    ("hybrid", 44.3, 0.452, 515.3, 0.0735),
]


@pytest.mark.parametrize(("name", "turns", "success", "overhead", "efficiency"), PUBLISHED)
def test_published_overheads(
    name: str, turns: float, success: float, overhead: float, efficiency: float
) -> None:
    def runs(turns: float, success: float, error: float) -> pl.DataFrame:
        row = {
            "trace": [0],
            "task_id": ["t"],
            "n_turns": [turns],
            "task_success": [success],
            "error": [error],
        }
        return pl.DataFrame(row).with_columns(time_unit=pl.lit("steps"))

    table = ot.evaluation.against_single_agent(runs(turns, success, 0.4), runs(7.2, 0.5, 0.1), errors="error")
    row = table.row(0, named=True)
    assert row["relative_overhead"] == pytest.approx(overhead, abs=0.05)
    assert row["coordination_efficiency"] == pytest.approx(efficiency, abs=0.0005)
    assert (row["relative_error_amplification"], row["error_absorption"]) == pytest.approx((4, -3))
    bare = ot.evaluation.against_single_agent(runs(turns, success, 0), runs(7.2, 0.5, 0)).row(0, named=True)
    assert (bare["relative_error_amplification"], bare["reason"]) == (None, "field.absent")
    faultless = ot.evaluation.against_single_agent(runs(turns, success, 0), runs(7.2, 0.5, 0), errors="error")
    assert faultless["reason"].to_list() == ["ratio.empty", "ratio.empty"]


def test_the_checklist_says_what_is_there_and_what_to_record() -> None:
    corpus = read(fork(), debate())
    table = {row["item"]: row for row in ot.evaluation.report_checklist(corpus).iter_rows(named=True)}
    assert (table["topology"]["n_filled"], table["topology"]["found"]) == (1, "debate")
    assert table["topology"]["fix"] == "set `topology` of the trace"
    assert (table["tokens"]["share"], table["tokens"]["fix"]) == (1.0, None)
    assert (table["trust"]["n_filled"], table["sandboxes"]["n_filled"]) == (0, 0)
    assert table["annealing"]["found"] == "train_step 3.0"
    rows = ot.evaluation.report_checklist(corpus, by_trace=True)
    assert rows.height == 2 * len(table)
    assert rows.filter(trace_id="debate", item="topology")["filled"].item()
