"""Percentile intervals of means over traces, by resampling the tasks that the traces are rollouts of."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from .errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

_CHUNK: Final = 1 << 22  # cells of a block of resamples


def check_confidence(confidence: object) -> float:
    """A coverage strictly between 0 and 1."""
    if isinstance(confidence, int | float) and 0.0 < confidence < 1.0:
        return float(confidence)
    raise ParameterError(f"confidence is {confidence!r}, expected a number between 0 and 1")


def draws(n_clusters: int, n_boot: int, seed: int) -> "Iterator[Floats]":
    """How often each cluster is drawn, in blocks of ``[resample, cluster]``; rows sum to `n_clusters`."""
    import numpy as np

    rng = np.random.Generator(np.random.PCG64([seed, 0]))
    block = max(1, _CHUNK // max(n_clusters, 1))
    for start in range(0, n_boot, block):
        size = min(block, n_boot - start)
        drawn = rng.integers(n_clusters, size=(size, n_clusters)) + np.arange(size)[:, None] * n_clusters
        times = np.bincount(drawn.ravel(), minlength=size * n_clusters)
        yield times.reshape(size, n_clusters).astype(np.float64)


def cluster_interval(
    values: "Floats", clusters: "Ints", n_boot: int, seed: int, confidence: float
) -> tuple[float | None, float | None, float | None]:
    """Mean of the finite values, and the percentile interval of that mean over resampled clusters.

    A cluster keeps all its values together, so that rollouts of one task do not count as independent. With
    fewer than two clusters that have a value there is a mean and no interval.
    """
    import numpy as np

    known = np.isfinite(values)
    values, clusters = values[known], clusters[known]
    if not values.size:
        return None, None, None
    mean = float(values.mean())
    _, codes = np.unique(clusters, return_inverse=True)
    n_clusters = int(codes.max()) + 1
    if n_clusters < 2:
        return mean, None, None
    sums = np.bincount(codes, weights=values, minlength=n_clusters)
    counts = np.bincount(codes, minlength=n_clusters).astype(np.float64)
    blocks = draws(n_clusters, n_boot, seed)
    means = np.concatenate([(times @ sums) / (times @ counts) for times in blocks])
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return mean, float(low), float(high)
