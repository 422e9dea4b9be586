"""Ways to the conserving backward flow of `orchestrace.credit(method="flow", kernel="edge_type")`.

All begin with the columns of the tables in memory, `src` and `dst` being rows within their trace, and return
one credit for each event. Building the graph is part of the work. orchestrace and Numba also find the outcome
event of every trace; the others are given it. orchestrace also finds the rewards among the measures, checks
that the credits of a trace sum to its reward, and makes the whole frame of credits; the others are given the
reward of each trace and return an array. The triangular solve is given an order of events.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import polars as pl

import orchestrace as ot

RETENTION = 0.1
WEIGHTS = {
    "temporal": 0.2,
    "causal": 1.0,
    "spawn": 0.5,
    "message": 0.7,
    "tool_dependency": 0.9,
    "return": 1.0,
    "aggregate": 1.2,
    "safety_flow": 0.3,
}
REWARD = "team"


@dataclass(frozen=True)
class Columns:
    """A corpus, its columns in arrays, and what some peers are given."""

    corpus: ot.Corpus
    n_events: np.ndarray
    """Events of each trace."""
    n_edges: np.ndarray
    t: np.ndarray
    type: np.ndarray
    """Code of the event's type."""
    agent: np.ndarray
    """Code of the event's agent."""
    types: dict[str, int]
    """Codes of the event types."""
    src: np.ndarray
    dst: np.ndarray
    kind: np.ndarray
    """Code of the edge's type, which is its place in `WEIGHTS`."""
    weights: np.ndarray
    reward: np.ndarray
    """Reward of each trace; 0 where none was recorded."""
    outcome: np.ndarray
    """Outcome event of each trace, by its row within the trace."""
    order: np.ndarray
    """Events, by their rows among all events, in an order in which every edge leads forward."""


def columns(corpus: ot.Corpus) -> Columns:
    """The arrays of a corpus."""
    traces = corpus.traces.select("trace", "n_events", "n_edges").collect()
    events = corpus.events.select("t", pl.col("type", "agent").to_physical()).collect()
    edges = corpus.edges.select("src", "dst", pl.col("type").to_physical()).collect()
    if corpus.edges.collect_schema()["type"].categories.to_list() != list(WEIGHTS):
        raise AssertionError("edge types in another order")
    types = corpus.events.collect_schema()["type"].categories.to_list()
    rewards = corpus.measures.filter(pl.col("kind").eq("reward"), pl.col("name").cast(pl.String).eq(REWARD))
    paid = traces.lazy().join(rewards, on="trace", how="left", maintain_order="left").collect()["value"]
    n_events, n_edges = traces["n_events"].to_numpy(), traces["n_edges"].to_numpy()
    src, dst = edges["src"].to_numpy(), edges["dst"].to_numpy()
    return Columns(
        corpus=corpus,
        n_events=n_events,
        n_edges=n_edges,
        t=events["t"].to_numpy(),
        type=events["type"].to_numpy(),
        agent=events["agent"].to_numpy(),
        types={word: code for code, word in enumerate(types)},
        src=src,
        dst=dst,
        kind=edges["type"].to_numpy(),
        weights=np.array(list(WEIGHTS.values())),
        reward=paid.fill_null(0.0).to_numpy(),
        outcome=_outcomes(corpus),
        order=_order(n_events, *_rows(n_events, n_edges, src, dst)),
    )


def _offsets(counts: np.ndarray) -> np.ndarray:
    """Where each trace begins, and the end."""
    return np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))


