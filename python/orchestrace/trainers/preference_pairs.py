"""Pairs of runs of which one is preferred, matched so that their lengths differ least."""

import numpy as np
import polars as pl
from scipy.optimize import linear_sum_assignment

from ..base.arrays import Floats


def pairs_of(runs: pl.DataFrame, margin: float) -> pl.DataFrame:
    """Which run is preferred to which: each run is in one pair at most.

    Parameters
    ----------
    runs
        Of one set of attempts at one prompt: ``trace trace_id passed reward tokens_out behaviour``,
        ``passed`` not null. Runs of one behaviour, which is not null, are no pair.
    margin
        By how much the reward of the preferred has to be larger.

    Returns
    -------
    DataFrame
        ``chosen rejected apart``: traces, and by how much lengths differ, the least first.

    Notes
    -----
    The most pairs that there can be, and of these the ones with the least sum of |ln tokens - ln tokens|
    (where a number is unknown, it differs from every other by 1): a preference for passing that is a
    preference for being long, or short, teaches length. O(n³) of the attempts of a prompt.
    """
    ordered = runs.sort("trace_id")
    good, bad = ordered.filter("passed"), ordered.filter(~pl.col("passed"))
    gap = good["reward"].to_numpy()[:, None] - bad["reward"].to_numpy()[None, :]
    cost = np.abs(_lengths(good)[:, None] - _lengths(bad)[None, :])
    cost = np.where(np.isnan(cost), 1.0, cost)
    did = [side["behaviour"].cast(pl.String).fill_null("").to_numpy() for side in (good, bad)]
    same = (did[0][:, None] == did[1][None, :]) & (did[0] != "")[:, None]
    allowed = (gap >= margin) & ~same
    # a pair that is not allowed costs more than all others together
    barred = 1.0 + cost.sum()
    left, right = linear_sum_assignment(np.where(allowed, cost, barred))
    is_allowed = allowed[left, right]
    left, right = left[is_allowed], right[is_allowed]
    apart = cost[left, right]
    order = np.lexsort((left, apart))
    return pl.DataFrame(
        {
            "chosen": good["trace"].to_numpy()[left[order]],
            "rejected": bad["trace"].to_numpy()[right[order]],
            "apart": apart[order],
        },
        schema={"chosen": pl.UInt32, "rejected": pl.UInt32, "apart": pl.Float64},
    )


def _lengths(runs: pl.DataFrame) -> Floats:
    """ln of what runs wrote, NaN where that is unknown."""
    tokens = runs["tokens_out"].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    logs: Floats = np.log(np.maximum(tokens, 1.0))
    return logs
