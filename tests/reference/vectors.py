"""Attack vectors of a recording with NetworkX, from the definition D40 alone."""

import re

import networkx as nx

from reference.safety import Flow

VECTORS = ["AV1", "AV2", "AV3", "AV4", "AV5", "AV6", "AV7", "AV8"]
ENTRIES = {"AV1": "user", "AV2": "tool", "AV3": "agent", "AV4": "memory"}
JUDGES = {"critic", "evaluator", "grader", "judge", "reviewer", "scorer", "verifier"}
JUDGES |= {f"{word}s" for word in JUDGES}


def words(name: str) -> set[str]:
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return {word.lower() for word in re.split(r"[^A-Za-z]+", parted)}


class Vectors:
    """What a closure shows of the vectors."""

    def __init__(
        self,
        flow: Flow,
        memory_tools: tuple[str, ...] = (),
        verifiers: tuple[str, ...] = (),
        whole: nx.DiGraph | None = None,
    ) -> None:
        self.whole = flow.whole if whole is None else whole
        self.flow, self.trace, self.inside = flow, flow.trace, flow.inside
        self.events = flow.events
        self.memory_tools, self.verifiers = memory_tools, verifiers
        self.crossing = {
            (u, v)
            for u, v in self.inside.edges
            if None not in (self.events[u]["sandbox_id"], self.events[v]["sandbox_id"])
            and self.events[u]["sandbox_id"] != self.events[v]["sandbox_id"]
        }

    def judges(self, v: int) -> bool:
        event, owner = self.events[v], self.trace.owner[v]
        if owner is None:
            by_scorer = self.trace.outside.get(event["agent"]) == "scorer"
            return by_scorer and event["type"] != "human_intervention"
        role = self.trace.role[owner]
        return owner in self.verifiers or bool(words(owner if role is None else role) & JUDGES)

    def is_memory(self, name: str) -> bool:
        return name in self.memory_tools or bool(words(name) & {"memory", "memories"})

    def channel(self, v: int) -> str | None:
        event = self.events[v]
        name = event["agent"] if event["tool"] is None else event["tool"]
        kind = self.trace.outside.get(event["agent"])
        if event["type"] == "tool_result" and event["tool"] is None:
            calls = [self.events[u] for u in self.whole.predecessors(v)]
            answered = {call["tool"] for call in calls if call["type"] == "tool_call"} - {None}
            if any(self.is_memory(tool) for tool in answered):
                return "memory"
        if self.is_memory(name):
            return "memory"
        if kind in ("user", "scorer"):
            return "user" if kind == "user" else "verifier"
        if self.trace.owner[v] is None or event["type"] == "tool_result":
            return "tool"
        if event["type"] in ("message", "return", "aggregate"):
            return "verifier" if self.judges(v) else "agent"
        return None

    def begun(self, vector: str) -> set[int]:
        """Seeds of a channel."""
        return {seed for seed in self.flow.seeds if self.channel(seed) == ENTRIES[vector]}

    def shown(self, vector: str) -> set[int]:
        """The events that show a vector."""
        if vector in ENTRIES:
            return {v for seed in self.begun(vector) for v in nx.descendants(self.inside, seed)}
        return {
            v
            for v in self.flow.tainted
            if self.inside.in_degree(v)
            and (
                (vector == "AV5" and self.flow.privileged(v))
                or (vector == "AV6" and self.events[v]["type"] in ("orchestrator_decision", "spawn"))
                or (vector == "AV7" and self.judges(v))
                or (vector == "AV8" and any(v == head for _, head in self.crossing))
            )
        }

    def leading(self, vector: str) -> set[int]:
        """The seeds that lead there."""
        if vector in ENTRIES:
            return {seed for seed in self.begun(vector) if self.inside.out_degree(seed)}
        if vector == "AV8":
            tails = {u for u, _ in self.crossing}
            return {s for s in self.flow.seeds if tails & ({s} | nx.descendants(self.inside, s))}
        return {s for s in self.flow.seeds if self.shown(vector) & nx.descendants(self.inside, s)}

    def known(self, vector: str) -> bool:
        def recorded(field: str) -> bool:
            return any(event[field] is not None for event in self.events)

        if vector in ENTRIES:
            lost = [s for s in self.flow.seeds if self.channel(s) is None and self.inside.out_degree(s)]
            return bool(self.shown(vector)) or not lost
        return {
            "AV5": recorded("privileged") or bool(self.flow.privileged_tools),
            "AV6": True,
            "AV7": any(map(self.judges, range(len(self.events)))),
            "AV8": recorded("sandbox_id"),
        }[vector]

    def steps(self, vector: str, end: int) -> int:
        """Edges of a shortest way to an event that shows a vector; at least one for AV1 to AV4 and AV8."""
        if vector in ENTRIES:
            begun = [s for s in self.begun(vector) if s != end and nx.has_path(self.inside, s, end)]
            return min(nx.shortest_path_length(self.inside, seed, end) for seed in begun)
        hops = self.flow.hops()
        if vector == "AV8":
            return 1 + min(hops[u] for u, v in self.crossing if v == end)
        return 1 + min(hops[u] for u in self.inside.predecessors(end))

    def end(self, vector: str) -> set[int]:
        """Where the way of a vector may end."""
        shown = self.shown(vector)
        reached = self.flow.ends & shown if vector in ENTRIES else set()
        if reached:
            nearest = min(self.steps(vector, v) for v in reached)
            return {v for v in reached if self.steps(vector, v) == nearest}
        return {next(v for v in self.trace.order if v in shown)}
