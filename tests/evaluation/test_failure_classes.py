"""Structural classes of failure: a run by hand for each and its repaired twin, plain Python, rates."""

import io
import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import orchestrace as ot
from orchestrace.evaluation.failure_classes import _difference
from reference.trace import Trace
from reference.waste import Spent
from samples.random_runs import Document, corpora, jsonl

Event = dict[str, Any]
CLASSES = (
    *("unanswered_delegation", "unused_result", "retry_storm"),
    *("unverified_change", "answer_before_evidence", "deadlock_wait"),
)


def event(kind: str, agent: str = "lead", **fields: Any) -> Event:
    return {"type": kind, "agent": agent, **fields}


def run(*events: Event, edges: str = "", **trace: Any) -> Document:
    """A run whose events follow each other, joined as edges say: ``0>1 1>2``."""
    rows = [{"id": f"e{n}", "t": float(n), **row} for n, row in enumerate(events)]
    joined = [
        {"src": f"e{a}", "dst": f"e{b}", "type": "causal"} for a, b in (e.split(">") for e in edges.split())
    ]
    return {
        **{"trace_id": "t", "task_id": "t", "events": rows, "edges": joined, "rewards": {"team": 0.0}},
        **{"costs": {"tokens": 0, "wall_clock_s": 0}, **trace},
    }


def read(*documents: Document) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(list(documents))))


def shown(document: Document, **options: Any) -> dict[str, tuple[int | None, int | None, str | None]]:
    rows = ot.evaluation.failure_classes(read(document), **options)
    return {name: (seq, n, why) for name, seq, n, why in rows.select("class", "seq", "n", "reason").rows()}


ANSWER = event("aggregate", to="user")
SPAWN = event("spawn", to="sub")
BACK = event("return", "sub", to="lead")
CALL = event("tool_call", tool="go", args_hash="a")
OTHER = event("tool_call", tool="go", args_hash="b")
GIVEN = event("tool_result", tool="go", ok=True)
FAILED = event("tool_result", tool="go", ok=False)
EDIT = event("tool_call", tool="edit", args_hash="a")
TEST = event("tool_call", tool="test", args_hash="a")
WORK = event("tool_call", "sub", tool="go", args_hash="a")

#: A class, where it shows and how often; the run, and its repaired twin, each with its edges.
TWINS: dict[str, tuple[str, int, int, tuple[tuple[Event, ...], str], tuple[tuple[Event, ...], str]]] = {
    "a delegate who never answers": (
        *("unanswered_delegation", 0, 1),
        ((SPAWN, WORK, ANSWER), "0>1"),
        ((SPAWN, WORK, BACK, ANSWER), "0>1 1>2 2>3"),
    ),
    "an answer that nobody could use": (
        *("unanswered_delegation", 0, 1),
        ((SPAWN, WORK, ANSWER, BACK), "0>1"),
        ((SPAWN, WORK, ANSWER, BACK, event("message", to="user")), "0>1"),
    ),
    "a result that leads nowhere": (
        *("unused_result", 1, 1),
        ((CALL, GIVEN, ANSWER), "0>1 0>2"),
        ((CALL, GIVEN, ANSWER), "0>1 1>2"),
    ),
    "the same call four times": (
        *("retry_storm", 0, 1),
        ((CALL, CALL, CALL, CALL, ANSWER), ""),
        ((CALL, CALL, OTHER, CALL, CALL, ANSWER), ""),
    ),
    "four failures of a tool": (
        *("retry_storm", 1, 1),
        ((CALL, FAILED, OTHER, FAILED, CALL, FAILED, OTHER, FAILED, ANSWER), ""),
        ((CALL, FAILED, OTHER, FAILED, CALL, GIVEN, OTHER, FAILED, ANSWER), ""),
    ),
    "a change that nobody verified": (
        *("unverified_change", 1, 1),
        ((TEST, EDIT, ANSWER), ""),
        ((EDIT, TEST, ANSWER), ""),
    ),
    "an answer before its evidence": (
        *("answer_before_evidence", 2, 1),
        ((CALL, ANSWER, GIVEN), "0>2"),
        ((CALL, GIVEN, ANSWER), "0>1"),
    ),
    "an answer before a delegate is back": (
        *("answer_before_evidence", 3, 1),
        ((SPAWN, WORK, ANSWER, BACK), ""),
        ((SPAWN, WORK, BACK, ANSWER), ""),
    ),
    "one who waits for ever": (
        *("deadlock_wait", 1, 1),
        ((event("tool_call", "sub", tool="go"), event("message", to="sub")), ""),
        ((event("message", to="sub"), event("tool_call", "sub", tool="go")), ""),
    ),
    "two who wait for each other": (
        *("deadlock_wait", 1, 2),
        ((ANSWER, event("message", to="sub", t=5.0), event("message", "sub", to="lead", t=5.0)), ""),
        ((ANSWER, event("message", to="sub", t=5.0), event("message", "sub", to="lead", t=6.0)), ""),
    ),
}


