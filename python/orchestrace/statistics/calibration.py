"""Calibration of predicted probabilities: Brier scores, and a table of bins."""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl

from ..base.arrays import Floats, Ints
from .influence import mean_interval

CONFIDENCE: Final = 0.95
CALIBRATION: Final = {
    "bin": pl.UInt32(),
    "n": pl.UInt32(),
    "expected": pl.Float64(),
    "observed": pl.Float64(),
    "lower": pl.Float64(),
    "upper": pl.Float64(),
    "reason": pl.String(),
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
    gain = mean_interval(gained, clusters, confidence=CONFIDENCE, within=(-1.0, 1.0)).around
    slope, intercept = _line(predicted, targets)
    return Quality(
        brier=float(np.square(predicted - targets).mean()),
        brier_base=float(np.square(base - targets).mean()),
        gain=None if gain.lower is None or gain.upper is None else (gain.lower, gain.upper),
        slope=slope,
        intercept=intercept,
        table=_table(predicted, targets, clusters, bins),
    )


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
    rows: list[tuple[object, ...]] = []
    for k in np.unique(of):
        here = of == k
        mean = mean_interval(targets[here], clusters[here], confidence=CONFIDENCE, within=(0.0, 1.0))
        ends = mean.around.lower, mean.around.upper, mean.around.reason
        rows.append((len(rows), int(here.sum()), float(predicted[here].mean()), mean.estimate, *ends))
    return pl.DataFrame(rows, schema=CALIBRATION, orient="row")
