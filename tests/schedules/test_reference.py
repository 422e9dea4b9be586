"""Schedules of random recordings, against an engine in plain Python and against what theory says of them."""

import io
import random
from typing import Any

import networkx as nx
import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot
from orchestrace.base.schema import REPLAYS
from orchestrace.schedules.scheduling import replay_schedule
from reference.schedule import Scenario, Schedule, Timed
from reference.trace import Trace
from samples.examples import examples
from samples.random_runs import Document, jsonl, random_document

QUICK = examples(60, derandomize=True)
BASES = ["seconds", "partial", "ordinal", "unknown"]
DROPPED = {"all": "subtree", "any": "subtree", "stay": "node"}


class Drop:
    """What `drop` says of itself."""

    def __init__(self, by: str, value: str, cascade: str) -> None:
        self.by, self.value, self.cascade = by, value, cascade

    def spec(self) -> dict[str, Any]:
        how = {"mode": DROPPED[self.cascade], "lost": "any" if self.cascade == "any" else "all"}
        return {"kind": "drop", self.by: self.value, "each": None, **how}


def document(r: random.Random, size: int, *, timed: float, acyclic: bool = True) -> Document:
    """A recording whose times are quarters, so that sums of them are exact in any order."""
    made = random_document(r, 0, size, {"role": 0.7})
    for n, event in enumerate(made["events"]):
        event["t"] = r.choice([n, n, r.randrange(8), r.randrange(32) / 4])
        if r.random() < timed:
            event["duration_s"] = r.randrange(12) / 4
        if r.random() < timed / 2:
            event["t_end"] = event["t"] + r.randrange(-2, 12) / 4
    if acyclic:
        place = {event["id"]: n for n, event in enumerate(made["events"])}
        order = list(range(size))
        if r.random() < 0.3:
            r.shuffle(order)
        for edge in made["edges"]:
            if order[place[edge["src"]]] > order[place[edge["dst"]]]:
                edge["src"], edge["dst"] = edge["dst"], edge["src"]
        made["edges"] = [edge for edge in made["edges"] if edge["src"] != edge["dst"]]
    made["rewards"] = {"team": 1.0}
    return made


@st.composite
def recordings(draw: st.DrawFn, *, acyclic: bool = True) -> tuple[list[Document], str]:
    r = random.Random(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(1, 14), min_size=1, max_size=4))
    found = [
        document(r, n, timed=r.choice([0.0, 0.0, 0.4, 1.0]), acyclic=acyclic) | {"trace_id": f"t{k}"}
        for k, n in enumerate(sizes)
    ]
    return found, draw(st.sampled_from(BASES))


def read(documents: list[Document], basis: str) -> ot.Corpus:
    corpus = ot.read_traces(io.BytesIO(jsonl(documents)), time_basis=basis)
    assert len(corpus) == len(documents)
    return corpus


def names(documents: list[Document], by: str) -> list[str]:
    """What there is to select by."""
    found: set[str] = set()
    for one in documents:
        trace = Trace(one)
        found |= {
            "agent": set(trace.agents),
            "role": {role for role in trace.role.values() if role},
            "tool": {event["tool"] for event in trace.events if event["tool"]},
            "event": {event["id"] for event in trace.events},
            "type": {event["type"] for event in trace.events},
        }[by]
    return sorted(found)


KINDS = ["remove", "drop", "speed_up", "cap_stragglers", "merge", "split", "serialize"]


def any_change(draw: Any, documents: list[Document], kind: str) -> tuple[dict[str, Any], Any] | None:
    """A change as the reference takes it, and as the package does; None where there is nothing to name."""
    if kind == "serialize":
        return {"kind": kind}, ot.interventions.run_sequentially()
    if kind in ("merge", "split"):
        agents = names(documents, "agent")
        if len(agents) < 2:
            return None
        if kind == "merge":
            team = draw(st.lists(st.sampled_from(agents), min_size=2, max_size=3, unique=True))
            return {"kind": kind, "agents": team}, ot.interventions.merge(team)
        agent, parts = draw(st.sampled_from(agents)), draw(st.integers(1, 3))
        return {"kind": kind, "agent": agent, "parts": parts}, ot.interventions.split(agent, parts)
    by = draw(st.sampled_from(["agent", "role", "tool", "event", "type"]))
    known = names(documents, by)
    if not known or (kind == "cap_stragglers" and by == "event"):
        return None
    value = draw(st.sampled_from(known))
    chosen = {"by": by, "value": value}
    if kind == "remove":
        return {"kind": kind, "cascade": "stay", **chosen}, ot.interventions.skip(**{by: value})
    if kind == "drop":
        cascade = draw(st.sampled_from(["stay", "all", "any"]))
        return {"kind": "remove", "cascade": cascade, **chosen}, Drop(by, value, cascade)
    if kind == "speed_up":
        factor = draw(st.sampled_from([0.5, 2.0, 4.0]))
        if draw(st.booleans()):
            return {"kind": kind, "factor": factor}, ot.interventions.speed_up(factor)
        return {"kind": kind, "factor": factor, **chosen}, ot.interventions.speed_up(factor, **{by: value})
    quantile = draw(st.sampled_from([0.25, 0.5, 0.9, 1.0]))
    return {"kind": kind, "quantile": quantile, **chosen}, ot.interventions.cap_stragglers(
        quantile, **{by: value}
    )


