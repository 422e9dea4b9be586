"""Intervals of statistics without an error formula: percentiles over resampled clusters."""

from collections.abc import Iterator
from typing import Final

import numpy as np

from ..base.arrays import Floats
from .influence import t_quantile

FEWEST_CLUSTERS: Final = 5
"""With fewer, resampling says nothing of the spread between them: docs/intervals.md has the coverage."""

_CHUNK: Final = 1 << 22  # cells of a block of resamples


def draws(n_clusters: int, n_boot: int, seed: int) -> "Iterator[Floats]":
    """How often each cluster is drawn, in blocks of ``[resample, cluster]``; rows sum to `n_clusters`."""
    rng = np.random.Generator(np.random.PCG64([seed, 0]))
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

    known = drawn[np.isfinite(drawn)]
    if n_clusters < FEWEST_CLUSTERS or not known.size:
        return None, None
    reach = t_quantile((1.0 + confidence) / 2.0, n_clusters - 1) * (n_clusters / (n_clusters - 1)) ** 0.5
    outside = float(ndtr(-reach))
    low, high = np.quantile(known, [outside, 1.0 - outside])
    return float(low), float(high)
