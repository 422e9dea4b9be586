"""Intervals of means over tasks, from the influence of each task: their one definition.

An estimate that is smooth in averages moves, if a task is taken out or counted twice, by the sum of the
influence of the task's rows. That sum is all that is needed of a task: rollouts of one task, and decisions of
one rollout, never count as independent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from ..base.deferred import Deferred
from .sums import mean_of, sums_of

if TYPE_CHECKING:
    import numpy as np

    from ..base.arrays import Bools, Floats, Ints
else:
    np = Deferred("numpy")

NO_SPREAD: Final = 1e-12
"""An error smaller than this part of the values is what rounding leaves of none."""


class Interval(NamedTuple):
    """Standard error and ends of an interval around an estimate.

    The ends are null with a ``reason``: ``support.absent`` where fewer than two clusters have a value,
    ``group.degenerate`` where all clusters say the same and the quantity has no known range,
    ``result.range`` where one of them, or the estimate, is beyond the floats.
    """

    stderr: float | None
    lower: float | None
    upper: float | None
    reason: str | None


NO_INTERVAL: Final = Interval(None, None, None, "support.absent")
"""That of fewer than two clusters."""
OUT_OF_RANGE: Final = Interval(None, None, None, "result.range")
"""That of values whose sums are beyond the floats."""


class Mean(NamedTuple):
    """A mean of rows, its interval over clusters, and how many clusters have a value."""

    estimate: float | None
    around: Interval
    n_clusters: int


def clusters_of(rows: pl.DataFrame) -> tuple[Ints, str]:
    """The cluster of every row, and what clusters are: ``tasks``, or ``traces`` in a corpus of one task."""
    kind = "task_id" if rows["task_id"].n_unique() > 1 else "trace_id"
    _, codes = np.unique(rows[kind].to_numpy(), return_inverse=True)
    return codes.astype(np.int64), "tasks" if kind == "task_id" else "traces"


def mean_interval(
    values: Floats, clusters: Ints, *, confidence: float, within: tuple[float, float] | None = None
) -> Mean:
    """The mean of the finite values, and its interval over clusters.

    Parameters
    ----------
    values
        One row a value, (rows,) float64; what is not finite is left out.
    clusters
        The cluster of each row, (rows,) int64.
    confidence, within
        As of `interval`.

    Returns
    -------
    Mean
        ``estimate``, null without a value or beyond the floats; ``around``, its `Interval`; ``n_clusters``
        with a value.

    Notes
    -----
    O(rows log rows). Source: that of `interval`; the influence of a row on a mean of n is (x - mean)/n.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.statistics.influence import mean_interval
    >>> round(mean_interval(np.array([1.0, 2.0, 6.0]), np.arange(3), confidence=0.95).around.upper, 3)
    9.572
    >>> all_right = mean_interval(np.ones(7), np.arange(7), confidence=0.95, within=(0.0, 1.0))
    >>> round(all_right.around.lower, 3), all_right.around.upper
    (0.59, 1.0)
    """
    finite = np.isfinite(values)
    values, clusters = values[finite], clusters[finite]
    if not values.size:
        return Mean(None, NO_INTERVAL, 0)
    _, codes = np.unique(clusters, return_inverse=True)
    with np.errstate(over="ignore"):
        mean = mean_of(values)
        influence = (values - mean) / values.size
    if not (np.isfinite(mean) and np.isfinite(influence).all()):
        return Mean(mean if np.isfinite(mean) else None, OUT_OF_RANGE, int(codes.max()) + 1)
    level = float(np.abs(values).max())
    around = _over_clusters(mean, influence, codes, confidence, within, level)
    return Mean(mean, around, int(codes.max()) + 1)


def interval(
    estimate: float,
    influence: Floats,
    clusters: Ints,
    *,
    confidence: float,
    within: tuple[float, float] | None = None,
) -> Interval:
    """The interval of an estimate whose rows have this influence: Student's t over clusters.

    Parameters
    ----------
    estimate
        In units of the outcome.
    influence
        By how much each row moves the estimate, (rows,) float64; sums to 0.
    clusters
        The cluster of each row, (rows,) int64.
    confidence
        The coverage, between 0 and 1.
    within
        The least and the greatest that a row can be, where that is known.

    Returns
    -------
    Interval
        ``stderr`` = √(Σ u_c²/(1 - w_c)), u_c the sum of influence in cluster c, w_c its share of the rows.
        The interval is Student's, estimate ± t `stderr`, with 1/(Σ w² + (Σ b)² - Σ b²) degrees of freedom,
        b = w²/(1 - w). Equal clusters: s/√C, C - 1 degrees of freedom. `within` a range it is Wilson's score
        interval with that t and as many trials as give this error, p(1 - p)/stderr² on the scale of 0 to 1,
        which never leaves the range. Where all clusters agree there, the mean moves by as much as a share
        1 - ((1 - confidence)/2)^(1/C) of clusters could, that differ and were not seen (Clopper-Pearson at 0
        and 1).

    Notes
    -----
    O(rows log rows). docs/intervals.md says how often it covers, and where it falls short.

    Source: sandwich over clusters, Liang & Zeger 1986; leverage and degrees of freedom, CR2 of Bell &
    McCaffrey 2002, recommended by Imbens & Kolesár 2016 for few or unequal clusters; Wilson 1927 with
    effective trials and Student's t, Korn & Graubard 1998; Clopper & Pearson 1934.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.statistics.influence import interval
    >>> values = np.array([1.0, 2.0, 3.0, 6.0])
    >>> psi = (values - values.mean()) / 4  # of a mean
    >>> got = interval(3.0, psi, np.arange(4), confidence=0.95)
    >>> round(got.stderr, 6) == round(float(values.std(ddof=1)) / 2, 6)
    True
    """
    _, codes = np.unique(clusters, return_inverse=True)
    return _over_clusters(estimate, influence, codes, confidence, within, abs(estimate))


def _over_clusters(
    estimate: float,
    influence: Floats,
    codes: Ints,
    confidence: float,
    within: tuple[float, float] | None,
    level: float,
) -> Interval:
    """`interval`, of clusters by numbers from 0, none left out; `level` is how large the values are."""
    sizes = np.bincount(codes)
    if len(sizes) < 2:
        return NO_INTERVAL
    sums = sums_of(influence, codes, len(sizes))
    if not np.isfinite(sums).all():
        return OUT_OF_RANGE
    share: Floats = sizes / sizes.sum()
    return _ends(estimate, _error(sums, share), _freedom(share), confidence, within, level)


def _error(sums: Floats, share: Floats) -> float:
    """The standard error of an estimate that clusters move by `sums`."""
    # a common scale keeps squares of tiny and of huge rewards within the floats
    scale = float(np.abs(sums).max()) or 1.0
    # in ascending order, so that it does not matter which cluster is the first
    return scale * float(np.sqrt(np.sort(np.square(sums / scale) / (1.0 - share)).sum()))


def _freedom(share: Floats) -> float:
    """Satterthwaite's degrees of freedom of the error, if rows were independent: C - 1 for equal clusters."""
    share = np.sort(share)
    bent = np.square(share) / (1.0 - share)
    return 1.0 / float(np.square(share).sum() + bent.sum() ** 2 - np.square(bent).sum())


