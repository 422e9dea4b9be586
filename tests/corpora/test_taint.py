"""Taint on published recordings: the survey's example, and what separates attacks that succeeded."""

from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot
from corpora.injections import measured, separation, sources, unpacked, value_edges, without_flows
from corpora.test_agentdojo import Run


def test_the_example_of_the_survey(corpora: Path) -> None:
    example = ot.read_traces(corpora / "survey-artifact/example_trace.json")
    (row,) = ot.taint(example).iter_rows(named=True)
    assert ot.tainted_events(example)["event_id"].to_list() == ["e6", "e7", "e8"]
    assert (row["n_seeds"], row["n_tainted"], row["taint_share"]) == (1, 3, 0.375)
    assert (row["first_seed"], row["outcome"], row["outcome_tainted"]) == ("e6", "e8", True)
    assert row["path"] == ["e6", "e7", "e8"] and row["seeds_to_outcome"] == 1
    assert (row["n_tainted_lower"], row["outcome_tainted_lower"]) == (1, False), "no edge says so"
    assert (row["first_agent"], row["first_agent_event"]) == ("executor_1", "e7")
    assert row["first_decision"] is row["first_spawn"] is row["first_privileged_call"] is None
    assert ot.sanitizer_cut(example)["event_id"].to_list() == ["e6"], "the one nearest to the seed"


@pytest.fixture(scope="module")
def folder(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(corpora / "agentdojo/runs.tar.zst", tmp_path_factory.mktemp("injections"))


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Run]:
    return sources(folder)


@pytest.fixture(scope="module")
def rows(folder: Path, runs: dict[str, Run]) -> pl.DataFrame:
    return measured(ot.read_traces(folder), runs)


def test_flows_that_know_the_outcome_are_those_of_attacks_that_succeeded(
    folder: Path, runs: dict[str, Run]
) -> None:
    """Where the goal was reached the edges drawn here are the importer's; elsewhere it leaves some out."""
    corpus = ot.read_traces(folder)
    events = corpus.events.select("trace", "seq", "id", "type").collect()
    flows = corpus.edges.filter(pl.col("type") == "safety_flow").collect()
    later = without_flows(corpus).edges.filter(pl.col("type") == "safety_flow").collect()
    assert flows.height and not later.height
    ids = dict(events.group_by("trace", maintain_order=True).agg("id").iter_rows())
    kinds = dict(zip(events.select("trace", "seq").iter_rows(), events["type"], strict=True))
    drawn: dict[int, set[tuple[int, int]]] = {}
    for trace, src, dst in flows.select("trace", "src", "dst").iter_rows():
        drawn.setdefault(trace, set()).add((src, dst))
    names = dict(corpus.traces.select("trace", "trace_id").collect().iter_rows())
    beyond = 0
    for trace, name in names.items():
        run, own = runs[name], drawn.get(trace, set())
        calls = {edge for edge in value_edges(run, ids[trace]) if kinds[trace, edge[1]] == "tool_call"}
        if run["attack_type"] and run["security"]:
            assert calls <= own
        else:
            beyond += bool(calls - own)
    assert beyond > 0, "failed attacks have values in calls, too"


def test_exact_flows_separate_attacks_through_tools(rows: pl.DataFrame) -> None:
    found = rows.filter(kind="tool")
    assert (found.height, found["reached"].sum()) == (247, 10)
    table = {row["measure"]: row for row in separation(found).iter_rows(named=True)}
    exact, baseline = table["calls with an injected value"], table["tool calls"]
    assert exact["auc"] == pytest.approx(0.915, abs=5e-4)
    assert baseline["auc"] == pytest.approx(0.601, abs=5e-4)
    assert exact["low"] > baseline["high"] and exact["gain_low"] > 0.2


def test_closures_are_no_better_than_counting_calls(rows: pl.DataFrame) -> None:
    """Every result is untrusted in this format: whatever comes after the first is tainted."""
    for kind in ("tool", "memory"):
        found = rows.filter(kind=kind)
        table = {row["measure"]: row for row in separation(found).iter_rows(named=True)}
        assert table["outcome tainted"]["auc"] == 0.5
        assert table["tainted calls"]["gain_low"] <= 0
        assert table["tainted calls, context"]["auc"] == pytest.approx(table["tool calls"]["auc"])


def test_nothing_beats_counting_where_a_memory_was_attacked(rows: pl.DataFrame) -> None:
    found = rows.filter(kind="memory")
    assert (found.height, found["reached"].sum()) == (315, 241)
    table = {row["measure"]: row for row in separation(found).iter_rows(named=True)}
    exact, counted = table["calls with an injected value"], table["state-changing calls"]
    assert exact["auc"] == pytest.approx(0.741, abs=5e-4)
    assert counted["auc"] == pytest.approx(0.754, abs=5e-4)
    assert exact["low"] < counted["auc"] < exact["high"]
