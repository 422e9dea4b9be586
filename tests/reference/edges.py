"""What flows over each edge of a trace, in plain Python (D3, D12)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from orchestrace.corpus.units import TraceEvents
from reference.trace import EDGE_WEIGHTS

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
    trace: TraceEvents, *, program_order: bool = False, weights: Sequence[float] | None = None
) -> TraceGraph | None:
    """The graph of a trace, each edge with the sum of the weights of its types; None if it has a cycle."""
    weight_of = dict(zip(EDGE_WEIGHTS, weights, strict=True)) if weights is not None else EDGE_WEIGHTS
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
