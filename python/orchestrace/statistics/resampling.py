"""Intervals of statistics without an error formula: percentiles over resampled clusters."""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Floats, Ints
from .influence import NO_SPREAD, Interval, t_quantile
from .sums import sums_of

FEWEST_CLUSTERS: Final = 5
"""With fewer, resampling says nothing of the spread between them: docs/intervals.md has the coverage."""

_CHUNK: Final = 1 << 22  # cells of a block of resamples


def draws(n_clusters: int, n_boot: int, seed: int, stream: int = 0) -> "Iterator[Floats]":
    """How often each cluster is drawn, in blocks of ``[resample, cluster]``; rows sum to `n_clusters`.

    Strata of one resample take a `stream` each.
    """
    rng = np.random.Generator(np.random.PCG64([seed, stream]))
    block = max(1, _CHUNK // max(n_clusters, 1))
    for start in range(0, n_boot, block):
        size = min(block, n_boot - start)
        drawn = rng.integers(n_clusters, size=(size, n_clusters)) + np.arange(size)[:, None] * n_clusters
        times = np.bincount(drawn.ravel(), minlength=size * n_clusters)
        yield times.reshape(size, n_clusters).astype(np.float64)


def percentiles(drawn: "Floats", n_clusters: int, confidence: float) -> tuple[float | None, float | None]:
    """Percentiles of resamples, moved outwards as far as Student's t asks for few clusters.

    Null with fewer than `FEWEST_CLUSTERS`. Source: Hesterberg 2015 (arXiv 1411.5279), section 3.3.
    """
    from scipy.special import ndtr

    finite = drawn[np.isfinite(drawn)]
    if n_clusters < FEWEST_CLUSTERS or not finite.size:
        return None, None
    reach = t_quantile((1.0 + confidence) / 2.0, n_clusters - 1) * (n_clusters / (n_clusters - 1)) ** 0.5
    outside = float(ndtr(-reach))
    low, high = np.quantile(finite, [outside, 1.0 - outside])
    return float(low), float(high)


Statistic = Callable[[Floats], Floats]
"""A number for each row of ``[resample, cluster]``, how often each cluster counts; NaN where it has none."""


def resampled(
    statistic: Statistic, n_clusters: int, *, n_boot: int, confidence: float, seed: int
) -> tuple[float | None, float, float] | tuple[float | None, None, None]:
    """A statistic of all clusters, and its interval over resamples of them; null where it has none."""
    estimate = float(statistic(np.ones((1, n_clusters)))[0]) if n_clusters else np.nan
    if not np.isfinite(estimate):
        return None, None, None
    if n_clusters < FEWEST_CLUSTERS:
        return estimate, None, None
    drawn = np.concatenate([statistic(block) for block in draws(n_clusters, n_boot, seed)])
    lower, upper = percentiles(drawn, n_clusters, confidence)
    return (estimate, None, None) if lower is None or upper is None else (estimate, lower, upper)


def resampled_ratios(
    parts: Floats, wholes: Floats, *, n_boot: int, confidence: float, seed: int
) -> list[Interval]:
    """Errors and intervals of ratios of sums over clusters, all on the same resamples.

    Parameters
    ----------
    parts, wholes
        What each cluster adds above and below the line, (clusters, ratios) float64.
    n_boot, confidence, seed
        Resamples, coverage, seed.

    Returns
    -------
    list of Interval
        One per ratio: ``stderr`` is the deviation of the resamples, the ends are `percentiles`. The ends are
        null with ``support.absent`` below `FEWEST_CLUSTERS`, and with ``group.degenerate`` where all
        resamples agree. A ratio beyond the floats is ``result.range``.

    Notes
    -----
    O(n_boot * clusters * ratios). Callers hold one BLAS thread.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.statistics.resampling import resampled_ratios
    >>> values = np.arange(40.0)[:, None]
    >>> [mean] = resampled_ratios(values, np.ones((40, 1)), n_boot=2000, confidence=0.95, seed=0)
    >>> mean.lower < 19.5 < mean.upper, bool(abs(mean.stderr / (values.std() / 40**0.5) - 1.0) < 0.1)
    (True, True)
    """
    n_clusters, n = parts.shape
    if n_clusters < FEWEST_CLUSTERS:
        return [Interval(None, None, None, "support.absent")] * n
    drawn = []
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratios = parts.sum(axis=0) / wholes.sum(axis=0)
        for times in draws(n_clusters, n_boot, seed):
            drawn.append((times @ parts) / (times @ wholes))
        each = np.concatenate(drawn)
        return [_spread(each[:, i], float(ratios[i]), n_clusters, confidence) for i in range(n)]


def _spread(drawn: Floats, estimate: float, n_clusters: int, confidence: float) -> Interval:
    finite = drawn[np.isfinite(drawn)]
    if finite.size < 2:
        return Interval(None, None, None, "support.absent")
    stderr = float(finite.std(ddof=1))
    if stderr <= NO_SPREAD * abs(estimate):
        return Interval(0.0, None, None, "group.degenerate")
    lower, upper = percentiles(drawn, n_clusters, confidence)
    ends = (stderr, lower, upper)
    if not np.isfinite(estimate) or any(end is None or not np.isfinite(end) for end in ends):
        return Interval(None, None, None, "result.range")
    return Interval(stderr, lower, upper, None)


def ratio_of(numerator: Floats, denominator: Floats) -> Statistic:
    """The sum of `numerator` over that of `denominator`, both (clusters,) float64."""

    def statistic(times: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            return (times @ numerator) / (times @ denominator)

    return statistic


def rank_correlation_of(a: Floats, b: Floats, clusters: Ints) -> Statistic:
    """Spearman's rho of two columns (rows,), whose rows are those of `clusters` (rows,). O(rows) a resample.

    Ranks are midranks among the rows drawn, each as often as its cluster. NaN where a side does not vary.
    """
    in_order = np.lexsort((b, a, clusters))
    a, b, clusters = a[in_order], b[in_order], clusters[in_order]
    rank_a, rank_b = _weighted_ranks(a), _weighted_ranks(b)
    rows = max(1, _CHUNK // max(a.size, 1))

    def statistic(times: Floats) -> Floats:
        rhos = []
        for start in range(0, times.shape[0], rows):
            weights = times[start : start + rows][:, clusters]
            rhos.append(_weighted_correlation(rank_a(weights), rank_b(weights), weights))
        return np.concatenate(rhos)

    return statistic


def centered_correlation_of(a: Floats, b: Floats, clusters: Ints, n_clusters: int) -> Statistic:
    """Pearson's correlation of two columns whose means are 0 in every cluster. O(clusters) a resample."""
    products = [sums_of(x * y, clusters, n_clusters) for x, y in ((a, b), (a, a), (b, b))]

    def statistic(times: Floats) -> Floats:
        both, first, second = (times @ product for product in products)
        with np.errstate(divide="ignore", invalid="ignore"):
            return _as_correlation(both / np.sqrt(first * second), (first > 0) & (second > 0))

    return statistic


def _weighted_ranks(values: Floats) -> Callable[[Floats], Floats]:
    """Midranks of `values` (rows,) where row i counts ``weights[:, i]`` times."""
    order = np.argsort(values, kind="stable")
    in_order = values[order]
    begins = np.flatnonzero(np.append(True, in_order[1:] != in_order[:-1]))
    lengths = np.diff(np.append(begins, values.size))
    back = np.empty(values.size, np.int64)
    back[order] = np.repeat(np.arange(begins.size), lengths)

    def ranks(weights: Floats) -> Floats:
        runs = np.add.reduceat(weights[:, order], begins, axis=1)
        ends = np.cumsum(runs, axis=1)
        midranks: Floats = ends - (runs - 1.0) / 2.0
        return midranks[:, back]

    return ranks


def _weighted_correlation(x: Floats, y: Floats, weights: Floats) -> Floats:
    total = weights.sum(axis=1, keepdims=True)
    x = x - (weights * x).sum(axis=1, keepdims=True) / total
    y = y - (weights * y).sum(axis=1, keepdims=True) / total
    both, first, second = ((weights * p * q).sum(axis=1) for p, q in ((x, y), (x, x), (y, y)))
    # ranks are halves and their means rounded, so that what does not vary is not exactly 0
    varies = np.minimum(first, second) > 1e-9 * total[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        return _as_correlation(both / np.sqrt(first * second), varies)


def _as_correlation(values: Floats, varies: "NDArray[np.bool_]") -> Floats:
    """Correlations within -1..1, which rounding leaves by a last digit; NaN where a side does not vary."""
    return np.where(varies, np.clip(values, -1.0, 1.0), np.nan)
