"""Split-conformal sets of units of runs: nonconformity, thresholds and membership, on arrays alone."""

from dataclasses import dataclass
from math import ceil, inf
from typing import Literal

import numpy as np
import polars as pl

from ..base.arrays import Bools, Floats, Ints

Nonconformity = Literal["rank", "share", "mass"]


@dataclass(frozen=True)
class Ranking:
    """Where each unit stands in its run: (units,) arrays in the order of the units.

    ``above`` counts the units with a higher score, ``tied`` those with its score, itself counted, ``size``
    the units of the run. ``mass_above`` and ``mass_tied`` are the same of the softmax of the scores.
    """

    above: Floats
    tied: Floats
    size: Floats
    mass_above: Floats
    mass_tied: Floats

    def nonconformity(self, measure: Nonconformity, draws: Floats | None = None) -> Floats:
        """How far down the list each unit stands; `draws` in (0, 1] place it at random within its tie.

        Without draws ties count against the unit. O(units).
        """
        within: Floats = np.ones_like(self.tied) if draws is None else draws
        if measure == "mass":
            return self.mass_above + within * self.mass_tied
        down: Floats = self.above + within * self.tied
        return down / self.size if measure == "share" else down


def ranking(run: Ints, score: Floats) -> Ranking:
    """Rank the units of every run by score, the highest first.

    Parameters
    ----------
    run, score
        (units,) int64 and float64; a score that is NaN is below every number.

    Notes
    -----
    O(units log units). Sums of a run do not depend on the other runs.
    """
    scores = np.where(np.isnan(score), -inf, score)
    n = len(scores)
    order = np.lexsort((-scores, run))
    runs, sorted_scores = run[order], scores[order]
    new_run = np.r_[True, runs[1:] != runs[:-1]][:n]
    new_tie = new_run | np.r_[True, sorted_scores[1:] != sorted_scores[:-1]][:n]
    place = np.arange(n)
    run_start, run_of = np.flatnonzero(new_run), np.cumsum(new_run) - 1
    tie_start, tie_of = np.flatnonzero(new_tie), np.cumsum(new_tie) - 1
    size = np.diff(np.r_[run_start, n])
    tied = np.diff(np.r_[tie_start, n])
    top = sorted_scores[run_start][run_of]
    # where even the top has no score, all units of the run are alike
    weight = np.exp(np.where(np.isfinite(top), sorted_scores - np.where(np.isfinite(top), top, 0.0), 0.0))
    total = np.bincount(run_of, weight, minlength=len(size)) if n else np.zeros(0)
    mass = weight / total[run_of]
    tie_mass = np.bincount(tie_of, mass, minlength=len(tied)) if n else np.zeros(0)
    tie_run = run_of[tie_start]
    # run by run, so that no run sums another's
    above = pl.DataFrame({"run": tie_run, "mass": tie_mass}).select(
        pl.col("mass").cum_sum().shift(1, fill_value=0.0).over("run")
    )
    before = above["mass"].to_numpy()
    columns = (
        (tie_start - run_start[tie_run])[tie_of],
        tied[tie_of],
        size[run_of],
        before[tie_of],
        tie_mass[tie_of],
    )
    back = np.empty(n, np.int64)
    back[order] = place
    return Ranking(*(column[back].astype(np.float64) for column in columns))


def threshold(calibration: Floats, alpha: float) -> float:
    """The ceil((n + 1)(1 - alpha))-th smallest; infinite where n is too small for `alpha`.

    Parameters
    ----------
    calibration
        Nonconformity of the label of each calibration run, (runs,) float64.
    alpha
        How often a set may miss, between 0 and 1.

    Notes
    -----
    O(runs log runs). Source: Vovk, Gammerman & Shafer 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.evaluation.conformal import threshold
    >>> ranks = np.array([1.0, 1, 2, 2, 3, 4, 5, 7, 9])
    >>> threshold(ranks, 0.2), threshold(ranks, 0.1), threshold(ranks, 0.05)
    (7.0, 9.0, inf)
    """
    n = len(calibration)
    k = ceil((n + 1) * (1.0 - alpha) - 1e-9)  # 10 * (1 - .1) is 9, whatever the rounding
    return float(np.sort(calibration)[k - 1]) if k <= n else inf


def of_labels(values: Floats, run: Ints, labeled: Bools, every: bool) -> dict[int, float]:
    """The nonconformity of the label of each run: the smallest of several, of `every` label the largest."""
    at = np.flatnonzero(labeled)
    runs, place = np.unique(run[at], return_inverse=True)
    best = np.full(len(runs), -inf if every else inf)
    (np.maximum if every else np.minimum).at(best, place, values[at])
    return dict(zip(runs.tolist(), best.tolist(), strict=True))
