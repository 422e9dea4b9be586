"""Taint and cuts of random recordings, against NetworkX, and what must always hold of them."""

import io
import json
import random
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from reference.safety import Flow
from reference.trace import Trace
from samples.examples import examples
from samples.random_runs import AGENTS, Document, jsonl, random_document

QUICK = examples(150, derandomize=True)
CARRIES = ["all", "context", "safety_flow"]
RULES = st.fixed_dictionaries(
    {
        "carry": st.sampled_from(CARRIES),
        "untrusted_tools": st.sampled_from([(), (), ("search",), ("search", "run")]),
        "trusted_tools": st.sampled_from([(), (), ("run",), ("search", "run")]),
        "allow": st.sampled_from([(), (), ("ann",), ("ann", "bob")]),
        "program_order": st.booleans(),
    }
)


def document(r: random.Random, number: int) -> Document:
    made = random_document(r, number, r.randrange(1, 14), {}) | {"trace_id": f"t{number}"}
    told, fenced = r.choice([0.0, 0.3, 0.6]), r.random() < 0.5
    for event in made["events"]:
        if r.random() < told:
            event["trusted"] = r.random() < 0.4
        if r.random() < 0.15:
            event["sanitizer"] = r.random() < 0.8
        if r.random() < 0.4:
            event["privileged"] = r.random() < 0.7
        if fenced and r.random() < 0.6:
            event["sandbox_id"] = r.choice("ab")
    return made


@st.composite
def documents(draw: st.DrawFn) -> list[Document]:
    r = random.Random(draw(st.integers(0, 2**32 - 1)))
    found = [document(r, number) for number in range(draw(st.integers(1, 4)))]
    # every name is there, so that no rule names what nobody has
    names = [{"id": f"n{n}", "t": 0, "type": "message", "agent": agent} for n, agent in enumerate(AGENTS[:3])]
    names += [
        {"id": f"r{n}", "t": 0, "type": "tool_result", "agent": "x", "tool": tool, "trusted": True}
        for n, tool in enumerate(("search", "run"))
    ]
    everybody = {"trace_id": "names", "task_id": "names", "events": names, "edges": [], "rewards": {}}
    return [*found, everybody | {"costs": {"tokens": 0, "wall_clock_s": 0}}]


def read(found: list[Document]) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(found)), format="native")


@QUICK
@given(
    documents(),
    RULES,
    st.sampled_from([(), ("search",), ("search", "run")]),
    st.sampled_from([None, (1, 0), (0.5, 0.25), (0, 1)]),
)
def test_taint_is_that_of_networkx(
    found: list[Document],
    rules: dict[str, Any],
    privileged: tuple[str, ...],
    chances: tuple[float, float] | None,
) -> None:
    rules = rules | {"privileged_tools": privileged}
    corpus = read(found)
    table = ot.taint(corpus, probabilistic=chances, **rules)
    events = ot.safety.tainted_events(corpus, probabilistic=chances, **rules)
    for row, one in zip(table.iter_rows(named=True), found, strict=True):
        trace = Trace(one)
        flow = Flow(trace, **rules)
        trusted = [event["trusted"] for event in trace.events]
        known = any(one is not None for one in trusted)
        assert row["n_untrusted"] == (trusted.count(False) if known else None)
        assert row["n_trust_unknown"] == (trusted.count(None) if known else None)
        of_trace = events.filter(trace_id=row["trace_id"])
        if not flow.acyclic or not flow.told:
            assert row["reason"] == ("graph.cycle" if not flow.acyclic else "field.absent")
            assert all(row[name] is None for name in table.columns[5:-1]) and not of_trace.height
            continue
        hops, ids = flow.hops(), [event["id"] for event in trace.events]

        def name(v: int | None, ids: list[str] = ids) -> str | None:
            return None if v is None else ids[v]

        expected = {
            "n_seeds": len(flow.seeds),
            "n_tainted": len(flow.tainted),
            "taint_share": len(flow.tainted) / len(trace),
            "outcome": name(trace.outcome),
            "outcome_tainted": None if trace.unknown else flow.reached,
            "seeds_to_outcome": None if trace.unknown else flow.seeds_to_outcome(),
            "taint_spread": flow.inside.number_of_edges() / len(flow.tainted) if flow.tainted else None,
            "sandbox_violations": flow.violations(),
            "sandbox_crossings": flow.crossings(),
            "first_seed": name(next((v for v in trace.order if v in flow.seeds), None)),
            "first_agent": None if flow.first_agent() is None else trace.owner[flow.first_agent() or 0],
            "reason": trace.unknown,
        }
        for what, v in {
            "agent": flow.first_agent(),
            "decision": flow.first("orchestrator_decision"),
            "spawn": flow.first("spawn"),
            "privileged_call": flow.first("tool_call"),
        }.items():
            expected[f"first_{what}" + ("_event" if what == "agent" else "")] = name(v)
            expected[f"time_to_{what}"] = flow.after(v)
        lower = Flow(trace, **(rules | {"carry": "safety_flow"}))
        expected |= {
            "n_tainted_lower": len(lower.tainted),
            "outcome_tainted_lower": None if trace.unknown else lower.reached,
        }
        for column, value in expected.items():
            assert row[column] == value, column
        if row["path"] is not None:
            path = [ids.index(one) for one in row["path"]]
            assert path[0] in flow.seeds and len(path) == hops[path[-1]] + 1
            assert all(flow.inside.has_edge(u, v) for u, v in pairwise(path))
            nearest = min((hops[v] for v in flow.ends & flow.tainted), default=None)
            assert not flow.reached or (path[-1] in flow.ends and hops[path[-1]] == nearest)
        else:
            assert not flow.reached
        acts = [v for v in trace.order if v in flow.tainted and flow.privileged(v)]
        assert row["n_tainted_privileged"] == len(acts)
        assert (row["privileged_path"] is None) == (not acts)
        if acts:
            way = [ids.index(one) for one in row["privileged_path"]]
            assert way[0] in flow.seeds and way[-1] == acts[0] and len(way) == hops[acts[0]] + 1
            assert all(flow.inside.has_edge(u, v) for u, v in pairwise(way))
        told = of_trace.filter(pl.col("hops").is_not_null())
        assert set(of_trace.filter("privileged")["seq"]) >= set(acts)
        assert of_trace["tool"].to_list() == [trace.events[v]["tool"] for v in of_trace["seq"]]
        before = dict(told.select("seq", "before").iter_rows())
        for v, source in told.select("seq", "source").iter_rows():
            while before[v] is not None:
                v = before[v]
            assert ids[v] == source
        assert dict(told.select("seq", "hops").iter_rows()) == hops
        assert set(told.filter("seed")["seq"]) == flow.seeds
        if chances is not None:
            p = flow.chances(*chances)
            chance = None if trace.unknown else pytest.approx(flow.chance_of_outcome(p), abs=1e-12)
            assert row["outcome_probability"] == chance
            assert row["expected_tainted"] == pytest.approx(sum(p))
            assert dict(of_trace.select("seq", "probability").iter_rows()) == pytest.approx(
                {v: one for v, one in enumerate(p) if one > 0 or v in flow.tainted}
            )
        if chances == (1, 0):
            assert row["outcome_probability"] == row["outcome_tainted"]
            assert row["expected_tainted"] == row["n_tainted"]


