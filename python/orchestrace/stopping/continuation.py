"""Values of continuing: regressions of later payoffs on what is known, by backward induction.

    U_K = g_K        U_k = max(g_k, C_k)        C_k = E[U_{k+1} | x_k, K > k]        stop at the first g_k >=
    C_k

Methods differ in what they regress: `lsm` the payoff that the rule so far gets from k + 1 on (Longstaff and
Schwartz 2001), `tvr` max(g, C) at k + 1 (Tsitsiklis and Van Roy 2001), `fqi` the same with one regression for
all k, repeated (fitted Q iteration), `tabular` means over runs with the same history of q and c.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from ..base.arrays import Floats, Ints
from ..statistics.learners import learner, one_thread
from .answers import Answers
from .designs import Basis, of_cells, summed

PENALTY: Final = 1e-3
"""Of ridge, times the number of rows."""
FEWEST: Final = 50
"""Runs that an epoch needs for a regression of its own."""
PER_COLUMN: Final = 5
SWEEPS: Final = 50
SETTLED: Final = 1e-6


Predict = Callable[[Floats], Floats]


class Solved(NamedTuple):
    """A regression of one target: its values at the rows that it was fitted on, and those of any rows."""

    inside: Floats
    predict: Predict


Regress = Callable[[Floats, Floats], Callable[[Floats], Solved]]
"""Rows and how often each counts, to what solves for a target: several targets share what is made of them."""


def of_ridge(x: Floats, times: Floats) -> Callable[[Floats], Solved]:
    """Ridge on the basis of the rows. O(rows · columns²), of each further target O(rows · columns)."""
    basis = Basis.of(x)
    design = basis.columns(x)
    each = _unequal(times)
    if not len(design):
        return lambda y: _constant(float(np.average(y, weights=each)), len(x))
    center = np.average(design, axis=1, weights=each)
    counted = design if each is None else design * each
    gram = counted @ design.T - len(x) * np.outer(center, center)
    gram[np.diag_indices_from(gram)] += PENALTY * len(x)

    def solve(y: Floats) -> Solved:
        level = float(np.average(y, weights=each))
        slope: Floats = np.linalg.solve(gram, counted @ (y - level)).astype(np.float64)
        start = level - float(center @ slope)
        return Solved(summed(design, slope, start), lambda rows: summed(basis.columns(rows), slope, start))

    return solve


def _unequal(times: Floats) -> Floats | None:
    """Weights with the mean 1; None where all rows count the same, which needs no products."""
    return None if (times == times[0]).all() else times / times.mean()


def _constant(level: float, n: int) -> Solved:
    return Solved(np.full(n, level), lambda rows: np.full(len(rows), level))


def of_trees(x: Floats, times: Floats) -> Callable[[Floats], Solved]:
    """Boosted trees, which take null as it is. Needs scikit-learn."""
    boosting = learner("ensemble", "HistGradientBoostingRegressor", "trees=True")

    def solve(y: Floats) -> Solved:
        model = boosting(random_state=0, early_stopping=False)
        with one_thread():
            model.fit(x, y, sample_weight=_unequal(times))

        def predict(rows: Floats) -> Floats:
            if not len(rows):
                return np.zeros(0)
            with one_thread():
                predicted: Floats = model.predict(rows)
            return predicted

        return Solved(predict(x), predict)

    return solve


def regressed_by(trees: bool) -> Regress:
    """The regression that learned rules use."""
    return of_trees if trees else of_ridge


@dataclass(frozen=True, eq=False)
class Continuation:
    """Fitted values of going on, by epoch; beyond the last that was fitted its model goes on.

    ``expected`` predicts max(g, C) at the next epoch more finely than `models`, for the dual bound: from what
    the model says and the features.
    """

    models: list[Predict]
    expected: list[Predict]

    def __call__(self, runs: Answers) -> Floats:
        """What going on is worth, of rows, (rows,) float64; minus infinity where nothing was fitted: stop."""
        worth = np.full(len(runs.k), -np.inf)
        for model, rows, x in _by_model(self.models, runs):
            worth[rows] = model(x)
        return worth

    def expect(self, runs: Answers, worth: Floats) -> Floats:
        """The value to be expected at the next epoch, of rows, (rows,) float64, given what they are worth."""
        values = np.full(len(runs.k), -np.inf)
        for model, rows, x in _by_model(self.expected, runs):
            values[rows] = model(_beside(worth[rows], x))
        return values


def _by_model(models: list[Predict], runs: Answers) -> Iterator[tuple[Predict, Ints, Floats]]:
    """Models with their rows and features; the last one serves all epochs from its own on."""
    deepest = int(runs.length.max(initial=0))
    for k, model in enumerate(models[:deepest], 1):
        last = deepest if k == len(models) else k
        inside = slice(runs.layers.begin[k - 1], runs.layers.begin[last])
        yield model, runs.layers.rows[inside], runs.x[:, inside].T


def by_epoch(runs: Answers, among: Ints, regress: Regress, *, realized: bool) -> Continuation:
    """`lsm` where the targets are realized payoffs, `tvr` where they are fitted values. O(Σ K · columns²)."""
    deepest = int(runs.length[among].max(initial=1))
    fewest = max(FEWEST, PER_COLUMN * (1 + 2 * len(runs.x)))
    models: list[Predict] = []
    expected: list[Predict] = []
    # what the rule gets from the next epoch on, for each run; and the greater of payoff and value there
    ahead = np.zeros(len(runs))
    ahead[among] = runs.g[runs.end[among]]
    greater = ahead.copy()
    alike = bool((runs.weight == 1.0).all())
    begin, payoffs = runs.layers.begin, runs.payoffs
    pooled: tuple[list[Floats], list[Floats], list[Floats], list[Floats]] = ([], [], [], [])
    for k in range(deepest - 1, 0, -1):
        of = among[runs.length[among] > k]
        # where the row of the epoch lies, of each run that reaches it
        place = begin[k - 1] - 1 + np.cumsum(runs.length >= k)
        x, now = runs.x.take(place[of], axis=1).T, payoffs[place[of]]
        y, aim = ahead[of], greater[of]
        later, times = y, np.ones(len(of)) if alike else runs.weight[runs.start[of] + k]
        if len(of) < fewest:  # epochs before have as many runs: once there are enough, nothing is pooled
            for before, part in zip(pooled, (x, y, aim, times), strict=True):
                before.append(part)
            x, y, aim, times = (np.concatenate(part) for part in pooled)
        values, model = regress(x, times)(y)
        models.append(model)
        expected.append(of_cells(_beside(values, x), aim))
        value = values[-len(of) :]
        ahead[of] = np.where(now >= value, now, later if realized else value)
        greater[of] = np.maximum(now, value)
        # the ends of these runs are unknown: the model gives the value of going on
        cut = runs.cut_at(k, among)
        ahead[cut] = np.maximum(runs.g[runs.end[cut]], model(runs.x.take(place[cut], axis=1).T))
        greater[cut] = ahead[cut]
    return Continuation(models[::-1], expected[::-1])


def _beside(values: Floats, x: Floats) -> Floats:
    """Rows with the values as first column, column by column in memory."""
    columns = np.empty((1 + x.shape[1], len(x)))
    columns[0] = values
    columns[1:] = x.T
    return columns.T


def by_iteration(runs: Answers, among: Ints, regress: Regress) -> Continuation:
    """`fqi`: one regression for all epochs, with k among its columns.

    O(rows · columns · (columns + sweeps)): sweeps share what is made of the rows.
    """
    rows = runs.rows_of(among)
    rows = rows[~runs.last[rows]]
    if not len(rows):
        return Continuation([], [])
    features = runs.features
    x = with_k(features, runs.k)
    now, k = runs.g[rows + 1], runs.k[rows]
    # rows with a choice at the next epoch; if the run was cut there, that epoch is not in `rows`
    goes_on = np.flatnonzero(~runs.final[rows + 1])
    cut = goes_on[runs.last[rows[goes_on] + 1]]
    inner = goes_on[~runs.last[rows[goes_on] + 1]]
    beyond = x[rows[cut] + 1]

    def aims(solved: Solved) -> Floats:
        targets = now.copy()
        targets[inner] = np.maximum(now[inner], solved.inside[inner + 1])
        if len(cut):
            targets[cut] = np.maximum(now[cut], solved.predict(beyond))
        return targets

    solve = regress(x[rows], runs.weight[rows + 1])
    value = now
    solved = solve(value)
    for _ in range(SWEEPS):
        target = aims(solved)
        solved = solve(target)
        moved = float(np.abs(target - value).max())
        value = target
        if moved < SETTLED:
            break
    target = aims(solved)

    def of(part: Floats, k: int) -> Floats:
        return solved.predict(with_k(part, np.full(len(part), k)))

    deepest = int(runs.length[among].max())
    models: list[Predict] = [partial(of, k=k) for k in range(1, max(deepest, 2))]
    expected = []
    for k_of, model in enumerate(models, 1):
        at = np.flatnonzero(k == k_of)
        if len(at) < FEWEST:
            at = np.flatnonzero(k >= k_of)
        at_epoch = features[rows[at]]
        expected.append(of_cells(_beside(model(at_epoch), at_epoch), target[at]))
    return Continuation(models, expected)


def with_k(x: Floats, k: Ints) -> Floats:
    """Features and the epoch, which comes first."""
    return _beside(k.astype(np.float64), x)


@dataclass(frozen=True, eq=False)
class Histories:
    """The value of going on by history of q and c; for a history that was not seen, the mean of its epoch."""

    states: "np.ndarray[tuple[int, ...], np.dtype[np.uint64]]"
    worth: Floats
    of_epoch: Floats

    def __call__(self, runs: Answers) -> Floats:
        """Of rows, (rows,) float64; minus infinity at epochs that no run went beyond, which stops."""
        worth = np.full(len(runs.k), -np.inf)
        inside = np.flatnonzero(runs.k <= len(self.of_epoch))
        worth[inside] = self.of_epoch[runs.k[inside] - 1]
        if len(self.states):
            keys = histories(runs)
            at = np.minimum(np.searchsorted(self.states, keys), len(self.states) - 1)
            seen = self.states[at] == keys
            worth[seen] = self.worth[at[seen]]
        return worth


def histories(runs: Answers) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint64]]":
    """A hash of the history of q and c up to each row. O(rows)."""
    pairs = pl.DataFrame({"q": runs.q, "c": runs.c}, schema={"q": pl.Float64, "c": pl.Float64})
    row_keys = pairs.select(pl.struct("q", "c").hash(seed=0)).to_series().to_numpy().astype(np.uint64)
    key = np.zeros(len(runs.k), np.uint64)
    # a chain: the hash of the row before goes into the hash of this row
    for k in range(1, int(runs.length.max(initial=0)) + 1):
        rows = np.flatnonzero(runs.k == k)
        before = key[rows - 1] if k > 1 else np.zeros(len(rows), np.uint64)
        key[rows] = (before ^ (before >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15) + row_keys[rows]
    return key


def by_history(runs: Answers, among: Ints) -> Histories:
    """Exact backward induction over histories. O(rows log rows)."""
    keys = histories(runs)
    states, worth = [np.zeros(0, np.uint64)], [np.zeros(0)]
    ahead = np.zeros(len(runs))
    ahead[among] = runs.g[runs.end[among]]
    of_epoch = []
    for k in range(int(runs.length[among].max(initial=1)) - 1, 0, -1):
        rows = runs.at(k, among)
        of = among[runs.length[among] > k]
        distinct, place = np.unique(keys[rows], return_inverse=True)
        times = runs.weight[rows + 1]
        mean = np.bincount(place, times * ahead[of]) / np.bincount(place, times)
        states.append(distinct)
        worth.append(mean)
        of_epoch.append(float(np.average(ahead[of], weights=times)))
        ahead[of] = np.maximum(runs.g[rows], mean[place])
        cut = runs.cut_at(k, among)
        of_cut = keys[runs.end[cut]]
        at = np.minimum(np.searchsorted(distinct, of_cut), len(distinct) - 1)
        ahead[cut] = np.maximum(
            runs.g[runs.end[cut]], np.where(distinct[at] == of_cut, mean[at], of_epoch[-1])
        )
    together, values = np.concatenate(states), np.concatenate(worth)
    order = np.argsort(together, kind="stable")
    return Histories(together[order], values[order], np.array(of_epoch[::-1], dtype=np.float64))
