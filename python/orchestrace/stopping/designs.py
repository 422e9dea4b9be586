"""Design matrices of stopping regressions: standardized columns with their squares, and cells."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, combinations_with_replacement, product
from typing import Final

import numpy as np

from ..base.arrays import Floats, Ints

MOST_CELLS: Final = 12
"""Cells of a column."""
PER_CELL: Final = 10
"""Rows that a cell needs, times the number of columns."""
MOST_JOINT: Final = 2**11
"""Cells of several columns together, whose sums stay near the processor."""
PENALTY_OF_CELLS: Final = 1e-5
"""Of ridge on cells, times the number of rows."""


@dataclass(frozen=True, eq=False)
class Basis:
    """Standardized columns and their squares; null is 0 beside a flag that says so."""

    mean: Floats
    scale: Floats
    varying: Ints
    flagged: Ints

    @classmethod
    def of(cls, x: Floats) -> "Basis":
        """Of the rows that are fitted; columns that do not vary there are dropped."""
        # column by column: sums over rows of few columns are slow
        moments = [_moments(np.ascontiguousarray(column)) for column in x.T]
        mean, scale, missing = np.array(moments, dtype=np.float64).reshape(-1, 3).T
        varies = scale > 1e-12 * np.maximum(np.abs(mean), 1.0)
        flagged = np.flatnonzero((missing > 0.0) & (missing < 1.0))
        return cls(mean, np.where(varies, scale, 1.0), np.flatnonzero(varies), flagged)

    def columns(self, x: Floats) -> Floats:
        """Standardized columns, their squares and flags of nulls, (2 varying + flagged, rows) float64."""
        n = len(self.varying)
        table = np.empty((2 * n + len(self.flagged), len(x)))
        for i, column in enumerate(self.varying):
            z = table[i]
            np.subtract(x[:, column], self.mean[column], out=z)
            z /= self.scale[column]
            if column in self.flagged:
                z[np.isnan(z)] = 0.0
            np.square(z, out=table[n + i])
        for i, column in enumerate(self.flagged):
            table[2 * n + i] = np.isnan(x[:, column])
        return table


def summed(columns: Floats, weights: Floats, start: float) -> Floats:
    """What `start` and the weighted columns (columns, rows) add up to, (rows,) float64.

    A product of matrices rounds a row as the rows beside it suggest. Ties with a cut or a threshold, and an
    epoch that is judged before the run goes on, need the same bits in any company.
    """
    totals = np.full(columns.shape[1], start)
    for column, weight in zip(columns, weights, strict=True):
        totals += weight * column
    return totals


def _moments(column: Floats) -> tuple[float, float, float]:
    """Mean and deviation of what is known, and the share that is not."""
    absent = np.isnan(column)
    if absent.any():
        column = column[~absent]
    if not len(column):
        return 0.0, 0.0, 1.0
    mean = float(column.mean())
    return mean, float(np.sqrt(np.square(column - mean).mean())), float(absent.mean())


@dataclass(frozen=True, eq=False)
class Cells:
    """Which cell of each column of the basis a row is in: quantiles of the rows that are fitted.

    What the dual bound expects has to be right given what is known, not on average alone: a square does not
    follow a step, cells do.
    """

    basis: Basis
    cuts: list[Floats]

    @classmethod
    def of(cls, x: Floats) -> "Cells":
        """Of the rows that are fitted; fewer cells where rows are few."""
        basis = Basis.of(x)
        many = int(min(MOST_CELLS, len(x) // (PER_CELL * max(len(basis.varying), 1))))
        cuts = []
        for column in basis.varying:
            values = np.sort(x[:, column])  # null comes last
            values = values[: np.searchsorted(values, np.nan)]
            levels = (
                values[at_shares(len(values), np.arange(1, many) / max(many, 1))] if many > 1 else values[:0]
            )
            cuts.append(np.unique(levels[levels > values[0]]) if values.size else levels)
        return cls(basis, cuts)

    def __call__(self, x: Floats) -> list[Ints]:
        """The cell of every row, by column: how many cuts are not above the value; 0 where that is null."""
        places = []
        for column, cuts in zip(self.basis.varying, self.cuts, strict=True):
            values = np.ascontiguousarray(x[:, column])
            # cuts are few: to compare with each takes less than to search for each row
            cell = np.zeros(len(values), np.uint8)
            for cut in cuts:
                cell += values >= cut
            places.append(cell.astype(np.int64))
        return places


def at_shares(n: int, shares: Floats) -> Ints:
    """Where quantiles are among n sorted values: the first that this share of them is not above.

    `numpy.quantile` by ``inverted_cdf`` picks the same ones; of many shares, to sort takes less than it does.
    """
    at: Ints = np.maximum(np.ceil(n * shares - 1.0), 0.0).astype(np.int64)
    return at


def of_cells(x: Floats, y: Floats) -> Callable[[Floats], Floats]:
    """Ridge on the basis of the rows and on steps at the cuts of their cells.

    A step is 1 from a cut on, 0 before. Sums of products with steps are sums over cells, added up from the
    last cell on, so that no column of a step is ever made. O(rows · columns² + (columns · cells)³).
    """
    cells = Cells.of(x)
    smooth = cells.basis.columns(x)
    if not len(smooth):
        level = float(y.mean())
        return lambda rows: np.full(len(rows), level)
    center = smooth.mean(axis=1)
    smooth -= center[:, None]
    level = float(y.mean())
    around = y - level
    where = cells(x)
    size = [len(cuts) for cuts in cells.cuts]
    begin = len(smooth) + np.cumsum([0, *size])
    steps = [slice(begin[i], begin[i + 1]) for i in range(len(size))]
    gram = np.zeros((begin[-1], begin[-1]))
    aim = np.zeros(begin[-1])
    gram[: len(smooth), : len(smooth)] = smooth @ smooth.T
    aim[: len(smooth)] = smooth @ around
    groups = _grouped([n + 1 for n in size], min(MOST_JOINT, len(y)))
    for at, group in enumerate(groups):
        joint = Joint.of([where[i] for i in group], [size[i] + 1 for i in group])
        sums = joint.sums([*smooth, around])
        for axis, i in enumerate(group):
            beyond = _beyond(joint.along(sums, axis).T)
            gram[: len(smooth), steps[i]], aim[steps[i]] = beyond[:, :-1].T, beyond[:, -1]
        for j, i in combinations_with_replacement(range(len(group)), 2):
            gram[steps[group[j]], steps[group[i]]] = _beyond_both(joint.both(j, i))
        for other, i in product(chain.from_iterable(groups[:at]), group):
            pair = Joint.of([where[other], where[i]], [size[other] + 1, size[i] + 1])
            gram[steps[other], steps[i]] = _beyond_both(pair.both(0, 1))
    # of rows beyond a cut, which the products of a step with itself count
    share = np.zeros(begin[-1])
    share[len(smooth) :] = np.diag(gram)[len(smooth) :] / len(y)
    gram -= len(y) * np.outer(share, share)
    gram = np.triu(gram) + np.triu(gram, 1).T
    gram[np.diag_indices_from(gram)] += PENALTY_OF_CELLS * len(y)
    weights = np.linalg.solve(gram, aim)
    slope = weights[: len(smooth)]
    heights = [np.append(0.0, np.cumsum(weights[of])) for of in steps]
    level -= float(center @ slope + share @ weights)

    def predict(rows: Floats) -> Floats:
        predicted = summed(cells.basis.columns(rows), slope, level)
        for cell, height in zip(cells(rows), heights, strict=True):
            predicted += height[cell]
        return predicted

    return predict


@dataclass(frozen=True, eq=False)
class Joint:
    """Rows by their cells in several columns at once: one pass over rows serves them all.

    ``key`` is of rows, ``counts`` has one axis per column.
    """

    key: Ints
    counts: Ints

    @classmethod
    def of(cls, cells: list[Ints], sizes: list[int]) -> "Joint":
        """Of the cells of each column, and how many it has."""
        key = cells[0]
        for cell, size in zip(cells[1:], sizes[1:], strict=True):
            key = key * size + cell
        return cls(key, np.bincount(key, minlength=math.prod(sizes)).reshape(sizes))

    def sums(self, columns: list[Floats]) -> Floats:
        """What columns of rows add up to in each cell, (columns, ...) with one axis per column of cells."""
        sums = np.empty((len(columns), self.counts.size))
        for column, of_column in zip(columns, sums, strict=True):
            of_column[:] = np.bincount(self.key, column, self.counts.size)
        return sums.reshape(len(columns), *self.counts.shape)

    def along(self, sums: Floats, axis: int) -> Floats:
        """Those sums over the cells of one column alone, (columns, cells)."""
        others = tuple(1 + other for other in range(self.counts.ndim) if other != axis)
        of_one: Floats = sums.sum(axis=others)
        return of_one

    def both(self, first: int, second: int) -> Ints:
        """Rows in each cell of one column and of another, or the same, (cells, cells)."""
        others = tuple(axis for axis in range(self.counts.ndim) if axis not in (first, second))
        counts: Ints = self.counts.sum(axis=others)
        return np.diag(counts) if first == second else counts


def _grouped(sizes: list[int], most: int) -> list[list[int]]:
    """Neighboring columns that have at most so many cells together; each column is in one group."""
    groups: list[list[int]] = []
    together = most + 1
    for column, size in enumerate(sizes):
        together *= size
        if together > most:
            groups.append([])
            together = size
        groups[-1].append(column)
    return groups


def _beyond(of_cells: Floats | Ints) -> Floats:
    """Sums over cells to sums beyond each cut: the first axis, added up from its end, without the first."""
    return np.cumsum(of_cells[::-1], axis=0, dtype=np.float64)[-2::-1]


def _beyond_both(counts: Ints) -> Floats:
    """Counts over pairs of cells to counts beyond both cuts."""
    return _beyond(_beyond(counts).T).T
