"""Runs as arrays, the input of fits and evaluations of stopping rules."""

from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from ..base.arrays import Bools, Floats, Ints
from ..base.errors import ParameterError, SchemaError
from ..base.schema import cast_exactly
from ..corpus.reward import reaches
from ..statistics.folds import keyed_hash
from .epochs import EPOCHS

Cost = Literal["auto", "tokens", "seconds", "usd", "epochs"]

_NEEDED: Final = ("trace", "trace_id", "task_id", "k")
_OF_RUNS: Final = ("y", "trace_id", "task_id")


def check_epochs(epochs: pl.DataFrame) -> pl.DataFrame:
    """Epochs with the types of `EPOCHS`, ordered by ``trace`` and ``k``; other columns stay.

    Raises
    ------
    SchemaError
        A column is missing or of another type, k is not 1..K in a run, ids or outcomes of a run differ, or a
        number is not finite.
    """
    for name in (*_NEEDED, "s", "y"):
        if name not in epochs.columns:
            raise SchemaError(
                f"epochs has no column '{name}'; give the frame as ot.stopping.epochs_from_frame makes it"
            )
    typed = epochs.with_columns(
        cast_exactly(epochs[name], dtype, f"column '{name}' of epochs")
        for name, dtype in EPOCHS.items()
        if name in epochs.columns
    )
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in EPOCHS.items() if name not in typed.columns]
    rows = typed.with_columns(absent)
    same = pl.col("trace") == pl.col("trace").shift(1)
    in_order = (pl.col("trace") > pl.col("trace").shift(1)) | (same & (pl.col("k") > pl.col("k").shift(1)))
    if not rows.select(in_order.slice(1).fill_null(False).all()).item():
        rows = rows.sort("trace", "k")
    for name in _NEEDED:
        if rows[name].null_count():
            raise SchemaError(f"column '{name}' of epochs has nulls, expected a value in every row")
    for name in ("s", "y", "tokens", "seconds", "usd"):
        if not rows[name].is_finite().fill_null(True).all():
            raise SchemaError(f"column '{name}' of epochs has NaN or infinity, expected finite numbers")
    # each row beside the one before it: runs are in order
    k = pl.col("k").cast(pl.Int64)
    among = pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift(1)) for name in _OF_RUNS)
    for broken, problem in (
        (k != pl.when(same).then(k.shift(1) + 1).otherwise(1), "does not have k = 1, 2, ... without a gap"),
        (same & among, "has several values of y, trace_id or task_id"),
    ):
        at = rows.select(broken.fill_null(False).arg_true()).to_series()
        if len(at):
            raise SchemaError(f"trace {rows['trace'][at[0]]} of epochs {problem}")
    return rows


def check_cost(rows: pl.DataFrame, cost: str) -> str:
    """The column that costs are counted in; ``epochs`` stands for k.

    Raises
    ------
    ParameterError
        A column with nulls.
    """
    if cost == "auto":
        return "epochs" if rows["tokens"].null_count() or not rows.height else "tokens"
    if cost != "epochs" and rows[cost].null_count():
        raise ParameterError(f"cost is '{cost}', but some epochs lack it; use cost='epochs'")
    return cost


