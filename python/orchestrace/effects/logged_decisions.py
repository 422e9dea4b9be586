"""Logged decisions as arrays: checked, in an order of their own, in runs of one decision or several."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl

from ..base.arrays import Bools, Floats, Ints
from ..base.errors import ParameterError, SchemaError
from ..base.schema import unknown_name
from ..base.text import briefly, plain
from .action_tables import check_number_of_actions

Unit = Literal["decision", "sequence"]

_LARGEST: Final = 1e100
_SHAPE: Final = "give a row per decision, with the columns trace, task_id, action, p_behavior and outcome"


@dataclass(frozen=True, eq=False)
class Log:
    """Decisions in order of task, run and place; the runs follow each other.

    ``action`` (codes of ``actions``), ``reward`` and ``p`` (NaN where not recorded) are of rows, ``start``
    and ``length`` of runs, and so is ``cluster``: the task, or in a log of one task the run; their names are
    ``names``. Runs left out have no outcome, no action, or no decision at the place that was asked for.
    """

    rows: pl.DataFrame
    actions: tuple[str, ...]
    action: Ints
    p: Floats
    reward: Floats
    start: Ints
    length: Ints
    cluster: Ints
    clusters: str
    names: list[str]
    left_out: int

    def __len__(self) -> int:
        return len(self.start)

    @property
    def run(self) -> Ints:
        """The run of every row."""
        return np.repeat(np.arange(len(self.start)), self.length)

    @property
    def place(self) -> Ints:
        """The place of every row in its run, from 0."""
        return np.arange(len(self.action)) - np.repeat(self.start, self.length)

    @property
    def last(self) -> Bools:
        """Whether a row is the last of its run."""
        ends = np.zeros(len(self.action), bool)
        ends[self.start + self.length - 1] = True
        return ends

    def summed(self, values: Floats) -> Floats:
        """The sum of the values (rows,) of each run."""
        sums: Floats = np.add.reduceat(values, self.start) if len(self) else np.zeros(0)
        return sums


def logged(decisions: pl.DataFrame, *, unit: Unit, at: int, order: str, reward: str | None) -> Log:
    """Check a frame of decisions and lay it out.

    Raises
    ------
    SchemaError
        A column is missing, of another type, or contradicts another.
    ParameterError
        `reward` is not a column.
    """
    rows = _typed(decisions, order, reward)
    keys = ["task_id", "trace_id", "trace"]
    rows = rows.sort(*keys, order) if order in rows.columns else rows.sort(*keys)
    new = rows.select(pl.struct(keys).rle_id()).to_series().to_numpy()
    start = np.flatnonzero(np.diff(new, prepend=-1))
    length = np.diff(np.append(start, rows.height))
    _check_runs(rows, order, len(start))
    n_runs = len(start)
    place = np.arange(rows.height) - np.repeat(start, length)
    paid = "outcome" if reward is None else reward
    if unit == "decision":
        used = (place == at - 1) & rows.select(pl.col("action", paid).is_not_null()).fold(_both).to_numpy()
    else:
        recorded = rows["action"].is_not_null()
        if reward is not None:
            recorded &= rows[reward].is_not_null()
        else:
            _check_outcomes(rows, start)
            recorded &= rows["outcome"].is_not_null()
        complete = np.logical_and.reduceat(recorded.to_numpy(), start) if n_runs else np.zeros(0, bool)
        used = np.repeat(complete, length)
    rows = rows.filter(pl.Series(used, dtype=pl.Boolean))
    number = np.repeat(np.arange(n_runs), length)[used]
    start = np.flatnonzero(np.diff(number, prepend=-1))
    length = np.diff(np.append(start, rows.height))
    amount = rows[paid].to_numpy().astype(np.float64)
    if unit == "sequence" and reward is None:
        last = np.zeros(rows.height, bool)
        last[start + length - 1] = True
        amount = np.where(last, amount, 0.0)
    actions = rows["action"].unique().sort().to_list()
    check_number_of_actions(len(actions), "decisions")
    heads = rows.select("task_id", "trace_id")[start]
    kind = "traces" if heads["task_id"].n_unique() == 1 else "tasks"
    names = heads["task_id" if kind == "tasks" else "trace_id"]
    # runs are in order of these names: a new one begins a cluster
    cluster = names.rle_id().to_numpy().astype(np.int64)
    return Log(
        rows=rows,
        actions=tuple(actions),
        action=rows["action"].cast(pl.Enum(actions)).to_physical().to_numpy().astype(np.int64),
        p=rows["p_behavior"].fill_null(np.nan).to_numpy().astype(np.float64),
        reward=amount,
        start=start,
        length=length,
        cluster=cluster,
        clusters=kind,
        names=names.filter(names.rle_id().diff().fill_null(1) > 0).to_list(),
        left_out=n_runs - len(start),
    )


def _both(a: pl.Series, b: pl.Series) -> pl.Series:
    return a & b


def _typed(decisions: pl.DataFrame, order: str, reward: str | None) -> pl.DataFrame:
    for name in ("trace", "task_id", "action", *(() if reward is not None else ("outcome",))):
        if name not in decisions.columns:
            raise SchemaError(f"decisions has no column '{name}': {_SHAPE}")
    if reward is not None and reward not in decisions.columns:
        raise ParameterError("reward: " + unknown_name("column", reward, decisions.columns))
    rows = decisions
    for name in ("task_id", "action", *(("trace_id",) if "trace_id" in rows.columns else ())):
        kind = rows.schema[name]
        if not (kind in (pl.String, pl.Categorical, pl.Enum, pl.Null) or kind.is_integer()):
            raise SchemaError(f"column '{name}' of decisions has type {kind}, expected text")
    if rows.schema["trace"].is_nested() or rows.schema["trace"].is_float():
        raise SchemaError(
            f"column 'trace' of decisions has type {rows.schema['trace']}, expected numbers or text"
        )
    if order in rows.columns and (rows.schema[order].is_nested() or rows[order].null_count()):
        raise SchemaError(
            f"column '{order}' of decisions has nulls or lists, expected the order of decisions"
        )
    text = [pl.col("task_id", "action").cast(pl.String)]
    text.append(
        pl.col("trace_id" if "trace_id" in rows.columns else "trace").cast(pl.String).alias("trace_id")
    )
    numbers = ["outcome"] if reward is None else [reward]
    if "p_behavior" in rows.columns:
        numbers.append("p_behavior")
    else:
        text.append(pl.lit(None, pl.Float64).alias("p_behavior"))
    for name in numbers:
        kind = rows.schema[name]
        if not (kind.is_numeric() or kind == pl.Null):
            raise SchemaError(f"column '{name}' of decisions has type {kind}, expected numbers")
    rows = rows.with_columns(*text, pl.col(numbers).cast(pl.Float64))
    paid = rows[numbers[0]].drop_nulls()
    wrong = paid.filter(~paid.is_finite() | (paid.abs() > _LARGEST))
    if wrong.len():
        raise SchemaError(
            f"column '{numbers[0]}' of decisions has the value {wrong[0]:g}, expected numbers, at most"
            f" {_LARGEST:.0e} in size"
        )
    for name in ("trace", "task_id", "trace_id"):
        if rows[name].null_count():
            raise SchemaError(f"column '{name}' of decisions has nulls, expected a value in every row")
    if "kind" in rows.columns and rows["kind"].n_unique() > 1:
        raise SchemaError(
            "decisions are of several kinds, which have no policy in common: keep one, as in"
            " decisions.filter(pl.col('kind') == 'O1')"
        )
    return rows


def _check_runs(rows: pl.DataFrame, order: str, n_runs: int) -> None:
    """Runs have one task, one id, and an order where they have several decisions."""
    if rows["trace"].n_unique() != n_runs:
        raise SchemaError("decisions of one trace have several values of task_id or trace_id, expected one")
    if n_runs == rows.height:
        return
    if order not in rows.columns:
        raise SchemaError(
            f"a trace of decisions has several rows and there is no column {briefly(order)} that orders them:"
            " name one by order="
        )
    twice = rows.select("trace", order).is_duplicated()
    if twice.any():
        trace = rows.filter(twice)["trace"][0]
        raise SchemaError(
            f"trace {plain(trace)} of decisions has two rows with one {order}, expected an order of decisions"
        )


def _check_outcomes(rows: pl.DataFrame, start: Ints) -> None:
    """The outcome is that of the run, in each of its rows."""
    runs = pl.Series(np.repeat(np.arange(len(start)), np.diff(np.append(start, rows.height))))
    several = rows.select(pl.col("outcome").n_unique().over(runs) > 1).to_series()
    if several.any():
        trace = rows.filter(several)["trace"][0]
        raise SchemaError(
            f"trace {plain(trace)} of decisions has several outcomes: if these reward single decisions,"
            " say so by reward='outcome'"
        )
