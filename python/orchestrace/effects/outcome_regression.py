"""Expected returns of actions, by ridge regression and fitted evaluation of the policy, folded over tasks."""

from typing import Final

import numpy as np
import polars as pl

from ..base.arrays import Floats, Ints
from ..statistics.regression import Design, ridge_on
from .logged_decisions import Log

_SETTLED: Final = 1e-12


def fitted_returns(
    log: Log,
    columns: list[str],
    target: Floats,
    fold: Ints,
    *,
    discount: float,
    penalty: float,
) -> Floats:
    """The expected return of every action in every row, (rows, actions), fitted without the row's fold.

    Ridge regression on the columns and indicators of actions. In runs of several decisions it sees the place
    of a decision in its run, too. The outcome that is regressed on is then the reward plus what the policy
    expects from the next decision on, and the regression is repeated until it settles, at most as often as
    the longest run has decisions.
    """
    n_actions = target.shape[1]
    # a frame of no column would have no rows
    rows = log.rows.select(list(dict.fromkeys(["trace", *columns])))
    if int(log.length.max()) > 1:
        name = "place"
        while name in rows.columns:
            name += " "
        # words, since what is still to come need not fall by as much from place to place
        rows = rows.with_columns(pl.Series(name, log.place).cast(pl.String))
        columns = [*columns, name]
    found = np.zeros((len(log.action), n_actions))
    marks = np.zeros_like(found)
    marks[np.arange(len(marks)), log.action] = 1.0
    last = log.last
    parts = np.unique(fold)
    for own in parts:
        judge = fold == own
        learn = ~judge if len(parts) > 1 else judge
        others = rows.filter(pl.Series(learn))
        design = Design.of(others, columns)
        x = design.matrix(others)
        solve = ridge_on(np.column_stack([x, marks[learn]]), penalty)
        reward, on, ends = log.reward[learn], target[learn], last[learn]
        of_state = x.shape[1]
        weights = solve(reward)
        for _ in range(int(log.length.max()) - 1):
            expected = x @ weights[:of_state] + on @ weights[of_state:]
            later = np.where(ends, 0.0, np.roll(expected, -1))
            new = solve(reward + discount * later)
            moved = float(np.abs(new - weights).max())
            weights = new
            if not np.isfinite(moved) or moved <= _SETTLED * float(np.abs(weights).max()):
                break
        state = design.matrix(rows.filter(pl.Series(judge))) @ weights[:of_state]
        found[judge] = state[:, None] + weights[of_state:]
    return found


def buckets_of(rows: pl.DataFrame, columns: list[str], most: int, cuts: int) -> Ints:
    """The bucket of every row: one per combination of values.

    A column of more than `most` numbers is cut at quantiles into `cuts` parts.
    """
    bucket = np.zeros(rows.height, np.int64)
    for name in columns:
        column = rows[name]
        if column.dtype.is_numeric() and column.n_unique() > most:
            values = column.cast(pl.Float64).to_numpy()
            edges = np.quantile(values[~np.isnan(values)], np.linspace(0.0, 1.0, cuts + 1)[1:-1])
            own = np.where(np.isnan(values), cuts, np.searchsorted(edges, values, side="right"))
        else:
            words = column.cast(pl.String)
            own = words.rank("dense").cast(pl.Int64).fill_null(0).to_numpy()
        joined = bucket * (int(own.max(initial=0)) + 1) + own
        bucket = np.unique(joined, return_inverse=True)[1].astype(np.int64)
    return bucket
