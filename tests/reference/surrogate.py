"""The game of a trace in plain Python: surrogate by recursion (D15), players by unit (D16), all orders."""

import math
from itertools import permutations
from typing import Any

from reference.trace import EDGE_WEIGHTS, Trace

EPSILON = 0.25
KINDS = list(EDGE_WEIGHTS)


class Game:
    """Who plays on a trace, and what coalitions are worth."""

    def __init__(
        self,
        trace: Trace,
        unit: str,
        *,
        outcome: str = "noisy_or",
        weights: list[float] | None = None,
        players: str = "all",
        program_order: bool = False,
    ) -> None:
        self.trace, self.model, self.given = trace, outcome, weights is not None
        table = dict(EDGE_WEIGHTS) if weights is None else dict(zip(KINDS, weights, strict=True))
        self.into: dict[int, dict[int, float]] = {v: {} for v in range(len(trace))}
        for (u, v), kinds in trace.edges.items():
            self.into[v][u] = sum(table[kind] for kind in kinds)
        if program_order:
            for u, v in trace.weights(program_order=True).keys() - trace.weights().keys():
                self.into[v][u] = table["temporal"]
        self.y = trace.outcome
        self.sinks = [v for v in self.into if not any(v in before for before in self.into.values())]
        level = "agent" if unit in ("role", "team") else unit
        fixed = trace.root if players == "no_root" else None
        self.fixed, self.names = fixed is not None, trace.units(unit)
        units = trace.units(level)
        first = {name: v for v, name in reversed(list(enumerate(units)))}
        root = {name for name, v in first.items() if fixed is not None and trace.owner[v] == fixed}
        self.player_of = [None if name in root else name for name in units]
        self.players = [n for n in dict.fromkeys(units) if n is not None and n not in root]
        self.unit_of = dict(zip(trace.units(level), trace.units(unit), strict=True))

    def gate(self, v: int, inputs: list[tuple[float, float]]) -> float:
        if not inputs or (not self.given and sum(w for _, w in inputs) == 0):
            return 1.0
        total = sum(w for _, w in inputs)
        if self.model == "mean":
            return math.fsum(x for x, _ in inputs) / len(inputs)
        if self.model == "linear":
            sum_ = math.fsum(x * w for x, w in inputs)
            return min(1.0, sum_) if self.given else sum_ / total
        if self.model == "max":
            return max(x for x, _ in inputs)
        if self.model == "min":
            return min(x for x, _ in inputs)
        if self.model == "reachability":
            return float(any(x > 0 for x, _ in inputs))
        if self.model == "noisy_and":
            return 1.0 - self.noisy_or([(1.0 - x, w) for x, w in inputs], total)
        return self.noisy_or(inputs, total)

    def noisy_or(self, inputs: list[tuple[float, float]], total: float) -> float:
        if self.given:
            return 1.0 - math.prod(1.0 - min(1.0, w) * x for x, w in inputs)
        fails = math.prod(1.0 - (1.0 - EPSILON ** (w / total)) * x for x, w in inputs)
        return (1.0 - fails) / (1.0 - EPSILON)

    def value(self, coalition: frozenset[str]) -> float:
        known: dict[int, float] = {}

        def x(v: int) -> float:
            if v not in known:
                player = self.player_of[v]
                there = player is None or player in coalition
                known[v] = self.gate(v, [(x(u), w) for u, w in self.into[v].items()]) if there else 0.0
            return known[v]

        if self.y is not None:
            return x(self.y)
        # the virtual sink joins all sinks with equal weights, which are shares even where weights are given
        values = [(x(v), 1.0) for v in self.sinks]
        given, self.given = self.given, False
        value = self.gate(-1, values)
        self.given = given
        return value

    def shapley(self) -> dict[str, float]:
        """The mean gain over all orders of the players."""
        seen: dict[frozenset[str], float] = {}

        def v(s: frozenset[str]) -> float:
            return seen.setdefault(s, self.value(s))

        sums = dict.fromkeys(self.players, 0.0)
        orders = 0
        for order in permutations(self.players):
            orders += 1
            for k, player in enumerate(order):
                sums[player] += v(frozenset(order[: k + 1])) - v(frozenset(order[:k]))
        return {player: sum_ / orders for player, sum_ in sums.items()}

    def difference(self) -> dict[str, float]:
        everybody = frozenset(self.players)
        return {p: self.value(everybody) - self.value(everybody - {p}) for p in self.players}

    def rows(self, values: dict[str, float]) -> dict[str | None, float]:
        """Values of players as those of units, and v of nobody in the row without one."""
        found: dict[Any, float] = {None: self.value(frozenset())}
        if not self.fixed:  # a sum over nobody
            found |= {name: 0.0 for name in self.names if name is not None}
        for player, value in values.items():
            unit = self.unit_of[player]
            found[unit] = found.get(unit, 0.0) + value
        return found