def _rows(
    n_events: np.ndarray, n_edges: np.ndarray, src: np.ndarray, dst: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Both ends of every edge as rows among all events."""
    base = np.repeat(_offsets(n_events)[:-1], n_edges)
    return src + base, dst + base


def _outcomes(corpus: ot.Corpus) -> np.ndarray:
    """The last aggregate or return of the root agent, who makes the first decision, else the first spawn."""
    events = corpus.events.select(
        "trace", "seq", "t", pl.col("type").cast(pl.String), pl.col("agent").cast(pl.String)
    ).sort("trace", "t", "seq")
    firsts = [
        events.filter(pl.col("type") == kind).unique("trace", keep="first", maintain_order=True)
        for kind in ("orchestrator_decision", "spawn")
    ]
    roots = pl.concat(firsts).unique("trace", keep="first", maintain_order=True)
    last = (
        events.join(roots.select("trace", root="agent"), on="trace", maintain_order="left")
        .filter(pl.col("type").is_in(["aggregate", "return"]), pl.col("agent") == pl.col("root"))
        .unique("trace", keep="last", maintain_order=True)
        .sort("trace")
        .collect()
    )
    if last.height != len(corpus):
        raise AssertionError("a generated trace whose root neither aggregates nor returns")
    return last["seq"].to_numpy()


def _order(n_events: np.ndarray, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """Level by level, sorted by trace and level."""
    n = int(n_events.sum())
    level = np.zeros(n, np.int64)
    while True:
        deeper = level.copy()
        np.maximum.at(deeper, dst, level[src] + 1)
        if (deeper == level).all():
            break
        if deeper.max() > n:
            raise AssertionError("a cycle")
        level = deeper
    return np.lexsort((level, np.repeat(np.arange(len(n_events)), n_events)))


def _orchestrace(data: Columns, threads: int | None) -> np.ndarray:
    credits = ot.credit(
        data.corpus, method="flow", unit="event", kernel="edge_type", reward=REWARD, threads=threads
    )
    return credits["credit"].fill_null(0.0).to_numpy()


@cache
def _kernel(decision: int, spawn: int, aggregate: int, returned: int) -> Callable[..., Any]:
    """Per trace: its outcome, predecessors by a counting sort, then a pass from the sinks (Kahn)."""
    from numba import njit, prange

    @njit
    def outcome_of(t, kind, agent):  # type: ignore[no-untyped-def]
        first_decision, first_spawn, of_root, of_any = -1, -1, -1, -1
        for v in range(len(t)):
            if kind[v] == decision and (first_decision < 0 or t[v] < t[first_decision]):
                first_decision = v
            elif kind[v] == spawn and (first_spawn < 0 or t[v] < t[first_spawn]):
                first_spawn = v
        root = agent[first_decision if first_decision >= 0 else first_spawn]
        for v in range(len(t)):
            if kind[v] != aggregate and kind[v] != returned:
                continue
            if agent[v] == root and (of_root < 0 or t[v] >= t[of_root]):
                of_root = v
            if kind[v] == aggregate and (of_any < 0 or t[v] >= t[of_any]):
                of_any = v
        return of_root if of_root >= 0 else of_any

    @njit(parallel=True)
    def flow(event_at, edge_at, t, type_, agent, src, dst, kind, weights, reward, retention):  # type: ignore[no-untyped-def]
        n = event_at[-1]
        kept, received, total = np.zeros(n), np.zeros(n), np.zeros(n)
        for trace in prange(len(reward)):
            base, end = event_at[trace], event_at[trace + 1]
            first, last = edge_at[trace], edge_at[trace + 1]
            m = end - base
            at, left = np.zeros(m + 2, np.uint32), np.zeros(m, np.uint32)
            for e in range(first, last):
                at[dst[e] + 2] += 1
                left[src[e]] += 1
            for v in range(2, m + 2):
                at[v] += at[v - 1]
            pred, weight = np.empty(last - first, np.uint32), np.empty(last - first)
            for e in range(first, last):
                v, w = dst[e], weights[kind[e]]
                pred[at[v + 1]] = src[e]
                weight[at[v + 1]] = w
                at[v + 1] += 1
                total[base + v] += w
            outcome = outcome_of(t[base:end], type_[base:end], agent[base:end])
            received[base + outcome] = reward[trace]
            stack, top = np.empty(m, np.uint32), 0
            for v in range(m):
                if left[v] == 0:
                    stack[top] = v
                    top += 1
            while top > 0:
                top -= 1
                v = stack[top]
                credit = received[base + v]
                if at[v] == at[v + 1]:
                    kept[base + v] = credit
                    continue
                kept[base + v] = retention * credit
                share = (1.0 - retention) * credit / total[base + v]
                for e in range(at[v], at[v + 1]):
                    u = pred[e]
                    received[base + u] += share * weight[e]
                    left[u] -= 1
                    if left[u] == 0:
                        stack[top] = u
                        top += 1
        return kept

    return flow


def _numba(data: Columns, threads: int | None) -> np.ndarray:
    words = ("orchestrator_decision", "spawn", "aggregate", "return")
    kernel = _kernel(*(data.types[word] for word in words))
    events = (data.t, data.type, data.agent)
    edges = (data.src, data.dst, data.kind, data.weights)
    return kernel(_offsets(data.n_events), _offsets(data.n_edges), *events, *edges, data.reward, RETENTION)


def _scipy(data: Columns, threads: int | None) -> np.ndarray:
    """(I - A) c = r for all traces at once: upper triangular in the order that is given."""
    from scipy.sparse import csr_array, eye_array
    from scipy.sparse.linalg import spsolve_triangular

    n = len(data.order)
    src, dst = _rows(data.n_events, data.n_edges, data.src, data.dst)
    place = np.empty(n, np.int64)
    place[data.order] = np.arange(n)
    weight = data.weights[data.kind]
    total = np.bincount(dst, weight, n)
    sent = (1.0 - RETENTION) * weight / total[dst]
    system = eye_array(n, format="csr") - csr_array((sent, (place[src], place[dst])), shape=(n, n))
    paid = np.zeros(n)
    paid[place[_offsets(data.n_events)[:-1] + data.outcome]] = data.reward
    credit = spsolve_triangular(system, paid, lower=False)[place]
    return np.where(total > 0.0, RETENTION * credit, credit)


def _rustworkx(data: Columns, threads: int | None) -> np.ndarray:
    """A graph for each trace, its order from the library, the pass in Python."""
    import rustworkx

    kept = np.zeros(len(data.order))
    weight = data.weights[data.kind]
    event_at, edge_at = _offsets(data.n_events).tolist(), _offsets(data.n_edges).tolist()
    for trace, outcome in enumerate(data.outcome.tolist()):
        base, n = event_at[trace], event_at[trace + 1] - event_at[trace]
        rows = slice(edge_at[trace], edge_at[trace + 1])
        graph = rustworkx.PyDiGraph()
        graph.add_nodes_from(range(n))
        ends = (data.src[rows].tolist(), data.dst[rows].tolist(), weight[rows].tolist())
        graph.add_edges_from(list(zip(*ends, strict=True)))
        received = [0.0] * n
        received[outcome] = float(data.reward[trace])
        for event in reversed(rustworkx.topological_sort(graph)):
            if not (credit := received[event]):
                continue
            if not (edges := graph.in_edges(event)):
                kept[base + event] = credit
                continue
            kept[base + event] = RETENTION * credit
            share = (1.0 - RETENTION) * credit / sum(w for _, _, w in edges)
            for before, _, w in edges:
                received[before] += share * w
    return kept


PEERS: dict[str, Callable[[Columns, int | None], np.ndarray]] = {
    "orchestrace": _orchestrace,
    "Numba, parallel over traces": _numba,
    "SciPy, triangular solve": _scipy,
    "rustworkx + Python": _rustworkx,
}
"""Ours first. The first call of Numba compiles; the round of warm-up takes it."""
