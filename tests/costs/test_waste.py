"""The class of every event, and what was spent in vain: goldens, plain Python, what has to hold."""

import io
import random
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import orchestrace as ot
from reference.trace import Trace
from reference.waste import Spent
from samples import hand_runs
from samples.random_runs import Document, corpora, jsonl

LOST: dict[str, Callable[[random.Random], Any]] = {
    "ok": lambda r: r.choice([True, True, False]),
    "args_hash": lambda r: r.choice(["x", "x", "y"]),
    "draft_score": lambda r: r.choice([0.5, 1.0]),
    "tokens_out": lambda r: r.choice([0, 3, 7]),
    "tokens_in": lambda r: r.choice([0, 11]),
}


@st.composite
def runs(draw: st.DrawFn) -> list[Document]:
    """Random recordings with many calls, some of which failed."""
    documents = draw(corpora(max_traces=4, max_events=16))
    r = random.Random(draw(st.integers(0, 2**32 - 1)))
    filled = {name: r.choice([0.0, 0.5, 1.0]) for name in LOST}
    calls = r.choice([0.0, 0.3, 0.6])
    for event in (event for document in documents for event in document["events"]):
        if r.random() < calls:
            event |= {"type": r.choice(["tool_call", "tool_call", "tool_result"]), "agent": "lead"}
            event["tool"] = r.choice(["search", "run"])
        for name, of in LOST.items():
            if r.random() < filled[name]:
                event[name] = of(r)
    return documents


def read(documents: list[Document]) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(documents)))


def hand(*events: dict[str, Any], edges: str = "") -> Document:
    """A run of one lead who answers last; events are joined in their order unless edges say otherwise."""
    rows = [
        {"id": f"e{n}", "t": float(n), "agent": "lead", **event}
        for n, event in enumerate([*events, {"type": "aggregate", "to": "user"}])
    ]
    pairs = (
        [tuple(pair.split(">")) for pair in edges.split()]
        if edges
        else [(str(n), str(n + 1)) for n in range(len(events))]
    )
    joined = [{"src": f"e{src}", "dst": f"e{dst}", "type": "causal"} for src, dst in pairs]
    return {
        **{"trace_id": "t", "task_id": "t", "events": rows, "edges": joined},
        **{"rewards": {}, "costs": {"tokens": 0, "wall_clock_s": 0}},
    }


