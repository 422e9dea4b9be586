"""Shapley values of agents beside Numba and shapiq: the same games, in the same run.

    python benches/python/game_peers.py [--games 20] [--orders 16] [--rounds 5] [--threads N]
    python benches/python/game_peers.py --large

A game is a generated trace: agents switch their events on and off, every event is a noisy-or of its
predecessors with given weights, the outcome event says what a set of agents is worth. `exact`: all sets
of 8 to 12 agents. `drawn`: random orders of 90 to 400 agents, with orchestrace once evaluating every gate
for every agent that joins, once only those behind it. orchestrace begins with the recordings and makes
the frame of credits, finding agents, graph and outcome; the others are given compressed rows, orders and
players, and return one array. Numba's loop is scalar and runs over all sets, or orders, in parallel; its
compilation is left out. shapiq asks a function that evaluates all of its sets side by side in NumPy.
Exact values must be equal to 1e-9, totals of drawn ones too: each order adds up to v(N) - v(nobody).

`--large` says what 1,000 orders of the 300 agents of one trace of 4,000 events take, with standard
errors.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

import numba
import numpy as np
import polars as pl
import shapiq

import orchestrace as ot
from orchestrace.base.schema import TYPE_WEIGHTS
from orchestrace.corpus.units import TracesByNumber

LEAST_MS = 100.0
"""How long a peer is asked again in a round. The first call after another peer has had the caches takes up to
twice as long as the next ones, and of a call of milliseconds no other would be seen."""
WEIGHTS = {name: 0.3 * weight for name, weight in TYPE_WEIGHTS.items()}


@dataclass(frozen=True)
class Game:
    """Gates in topological order; `player` is -1 where an event is always there."""

    n: int
    begins: np.ndarray
    inputs: np.ndarray
    weights: np.ndarray
    player: np.ndarray
    last: int


def games(count: int, least: int, most: int) -> tuple[ot.Corpus, list[Game]]:
    """Traces with so many agents beside the root, and their games as arrays."""
    corpus = ot.generate(preset="mixed", events=400_000, seed=1)
    agents = corpus.agents.filter(pl.col("kind") == "agent").group_by("trace").len()
    fitting = agents.filter(pl.col("len").is_between(least + 1, most + 1)).sort("trace").head(count)
    corpus = corpus.filter(pl.col("trace").is_in(fitting.select("trace").collect()["trace"].implode()))
    return corpus, [game(trace) for trace in traces_of(corpus)]


def traces_of(corpus: ot.Corpus) -> Iterable[Any]:
    known = TracesByNumber(corpus)
    for number in corpus.traces.select("trace").collect()["trace"]:
        yield known[number]


def game(trace: Any) -> Game:
    before: dict[int, dict[int, float]] = {v: {} for v in range(len(trace))}
    for u, v, kind in trace.edges:
        before[v][u] = before[v].get(u, 0.0) + WEIGHTS[kind]
    order = list(TopologicalSorter(before).static_order())
    y = trace.outcome
    assert y is not None
    place = {v: k for k, v in enumerate(order)}
    root = next(trace.owner[v] for v in trace.order if trace.columns["type"][v] == "orchestrator_decision")
    names = [name for name in dict.fromkeys(trace.owner[v] for v in trace.order) if name not in (None, root)]
    number = {name: k for k, name in enumerate(names)}
    inputs = [[(place[u], w) for u, w in before[v].items()] for v in order]
    flat = [pair for before in inputs for pair in before]
    return Game(
        n=len(names),
        begins=np.cumsum([0, *map(len, inputs)]).astype(np.int64),
        inputs=np.array([u for u, _ in flat], np.int64),
        weights=np.array([w for _, w in flat]),
        player=np.array([number.get(trace.owner[v], -1) for v in order], np.int64),
        last=place[y],
    )


@numba.njit  # type: ignore[untyped-decorator]
def _value(there, begins, inputs, weights, player, last, x):  # type: ignore[no-untyped-def]
    for v in range(last + 1):
        if player[v] >= 0 and not there[player[v]]:
            x[v] = 0.0
        elif begins[v] == begins[v + 1]:
            x[v] = 1.0
        else:
            fails = 1.0
            for e in range(begins[v], begins[v + 1]):
                fails *= 1.0 - weights[e] * x[inputs[e]]
            x[v] = 1.0 - fails
    return x[last]


@numba.njit(parallel=True)  # type: ignore[untyped-decorator]
def _exact(n, begins, inputs, weights, player, last):  # type: ignore[no-untyped-def]
    values = np.empty(1 << n)
    for s in numba.prange(1 << n):
        there, x = np.zeros(n, np.bool_), np.empty(last + 1)
        for p in range(n):
            there[p] = (s >> p) & 1
        values[s] = _value(there, begins, inputs, weights, player, last, x)
    share = np.empty(n)
    share[0] = 1.0 / n
    for size in range(1, n):
        share[size] = share[size - 1] * size / (n - size)
    credit = np.zeros(n)
    for s in range(1 << n):
        size = 0
        for p in range(n):
            size += (s >> p) & 1
        for p in range(n):
            if not (s >> p) & 1:
                credit[p] += share[size] * (values[s | (1 << p)] - values[s])
    return credit


@numba.njit(parallel=True)  # type: ignore[untyped-decorator]
def _drawn(orders, n, begins, inputs, weights, player, last):  # type: ignore[no-untyped-def]
    gains = np.zeros((len(orders), n))
    for k in numba.prange(len(orders)):
        there, x = np.zeros(n, np.bool_), np.empty(last + 1)
        before = _value(there, begins, inputs, weights, player, last, x)
        for p in orders[k]:
            there[p] = True
            value = _value(there, begins, inputs, weights, player, last, x)
            gains[k, p] = value - before
            before = value
    return gains


def in_numpy(game: Game) -> Callable[[np.ndarray], np.ndarray]:
    """The value of many sets side by side, as shapiq asks for it."""

    def value(sets: np.ndarray) -> np.ndarray:
        sets = np.atleast_2d(sets).astype(bool)
        x = np.ones((game.last + 1, len(sets)))
        for v in range(game.last + 1):
            from_, to = game.begins[v], game.begins[v + 1]
            if to > from_:
                x[v] = 1.0 - np.prod(1.0 - game.weights[from_:to, None] * x[game.inputs[from_:to]], axis=0)
            if game.player[v] >= 0:
                x[v] *= sets[:, game.player[v]]
        return x[game.last]

    return value


def ours(corpus: ot.Corpus, threads: int | None, **params: Any) -> np.ndarray:
    credits = ot.credit(
        corpus,
        method="shapley",
        unit="agent",
        weights=list(WEIGHTS.values()),
        players="no_root",
        threads=threads,
        **params,
    )
    return credits.filter(pl.col("credit").is_not_null(), pl.col("unit_id").is_not_null())[
        "credit"
    ].to_numpy()


def arguments(game: Game) -> tuple[Any, ...]:
    return game.n, game.begins, game.inputs, game.weights, game.player, game.last


def shapiq_exact(all_games: list[Game]) -> np.ndarray:
    found = []
    for one in all_games:
        values = shapiq.ExactComputer(game=in_numpy(one), n_players=one.n)("SV")
        found.extend(values[(p,)] for p in range(one.n))
    return np.array(found)


def shapiq_drawn(all_games: list[Game], orders: int) -> np.ndarray:
    found = []
    for one in all_games:
        sampler = shapiq.PermutationSamplingSV(n=one.n, random_state=1)
        values = sampler.approximate(budget=orders * (one.n + 1), game=in_numpy(one))
        found.extend(values[(p,)] for p in range(one.n))
    return np.array(found)


def tasks(options: argparse.Namespace) -> dict[str, dict[str, Callable[[], np.ndarray]]]:
    few, small = games(options.games, 8, 12)
    many, large = games(options.games, 90, 400)
    rng = np.random.default_rng(1)
    orders = [np.array([rng.permutation(one.n) for _ in range(options.orders)]) for one in large]
    drawn = {"samples": options.orders, "sampler": "permutation"}
    for corpus, listed in ((few, small), (many, large)):
        events = corpus.events.select(pl.len()).collect().item()
        least, most = min(one.n for one in listed), max(one.n for one in listed)
        print(f"{len(listed)} games of {least} to {most} agents, {events:,} events")
    return {
        "exact": {
            "orchestrace": lambda: ours(few, options.threads),
            "Numba": lambda: np.concatenate([_exact(*arguments(one)) for one in small]),
            "shapiq": lambda: shapiq_exact(small),
        },
        f"drawn, {options.orders} orders": {
            "orchestrace, full": lambda: ours(many, options.threads, evaluation="full", **drawn),
            "orchestrace, incremental": lambda: ours(
                many, options.threads, evaluation="incremental", **drawn
            ),
            "orchestrace, as it chooses": lambda: ours(many, options.threads, **drawn),
            "Numba": lambda: np.concatenate(
                [_drawn(o, *arguments(one)).mean(axis=0) for o, one in zip(orders, large, strict=True)]
            ),
            "shapiq": lambda: shapiq_drawn(large, options.orders),
        },
    }


def called(peer: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    """What a peer finds, and the median of its milliseconds."""
    walls: list[float] = []
    while sum(walls) < LEAST_MS:
        began = time.perf_counter()
        found = peer()
        walls.append((time.perf_counter() - began) * 1e3)
    return found, statistics.median(walls)


def compare(options: argparse.Namespace) -> None:
    print("\n| task | peer | ms (min-max) | beside the first |\n|---|---|---:|---:|")
    for task, peers in tasks(options).items():
        walls: dict[str, list[float]] = {name: [] for name in peers}
        for _ in range(options.rounds + 1):
            found = {}
            for name, peer in peers.items():
                found[name], median = called(peer)
                walls[name].append(median)
            first = next(iter(found.values()))
            for name, values in found.items():
                if task == "exact":
                    np.testing.assert_allclose(values, first, rtol=0, atol=1e-9)
                elif name != "shapiq":  # which spends what is left of its budget otherwise
                    np.testing.assert_allclose(values.sum(), first.sum(), rtol=0, atol=1e-9)
        own = statistics.median(next(iter(walls.values()))[1:])
        for name, wall in walls.items():
            last = wall[1:]
            median = statistics.median(last)
            spread = f"{median:.1f} ({min(last):.1f}-{max(last):.1f})"
            print(f"| {task} | {name} | {spread} | {median / own:.2f} |")


def large(options: argparse.Namespace) -> None:
    corpus = ot.generate(preset="deploy", events=2_000_000, seed=1)
    sizes = corpus.agents.filter(pl.col("kind") == "agent").group_by("trace").len()
    traces = corpus.traces.join(sizes, on="trace").with_columns(
        off=(pl.col("len") - 300).abs() * 4_000 / 300 + (pl.col("n_events") - 4_000).abs()
    )
    nearest = traces.sort("off").select("trace", "n_events", "len").head(1).collect()
    one = corpus.filter(pl.col("trace") == nearest["trace"][0])
    walls = []
    for _ in range(options.rounds):
        began = time.perf_counter()
        credits = ot.credit(one, method="shapley", unit="agent", samples=1_000, threads=options.threads)
        walls.append(time.perf_counter() - began)
    assert credits["stderr"].null_count() < credits.height
    print(
        f"{nearest['len'][0]} agents, {nearest['n_events'][0]:,} events, 1,000 orders: median"
        f" {statistics.median(walls):.2f} s of {options.rounds} ({min(walls):.2f}-{max(walls):.2f})"
    )


def main() -> None:
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=plain)
    parser.add_argument("--games", type=int, default=20)
    parser.add_argument("--orders", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    large(options) if options.large else compare(options)


if __name__ == "__main__":
    main()
