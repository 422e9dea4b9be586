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
        # as words: the rewards still to come need not fall evenly from place to place
        rows = rows.with_columns(pl.Series(name, log.place).cast(pl.String))
        columns = [*columns, name]
    fitted = np.zeros((len(log.action), n_actions))
    marks = np.zeros_like(fitted)
    marks[np.arange(len(marks)), log.action] = 1.0
    last = log.last
    parts = np.unique(fold)
    for part in parts:
        judge = fold == part
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
        fitted[judge] = state[:, None] + weights[of_state:]
    return fitted


def returns_where_followed(
    log: Log, columns: list[str], target: Floats, fold: Ints, *, penalty: float
) -> Floats:
    """The expected return of what a policy without chance does in every row, fitted for ``mrdr``.

    Ridge regression without the row's fold, on the rows in which the log did what the policy does. Each
    counts (1 - p) / p² times, scaled to a mean of 1, so that the penalty weighs as much as it does elsewhere.
    If all of them were sure (p = 1), nothing is left to correct, and each counts once. Without such rows it
    is 0, which makes the estimate that of inverse propensity weighting.
    """
    choice = target.argmax(axis=1)
    followed = log.action == choice
    marks = np.zeros_like(target)
    marks[np.arange(len(marks)), choice] = 1.0
    # a frame of no column would have no rows
    rows = log.rows.select(list(dict.fromkeys(["trace", *columns])))
    fitted = np.zeros(len(choice))
    parts = np.unique(fold)
    for part in parts:
        judge = fold == part
        learn = followed & (~judge if len(parts) > 1 else judge)
        if not learn.any():
            continue
        others = rows.filter(pl.Series(learn))
        design = Design.of(others, columns)
        x = np.column_stack([design.matrix(others), marks[learn]])
        weights = ridge_on(x, penalty, _added_variance(log.p[learn]))(log.reward[learn])
        fitted[judge] = (
            np.column_stack([design.matrix(rows.filter(pl.Series(judge))), marks[judge]]) @ weights
        )
    return fitted


def _added_variance(p: Floats) -> Floats:
    """(1 - p) / p², with a mean of 1; all 1 where it is 0 everywhere."""
    with np.errstate(divide="ignore"):
        logs = np.log1p(-p) - 2.0 * np.log(p)
    largest = logs.max()
    if largest == -np.inf:
        return np.ones(len(p))
    # of the largest, since the square of a small probability is no float
    share: Floats = np.exp(logs - largest)
    times: Floats = share / share.mean()
    return times


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
            codes = np.where(np.isnan(values), cuts, np.searchsorted(edges, values, side="right"))
        else:
            words = column.cast(pl.String)
            codes = words.rank("dense").cast(pl.Int64).fill_null(0).to_numpy()
        joined = bucket * (int(codes.max(initial=0)) + 1) + codes
        bucket = np.unique(joined, return_inverse=True)[1].astype(np.int64)
    return bucket