@dataclass(frozen=True, eq=False)
class Runs:
    """Runs of epochs; arrays of rows are in order of run and k, arrays of runs in order of trace.

    ``start length`` say which rows a run has; ``k s c`` are of rows (``c`` cumulative). ``total`` is of runs,
    and so are ``success`` and ``has_outcome``, whether the outcome is recorded.
    """

    rows: pl.DataFrame
    start: Ints
    length: Ints
    k: Ints
    s: Floats
    c: Floats
    total: Floats
    success: Bools
    has_outcome: Bools
    names: list[str]
    tasks: list[str]
    cost: str

    @classmethod
    def of(cls, epochs: pl.DataFrame, cost: str = "auto", success: float = 1.0) -> "Runs":
        """Check epochs and lay them out, by the names of runs: sums over them go in that order."""
        return cls.laid_out(check_epochs(epochs).sort("trace_id", "trace", "k"), cost, success)

    @classmethod
    def laid_out(cls, rows: pl.DataFrame, cost: str, success: float) -> "Runs":
        """Of rows that were checked."""
        column = check_cost(rows, cost)
        k = rows["k"].to_numpy().astype(np.int64)
        start = np.flatnonzero(k == 1)
        length = np.diff(np.append(start, len(k)))
        c = (k if column == "epochs" else rows[column].to_numpy()).astype(np.float64)
        inside = np.ones(len(k), bool)
        inside[start] = False
        if c.size and (c.min() < 0.0 or (np.diff(c)[inside[1:]] < 0.0).any()):
            raise SchemaError(f"column '{column}' of epochs falls within a run, expected cumulative costs")
        first = rows[start]
        y = first["y"]
        return cls(
            rows=rows,
            start=start,
            length=length,
            k=k,
            s=rows["s"].to_numpy().astype(np.float64),
            c=c,
            total=c[start + length - 1],
            success=reaches(y, success).fill_null(False).to_numpy(),
            has_outcome=y.is_not_null().to_numpy(),
            names=first["trace_id"].to_list(),
            tasks=first["task_id"].to_list(),
            cost=column,
        )

    def __len__(self) -> int:
        return len(self.start)

    @property
    def run(self) -> Ints:
        """The run of every row."""
        return np.repeat(np.arange(len(self.start)), self.length)

    @property
    def failed(self) -> Bools:
        """Runs whose outcome is known, and no success."""
        return self.has_outcome & ~self.success

    def take(self, chosen: Bools) -> "Runs":
        """Some of the runs."""
        inside = np.repeat(chosen, self.length)
        length = self.length[chosen]
        return Runs(
            rows=self.rows.filter(pl.Series(inside)),
            start=np.cumsum(length) - length,
            length=length,
            k=self.k[inside],
            s=self.s[inside],
            c=self.c[inside],
            total=self.total[chosen],
            success=self.success[chosen],
            has_outcome=self.has_outcome[chosen],
            names=[name for name, is_chosen in zip(self.names, chosen, strict=True) if is_chosen],
            tasks=[task for task, is_chosen in zip(self.tasks, chosen, strict=True) if is_chosen],
            cost=self.cost,
        )

    def most(self, values: Floats) -> Floats:
        """The largest value of each run, of one value per row."""
        return np.maximum.reduceat(values, self.start) if len(self) else np.zeros(0)

    def first(self, true: Bools) -> Ints:
        """The first row of each run where something is true; -1 where it never is."""
        rows = np.full(len(self), -1)
        at = np.flatnonzero(true)
        runs, place = np.unique(self.run[at], return_index=True)
        rows[runs] = at[place]
        return rows


def uniforms(names: list[str], seed: int) -> Floats:
    """One number in [0, 1) per name, which depends on nothing but name and seed."""
    drawn = [int.from_bytes(keyed_hash(f"tie {name}", seed)[:7], "big") for name in names]
    return np.array(drawn, dtype=np.float64) / 2.0**56


def one_per_task(runs: Runs, among: Bools, seed: int) -> Bools:
    """One run per task of those `among`, drawn by seed and id."""
    best: dict[str, tuple[bytes, int]] = {}
    for at in np.flatnonzero(among):
        drawn = (keyed_hash(runs.names[at], seed), int(at))
        if (old := best.get(runs.tasks[at])) is None or drawn < old:
            best[runs.tasks[at]] = drawn
    chosen = np.zeros(len(runs), bool)
    chosen[[at for _, at in best.values()]] = True
    return chosen


def of_runs(runs: Runs, columns: dict[str, Any]) -> pl.DataFrame:
    """A frame of rows: which run and epoch, then these columns."""
    return runs.rows.select("trace", "trace_id", "task_id", "k").with_columns(**columns)
