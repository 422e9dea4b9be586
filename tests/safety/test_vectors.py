"""Attack vectors: random recordings against NetworkX, each vector by hand beside its repaired twin."""

import io
import random
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from reference.safety import Flow
from reference.trace import Trace
from reference.vectors import VECTORS, Vectors
from samples.examples import examples
from samples.random_runs import Document, jsonl, random_document

QUICK = examples(150, derandomize=True)
NAMED = ("search", "run")
"""Tools that the last recording has, so that rules may name them."""
OPTIONS = st.fixed_dictionaries(
    {
        "carry": st.sampled_from(["all", "context", "safety_flow"]),
        "untrusted_tools": st.sampled_from([(), (), ("search",)]),
        "privileged_tools": st.sampled_from([(), (), NAMED]),
        "memory_tools": st.sampled_from([(), (), ("run",)]),
        "verifiers": st.sampled_from([(), (), ("ann",)]),
        "allow": st.sampled_from([(), (), ("bob",)]),
        "program_order": st.booleans(),
    }
)


def document(r: random.Random, number: int) -> Document:
    roles = {"role": r.choice([0.0, 0.4])}
    made = random_document(r, number, r.randrange(1, 14), roles) | {"trace_id": f"t{number}"}
    told, fenced, private = r.choice([0.3, 0.6]), r.random() < 0.5, r.random() < 0.5
    for event in made["events"]:
        if r.random() < told:
            event["trusted"] = r.random() < 0.4
        if r.random() < 0.1:
            event["sanitizer"] = r.random() < 0.8
        if private and r.random() < 0.4:
            event["privileged"] = r.random() < 0.7
        if fenced and r.random() < 0.6:
            event["sandbox_id"] = r.choice("ab")
        if r.random() < 0.15:
            event["agent"] = r.choice(["memory", "user", "codeReviewer"])
    return made


@st.composite
def documents(draw: st.DrawFn) -> list[Document]:
    r = random.Random(draw(st.integers(0, 2**32 - 1)))
    found = [document(r, number) for number in range(draw(st.integers(1, 4)))]
    agents = [
        {"id": f"n{n}", "t": 0, "type": "message", "agent": name} for n, name in enumerate(("ann", "bob"))
    ]
    tools = [
        {"id": f"r{n}", "t": 0, "type": "tool_call", "agent": "ann", "tool": name}
        for n, name in enumerate(NAMED)
    ]
    names = {"trace_id": "names", "task_id": "names", "events": [*agents, *tools], "edges": [], "rewards": {}}
    return [*found, names | {"costs": {"tokens": 0, "wall_clock_s": 0}}]


def read(found: list[Document]) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(found)), format="native")


@QUICK
@given(documents(), OPTIONS)
def test_vectors_are_those_of_networkx(found: list[Document], options: dict[str, Any]) -> None:
    rules = {name: value for name, value in options.items() if name not in ("memory_tools", "verifiers")}
    said = {name: options[name] for name in ("memory_tools", "verifiers")}
    corpus = read(found)
    table = ot.safety.attack_vectors(corpus, **options)
    assert table["vector"].to_list() == VECTORS * len(found)
    for one in found:
        trace = Trace(one)
        flow, ids = Flow(trace, **rules), [event["id"] for event in trace.events]
        rows = table.filter(trace_id=one["trace_id"]).iter_rows(named=True)
        if not flow.acyclic or not flow.told:
            reason = "field.absent" if flow.acyclic else "graph.cycle"
            assert all(row["reason"] == reason and row["n_events"] is None for row in rows)
            continue
        vectors = Vectors(flow, **said)
        exact = Flow(trace, **(rules | {"carry": "safety_flow", "program_order": False}))
        lower = Vectors(exact, whole=flow.whole, **said)
        for row in rows:
            name = row["vector"]
            if not vectors.known(name):
                assert row["reason"] == "field.absent"
                assert all(value is None for value in list(row.values())[5:-1])
                continue
            shown = vectors.shown(name)
            assert row["reason"] is None
            assert (row["n_seeds"], row["n_events"]) == (len(vectors.leading(name)), len(shown)), name
            assert row["n_events_lower"] == len(lower.shown(name))
            first = next((v for v in trace.order if v in shown), None)
            assert row["first_event"] == (None if first is None else ids[first])
            assert (row["path"] is None) == (not shown)
            if not shown:
                assert row["entry"] is None
                continue
            path = [ids.index(one) for one in row["path"]]
            assert path[0] in vectors.leading(name) and row["entry"] == vectors.channel(path[0])
            assert all(flow.inside.has_edge(u, v) for u, v in pairwise(path))
            assert path[-1] in vectors.end(name) and len(path) == vectors.steps(name, path[-1]) + 1
            assert name != "AV8" or (path[-2], path[-1]) in vectors.crossing


@QUICK
@given(documents(), st.integers(0, 2**32 - 1))
def test_more_seeds_never_show_less(found: list[Document], seed: int) -> None:
    r = random.Random(seed)
    before = ot.safety.attack_vectors(read(found), privileged_tools=NAMED)
    for one in found:
        for event in one["events"]:
            if event.get("trusted") is True and r.random() < 0.5:
                event["trusted"] = False
    after = ot.safety.attack_vectors(read(found), privileged_tools=NAMED)
    for column in ("n_events", "n_events_lower", "n_seeds"):
        for old, new in zip(before[column], after[column], strict=True):
            # what is shown stays shown; 0 may become null, by a seed whose channel nobody knows
            assert not old or (new is not None and new >= old)