def call(tool: str, arguments: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_call", "tool": tool, "args_hash": arguments, **more}


def result(tool: str, **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool": tool, **more}


def classes(*events: dict[str, Any], edges: str = "", **options: Any) -> list[str | None]:
    table = ot.costs.waste_events(read([hand(*events, edges=edges)]), **options)
    return table["class"].to_list()[:-1]


def test_a_failed_call_that_is_made_again_is_a_retry_with_its_result() -> None:
    failing = [call("search", "q1"), result("search", ok=False)]
    passing = [call("search", "q1"), result("search", ok=True)]
    assert classes(*failing, *failing, *passing) == ["retry"] * 4 + ["useful"] * 2
    assert classes(*failing) == ["error"] * 2
    assert classes(*failing, call("search", "q2"), result("search")) == ["error"] * 2 + ["useful"] * 2


def test_what_was_read_before_is_a_duplicate_unless_something_may_have_changed() -> None:
    read_a = call("read", "a")
    assert classes(read_a, read_a) == ["useful", "duplicate"]
    assert classes(read_a, call("write", "b"), read_a) == ["useful"] * 3
    assert classes(read_a, call("read", "b"), read_a) == ["useful", "useful", "duplicate"]
    assert classes(read_a, call("unknown", "b"), read_a, reading=["unknown"]) == ["useful"] * 2 + [
        "duplicate"
    ]
    assert classes(read_a, read_a, writing=["read"]) == ["useful"] * 2
    assert classes(call("write", "a"), call("write", "a")) == ["useful"] * 2, "it may do more the second time"


def test_a_failed_call_has_the_type_of_error_that_the_recording_names() -> None:
    late = [call("search", "q1"), result("search", ok=False, x_error_type="Timeout")]
    refused = [
        call("search", "q2", ok=False, x_error_type="Forbidden"),
        result("search", x_error_type="Other"),
    ]
    unnamed = [call("search", "q3", ok=False, x_error_type="")]
    passed = [call("search", "q4"), result("search", x_error_type="Warning")]
    document = hand(*late, *refused, *unnamed, *passed)
    events = ot.costs.waste_events(read([document]))
    types = ["Timeout"] * 2 + ["Forbidden"] * 2 + [None] * 4
    assert events["error_type"].to_list() == types
    table = ot.costs.waste(read([document, {**document, "trace_id": "u"}]), by="error")
    lost = table.filter(pl.col("class") == "error").select("error_type", "traces", "events")
    assert sorted(lost.rows(), key=str) == [("Forbidden", 2, 4), ("Timeout", 2, 4), (None, 2, 2)]
    bare = ot.read_traces(io.BytesIO(jsonl([document])), extras=False)
    assert ot.costs.waste_events(bare)["error_type"].null_count() == len(types), "without extras"


def test_three_rounds_are_a_loop_from_the_second_on() -> None:
    a, b = call("go", "a"), call("go", "b")
    assert classes(a, b, a, b, a, b) == ["useful"] * 2 + ["loop"] * 4
    assert classes(a, b, a, b) == ["useful"] * 4
    assert classes(a, a, a) == ["useful", "loop", "loop"]
    assert classes(a, b, a, b, a, b, a) == ["useful"] * 2 + ["loop"] * 4 + ["useful"], (
        "a round that is not full"
    )
    other = {"type": "tool_call", "tool": "go"}
    assert classes(other, other, other) == ["useful"] * 3, "nobody knows that they are alike"


def test_what_leads_nowhere_is_dead_or_of_an_orphan() -> None:
    spawn = {"type": "spawn", "to": "sub"}
    work = {"type": "message", "agent": "sub"}
    assert classes(spawn, work, edges="0>1 0>2") == ["useful", "orphan"]
    back = {"type": "return", "agent": "sub", "to": "lead"}
    assert classes(spawn, work, back, edges="0>1 1>2 0>3") == ["useful", "dead", "dead"]
    assert classes(spawn, work, {"type": "despawn", "to": "sub"}, edges="0>1 0>3") == [
        "useful",
        "dead",
        "dead",
    ]
    assert classes(spawn, work, back, edges="0>1 1>2 2>3") == ["useful"] * 3


def test_a_call_costs_what_it_took_to_ask_for_it() -> None:
    decision = {"type": "orchestrator_decision", "model": "gpt-4o-mini", "tokens_in": 10, "tokens_out": 1}
    calls = [call("search", "q", ok=False), call("search", "r"), call("search", "q")]
    corpus = read([hand(decision, *calls, edges="0>1 0>2 0>3 3>4")])
    events = ot.costs.waste_events(corpus)
    assert events["made_by"].to_list() == [None, 0, 0, 0, None]
    assert events["tokens"].to_list() == [0, 4, 4, 3, None]
    assert events["class"].to_list() == ["useful", "retry", "dead", "useful", "useful"]
    assert events["usd"].sum() == pytest.approx(ot.costs.table(corpus)["cost_usd"].sum(), rel=1e-12)
    table = ot.costs.waste(corpus, by="class")
    assert table["class"].to_list() == ["retry", "dead", "useful"]
    assert table["share_of"].to_list() == ["usd"] * 3
    assert table["loss_share"].sum() == pytest.approx(1.0, abs=1e-12)


def test_one_token_without_a_price_makes_shares_those_of_tokens() -> None:
    cheap = {"type": "orchestrator_decision", "model": "gpt-4o-mini", "tokens_in": 10, "tokens_out": 0}
    ours = {"type": "orchestrator_decision", "model": "ours", "tokens_in": 30, "tokens_out": 0}
    table = ot.costs.waste(read([hand(cheap, ours, edges="0>2")]), by="class")
    assert table["share_of"].unique().to_list() == ["tokens"]
    assert dict(zip(table["class"], table["loss_share"], strict=True)) == {"dead": 0.75, "useful": 0.25}
    assert table["usd_reason"].to_list() == ["price.absent", None]
    assert table["usd"].to_list()[0] is None, "not 0"


def test_what_follows_the_first_passing_draft_comes_after_the_answer() -> None:
    decision = {"type": "orchestrator_decision", "tokens_in": 5, "tokens_out": 0}
    drafts = [decision | {"draft_score": score} for score in (0.2, 1.0, 0.9)]
    corpus = read([hand(*drafts)])
    assert ot.costs.waste_events(corpus)["after_answer"].to_list() == [False, False, True, True]
    assert ot.costs.waste(corpus, by="class")["tokens_after"].to_list() == [5]
    assert ot.costs.waste_events(read([hand(decision)]))["after_answer"].to_list() == [False, False]


def test_a_spawn_that_names_nobody_makes_no_orphan_of_what_nobody_owns() -> None:
    document = hand(
        {"type": "spawn"}, {"type": "tool_result", "agent": "search", "tool": "search"}, edges="0>2"
    )
    events = ot.costs.waste_events(read([document]))
    assert events["owner"].to_list() == ["lead", None, "lead"]
    assert events["class"].to_list() == ["useful", "dead", "useful"]
    assert [Spent(Trace(document), set()).class_of(v)[0] for v in range(3)] == ["useful", "dead", "useful"]


@settings(deadline=None, max_examples=150)
@given(runs())
def test_classes_are_those_of_the_definition(documents: list[Document]) -> None:
    corpus = read(documents)
    table = ot.costs.waste_events(corpus, reading=_there(corpus, "search"), prices=None)
    given_tokens = corpus.events.select("tokens").collect()["tokens"]
    at = 0
    for number, document in enumerate(documents):
        spent = Spent(Trace(document), {"search"})
        rows = table.filter(pl.col("trace") == number)
        own = given_tokens[at : at + rows.height].to_list()
        at += rows.height
        tokens = [t if _in_team(spent, v) else None for v, t in enumerate(own)]
        shared = spent.attributed([t or None for t in tokens])
        for v, row in enumerate(rows.iter_rows(named=True)):
            assert (row["class"], row["reason"]) == spent.class_of(v), (document, v)
            assert row["owner"] == spent.trace.owner[v]
            assert row["call"] == spent.call_of.get(v)
            assert row["made_by"] == (spent.maker(v) if v in spent.calls else None), (document, v)
            assert row["after_answer"] == spent.after_answer(v)
            assert abs((row["tokens"] or 0) - (shared[v] or 0)) < 1, "shares are whole"
        assert (rows["tokens"].sum() or 0) == sum(t or 0 for t in tokens)


def _there(corpus: ot.Corpus, *names: str) -> list[str]:
    """Those of some tools that the corpus has; it is an error to name others."""
    tools = corpus.events.select(pl.col("tool").cast(pl.String)).collect()["tool"].unique().to_list()
    return [name for name in names if name in tools]


def _in_team(spent: Spent, v: int) -> bool:
    event = spent.events[v]
    if all(e["type"] == "tool_result" for e in spent.events if e["agent"] == event["agent"]):
        return False  # a tool, which is not paid by the token
    return event["type"] != "human_intervention" and event["agent"] not in spent.trace.outside


@settings(deadline=None, max_examples=60)
@given(runs(), st.sampled_from(["class", "tool", "error", "shape"]))
def test_sums_are_those_of_the_corpus(documents: list[Document], by: Any) -> None:
    corpus = read(documents)
    table, whole = ot.costs.waste(corpus, by=by), ot.costs.table(corpus)
    assert table["events"].sum() == corpus.events.collect().height
    assert (table["tokens"].sum() or 0) == (whole["tokens"].sum() or 0)
    assert (table["usd"].sum() or 0.0) == pytest.approx(whole["cost_usd"].sum() or 0.0, rel=1e-9)
    assert table["unpriced_tokens"].sum() == whole["unpriced_tokens"].sum()
    shares = table["loss_share"]
    assert shares.null_count() == len(shares) or shares.sum() == pytest.approx(1.0, abs=1e-9)
    seconds = ot.schedules.simulate(corpus).filter(pl.col("unit").cast(pl.String) == "seconds")
    assert table["seconds"].sum() == pytest.approx(seconds["duration"].sum(), rel=1e-9, abs=1e-9)


@settings(deadline=None, max_examples=60)
@given(runs(), st.permutations(["lead", "ann", "bob"]))
def test_names_of_agents_change_nothing(documents: list[Document], names: list[str]) -> None:
    renamed = [
        _renamed(document, dict(zip(["lead", "ann", "bob"], names, strict=True))) for document in documents
    ]
    columns = ["trace", "seq", "class", "tool", "call", "made_by", "after_answer", "tokens", "reason"]
    before, after = (ot.costs.waste_events(read(of)).select(columns) for of in (documents, renamed))
    assert before.equals(after)


def _renamed(document: Document, names: dict[str, str]) -> Document:
    """The run with other names; names order ties between agents nowhere but in the document's own order."""
    events = [
        {**event, **{key: names.get(event[key], event[key]) for key in ("agent", "to") if key in event}}
        for event in document["events"]
    ]
    return {**document, "events": events}


@settings(deadline=None, max_examples=60)
@given(runs())
def test_an_agent_apart_that_nobody_spawned_is_dead_weight(documents: list[Document]) -> None:
    apart = [
        {
            **document,
            "events": [
                *document["events"],
                {"id": "apart", "t": 99.0, "type": "message", "agent": "stranger", "to": "stranger"},
            ],
        }
        for document in documents
    ]
    known = {n for n, document in enumerate(documents) if Spent(Trace(document), set()).unknown is None}
    still = {n for n, document in enumerate(apart) if Spent(Trace(document), set()).unknown is None}
    before, after = (ot.costs.waste_events(read(of)) for of in (documents, apart))
    here = pl.col("trace").is_in(sorted(known & still))
    alone = pl.col("owner") == "stranger"
    columns = ["trace", "seq", "class"]
    old = after.filter(here, ~alone.fill_null(False)).select(columns)
    assert old.equals(before.filter(here).select(columns))
    assert after.filter(here, alone)["class"].to_list() == ["dead"] * len(known & still)


def test_a_tool_cannot_both_read_and_write() -> None:
    corpus = read([hand(call("read", "a"))])
    with pytest.raises(ot.ParameterError, match="'read' is in reading and in writing"):
        ot.costs.waste(corpus, reading=["read"], writing=["read"])
    with pytest.raises(ot.ParameterError, match="raed"):
        ot.costs.waste_events(corpus, reading=["raed"])


def test_the_same_on_disk_and_by_any_number_of_threads(tmp_path: Any) -> None:
    corpus = ot.generate(traces=60, seed=4)
    corpus.write_jsonl(tmp_path / "runs.jsonl")
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus", partitions=3)
    keys = ["class", "tool", "role", "depth", "reason"]
    pair = (ot.read_traces(tmp_path / "runs.jsonl"), ot.read_corpus(tmp_path / "corpus"))
    here, there = (ot.costs.waste(of, by="shape").sort(keys) for of in pair)
    assert here.equals(there)
    assert ot.costs.waste(corpus, by="shape", threads=1).equals(ot.costs.waste(corpus, by="shape", threads=3))


def test_what_was_decided_before_the_answer_stood_was_spent_before_it() -> None:
    events = [
        hand_runs.event(1, "lead", "orchestrator_decision", draft_score=1.0, tokens_in=100),
        hand_runs.event(2, "lead", "tool_call", tool="search", args_hash="q"),
        hand_runs.event(3, "search", "tool_result", tool="search", ok=True),
        hand_runs.event(4, "lead", "aggregate", tokens_in=10),
    ]
    corpus = hand_runs.read([hand_runs.run(0, 1.0, events, [(1, 2), (2, 3), (3, 4)])])
    assert ot.costs.waste(corpus, by="class")["tokens_after"].sum() == 10