def _ends(
    estimate: float,
    stderr: float,
    df: float,
    confidence: float,
    within: tuple[float, float] | None,
    level: float,
) -> Interval:
    """The interval of an estimate with this error; `level` is how large the values are."""
    t = t_quantile((1.0 + confidence) / 2.0, df)
    if within is None:
        # the estimate does not move: that says nothing about how much it would, had other tasks been drawn
        if stderr <= NO_SPREAD * level:
            return Interval(0.0, None, None, "group.degenerate")
        lower, upper = estimate - t * stderr, estimate + t * stderr
        if not (np.isfinite(lower) and np.isfinite(upper)):
            return OUT_OF_RANGE
        return Interval(stderr, lower, upper, None)
    least, most = within
    p = min(max((estimate - least) / (most - least), 0.0), 1.0)
    error = stderr / (most - least)
    if error <= NO_SPREAD or p in (0.0, 1.0):
        unseen = 1.0 - ((1.0 - confidence) / 2.0) ** (1.0 / (df + 1.0))
        ends = p - unseen * p, p + unseen * (1.0 - p)
        stderr = 0.0
    else:
        trials = p * (1.0 - p) / error**2
        center = p + t * t / (2.0 * trials)
        reach = t * float(np.sqrt(error**2 + np.square(t / (2.0 * trials))))
        ends = (center - reach) / (1.0 + t * t / trials), (center + reach) / (1.0 + t * t / trials)
    lower, upper = (least + min(max(end, 0.0), 1.0) * (most - least) for end in ends)
    return Interval(stderr, lower, upper, None)