def any_scenario(draw: Any, documents: list[Document], first: list[str]) -> tuple[Scenario, Any]:
    """Slots, and changes: those of `first`, and up to one more."""
    kinds = first + draw(st.lists(st.sampled_from(KINDS), max_size=1 if first else 0))
    changes = [one for kind in kinds if (one := any_change(draw, documents, kind))]
    divided: set[str] = set()
    kept = []
    for change, made in changes:
        if change["kind"] == "split" and change["agent"] in divided:
            continue
        divided |= {change["agent"]} if change["kind"] == "split" else set()
        kept.append((change, made))
    setting = {
        "pool": draw(st.sampled_from(["all", "agents", "agents", "tools"])),
        "queue": draw(st.sampled_from(["recorded", "critical_path"])),
        "release": draw(st.sampled_from(["none", "none", "none", "recorded"])),
    }
    slots = draw(st.sampled_from([None, 1, 2, 2, 3]))
    intervention = ot.interventions.concurrency(slots, **setting)  # type: ignore[arg-type]
    for _, made in kept:
        intervention = intervention & made
    return Scenario([change for change, _ in kept], slots, **setting), intervention


@st.composite
def busy_recordings(draw: st.DrawFn) -> tuple[list[Document], str]:
    """Recordings in which agents work side by side, each mostly in program order: slots and teams matter."""
    r = random.Random(draw(st.integers(0, 2**32 - 1)))
    found = []
    for k in range(3):
        made = document(r, r.randrange(8, 20), timed=1.0) | {"trace_id": f"t{k}"}
        latest: dict[str, str] = {}
        edges = [edge for edge in made["edges"] if r.random() < 0.25]
        for event in made["events"]:
            event["duration_s"] = r.randrange(1, 12) / 4
            event.pop("t_end", None)
            if event["type"] == "human_intervention" or r.random() < 0.3:
                event["type"] = r.choice(["message", "tool_result"])
            if event["type"] == "tool_result" and r.random() < 0.8:
                event["tool"] = r.choice(["search", "run"])
            event["agent"] = r.choice(["lead", "ann", "bob"])
            before = latest.get(event["agent"])
            if before is not None and r.random() < 0.8:
                edges.append({"src": before, "dst": event["id"], "type": "temporal"})
            latest[event["agent"]] = event["id"]
        place = {event["id"]: n for n, event in enumerate(made["events"])}
        made["edges"] = [edge for edge in edges if place[edge["src"]] < place[edge["dst"]]]
        found.append(made)
    return found, draw(st.sampled_from(BASES))


@pytest.mark.parametrize(
    "first", [[], *([kind] for kind in KINDS), ["merge", "merge"], ["split", "merge"]], ids=str
)
@QUICK
@given(data=st.data())
def test_replays_are_those_of_plain_python(first: list[str], data: st.DataObject) -> None:
    documents, basis = data.draw(
        st.one_of(recordings(), busy_recordings()) if not first else busy_recordings()
    )
    corpus = read(documents, basis)
    durations = data.draw(st.sampled_from(["auto", "auto", "auto", "gap", "explicit"]))
    program_order = data.draw(st.booleans())
    max_gap = data.draw(st.sampled_from(["auto", None, 0.0, 0.75, 2.0]))
    scenario, intervention = any_scenario(data.draw, documents, first)
    found = replay_schedule(
        corpus, [intervention], durations=durations, max_gap=max_gap, program_order=program_order
    )
    assert found.columns == list(REPLAYS) and found.height == len(documents)
    for row, one in zip(found.iter_rows(named=True), documents, strict=True):
        trace = Trace(one)
        place = (row, scenario, one)
        if trace.topological(trace.weights(program_order)) is None:
            assert (row["makespan_cf"], row["reason"], row["tier"]) == (None, "graph.cycle", None), place
            continue
        timed = Timed(trace, basis, durations, scenario.release, program_order, max_gap)
        if timed.absent:
            assert (row["makespan_cf"], row["reason"]) == (None, "field.absent"), place
            continue
        assert row["makespan"] == Schedule(timed, Scenario(release=scenario.release)).run().makespan, place
        assert row["makespan_cf"] == Schedule(timed, scenario).run().makespan, place
        assert row["tier"] == "schedule" and row["support"] == timed.support, place
        assert (row["reason"] == "time.steps") == (timed.unit == "steps"), place
        assert row["outcome"] is row["effect"] is row["unit_id"] is None


