"""Rewarded runs compared within their group, and the sums that a regression over tasks is fitted from."""

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
import polars as pl

from ...base.arrays import Floats, Ints, alike
from ...statistics.folds import Folds
from .choices import Choices
from .family_ridge import Sums

PERMUTATIONS: Final = 99
_RUNS: Final = 1 << 13  # whose design is held at once


@dataclass(frozen=True)
class GroupedRuns:
    """Rewarded runs, in the order of their numbers: the cell of each (runs of a group in one fold), its fold,
    its reward less the mean of the cell, and the same for every permutation within cells. ``size`` and
    ``mean`` are of each cell.
    """

    trace: Ints
    cell: Ints
    fold: Ints
    size: Floats
    mean: Floats
    y: Floats

    @classmethod
    def of(cls, folds: Folds, groups: pl.DataFrame, seed: int) -> "GroupedRuns":
        runs = folds.traces.join(groups, on="trace", maintain_order="left").with_columns(
            alone=pl.len().over("group_id", "fold") == 1
        )
        # Where no task was tried twice, runs are compared with all others of the fold.
        by = ["fold"] if runs["alone"].all() else ["fold", "group_id"]
        runs = runs.sort(*by, "trace_id", "trace").with_columns(
            cell=pl.struct(by).rle_id().cast(pl.Int64), size=pl.len().over(by)
        )
        y = runs["amount"].to_numpy().astype(float)
        outcomes = np.empty((len(y), PERMUTATIONS + 1))
        outcomes[:, 0] = y
        rng = np.random.default_rng([seed % 2**63, 0])
        sizes = runs["size"].to_numpy()
        first = np.flatnonzero(np.diff(runs["cell"].to_numpy(), prepend=-1))
        for size in np.unique(sizes):
            rows = first[sizes[first] == size][:, None] + np.arange(size)
            for column in range(1, PERMUTATIONS + 1):
                outcomes[rows, column] = np.take_along_axis(
                    y[rows], rng.random(rows.shape).argsort(axis=1), 1
                )
        cell = runs["cell"].to_numpy()
        mean = np.add.reduceat(outcomes, first, axis=0) / sizes[first, None]
        outcomes -= mean[cell]
        # Equal rewards differ from their mean by rounding, which is no difference between runs.
        equal = alike(np.minimum.reduceat(y, first), np.maximum.reduceat(y, first))
        outcomes[equal[cell]] = 0.0
        order = runs["trace"].arg_sort().to_numpy()
        return cls(
            trace=runs["trace"].to_numpy()[order].astype(np.int64),
            cell=cell[order],
            fold=runs["fold"].to_numpy()[order],
            size=sizes[first].astype(float),
            mean=mean[:, 0],
            y=outcomes[order],
        )


def sums_of_folds(
    pieces: Iterator[pl.DataFrame], choices: Choices, runs: GroupedRuns, folds: int
) -> tuple[list[Sums], Floats]:
    """Cross products of each fold, around the means of cells; and those means, (cells, columns)."""
    p, k = choices.n, runs.y.shape[1]
    xx, xy = np.zeros((folds, p, p)), np.zeros((folds, p, k))
    of_cells = np.zeros((len(runs.size), p))
    for placed in pieces:
        numbers = placed["trace"].to_numpy()
        here = np.flatnonzero(np.isin(runs.trace, numbers, kind="sort"))
        for at in range(0, len(here), _RUNS):
            block = here[at : at + _RUNS]
            trace = runs.trace[block]
            ends = np.searchsorted(numbers, [trace[0], trace[-1] + 1])
            rows = placed[ends[0] : ends[1]]
            rows = rows.filter(pl.col("trace").is_in(pl.Series(trace).cast(pl.UInt32).implode()))
            x = choices.runs(rows, trace)
            np.add.at(of_cells, runs.cell[block], x)
            for fold in range(folds):
                inside = runs.fold[block] == fold
                xx[fold] += x[inside].T @ x[inside]
                xy[fold] += x[inside].T @ runs.y[block[inside]]
    fold_of_cell = np.zeros(len(runs.size), dtype=np.int64)
    fold_of_cell[runs.cell] = runs.fold
    sums = []
    for fold in range(folds):
        cells = fold_of_cell == fold
        means = of_cells[cells] / np.sqrt(runs.size[cells, None])
        y = runs.y[runs.fold == fold]
        free = float((runs.fold == fold).sum() - cells.sum())
        sums.append(Sums(xx[fold] - means.T @ means, xy[fold], np.square(y).sum(axis=0), free))
    return sums, of_cells / runs.size[:, None]


def total(sums: list[Sums]) -> Sums:
    """The sums over all folds."""
    return reduce(operator.add, sums)


def sums_of_others(sums: list[Sums], left_out: int) -> Sums:
    """The sums over all folds but one."""
    return total([part for number, part in enumerate(sums) if number != left_out])