def correlation_interval(
    correlation: float, influence: Floats, weights: Floats, *, confidence: float
) -> Interval:
    """The interval of a correlation that is pooled over clusters, on Fisher's scale.

    Parameters
    ----------
    correlation
        In -1..1.
    influence
        By how much each cluster moves it, (clusters,) float64.
    weights
        How much each cluster weighs in it, (clusters,) float64.
    confidence
        The coverage.

    Returns
    -------
    Interval
        That of `interval` for arctanh of the correlation, turned back; ``stderr`` is of the correlation.
        Clusters without weight do not count. Where all agree it is that of `interval` within -1..1.

    Notes
    -----
    O(clusters). Source: Fisher 1915; the delta method.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.statistics.influence import correlation_interval
    >>> psi = np.array([0.1, -0.2, 0.1])
    >>> got = correlation_interval(0.9, psi, np.ones(3), confidence=0.95)
    >>> -1.0 < got.lower < 0.9 < got.upper < 1.0
    True
    """
    counted = weights > NO_SPREAD * weights.sum()
    if counted.sum() < 2:
        return NO_INTERVAL
    share = weights[counted] / weights[counted].sum()
    stderr, df, slope = _error(influence[counted], share), _freedom(share), 1.0 - correlation * correlation
    if min(stderr, slope) <= NO_SPREAD:
        return _ends(correlation, 0.0, df, confidence, (-1.0, 1.0), 1.0)
    center, reach = float(np.arctanh(correlation)), t_quantile((1.0 + confidence) / 2.0, df) * stderr / slope
    return Interval(stderr, float(np.tanh(center - reach)), float(np.tanh(center + reach)), None)


def spanning_interval(
    estimate: float,
    influence: Floats,
    clusters: Ints,
    buckets: Ints,
    lone: Bools,
    *,
    confidence: float,
) -> Interval:
    """The interval of an average over buckets, of which some may join rows of several clusters.

    Parameters
    ----------
    estimate, influence, clusters, confidence
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
    O(rows log rows). Source: multi-way clustering, Cameron, Gelbach & Miller 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.statistics.influence import spanning_interval
    >>> psi = np.array([0.25, 0.25, -0.25, -0.25])  # of two pairs, each of two runs
    >>> runs, pairs = np.arange(4), np.array([0, 0, 1, 1])
    >>> got = spanning_interval(1.0, psi, runs, pairs, np.full(4, True), confidence=0.5)
    >>> round(got.stderr, 6), round(got.upper, 6)
    (1.0, 2.0)
    """
    pairs = np.unique(np.stack([buckets, clusters], axis=1), axis=0)
    if len(pairs) == len(np.unique(buckets)):
        return interval(estimate, influence, clusters, confidence=confidence)
    n, n_buckets = len(np.unique(clusters)), len(np.unique(buckets))
    df = (min(n, n_buckets) if lone.any() else n) - 1
    if df < 1:
        return NO_INTERVAL
    of_lone, of = influence[lone], np.stack([buckets, clusters], axis=1)[lone]
    variance = n / (n - 1) * _squares(influence, clusters)
    if lone.any():
        variance += n_buckets / (n_buckets - 1) * _squares(of_lone, of[:, 0])
        # the same factor as that of the clusters: rows that are alone in both must cancel exactly
        variance -= n / (n - 1) * _squares(of_lone, np.unique(of, axis=0, return_inverse=True)[1].ravel())
    return _ends(estimate, float(np.sqrt(max(variance, 0.0))), df, confidence, None, abs(estimate))


def _squares(values: Floats, keys: Ints) -> float:
    """The sum of squares of the sums per key."""
    distinct, codes = np.unique(keys, return_inverse=True)
    return float(np.sort(np.square(sums_of(values, codes, len(distinct)))).sum())


def t_quantile(q: float, df: float) -> float:
    """Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(df, q))
