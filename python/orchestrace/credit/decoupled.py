"""Advantages of several rewards, each normalized within its group by itself (arXiv 2601.05242, section 3)."""

from typing import Final

import numpy as np
import polars as pl

from .. import _core
from ..base.arrays import ROUNDING, Floats, Ints

TRL_EPSILON: Final = 1e-4
"""What TRL adds to each deviation."""


def decoupled(
    rewards: list[Floats],
    weights: list[float],
    groups: Ints,
    batches: Ints | None,
    *,
    ddof: int,
    epsilon: float,
    batch_ddof: int,
    threads: int | None = None,
) -> tuple[Floats, Ints]:
    """Advantages of rollouts, and whether their group says nothing.

    Parameters
    ----------
    rewards
        One array per reward, (rollouts,): NaN where a rollout has none.
    weights
        Of each reward.
    groups, batches
        (rollouts,): whole numbers of 0 or more; without batches the sums stay as they are.
    ddof, epsilon, batch_ddof
        Of the deviation within a group, added to every deviation, of the deviation over a batch.

    Returns
    -------
    tuple
        (rollouts,): advantages, NaN for a rollout without any reward; and flags.
    """
    total, size = np.zeros(groups.size), np.zeros(groups.size)
    rewarded = np.zeros(groups.size, bool)
    for reward, weight in zip(rewards, weights, strict=True):
        present = ~np.isnan(reward)
        of = groups[present]
        frame = pl.DataFrame({"rewards": reward[present], "groups": of.astype(np.uint32)})
        advantages = _core.relative(
            frame, scale="deviation", ddof=ddof, epsilon=epsilon, lone=False, threads=threads
        )
        part = weight * pl.DataFrame(advantages).to_series().to_numpy()
        total[present] += part
        size[present] += np.abs(part)
        rewarded |= present
    # a sum that cancels out is 0: the deviation of the batch must not enlarge its rounding error
    total = np.where(np.abs(total) <= ROUNDING * size, 0.0, total)
    silent = np.bincount(groups, weights=total != 0.0)[groups] == 0.0
    if batches is not None and rewarded.any():
        total = _normalized(total, rewarded, batches, batch_ddof, epsilon)
    return np.where(rewarded, np.where(silent, 0.0, total), np.nan), silent


def _normalized(sums: Floats, rewarded: Ints, batches: Ints, ddof: int, epsilon: float) -> Floats:
    """Sums less the mean of their batch, by its deviation."""
    out = np.zeros(sums.size)
    for batch in np.unique(batches[rewarded]):
        here = rewarded & (batches == batch)
        if here.sum() > ddof and np.ptp(sums[here]) > 0.0:
            mean, deviation = sums[here].mean(), sums[here].std(ddof=ddof)
            out[here] = (sums[here] - mean) / (deviation + epsilon)
    return out
