"""What going on is worth: regressions of later payoffs on what is known, by backward induction.

    U_K = g_K        U_k = max(g_k, C_k)        C_k = E[U_{k+1} | x_k, K > k]        stop at the first g_k >=
    C_k

Methods differ in what they regress: `lsm` the payoff that the rule so far gets from k + 1 on (Longstaff and
Schwartz 2001), `tvr` max(g, C) at k + 1 (Tsitsiklis and Van Roy 2001), `fqi` the same with one regression for
all k, repeated (fitted Q iteration), `tabular` means over runs with the same history of q and c.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import polars as pl

from ..base.arrays import Floats, Ints
from ..base.checks import check_flags
from ..statistics.learners import learner, one_thread
from ..statistics.regression import ridge
from .answers import Answers

PENALTY: Final = 1e-3
"""Of ridge, times the number of rows."""
FEWEST: Final = 50
"""Runs that an epoch needs for a regression of its own."""
PER_COLUMN: Final = 5
MOST_CELLS: Final = 12
PER_CELL: Final = 10
PENALTY_OF_CELLS: Final = 1e-5
SWEEPS: Final = 50
SETTLED: Final = 1e-6


@dataclass(frozen=True, eq=False)
class Basis:
    """Intercept, standardized columns and their squares; null is 0 beside a flag that says so."""

    mean: Floats
    scale: Floats
    kept: Ints
    flagged: Ints

    @classmethod
    def of(cls, x: Floats) -> "Basis":
        """Of the rows that are fitted; columns that do not vary there are dropped."""
        known = ~np.isnan(x)
        n = np.maximum(known.sum(axis=0), 1)
        mean = np.where(known, x, 0.0).sum(axis=0) / n
        around = np.where(known, x - mean, 0.0)
        scale = np.sqrt(np.square(around).sum(axis=0) / n)
        varies = scale > 1e-12 * np.maximum(np.abs(mean), 1.0)
        missing = (~known).mean(axis=0)
        flagged = np.flatnonzero((missing > 0.0) & (missing < 1.0))
        return cls(mean, np.where(varies, scale, 1.0), np.flatnonzero(varies), flagged)

    def __call__(self, x: Floats) -> Floats:
        """The design, (rows, 1 + 2 kept + flagged) float64."""
        z = (x[:, self.kept] - self.mean[self.kept]) / self.scale[self.kept]
        z = np.where(np.isnan(z), 0.0, z)
        flags = np.isnan(x[:, self.flagged]).astype(np.float64)
        return np.concatenate([np.ones((len(x), 1)), z, np.square(z), flags], axis=1)


Regress = Callable[[Floats, Floats, Floats], "Predict"]
"""Rows, targets, and how often each row counts; to a function that predicts targets of rows."""


def of_ridge(x: Floats, y: Floats, times: Floats) -> Callable[[Floats], Floats]:
    """Ridge on the basis of the rows. O(rows · columns²)."""
    basis = Basis.of(x)
    design = basis(x)
    if design.shape[1] > 1:
        weights = ridge(design, y, PENALTY * len(y), _unequal(times))
    else:
        weights = np.array([np.average(y, weights=times)])
    return lambda rows: basis(rows) @ weights


def _unequal(times: Floats) -> Floats | None:
    """Weights with the mean 1; None where all rows count the same, which needs no products."""
    return None if (times == times[0]).all() else times / times.mean()


Predict = Callable[[Floats], Floats]


def of_trees(x: Floats, y: Floats, times: Floats) -> Callable[[Floats], Floats]:
    """Boosted trees, which take null as it is. Needs scikit-learn."""
    boosting = learner("ensemble", "HistGradientBoostingRegressor", "trees=True")
    model = boosting(random_state=0, early_stopping=False)
    with one_thread():
        model.fit(x, y, sample_weight=_unequal(times))

    def predict(rows: Floats) -> Floats:
        if not len(rows):
            return np.zeros(0)
        with one_thread():
            found: Floats = model.predict(rows)
        return found

    return predict


def regressed_by(trees: bool) -> Regress:
    """The regression that learned rules use."""
    check_flags(trees=trees)
    return of_trees if trees else of_ridge


@dataclass(frozen=True, eq=False)
class Cells:
    """Beside the basis, which cell of each column a row is in: quantiles of the rows that are fitted.

    What the dual bound expects has to be right given what is known, not on average alone: a square does not
    follow a step, cells do.
    """

    basis: Basis
    cuts: list[Floats]

    @classmethod
    def of(cls, x: Floats) -> "Cells":
        """Of the rows that are fitted; fewer cells where rows are few."""
        basis = Basis.of(x)
        many = int(min(MOST_CELLS, len(x) // (PER_CELL * max(len(basis.kept), 1))))
        cuts = []
        for column in basis.kept:
            known = x[:, column][~np.isnan(x[:, column])]
            shares = np.arange(1, many) / max(many, 1)
            found = np.unique(np.quantile(known, shares, method="inverted_cdf")) if many > 1 else np.zeros(0)
            cuts.append(found[found > known.min()] if known.size else found[:0])
        return cls(basis, cuts)

    def __call__(self, x: Floats) -> Floats:
        """The design, (rows, columns) float64."""
        parts = [self.basis(x)]
        for column, cuts in zip(self.basis.kept, self.cuts, strict=True):
            parts.append((x[:, column][:, None] >= cuts[None, :]).astype(np.float64))
        return np.concatenate(parts, axis=1)


def of_cells(x: Floats, y: Floats) -> "Predict":
    """Ridge on the basis and the cells of the rows. O(rows · columns²)."""
    cells = Cells.of(x)
    design = cells(x)
    if design.shape[1] == 1:
        level = float(y.mean())
        return lambda rows: np.full(len(rows), level)
    weights = ridge(design, y, PENALTY_OF_CELLS * len(y))
    return lambda rows: cells(rows) @ weights


@dataclass(frozen=True, eq=False)
class Continuation:
    """Fitted values of going on, by epoch; beyond the last that was fitted its model goes on.

    ``expected`` predicts max(g, C) at the next epoch more finely than `models`, for the dual bound.
    """

    models: list[Predict]
    expected: list[Predict]

    def __call__(self, x: Floats, k: Ints) -> Floats:
        """What going on is worth, of rows, (rows,) float64; minus infinity where nothing was fitted: stop."""
        return _by_epoch(self.models, x, k)

    def expect(self, x: Floats, k: Ints) -> Floats:
        """The value to be expected at the next epoch, of rows, (rows,) float64."""
        return _by_epoch(self.expected, x, k)


def _by_epoch(models: list[Predict], x: Floats, k: Ints) -> Floats:
    found = np.full(len(k), -np.inf)
    for at in np.unique(k) if models else ():
        rows = np.flatnonzero(k == at)
        found[rows] = models[min(int(at), len(models)) - 1](x[rows])
    return found


def by_epoch(runs: Answers, among: Ints, regress: Regress, *, realized: bool) -> Continuation:
    """`lsm` where the targets are realized payoffs, `tvr` where they are fitted values. O(Σ K · columns²)."""
    deepest = int(runs.length[among].max(initial=1))
    models: list[Predict] = []
    expected: list[Predict] = []
    # what the rule gets from the next epoch on, for each run; and the greater of payoff and value there
    ahead = np.zeros(len(runs))
    ahead[among] = runs.g[runs.end[among]]
    greater = ahead.copy()
    pooled: tuple[list[Floats], list[Floats], list[Floats], list[Floats]] = ([], [], [], [])
    for k in range(deepest - 1, 0, -1):
        rows = runs.at(k, among)
        of = among[runs.length[among] > k]
        x, y = runs.x[rows], ahead[of]
        pooled[0].append(x)
        pooled[1].append(y)
        pooled[2].append(greater[of])
        pooled[3].append(runs.weight[rows + 1])
        few = len(rows) < max(FEWEST, PER_COLUMN * (1 + 2 * x.shape[1]))
        together = [np.concatenate(part) for part in pooled] if few else [part[-1] for part in pooled]
        model = regress(together[0], together[1], together[3])
        models.append(model)
        expected.append(_calibrated(model, of_cells(_beside(model, together[0]), together[2])))
        value, now = model(x), runs.g[rows]
        ahead[of] = np.where(now >= value, now, y if realized else value)
        greater[of] = np.maximum(now, value)
        # nobody saw what these would have come to: the model says what going on was worth
        cut = runs.cut_at(k, among)
        ahead[cut] = np.maximum(runs.g[runs.end[cut]], model(runs.x[runs.end[cut]]))
        greater[cut] = ahead[cut]
    return Continuation(models[::-1], expected[::-1])


def _beside(model: Predict, x: Floats) -> Floats:
    return np.concatenate([model(x)[:, None], x], axis=1)


def _calibrated(model: Predict, expected: Predict) -> Predict:
    """What is expected by the features and by what a model says of them."""
    return lambda x: expected(_beside(model, x))


def by_iteration(runs: Answers, among: Ints, regress: Regress) -> Continuation:
    """`fqi`: one regression for all epochs, with k among its columns. O(sweeps · rows · columns²)."""
    inside = np.isin(runs.run, among) & ~runs.last
    rows = np.flatnonzero(inside)
    if not len(rows):
        return Continuation([], [])
    after = rows + 1
    x = _with_k(runs.x, runs.k)
    ends, now, times = runs.final[after], runs.g[after], runs.weight[after]
    value = now.copy()
    model = regress(x[rows], value, times)
    for _ in range(SWEEPS):
        target = np.where(ends, now, np.maximum(now, model(x[after])))
        model = regress(x[rows], target, times)
        moved = float(np.abs(target - value).max())
        value = target
        if moved < SETTLED:
            break
    fitted = model

    def of(rows: Floats, k: int) -> Floats:
        return fitted(_with_k(rows, np.full(len(rows), k)))

    deepest = int(runs.length[among].max())
    models: list[Predict] = [partial(of, k=k) for k in range(1, max(deepest, 2))]
    expected = []
    for k, one in enumerate(models, 1):
        at = rows[runs.k[rows] >= k] if (runs.k[rows] == k).sum() < FEWEST else rows[runs.k[rows] == k]
        target = np.where(runs.final[at + 1], runs.g[at + 1], np.maximum(runs.g[at + 1], fitted(x[at + 1])))
        expected.append(_calibrated(one, of_cells(_beside(one, runs.x[at]), target)))
    return Continuation(models, expected)


def _with_k(x: Floats, k: Ints) -> Floats:
    return np.concatenate([k[:, None].astype(np.float64), x], axis=1)


@dataclass(frozen=True, eq=False)
class Histories:
    """What going on is worth by history of q and c; of one that was not seen, the mean of its epoch."""

    states: "np.ndarray[tuple[int, ...], np.dtype[np.uint64]]"
    worth: Floats
    of_epoch: Floats

    def __call__(self, runs: Answers) -> Floats:
        """Of rows, (rows,) float64; minus infinity at epochs that no run went beyond, which stops."""
        found = np.full(len(runs.k), -np.inf)
        inside = np.flatnonzero(runs.k <= len(self.of_epoch))
        found[inside] = self.of_epoch[runs.k[inside] - 1]
        if len(self.states):
            keys = histories(runs)
            at = np.minimum(np.searchsorted(self.states, keys), len(self.states) - 1)
            seen = self.states[at] == keys
            found[seen] = self.worth[at[seen]]
        return found


def histories(runs: Answers) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint64]]":
    """What stands for the history of q and c up to each row. O(rows)."""
    pairs = pl.DataFrame({"q": runs.q, "c": runs.c}, schema={"q": pl.Float64, "c": pl.Float64})
    own = pairs.select(pl.struct("q", "c").hash(seed=0)).to_series().to_numpy().astype(np.uint64)
    key = np.zeros(len(runs.k), np.uint64)
    # a chain: what stands for the row before goes into what stands for this one
    for k in range(1, int(runs.length.max(initial=0)) + 1):
        rows = np.flatnonzero(runs.k == k)
        before = key[rows - 1] if k > 1 else np.zeros(len(rows), np.uint64)
        key[rows] = (before ^ (before >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15) + own[rows]
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
        found, place = np.unique(keys[rows], return_inverse=True)
        times = runs.weight[rows + 1]
        mean = np.bincount(place, times * ahead[of]) / np.bincount(place, times)
        states.append(found)
        worth.append(mean)
        of_epoch.append(float(np.average(ahead[of], weights=times)))
        ahead[of] = np.maximum(runs.g[rows], mean[place])
        cut = runs.cut_at(k, among)
        own = keys[runs.end[cut]]
        at = np.minimum(np.searchsorted(found, own), len(found) - 1)
        ahead[cut] = np.maximum(runs.g[runs.end[cut]], np.where(found[at] == own, mean[at], of_epoch[-1]))
    together, values = np.concatenate(states), np.concatenate(worth)
    order = np.argsort(together, kind="stable")
    return Histories(together[order], values[order], np.array(of_epoch[::-1], dtype=np.float64))
