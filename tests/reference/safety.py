"""Taint of a recording with NetworkX, from the definition D17 alone."""

from itertools import combinations
from typing import Any

import networkx as nx

from reference.trace import Trace

ACTIONS = ("orchestrator_decision", "spawn", "tool_call")


class Flow:
    """Where untrusted content goes in a trace, under one set of rules."""

    def __init__(
        self,
        trace: Trace,
        carry: str = "all",
        untrusted_tools: tuple[str, ...] = (),
        allow: tuple[str, ...] = (),
        program_order: bool = False,
        trusted_tools: tuple[str, ...] = (),
        privileged_tools: tuple[str, ...] = (),
    ) -> None:
        self.trace, self.privileged_tools = trace, privileged_tools
        self.events = trace.events
        n = len(trace)
        edges = trace.weights(program_order)
        self.whole = nx.DiGraph()
        self.whole.add_nodes_from(range(n))
        self.whole.add_edges_from(edges)
        self.acyclic = nx.is_directed_acyclic_graph(self.whole)
        self.told = any(e["trusted"] is not None for e in self.events) or bool(
            untrusted_tools or trusted_tools
        )
        begins = {v for v in range(n) if self.begins(v, untrusted_tools, trusted_tools)}
        self.barriers = {v for v in range(n) if self.stops(v, allow)}
        self.begins_anywhere, self.seeds = begins, begins - self.barriers
        self.graph = nx.DiGraph()
        self.graph.add_nodes_from(range(n))
        for u, v in edges:
            kinds = trace.edges.get((u, v), ["temporal"])  # the others are those of program order
            carried = {
                "all": any(kind != "temporal" for kind in kinds),
                "context": True,
                "safety_flow": "safety_flow" in kinds,
            }
            if carried[carry]:
                self.graph.add_edge(u, v)
        clean = self.graph.copy()
        clean.remove_nodes_from(self.barriers)
        reached = set(self.seeds)
        for seed in self.seeds:
            reached |= nx.descendants(clean, seed)
        self.tainted = reached
        self.inside = clean.subgraph(reached)
        y = trace.outcome
        sinks = {v for v in range(n) if self.whole.out_degree(v) == 0}
        self.ends = set() if trace.unknown else {y} if y is not None else sinks

    def begins(self, v: int, untrusted: tuple[str, ...], trusted: tuple[str, ...]) -> bool:
        event = self.events[v]
        tool = event["tool"] if event["tool"] is not None else event["agent"]
        if event["type"] == "tool_result" and tool in untrusted + trusted:
            return tool in untrusted
        return event["trusted"] is False

    def privileged(self, v: int) -> bool:
        event = self.events[v]
        known = event["privileged"] is True or event["tool"] in self.privileged_tools
        return event["type"] == "tool_call" and known

    def stops(self, v: int, allow: tuple[str, ...]) -> bool:
        event = self.events[v]
        stopped = event["sanitizer"] is True or event["type"] == "human_intervention"
        return stopped or self.trace.owner[v] in allow

    @property
    def reached(self) -> bool:
        return bool(self.ends & self.tainted)

    def seeds_to_outcome(self) -> int:
        leading = set(self.ends & self.tainted)
        for end in self.ends & self.tainted:
            leading |= nx.ancestors(self.inside, end)
        return len(self.seeds & leading)

    def hops(self) -> dict[int, int]:
        """Of every tainted event the edges from the nearest seed."""
        if not self.seeds:
            return {}
        found: dict[int, int] = nx.multi_source_dijkstra_path_length(self.inside, self.seeds, weight=None)
        return found

    def first(self, *kinds: str) -> int | None:
        """First tainted event of these types; of calls only privileged ones."""
        for v in self.trace.order:
            event = self.events[v]
            counts = event["type"] != "tool_call" or self.privileged(v)
            if v in self.tainted and event["type"] in kinds and counts:
                return v
        return None

    def first_agent(self) -> int | None:
        """First tainted event that is no seed and that an agent owns."""
        for v in self.trace.order:
            if v in self.tainted - self.seeds and self.trace.owner[v] is not None:
                return v
        return None

    def after(self, v: int | None) -> float | None:
        if v is None:
            return None
        seed = next(u for u in self.trace.order if u in self.seeds)
        return float(self.events[v]["t"]) - float(self.events[seed]["t"])

    def violations(self) -> int | None:
        if all(event["sandbox_id"] is None for event in self.events):
            return None
        owner, events = self.trace.owner, self.events
        return sum(
            events[u]["sandbox_id"] is not None
            and events[u]["sandbox_id"] == events[v]["sandbox_id"]
            and None not in (owner[u], owner[v])
            and owner[u] != owner[v]
            for u, v in self.inside.edges
        )

    def crossings(self) -> int | None:
        if all(event["sandbox_id"] is None for event in self.events):
            return None
        pairs = [(self.events[u]["sandbox_id"], self.events[v]["sandbox_id"]) for u, v in self.inside.edges]
        return sum(None not in pair and pair[0] != pair[1] for pair in pairs)

    def chances(self, t: float, leak: float) -> list[float]:
        p = [0.0] * len(self.events)
        for v in nx.topological_sort(self.whole):
            clean = 0.0 if v in self.begins_anywhere else 1.0
            for u in self.graph.predecessors(v):
                clean *= 1 - t * p[u]
            p[v] = (1 - clean) * (leak if v in self.barriers else 1.0)
        return p

    def chance_of_outcome(self, p: list[float]) -> float:
        clean = 1.0
        for v in self.ends:
            clean *= 1 - p[v]
        return 1 - clean

    def network(self) -> nx.DiGraph:
        """Tainted events between a source and a sink, which is the outcome where it is an event."""
        made = nx.DiGraph(self.inside.edges)
        made.add_nodes_from(["source", "sink"])
        made.add_edges_from(("source", seed) for seed in self.seeds)
        if self.trace.outcome is not None:
            return nx.relabel_nodes(made, {self.trace.outcome: "sink"})
        made.add_edges_from((v, "sink") for v in self.ends & self.tainted)
        return made

    def cut_size(self) -> int:
        """Vertices of a minimum cut, of a trace whose outcome is tainted and no seed."""
        return len(nx.minimum_node_cut(self.network(), "source", "sink"))

    def cut_cost(self, costs: list[float]) -> float:
        """What the cheapest cut costs."""
        split = nx.DiGraph()
        for v in self.network().nodes:
            limit = {} if v in ("source", "sink") else {"capacity": costs[v]}
            split.add_edge((v, "in"), (v, "out"), **limit)
        split.add_edges_from(((u, "out"), (v, "in")) for u, v in self.network().edges)
        value: float = nx.minimum_cut_value(split, ("source", "in"), ("sink", "out"))
        return value

    def before_cut(self, cut: set[int]) -> set[Any]:
        """What is reached from the source without passing a cut."""
        left = self.network()
        left.remove_nodes_from(cut)
        return nx.descendants(left, "source")

    def nearest_cut(self, size: int) -> set[int]:
        """Of all cuts of a size the one before which least is reached; all of them are tried."""
        events = [v for v in self.network().nodes if v not in ("source", "sink")]
        cuts = [set(one) for one in combinations(events, size) if "sink" not in self.before_cut(set(one))]
        return min(cuts, key=lambda cut: len(self.before_cut(cut)))
