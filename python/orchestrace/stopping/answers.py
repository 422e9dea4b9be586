"""Answers: the payoff of stopping at each epoch with the current answer, as arrays."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, NamedTuple

import numpy as np
import polars as pl

from ..base.arguments import Number
from ..base.arrays import Bools, Floats, Ints
from ..base.errors import ParameterError, SchemaError
from ..base.schema import unknown_name
from ..base.side_by_side import side_by_side
from ..base.text import briefly
from ..statistics.folds import folds_over
from .runs import check_epochs

Problem = Literal["answer", "abort"]
Price = float | Mapping[str, float]

COSTS: Final = ("epochs", "tokens", "seconds", "usd")
_EPOCH: Final = "ot.stopping.epochs and ot.stopping.epochs_from_frame make such frames"


class Layers(NamedTuple):
    """Which rows are of which epoch.

    ``rows`` are in order of k and run; those of epoch k are from ``begin[k - 1]`` up to ``begin[k]``.
    """

    rows: Ints
    begin: Ints

    @classmethod
    def of(cls, k: Ints) -> "Layers":
        """Of the epoch of every row. O(rows)."""
        deepest = int(k.max(initial=0))
        rows = np.argsort(k.astype(np.uint16) if deepest < 2**16 else k, kind="stable")
        return cls(rows, np.cumsum(np.bincount(k, minlength=deepest + 1)))

    def at(self, k: int) -> Ints:
        """The rows of an epoch, by run."""
        return self.rows[self.begin[k - 1] : self.begin[k]]


@dataclass(frozen=True, eq=False)
class Answers:
    """Runs of epochs and what stopping pays; rows are in order of run and k.

    ``k g`` are of rows, ``start length task fold`` of runs. ``g`` is what it pays to stop at the row, in
    units of q or of the reward. ``q`` and ``c`` are quality and cost so far, ``s`` the score. Runs of a task
    are in one fold. ``failed`` (of runs) says that the run ended with an error, ``cut`` that it would have
    gone on, had the recorded policy not stopped it; ``weight`` (of rows) how many runs one that was recorded
    up to the row stands for. With the estimand ``capped`` nothing is cut and every weight is 1.

    ``x`` are features, (columns, rows), NaN where absent. Its rows are in order of k and run: regressions are
    of one epoch, whose rows lie side by side.
    """

    names: tuple[str, ...]
    start: Ints
    length: Ints
    task: Ints
    fold: Ints
    failed: Bools
    k: Ints
    q: Floats
    s: Floats
    c: Floats
    g: Floats
    x: Floats
    weight: Floats
    cut: Bools

    def __len__(self) -> int:
        return len(self.start)

    @property
    def n_tasks(self) -> int:
        return int(self.task.max()) + 1 if self.task.size else 0

    @property
    def run(self) -> Ints:
        """The run of every row."""
        return np.repeat(np.arange(len(self.start)), self.length)

    @property
    def end(self) -> Ints:
        """The last row of every run."""
        return self.start + self.length - 1

    @property
    def last(self) -> Bools:
        """Whether a row is the last of its run."""
        flags = np.zeros(len(self.k), bool)
        flags[self.end] = True
        return flags

    @property
    def final(self) -> Bools:
        """Whether a row is the last of its run, and nothing could have followed."""
        flags = np.zeros(len(self.k), bool)
        flags[self.end[~self.cut]] = True
        return flags

    @cached_property
    def layers(self) -> Layers:
        """Which rows are of which epoch."""
        return Layers.of(self.k)

    @cached_property
    def payoffs(self) -> Floats:
        """The payoff g of rows in order of k and run, as the features are."""
        return self.g[self.layers.rows]

    @property
    def features(self) -> Floats:
        """The features of rows in order of run and k, (rows, columns) float64, column by column in memory."""
        columns = np.empty(self.x.shape)
        columns[:, self.layers.rows] = self.x
        return columns.T

    def rows_of(self, runs: Ints) -> Ints:
        """The rows of some of the runs, in their order."""
        length = self.length[runs]
        begin = np.cumsum(length) - length
        rows: Ints = np.repeat(self.start[runs] - begin, length) + np.arange(length.sum())
        return rows

    def take(self, runs: Ints, *, with_features: bool = True) -> "Answers":
        """Some of the runs, which rise."""
        rows, length = self.rows_of(runs), self.length[runs]
        return Answers(
            names=self.names if with_features else (),
            start=np.cumsum(length) - length,
            length=length,
            x=self._features_of(runs) if with_features else np.zeros((0, len(rows))),
            **{name: getattr(self, name)[runs] for name in ("task", "fold", "failed", "cut")},
            **{name: getattr(self, name)[rows] for name in ("k", "q", "s", "c", "g", "weight")},
        )

    def _features_of(self, runs: Ints) -> Floats:
        chosen = np.zeros(len(self), bool)
        chosen[runs] = True
        begin = self.layers.begin
        # of each epoch the runs that reach it, in their order
        at = [begin[k - 1] + np.flatnonzero(chosen[self.length >= k]) for k in range(1, len(begin))]
        return self.x.take(np.concatenate([np.zeros(0, np.int64), *at]), axis=1)

    def at(self, k: int, among: Ints) -> Ints:
        """The rows at epoch k of those runs of `among` that go on beyond it."""
        runs = among[self.length[among] > k]
        return self.start[runs] + k - 1

    def cut_at(self, k: int, among: Ints) -> Ints:
        """Those runs of `among` that the recorded policy stopped at epoch k."""
        cut: Ints = among[self.cut[among] & (self.length[among] == k)]
        return cut

    def stops(self, stop: Bools) -> Ints:
        """The row at which each run stops: the first where `stop` holds, else its last."""
        if not len(self):
            return np.zeros(0, np.int64)
        rows = np.where(stop, np.arange(len(self.k)), len(self.k))
        return np.minimum(np.minimum.reduceat(rows, self.start), self.end)


def answers(
    epochs: pl.DataFrame,
    *,
    problem: Problem,
    price: Price,
    cost: str,
    folds: int,
    seed: int,
    features: tuple[str, ...] | None = None,
    by_name: bool = False,
) -> Answers:
    """Check epochs and lay them out, by the numbers of runs or, for what is summed over them, by their names.

    Raises
    ------
    ParameterError
        A price that is no number, or a feature that the frame does not have.
    SchemaError
        Epochs that contradict each other, or that lack what the problem needs.
    """
    how = Layout(problem, price, cost, folds, seed, features)
    return laid_out(check_epochs(epochs), how, by_name=by_name)


class Layout(NamedTuple):
    """What `laid_out` makes of rows: arguments of `evaluate`."""

    problem: Problem
    price: Price
    cost: str
    folds: int = 2
    seed: int = 0
    features: tuple[str, ...] | None = None


def laid_out(rows: pl.DataFrame, how: Layout, *, by_name: bool = False) -> Answers:
    """Lay out rows that `check_epochs` checked, as they come or by the names of runs.

    Raises
    ------
    ParameterError, SchemaError
        As `answers`, but for contradictions.
    """
    problem, price, cost, folds, seed, features = how
    k = rows["k"].to_numpy().astype(np.int64)
    start = np.flatnonzero(k == 1)
    length = np.diff(np.append(start, len(k)))
    end = start + length - 1
    spent = _spent(rows, price, cost)
    if problem == "answer":
        if rows["q"].null_count():
            raise SchemaError(
                "epochs have no quality q in some rows, so that stopping early pays nothing that is known:"
                " ask problem='abort', or take epochs of a source with drafts or attempts"
            )
        g = rows["q"].to_numpy() - spent
    else:
        if rows["y"].null_count():
            raise SchemaError("epochs have no outcome y in some rows: leave these runs out")
        g = 0.0 - spent
        g[end] += rows["y"].gather(end).to_numpy()
    if not np.isfinite(g).all():
        raise ParameterError("a payoff is beyond the range of a float: give a smaller price")
    named = _features(rows, features)
    heads = rows.select("trace", "trace_id", "task_id")[start]
    failed = (rows["end"].gather(end) == "error").fill_null(False).to_numpy()
    order: slice | Ints = slice(None)
    if by_name and len(start):
        # whole runs move: only their heads are sorted
        runs = heads.select(pl.arg_sort_by("trace_id", "trace")).to_series().to_numpy().astype(np.int64)
        heads, failed = heads[runs], failed[runs]
        moved, length = start[runs], length[runs]
        start = np.cumsum(length) - length
        order = np.repeat(moved - start, length) + np.arange(len(k))
    tasks = heads["task_id"].to_list()
    _, task = np.unique(np.array(tasks, dtype=object).astype(str), return_inverse=True)
    k = k[order]
    by_epoch = Layers.of(k).rows
    x = np.empty((len(named), len(k)))

    def lay_out(column: int) -> None:
        x[column] = _numbers(rows[named[column]])[order][by_epoch]

    side_by_side(lay_out, range(len(named)), len(k))
    return Answers(
        names=named,
        start=start,
        length=length,
        task=task.astype(np.int64),
        fold=folds_over(tasks, folds, seed) if tasks else np.zeros(0, np.int64),
        failed=failed,
        k=k,
        q=_numbers(rows["q"])[order],
        s=_numbers(rows["s"])[order],
        c=_cost(rows, cost)[order],
        g=g[order].astype(np.float64, copy=False),
        x=x,
        weight=np.broadcast_to(np.float64(1.0), len(k)),
        cut=np.zeros(len(start), bool),
    )


def _numbers(column: pl.Series) -> Floats:
    return column.cast(pl.Float64).fill_null(math.nan).to_numpy().astype(np.float64)


def _features(rows: pl.DataFrame, features: tuple[str, ...] | None) -> tuple[str, ...]:
    """Names of columns: those given, else all that begin with x_."""
    if features is None:
        named = tuple(name for name in rows.columns if name.startswith("x_"))
        if not named:
            raise ParameterError(
                f"epochs have no feature, a column x_...: {_EPOCH}, or join ot.stopping.features"
            )
        return named
    for name in features:
        if name not in rows.columns:
            raise ParameterError(unknown_name("feature", str(name), rows.columns))
        if not (rows.schema[name].is_numeric() or rows.schema[name] == pl.Boolean):
            raise ParameterError(f"feature '{name}' is a column of {rows.schema[name]}, expected numbers")
    return tuple(features)


def _cost(rows: pl.DataFrame, cost: str) -> Floats:
    if cost not in COSTS:
        raise ParameterError(unknown_name("cost", str(cost), list(COSTS)))
    column = rows["k"] if cost == "epochs" else rows[cost]
    if column.null_count():
        raise SchemaError(f"epochs have no {cost} in some rows: ask another cost, such as 'epochs'")
    return column.cast(pl.Float64).to_numpy().astype(np.float64)


def _spent(rows: pl.DataFrame, price: Price, cost: str) -> Floats:
    """What was spent up to each row, at the price of one unit of cost, or of several."""
    prices = dict(price) if isinstance(price, Mapping) else {cost: price}
    spent = np.zeros(rows.height)
    for name, rate in prices.items():
        if not Number(0).has(rate):
            raise ParameterError(
                f"price is {briefly(rate)}, expected a finite number from 0, or numbers by cost"
            )
        if rate:
            with np.errstate(over="ignore"):  # the payoff that comes of it is refused
                spent = spent + rate * _cost(rows, str(name))
    return spent
