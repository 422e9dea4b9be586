"""The graph of one trace in plain Python, which shows where a number came from.

Definitions: docs/reference/definitions.md, D3 and D12.

Linear in events and edges. What computes credit is the core; tests hold this to it.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

from ..base.schema import TYPE_WEIGHTS
from ..corpus.units import TraceEvents
from ..decisions.rows import DECISIONS

_TEXT: Final = {
    "message",
    "return",
    "tool_call",
    "tool_result",
    "human_intervention",
    "orchestrator_decision",
    "aggregate",
}
_SPEECH: Final = {"message", "return", "human_intervention"}
_UNDECIDED: Final = 0.25  # an input of all the weight fails with this probability

# Gauss-Legendre rule of eight points, from [-1, 1] to [0, 1]; exact for gates of up to sixteen inputs
_HALF_NODES: Final = (0.1834346424956498, 0.5255324099163290, 0.7966664774136267, 0.9602898564975363)
_HALF_WEIGHTS: Final = (0.3626837833783620, 0.3137066458778873, 0.2223810344533745, 0.1012285362903763)
_RULE: Final = tuple(
    ((1 + side * node) / 2, weight / 2)
    for node, weight in zip(_HALF_NODES, _HALF_WEIGHTS, strict=True)
    for side in (-1, 1)
)


@dataclass(frozen=True)
class TraceGraph:
    """Merged edges of a trace, by their later end, and a topological order."""

    predecessors: list[dict[int, float]]
    successors: list[list[int]]
    order: list[int]

    @property
    def sinks(self) -> list[int]:
        """Events that lead nowhere."""
        return [v for v, after in enumerate(self.successors) if not after]


def trace_graph(
    trace: TraceEvents,
    *,
    program_order: bool = False,
    weights: Sequence[float] | None = None,
    further: Sequence[tuple[int, int]] = (),
) -> TraceGraph | None:
    """The graph of a trace, each edge with the sum of the weights of its types; None if it has a cycle.

    Edges that are `further` are temporal, where no other joins the two.
    """
    weight_of = dict(zip(TYPE_WEIGHTS, weights, strict=True)) if weights is not None else TYPE_WEIGHTS
    predecessors: list[dict[int, float]] = [{} for _ in trace.order]
    for s, d, kind in trace.edges:
        predecessors[d][s] = predecessors[d].get(s, 0.0) + weight_of[kind]
    if program_order:
        latest: dict[str, int] = {}
        added = []
        for v in trace.order:
            owner = trace.owner[v]
            if owner is None:
                continue
            u = latest.get(owner)
            if u is not None and u not in predecessors[v] and v not in predecessors[u]:
                added.append((u, v))
            latest[owner] = v
        for u, v in added:
            predecessors[v][u] = weight_of["temporal"]
    for u, v in further:
        predecessors[v].setdefault(u, weight_of["temporal"])
    successors: list[list[int]] = [[] for _ in trace.order]
    for v, before in enumerate(predecessors):
        for u in before:
            successors[u].append(v)
    left = [len(before) for before in predecessors]
    order = [v for v, n in enumerate(left) if n == 0]
    for v in order:
        for w in successors[v]:
            left[w] -= 1
            if left[w] == 0:
                order.append(w)
    return TraceGraph(predecessors, successors, order) if len(order) == len(left) else None


def flow_weights(
    trace: TraceEvents, graph: TraceGraph, kernel: str, tau: float | None
) -> list[dict[int, float]]:
    """What each event divides among its predecessors by (D12); nothing where nothing comes in."""
    t = [trace.number("t", v) or 0.0 for v in range(len(trace))]
    if kernel == "time_decay":
        tau = (max(t) - min(t)) / 10 if tau is None else tau
    if kernel == "uniform" or (kernel == "time_decay" and not tau):
        return [dict.fromkeys(before, 1.0) for before in graph.predecessors]
    if kernel == "edge_type":
        return graph.predecessors
    if kernel == "time_decay":
        gaps = [{u: max(t[v] - t[u], 0.0) for u in before} for v, before in enumerate(graph.predecessors)]
        return [
            {u: math.exp((min(near.values()) - gap) / (tau or 1.0)) for u, gap in near.items()}
            for near in gaps
        ]
    contributions = _contributions(trace, graph)
    return contributions if kernel == "lrp" else [_shapley(z) for z in contributions]


def _contributions(trace: TraceEvents, graph: TraceGraph) -> list[dict[int, float]]:
    """z = w x of every edge under the structural surrogate, recorded scores in place of what gates make."""
    x = [1.0] * len(trace)
    z: list[dict[int, float]] = [{} for _ in range(len(trace))]
    for v in graph.order:
        before = graph.predecessors[v]
        total = math.fsum(before.values())
        if total > 0:
            w = {u: 1.0 - _UNDECIDED ** (weight / total) for u, weight in before.items()}
            z[v] = {u: w[u] * x[u] for u in before}
            x[v] = (1.0 - math.prod(1.0 - part for part in z[v].values())) / (1.0 - _UNDECIDED)
        score = trace.number("score", v)
        if score is not None:
            x[v] = min(max(score, 0.0), 1.0)
    return z


def _shapley(z: dict[int, float]) -> dict[int, float]:
    """Shapley values of the inputs of a noisy-or gate: integral of the multilinear extension (Owen 1972)."""
    if len(z) < 2:
        return z
    products = [weight * math.prod(1.0 - t * part for part in z.values()) for t, weight in _RULE]
    return {
        u: part * math.fsum(p / (1.0 - t * part) for (t, _), p in zip(_RULE, products, strict=True))
        for u, part in z.items()
    }


def received(
    graph: TraceGraph,
    outcome: int | None,
    amount: float,
    weights: list[dict[int, float]],
    *,
    sent: float,
    epsilon: float,
) -> tuple[list[float], list[dict[int, float]]]:
    """What every event receives, and by which successor: ``[event][successor]``."""
    credit = [0.0] * len(weights)
    ends = [outcome] if outcome is not None else graph.sinks
    for v in ends:
        credit[v] = amount / len(ends)
    by_edge: list[dict[int, float]] = [{} for _ in weights]
    for v in reversed(graph.order):
        total = math.fsum(weights[v].values())
        if credit[v] == 0.0 or total <= 0.0:
            continue
        for u, weight in weights[v].items():
            by_edge[u][v] = credit[v] * sent * weight / (total + epsilon)
            credit[u] += by_edge[u][v]
    return credit, by_edge


def act(trace: TraceEvents, v: int) -> Hashable | None:
    """What an event does: type, addressee, tool, text. None where it has a text and no key tells which."""
    kind = trace.columns["type"][v]
    first = "args_hash" if kind == "tool_call" else "content_hash"
    key = trace.text(first, v) or trace.text("content_ref", v)
    if key is None and kind in _TEXT:
        return None
    return kind, trace.text("to", v), trace.text("tool", v), key


def is_decision(trace: TraceEvents, v: int) -> bool:
    """Whether an event is a choice of somebody that can be compared with others."""
    return trace.owner[v] is not None and trace.columns["type"][v] in DECISIONS


def heard(trace: TraceEvents) -> list[tuple[int, int]]:
    """Edges from what agents were told, or may have been told, to the event at which they heard it.

    The rule is that of `contexts`; repeats of recorded edges are left out.
    """
    kinds, owner = trace.columns["type"], trace.owner
    agents = {name for name in owner if name is not None}
    only = next(iter(agents)) if len(agents) == 1 else None
    to_other: set[int] = set()
    to_agent: set[int] = set()
    reached: set[tuple[int, str]] = set()
    for s, d, _ in trace.edges:
        own = owner[d]
        if trace.text("agent", s) == trace.text("agent", d) or (own is not None and own == owner[s]):
            continue
        to_other.add(s)
        if own is not None:
            to_agent.add(s)
            reached.add((s, own))
    addressee: list[str | None] = []
    for v in range(len(trace)):
        to = trace.text("to", v)
        if to is None and owner[v] is None and kinds[v] in _SPEECH:
            to = only
        addressee.append(to if to in agents and to != owner[v] else None)
    like = [(kinds[v], owner[v] is None) for v in range(len(trace))]
    told = {like[v] for v in range(len(trace)) if addressee[v] is not None or v in to_agent}
    following: dict[str, int] = {}
    found = []
    for v in reversed(trace.order):
        to = addressee[v]
        if to is not None and to in following and (v, to) not in reached:
            found.append((v, following[to]))
        own = owner[v]
        if own is not None:
            following[own] = v
    latest: int | None = None
    known: dict[str, int | None] = {}
    for v in trace.order if only is None else ():
        own = owner[v]
        is_open = (
            kinds[v] in _SPEECH and trace.text("to", v) is None and v not in to_other and like[v] not in told
        )
        if latest is not None and (is_open or (own is not None and known.get(own) != latest)):
            found.append((latest, v))
        if is_open and agents:
            latest = v
        if own is not None:
            known[own] = latest
    return found


def contexts(trace: TraceEvents, task: str, names: dict[Hashable, int]) -> list[Hashable | None] | None:
    """Class of the causal history of every event, None where it is unknown; None for a trace with a cycle.

    `names` numbers the classes and is shared by the traces that are compared.
    """
    graph = trace_graph(trace, program_order=True, further=heard(trace))
    if graph is None:
        return None
    found: list[Hashable | None] = [None] * len(trace)
    nodes: list[int | None] = [None] * len(trace)
    for v in graph.order:
        before = [nodes[u] for u in graph.predecessors[v]]
        known = [node for node in before if node is not None]
        if len(known) < len(before):
            continue
        context = names.setdefault(("context", task, tuple(sorted(known))), len(names))
        found[v] = context
        done = act(trace, v)
        if done is not None:
            agent = trace.text("agent", v)
            nodes[v] = names.setdefault(("node", done, agent, context), len(names))
    return found


def shape(trace: TraceEvents, *, program_order: bool) -> Hashable | None:
    """The key of similar traces (D13): sizes as powers of two, and the depth. None with a cycle."""
    graph = trace_graph(trace, program_order=program_order)
    if graph is None:
        return None
    depth = [0] * len(trace)
    for v in graph.order:
        depth[v] = max((depth[u] + 1 for u in graph.predecessors[v]), default=0)
    layers = Counter(depth)  # none is empty: each event stands one below some event
    agents = len({owner for owner in trace.owner if owner is not None})
    return (
        len(trace).bit_length(),
        len(layers),
        max(layers.values(), default=0).bit_length(),
        agents.bit_length(),
    )
