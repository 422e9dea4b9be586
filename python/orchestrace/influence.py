"""Errors of averages over decisions: sums of influence per task, and intervals by resampling the tasks.

An estimate that is smooth in averages moves, if a task is taken out or counted twice, by the sum of the
influence of the task's rows. That sum is all that is needed of a task: rollouts of one task, and decisions of
one rollout, never count as independent.
"""

from typing import Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .resampling import draws

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

SMALL: Final = 10
"""Below so many clusters resamples repeat themselves, and Student's t is used instead."""


class Interval(NamedTuple):
    """Standard error and ends of an interval around an estimate; null with fewer than two clusters."""

    stderr: float | None
    lower: float | None
    upper: float | None


def clusters_of(rows: pl.DataFrame) -> tuple[Ints, str]:
    """The cluster of every row, and what clusters are: ``tasks``, or ``traces`` in a corpus of one task."""
    kind = "task_id" if rows["task_id"].n_unique() > 1 else "trace_id"
    _, codes = np.unique(rows[kind].to_numpy(), return_inverse=True)
    return codes.astype(np.int64), "tasks" if kind == "task_id" else "traces"


def interval(
    estimate: float, influence: Floats, clusters: Ints, *, n_boot: int, seed: int, confidence: float
) -> Interval:
    """The interval of an estimate whose rows have this influence.

    Parameters
    ----------
    estimate
        In units of the outcome.
    influence
        By how much each row moves the estimate, (rows,) float64; sums to 0.
    clusters
        The cluster of each row, (rows,) int64.
    n_boot, seed, confidence
        Resamples, their seed, and the coverage.

    Returns
    -------
    Interval
        ``stderr`` = √(C/(C-1) Σ u_c²), u_c the sum of influence in cluster c. The interval is
        the symmetric bootstrap-t one over clusters, from `SMALL` of them on, else Student's, C - 1 degrees
        of freedom.

    Notes
    -----
    O(rows + n_boot * clusters). Source: sandwich over clusters, Liang & Zeger 1986; symmetric
    bootstrap-t, Hall 1988: of one-sided quantiles, and of percentiles, fewer intervals cover.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.influence import interval
    >>> values = np.array([1.0, 2.0, 3.0, 6.0])
    >>> psi = (values - values.mean()) / 4  # of a mean
    >>> got = interval(3.0, psi, np.arange(4), n_boot=100, seed=0, confidence=0.95)
    >>> round(got.stderr, 6) == round(float(values.std(ddof=1)) / 2, 6)
    True
    """
    _, codes = np.unique(clusters, return_inverse=True)
    n = int(codes.max(initial=-1)) + 1
    if n < 2:
        return Interval(None, None, None)
    sums: Floats = np.bincount(codes, weights=influence, minlength=n).astype(np.float64)
    stderr = float(np.sqrt(n / (n - 1) * np.square(sums).sum()))
    if stderr <= 1e-12 * max(abs(estimate), 1e-300):
        # rounding is all that is left: the estimate does not move
        return Interval(0.0, estimate, estimate)
    reach = _quantile(sums, confidence, n_boot, seed) * stderr
    return Interval(stderr, estimate - reach, estimate + reach)


def spanning_interval(
    estimate: float,
    influence: Floats,
    clusters: Ints,
    buckets: Ints,
    lone: Bools,
    *,
    n_boot: int,
    seed: int,
    confidence: float,
) -> Interval:
    """The interval of an average over buckets, of which some may join rows of several clusters.

    Parameters
    ----------
    estimate, influence, clusters, n_boot, seed, confidence
        As of `interval`.
    buckets
        The bucket of each row, (rows,) int64.
    lone
        Whether the row's bucket has an arm of one row, (rows,) bool: what is drawn there shows between
        buckets only.

    Returns
    -------
    Interval
        That of `interval` where every bucket lies in one cluster. Else the variance is that over clusters,
        plus that over the lone buckets, less that over the parts which both share; the interval is Student's,
        with as many degrees of freedom as there are clusters, or, if fewer, buckets, less one.

    Notes
    -----
    O(rows log rows + n_boot * clusters). Source: multi-way clustering, Cameron, Gelbach & Miller 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.influence import spanning_interval
    >>> psi = np.array([0.25, 0.25, -0.25, -0.25])  # of two pairs, each of two runs
    >>> runs, pairs = np.arange(4), np.array([0, 0, 1, 1])
    >>> got = spanning_interval(1.0, psi, runs, pairs, np.full(4, True), n_boot=9, seed=0, confidence=0.5)
    >>> round(got.stderr, 6), round(got.upper, 6)
    (1.0, 2.0)
    """
    pairs = np.unique(np.stack([buckets, clusters], axis=1), axis=0)
    if len(pairs) == len(np.unique(buckets)):
        return interval(estimate, influence, clusters, n_boot=n_boot, seed=seed, confidence=confidence)
    n, n_buckets = len(np.unique(clusters)), len(np.unique(buckets))
    df = (min(n, n_buckets) if lone.any() else n) - 1
    if df < 1:
        return Interval(None, None, None)
    own, of = influence[lone], np.stack([buckets, clusters], axis=1)[lone]
    variance = n / (n - 1) * _squares(influence, clusters)
    if lone.any():
        variance += n_buckets / (n_buckets - 1) * _squares(own, of[:, 0])
        # the same factor as that of the clusters: rows that are alone in both must cancel exactly
        variance -= n / (n - 1) * _squares(own, np.unique(of, axis=0, return_inverse=True)[1].ravel())
    stderr = float(np.sqrt(max(variance, 0.0)))
    reach = t_quantile((1.0 + confidence) / 2.0, df) * stderr
    return Interval(stderr, estimate - reach, estimate + reach)


def _squares(values: Floats, keys: Ints) -> float:
    """The sum of squares of the sums per key."""
    _, codes = np.unique(keys, return_inverse=True)
    return float(np.square(np.bincount(codes, weights=values)).sum())


def _quantile(sums: Floats, confidence: float, n_boot: int, seed: int) -> float:
    """The quantile of |resampled - estimate| / (its own error)."""
    n = len(sums)
    if n < SMALL:
        return t_quantile((1.0 + confidence) / 2.0, n - 1)
    # a common scale keeps squares of tiny rewards above the smallest float
    scaled = sums / np.abs(sums).max()
    square = np.square(scaled)
    parts = []
    for times in draws(n, n_boot, seed):
        # not by BLAS, whose sums depend on the number of its threads
        moved, squares = (np.einsum("ij,j->i", times, column) for column in (scaled, square))
        spread = np.sqrt(np.maximum(n / (n - 1) * (squares - np.square(moved) / n), 0.0))
        with np.errstate(divide="ignore", invalid="ignore"):
            parts.append(np.where(spread > 1e-9, moved / spread, np.nan))
    t = np.concatenate(parts)
    # a resample of one cluster only has no spread of its own, and tells nothing
    t = np.abs(t[np.isfinite(t)])
    return float(np.quantile(t, confidence)) if t.size else t_quantile((1.0 + confidence) / 2.0, n - 1)


def t_quantile(q: float, df: float) -> float:
    """Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(df, q))
