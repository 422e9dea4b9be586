"""Evidence out of fold: a run is compared with the calibration runs of each fold by one model.

Models of different folds have scales of their own. So a number of one is never compared with a number of
another: what a run's evidence counts is the calibration runs that it is above.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..base.arrays import Bools, Floats
from ..statistics.folds import folds_over
from .pooled import FOLDS
from .ratio import enough
from .runs import Runs, uniforms


class Scorer(Protocol):
    """Evidence of every row, larger for failure."""

    def of(self, runs: Runs) -> Floats: ...


@dataclass(frozen=True, eq=False)
class Fold:
    """A model that did not see this fold, and what it makes of the successful calibration runs there."""

    model: Scorer
    peaks: Floats
    """The largest evidence of each, (runs,) float64, in order."""
    draws: Floats
    """A number per run that decides ties, (runs,) float64; none where ties are no alarm."""

    def below(self, evidence: Floats, drawn: Floats) -> Floats:
        """How many calibration runs of the fold each row is above."""
        counts = np.searchsorted(self.peaks, evidence, side="left").astype(np.float64)
        if self.draws.size:
            for peak, draw in zip(self.peaks, self.draws, strict=True):
                counts += (evidence == peak) & (drawn > draw)
        return counts


@dataclass(frozen=True, eq=False)
class Crossed:
    """The evidence of a row: how many of the calibration runs of all folds it is above."""

    folds: tuple[Fold, ...]
    seed: int

    @classmethod
    def fitted(
        cls, runs: Runs, counted: Bools, fit: Callable[[Runs], Scorer], seed: int, by_draw: bool
    ) -> "Crossed | None":
        """A model per fold; `counted` (runs,) calibrate. None if the runs of some have too few outcomes."""
        fold = folds_over(runs.tasks, FOLDS, seed)
        folds = []
        for part in range(int(fold.max()) + 1):
            learn, calibrate = runs.take(fold != part), runs.take((fold == part) & counted)
            if not enough(learn):
                return None
            model = fit(learn)
            peaks = calibrate.most(model.of(calibrate)) if len(calibrate) else np.zeros(0)
            order = np.argsort(peaks, kind="stable")
            draws = uniforms(calibrate.names, seed)[order] if by_draw else np.zeros(0)
            folds.append(Fold(model, peaks[order], draws))
        return cls(tuple(folds), seed)

    @property
    def n_calibration(self) -> int:
        """Calibration runs of all folds."""
        return sum(len(fold.peaks) for fold in self.folds)

    def of(self, runs: Runs) -> Floats:
        """How many calibration runs each row is above, (rows,) float64."""
        drawn = uniforms(runs.names, self.seed)[runs.run]
        counts = np.zeros(len(runs.k))
        for fold in self.folds:
            counts += fold.below(fold.model.of(runs), drawn)
        return counts