@pytest.mark.parametrize("title", TWINS)
def test_a_run_shows_a_class_and_its_repaired_twin_does_not(title: str) -> None:
    name, seq, n, (broken, edges), (repaired, other_edges) = TWINS[title]
    options = {"verifying": ["test"]} if name == "unverified_change" else {}
    assert shown(run(*broken, edges=edges), **options)[name] == (seq, n, None)
    assert shown(run(*repaired, edges=other_edges), **options)[name] == (None, 0, None)


def test_what_cannot_be_known_is_null_with_a_reason() -> None:
    lone = shown(run(ANSWER))
    assert lone["unanswered_delegation"] == (None, None, "ratio.empty")
    assert lone["retry_storm"] == (None, None, "ratio.empty")
    assert lone["deadlock_wait"] == (None, None, "ratio.empty")
    assert lone["unverified_change"] == (None, None, "field.absent")
    assert shown(run(event("tool_call", tool="go"), ANSWER))["retry_storm"] == (None, None, "field.absent")
    silent = shown(run(CALL, GIVEN))
    assert silent["unused_result"] == silent["answer_before_evidence"] == (None, None, "outcome.absent")
    two = [event("return", agent, to="user") for agent in ("ann", "bob")]
    unclear = shown(run(event("orchestrator_decision", "cid"), *two))
    for name in ("unused_result", "answer_before_evidence", "deadlock_wait"):
        assert unclear[name] == (None, None, "outcome.ambiguous")
    broken_off = shown(run(CALL | {"x_trace": {"partial": True}}, CALL, CALL, CALL, ANSWER))
    assert set(broken_off.values()) == {(None, None, "trace.partial")}
    cyclic = shown(run(CALL, GIVEN, ANSWER, edges="0>1 1>0 1>2"))
    assert cyclic["unused_result"] == (None, None, "graph.cycle")


@st.composite
def runs(draw: st.DrawFn) -> list[Document]:
    """Random recordings, some with many calls."""
    documents = draw(corpora(max_traces=4, max_events=16))
    r = draw(st.randoms(use_true_random=False))
    calls, kept, ok = r.choice([0.0, 0.4, 0.8]), r.choice([0.0, 1.0]), r.choice([0.0, 1.0])
    for event in (event for document in documents for event in document["events"]):
        if r.random() < calls:
            event |= {"type": r.choice(["tool_call", "tool_result", "tool_result"]), "agent": "lead"}
            event["tool"] = r.choice(["search", "search", "run"])
        if r.random() < kept:
            event["args_hash"] = r.choice(["x", "x", "x", "y"])
        if r.random() < ok:
            event["ok"] = r.random() < 0.3
    return documents


@settings(deadline=None, max_examples=200)
@given(runs(), st.booleans())
def test_classes_are_those_of_the_definition(documents: list[Document], verifies: bool) -> None:
    corpus = read(*documents)
    tools = set(corpus.events.select(pl.col("tool").cast(pl.String)).collect()["tool"].drop_nulls())
    verifying = ["run"] if verifies and "run" in tools else []
    rows = ot.evaluation.failure_classes(corpus, verifying=verifying)
    assert rows["class"].to_list() == [*CLASSES] * len(documents)
    for number, document in enumerate(documents):
        expected = Spent(Trace(document), {"search"}, set(verifying) or None).failures()
        mine = rows.filter(pl.col("trace") == number).select("class", "seq", "n", "reason").rows()
        for name, seq, n, reason in mine:
            assert (seq, n, reason) == expected[name], (name, json.dumps(document))