@QUICK
@given(data=st.data())
def test_times_of_events_are_those_of_plain_python(data: st.DataObject) -> None:
    documents, basis = data.draw(recordings())
    corpus = read(documents, basis)
    options = {
        "pool": data.draw(st.sampled_from(["all", "agents", "tools"])),
        "queue": data.draw(st.sampled_from(["recorded", "critical_path"])),
        "release": data.draw(st.sampled_from(["none", "recorded"])),
    }
    slots = data.draw(st.sampled_from([None, 1, 2, 4]))
    found = ot.schedules.simulate(corpus, slots=slots, **options)  # type: ignore[arg-type]
    for one, rows in zip(documents, found.partition_by("trace", maintain_order=True), strict=True):
        trace = Trace(one)
        timed = Timed(trace, basis, "auto", options["release"])
        result = Schedule(timed, Scenario(slots=slots, **options)).run()
        assert rows["start"].to_list() == result.start
        assert rows["finish"].to_list() == result.finish
        assert rows["duration"].to_list() == timed.d
        assert rows["unit"].unique().to_list() == [timed.unit]
        free = Schedule(timed, Scenario(release=options["release"])).run()
        late = {}
        for v in reversed(trace.topological(trace.weights()) or []):
            after = [late[w] - timed.d[w] for u, w in trace.edges if u == v]
            late[v] = min(after, default=free.makespan)
        assert rows["slack"].to_list() == [late[v] - free.finish[v] for v in range(len(trace))]
        path = rows.filter("critical")
        assert path["slack"].sum() == 0 and path.height
        if options["release"] == "none":
            assert path["duration"].sum() == free.makespan  # criticality shares sum to the span


@QUICK
@given(data=st.data(), k=st.integers(1, 6), queue=st.sampled_from(["recorded", "critical_path"]))
def test_bounds_hold_and_the_span_is_that_of_networkx(data: st.DataObject, k: int, queue: Any) -> None:
    documents, basis = data.draw(recordings())
    corpus = read(documents, basis)
    pool: Any = data.draw(st.sampled_from(["all", "agents", "tools"]))
    curve = ot.schedules.scaling_curve(corpus, slots=[1, k, None], pool=pool, queue=queue)
    assert ((curve["lower"] <= curve["makespan"]) & (curve["makespan"] <= curve["upper"] + 1e-9)).all()
    for one, rows in zip(documents, curve.partition_by("trace", maintain_order=True), strict=True):
        trace = Trace(one)
        timed = Timed(trace, basis, "auto", "none")
        graph = nx.DiGraph()
        graph.add_node("end")
        for v in range(len(trace)):
            graph.add_edge(v, "end", weight=timed.d[v])
        for u, v in trace.edges:
            graph.add_edge(u, v, weight=timed.d[u])
        span = nx.dag_longest_path_length(graph, weight="weight")
        assert rows["span"].to_list() == [span] * 3 and rows["makespan"][2] == span
        assert rows["work"].to_list() == [sum(timed.d)] * 3
        assert rows["k"].to_list() == [1, k, None]
        if pool == "all":
            assert rows["makespan"][0] == sum(timed.d)
            work, tk = rows["work"][1], rows["makespan"][1]
            assert max(work / k, span) <= tk <= work / k + span * (1 - 1 / k) + 1e-9
            if tk:
                assert rows["utilization"][1] == pytest.approx(work / (k * tk), abs=1e-12)
                assert rows["speedup"][1] == pytest.approx(work / tk, abs=1e-12)
            assert rows["cost"][1] == k * tk and rows["cost"][2] is None
            assert any(kind is None for kind in timed.aside) <= rows["peak"][1] <= k


@QUICK
@given(found=recordings(acyclic=False), durations=st.sampled_from(["auto", "gap"]))
def test_the_identity_returns_every_recorded_time(found: tuple[list[Document], str], durations: Any) -> None:
    documents, basis = found
    table = ot.schedules.simulate(read(documents, basis), release="recorded", durations=durations)
    for one, rows in zip(documents, table.partition_by("trace", maintain_order=True), strict=True):
        trace = Trace(one)
        if trace.topological(trace.weights()) is None:
            assert set(rows["reason"]) == {"graph.cycle"} and rows["finish"].is_null().all()
            continue
        timed = Timed(trace, basis, durations, "recorded")
        if all(timed.end[u] <= timed.end[v] for u, v in trace.edges):
            assert rows["finish"].to_list() == [end - timed.origin for end in timed.end]


@QUICK
@given(data=st.data())
def test_speeding_what_has_slack_changes_nothing(data: st.DataObject) -> None:
    documents, basis = data.draw(recordings())
    corpus = read(documents[:1], basis)
    times = ot.schedules.simulate(corpus).with_columns(
        saved=pl.col("duration") / 2, id=pl.Series([event["id"] for event in documents[0]["events"]])
    )
    # Half as fast takes its duration once more.
    idle = times.filter(pl.col("duration") <= pl.col("slack"))
    slow = [ot.interventions.speed_up(0.5, event=name) for name in idle["id"]]
    fast = [ot.interventions.speed_up(2, event=name) for name in times.filter(pl.col("slack") > 0)["id"]]
    if slow or fast:
        found = replay_schedule(corpus, [*slow, *fast])
        assert found["makespan_cf"].to_list() == found["makespan"].to_list()