def test_entries_of_tainted_events_are_those_of_their_sources() -> None:
    r = random.Random(1)
    found = [document(r, number) for number in range(60)]
    events = ot.safety.tainted_events(read(found))
    channels = {}
    for one in found:
        vectors = Vectors(Flow(Trace(one)))
        channels |= {(one["trace_id"], e["id"]): vectors.channel(v) for v, e in enumerate(vectors.events)}
    asked = [channels[place] for place in events.select("trace_id", "source").iter_rows()]
    assert events["entry"].to_list() == asked
    assert set(asked) == {"user", "tool", "agent", "memory", "verifier", None}


# --- each vector by hand, and its repaired twin -----------------------------------------------------

Events = list[dict[str, Any]]


def one(**fields: Any) -> dict[str, Any]:
    return {"agent": "ann", "type": "message", "trusted": True, **fields}


ANSWER = one(agent="lead", type="aggregate")
PAGE = one(agent="web", type="tool_result", tool="web", trusted=False)
JUDGE = one(agent="judge", role="verifier")
RUNS: dict[str, tuple[Events, dict[str, Any]]] = {
    "AV1": ([one(agent="user", trusted=False), one(), ANSWER], {"trusted": True}),
    "AV2": ([PAGE, one(), ANSWER], {"trusted": True}),
    "AV3": ([one(agent="bob", to="ann", trusted=False), one(), ANSWER], {"sanitizer": True}),
    "AV4": ([one(agent="memory", trusted=False), one(), ANSWER], {"trusted": True}),
    "AV5": ([PAGE, one(type="tool_call", tool="pay", privileged=True), ANSWER], {"privileged": False}),
    "AV6": ([PAGE, one(agent="lead", type="orchestrator_decision"), ANSWER], {"type": "message"}),
    "AV7": ([PAGE, JUDGE, ANSWER, JUDGE | {"agent": "x"}], {"role": "author"}),
    "AV8": ([PAGE | {"sandbox_id": "a"}, one(sandbox_id="b"), ANSWER], {"sandbox_id": "a"}),
}
"""Events of a chain whose second shows the vector, and what repairs the first (AV1 to AV4) or the second."""


def chain(events: Events) -> ot.Corpus:
    edges = [{"src": f"e{n}", "dst": f"e{n + 1}", "type": "causal"} for n in range(2)]
    made = {
        "trace_id": "t",
        "task_id": "t",
        "events": [{"id": f"e{n}", "t": n, **event} for n, event in enumerate(events)],
        "edges": edges,
        "rewards": {},
        "costs": {"tokens": 0, "wall_clock_s": 0},
    }
    return read([made])


@pytest.mark.parametrize("vector", VECTORS)
def test_a_run_shows_its_vector_and_the_repaired_run_does_not(vector: str) -> None:
    events, repair = RUNS[vector]
    (row,) = ot.safety.attack_vectors(chain(events)).filter(vector=vector).iter_rows(named=True)
    is_entry = vector in ("AV1", "AV2", "AV3", "AV4")
    assert (row["n_seeds"], row["n_events"], row["n_events_lower"]) == (1, 2 if is_entry else 1, 0)
    assert (row["first_event"], row["reason"]) == ("e1", None)
    assert row["path"] == (["e0", "e1", "e2"] if is_entry else ["e0", "e1"])
    repaired = [dict(event) for event in events]
    repaired[0 if is_entry else 1] |= repair
    (row,) = ot.safety.attack_vectors(chain(repaired)).filter(vector=vector).iter_rows(named=True)
    assert (row["n_seeds"], row["n_events"], row["reason"]) == (0, 0, None)
    assert row["first_event"] is row["path"] is row["entry"] is None


def test_what_a_recording_does_not_say_is_null() -> None:
    table = ot.safety.attack_vectors(chain([PAGE, one(), ANSWER]))
    unknown = table.filter(pl.col("n_events").is_null())
    assert unknown["vector"].to_list() == ["AV5", "AV7", "AV8"]
    assert set(unknown["reason"]) == {"field.absent"}
    named = ot.safety.attack_vectors(
        chain([PAGE, one(type="tool_call", tool="web"), ANSWER]), privileged_tools=["web"], verifiers=["lead"]
    )
    assert named.filter(pl.col("vector").is_in(["AV5", "AV7"]))["n_events"].to_list() == [1, 1]
    # by which way an untrusted call came in, nobody knows: no channel is ruled out
    lost = ot.safety.attack_vectors(chain([one(type="tool_call", trusted=False), one(), ANSWER]))
    assert lost["n_events"].to_list() == [None] * 5 + [0, None, None]
    silent = ot.safety.attack_vectors(chain([{"agent": "a", "type": "message"}] * 3))
    assert set(silent["reason"]) == {"field.absent"} and silent["n_events"].null_count() == 8


def test_a_memory_whose_name_does_not_say_so_is_named() -> None:
    notes = one(agent="notes", type="tool_result", tool="notes", trusted=False)
    corpus = chain([notes, one(), ANSWER])
    for tools, shown in (((), "AV2"), (["note*"], "AV4")):
        table = ot.safety.attack_vectors(corpus, memory_tools=tools).filter(pl.col("n_events") > 0)
        assert table["vector"].to_list() == [shown]
    with pytest.raises(ot.ParameterError, match="memory_tools: unknown tool 'nots'; did you mean 'notes'"):
        ot.safety.attack_vectors(corpus, memory_tools=["nots"])
    with pytest.raises(ot.ParameterError, match="unknown agent 'lad'; did you mean 'lead'"):
        ot.safety.attack_vectors(corpus, verifiers=["lad"])