@QUICK
@given(documents(), RULES, st.integers(0, 2**32 - 1))
def test_cuts_are_minimum_and_nearest_to_the_seeds(
    found: list[Document], rules: dict[str, Any], seed: int
) -> None:
    r = random.Random(seed)
    for one in found:
        for event in one["events"]:
            event["price"] = r.randrange(5) / 2
    stream = io.BytesIO(jsonl(found))
    corpus = ot.read_traces(stream, format="native", fields={"price": pl.Float64})
    cut, priced = (
        ot.safety.sanitizer_cut(corpus, **rules),
        ot.safety.sanitizer_cut(corpus, cost="price", **rules),
    )
    for number, one in enumerate(found):
        trace = Trace(one)
        flow = Flow(trace, **rules)
        rows, of_price = cut.filter(trace=number), priced.filter(trace=number)
        reason = None
        if not flow.acyclic or not flow.told:
            reason = "graph.cycle" if not flow.acyclic else "field.absent"
        elif trace.unknown:
            reason = trace.unknown
        elif trace.outcome in flow.seeds:
            reason = "outcome.seed"
        if reason is not None:
            assert rows.select("seq", "event_id", "cost", "reason").rows() == [(None, None, None, reason)]
            assert of_price["reason"].to_list() == [reason]
        elif not flow.reached:
            assert rows.height == of_price.height == 0
        else:
            assert rows["cost"].to_list() == [1.0] * flow.cut_size()
            assert set(rows["seq"]) == flow.nearest_cut(rows.height)
            costs = [event["price"] for event in one["events"]]
            assert of_price["cost"].sum() == flow.cut_cost(costs)
            assert of_price["cost"].to_list() == [costs[v] for v in of_price["seq"]]
            assert "sink" not in flow.before_cut(set(of_price["seq"]))
            told = zip(rows["seq"], rows["event_id"], rows["agent"], strict=True)
            assert all(one["events"][v]["id"] == i and one["events"][v]["agent"] == a for v, i, a in told)


@QUICK
@given(documents(), RULES)
def test_cleaning_the_cut_keeps_the_outcome_clean(found: list[Document], rules: dict[str, Any]) -> None:
    cut = ot.safety.sanitizer_cut(read(found), **rules)
    for number, one in enumerate(found):
        for v in cut.filter(trace=number)["seq"].drop_nulls():
            one["events"][v]["sanitizer"] = True
    table = ot.taint(read(found), **rules)
    answered = [
        n for n in range(len(found)) if cut.filter(trace=n)["reason"].null_count() or n not in cut["trace"]
    ]
    for row in table.filter(pl.col("trace").is_in(answered)).iter_rows(named=True):
        assert row["outcome_tainted"] is not True, row


@QUICK
@given(documents(), RULES, st.integers(0, 2**32 - 1))
def test_seeds_add_taint_and_sanitizers_take_it(
    found: list[Document], rules: dict[str, Any], seed: int
) -> None:
    r = random.Random(seed)
    dirtier, cleaner = json.loads(json.dumps(found)), json.loads(json.dumps(found))
    for one in found:
        one["events"][0].setdefault("trusted", True)
    for one, other in zip(dirtier, cleaner, strict=True):
        one["events"][0].setdefault("trusted", True)
        other["events"][0].setdefault("trusted", True)
        r.choice(one["events"])["trusted"] = False
        r.choice(other["events"])["sanitizer"] = True

    def tainted(of: list[Document]) -> set[tuple[int, int]]:
        return set(ot.safety.tainted_events(read(of), **rules).select("trace", "seq").iter_rows())

    plain = tainted(found)
    assert tainted(cleaner) <= plain <= tainted(dirtier)
    wider = ot.safety.tainted_events(read(found), **(rules | {"carry": "context"}))
    assert plain <= set(wider.select("trace", "seq").iter_rows()) or rules["program_order"]
