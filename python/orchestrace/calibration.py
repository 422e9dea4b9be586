"""Whether predicted probabilities are what was observed: Brier scores, and a table of bins."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import t as student

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CALIBRATION: Final = {
    "bin": pl.UInt32(),
    "n": pl.UInt32(),
    "expected": pl.Float64(),
    "observed": pl.Float64(),
    "lower": pl.Float64(),
    "upper": pl.Float64(),
}


@dataclass(frozen=True)
class Quality:
    """Predictions of targets that the fit has not seen, against the mean of those that it has."""

    brier: float | None = None
    brier_base: float | None = None
    gain: tuple[float, float] | None = None
    slope: float | None = None
    intercept: float | None = None
    table: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=CALIBRATION))


def quality(predicted: Floats, base: Floats, targets: Floats, clusters: Ints, bins: int) -> Quality:
    """Brier scores with the interval of their difference, calibration line and table."""
    gained = np.square(base - targets) - np.square(predicted - targets)
    mean, error, n_clusters = clustered_mean(gained, clusters)
    half = float(student.ppf(0.975, n_clusters - 1)) * error
    slope, intercept = _line(predicted, targets)
    return Quality(
        brier=float(np.square(predicted - targets).mean()),
        brier_base=float(np.square(base - targets).mean()),
        gain=(mean - half, mean + half),
        slope=slope,
        intercept=intercept,
        table=_table(predicted, targets, clusters, bins),
    )


def clustered_mean(values: Floats, clusters: Ints) -> tuple[float, float, int]:
    """Mean, its standard error over clusters (of a ratio; 0 with fewer than two), how many there are."""
    mean = float(values.mean())
    _, codes = np.unique(clusters, return_inverse=True)
    sums = np.bincount(codes, weights=values - mean)
    n_clusters = sums.size
    if n_clusters < 2:
        return mean, 0.0, n_clusters
    error = np.sqrt(np.square(sums).sum() * n_clusters / (n_clusters - 1)) / values.size
    return mean, float(error), n_clusters


def _line(predicted: Floats, targets: Floats) -> tuple[float | None, float | None]:
    """Least-squares line of targets on predictions: slope 1 and intercept 0 where they are calibrated."""
    around = predicted - predicted.mean()
    spread = float(np.square(around).sum())
    if spread <= 1e-12 * max(predicted.size, 1):
        return None, None
    slope = float((around * targets).sum()) / spread
    return slope, float(targets.mean()) - slope * float(predicted.mean())


def _table(predicted: Floats, targets: Floats, clusters: Ints, bins: int) -> pl.DataFrame:
    """Bins of about as many targets; equal predictions are in one bin."""
    cuts = np.unique(np.quantile(predicted, np.linspace(0.0, 1.0, bins + 1)[1:-1], method="lower"))
    of = np.searchsorted(cuts, predicted, side="left")
    rows: list[tuple[int, int, float, float, float, float]] = []
    for k in np.unique(of):
        here = of == k
        observed, error, n_clusters = clustered_mean(targets[here], clusters[here])
        lower, upper = _wilson(observed, error, n_clusters, int(here.sum()))
        rows.append((len(rows), int(here.sum()), float(predicted[here].mean()), observed, lower, upper))
    return pl.DataFrame(rows, schema=CALIBRATION, orient="row")


def _wilson(share: float, error: float, n_clusters: int, n: int) -> tuple[float, float]:
    """95 % interval of a share (Wilson 1927) with the effective number of targets p(1 - p)/error².

    Where all targets are alike their spread says nothing, and every cluster counts once.
    """
    effective = share * (1.0 - share) / error**2 if error > 0.0 else n_clusters
    effective = max(min(effective, n), 1e-9)
    z = float(student.ppf(0.975, n_clusters - 1)) if n_clusters > 1 else np.inf
    if not np.isfinite(z):
        return 0.0, 1.0
    centre = share + z * z / (2 * effective)
    half = z * np.sqrt(share * (1 - share) / effective + z * z / (4 * effective**2))
    scale = 1 + z * z / effective
    return max(float((centre - half) / scale), 0.0), min(float((centre + half) / scale), 1.0)