@settings(deadline=None, max_examples=60)
@given(runs())
def test_an_agent_apart_changes_nothing(documents: list[Document]) -> None:
    stranger = event("message", "stranger", to="stranger") | {"id": "apart", "t": 99.0}
    apart = [{**document, "events": [*document["events"], stranger]} for document in documents]
    traces = [Trace(document) for document in documents], [Trace(document) for document in apart]
    # a stranger beside a lone agent makes two; who answers may be another question then
    same = [
        n
        for n, (one, other) in enumerate(zip(*traces, strict=True))
        if (one.outcome, one.unknown, one.root) == (other.outcome, other.unknown, other.root)
        and len(one.agents) > 1
    ]
    before, after = (
        ot.evaluation.failure_classes(read(*of)).filter(pl.col("trace").is_in(same))
        for of in (documents, apart)
    )
    assert before.equals(after)


def test_rates_compare_failed_with_passed_runs() -> None:
    storm, calm = (CALL, CALL, CALL, CALL, ANSWER), (CALL, OTHER, ANSWER)
    kinds = [(storm, 0.0)] * 6 + [(calm, 0.0)] * 2 + [(storm, 1.0)] + [(calm, 1.0)] * 7
    documents = [
        run(*events) | {"trace_id": f"t{n}", "task_id": f"task{n % 8}", "rewards": {"team": reward}}
        for n, (events, reward) in enumerate(kinds)
    ]
    unjudged = run(*storm) | {"trace_id": "none", "task_id": "task0", "rewards": {}}
    table = ot.evaluation.failure_rates(read(*documents, unjudged))
    (row,) = table.filter(pl.col("class") == "retry_storm").to_dicts()
    assert (row["n_failed"], row["shows_failed"], row["rate_failed"]) == (8, 6, 0.75)
    assert (row["n_passed"], row["shows_passed"], row["rate_passed"]) == (8, 1, 0.125)
    assert row["difference"] == pytest.approx(0.625)
    assert -1 < row["lower"] < 0.625 < row["upper"] < 1
    assert row["lower_failed"] < 0.75 < row["upper_failed"]
    assert (row["n_unknown"], row["n_unjudged"], row["n_tasks"]) == (0, 1, 8)
    wider = ot.evaluation.failure_rates(read(*documents), confidence=0.99).filter(
        pl.col("class") == "retry_storm"
    )
    assert wider["lower"].item() < row["lower"]
    (unknown,) = table.filter(pl.col("class") == "unverified_change").to_dicts()
    assert (unknown["n_unknown"], unknown["reason"], unknown["rate_failed"]) == (16, "support.absent", None)


def test_without_judged_runs_there_are_no_rates() -> None:
    table = ot.evaluation.failure_rates(read(run(CALL, ANSWER), run(CALL, ANSWER) | {"trace_id": "u"}))
    assert set(table["reason"].to_list()) == {"support.absent"}, "all failed"
    mixed = read(run(CALL, ANSWER), run(CALL, ANSWER, rewards={}) | {"trace_id": "u"})
    assert ot.evaluation.failure_rates(mixed, reward="team")["n_unjudged"].to_list() == [1] * 6


def test_the_interval_of_a_difference_covers_it() -> None:
    """Drawn anew 400 times: 12 tasks of 4 runs, rates of .6 and .3, at the level of one difference."""
    r = np.random.default_rng(3)
    tasks, confidence = np.repeat(np.arange(12), 4), 1.0 - 6 * 0.05  # so that each has .95
    covered = 0
    for _ in range(400):
        passed = r.random(48) < 0.5
        shows = (r.random(48) < np.where(passed, 0.3, 0.6)).astype(float)
        answer = _difference(shows, passed, tasks, confidence, is_judged=True)
        covered += answer["lower"] <= 0.3 <= answer["upper"]
    assert covered / 400 > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 400)


def test_the_same_on_disk_and_by_any_number_of_threads(tmp_path: Any) -> None:
    corpus = ot.generate(traces=60, seed=4)
    corpus.write_jsonl(tmp_path / "runs.jsonl")
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus", partitions=3)
    here = ot.evaluation.failure_classes(ot.read_traces(tmp_path / "runs.jsonl"), verifying=["bash"])
    there = ot.evaluation.failure_classes(ot.read_corpus(tmp_path / "corpus"), verifying=["bash"])
    assert there.sort("trace_id", "class").drop("trace").equals(here.sort("trace_id", "class").drop("trace"))
    assert ot.evaluation.failure_classes(corpus, threads=1).equals(
        ot.evaluation.failure_classes(corpus, threads=3)
    )
