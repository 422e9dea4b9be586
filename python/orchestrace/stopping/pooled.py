"""Evidence for failure from one model over all epochs, chosen by cross-validated savings."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from ..base.arrays import Bools, Floats, Ints
from ..statistics.folds import folds_over
from ..statistics.regression import logistic
from .designs import summed
from .features import OF_SCORES, with_scores
from .runs import Runs
from .thresholds import order

FOLDS: Final = 4
LEVELS: Final = (0.05, 0.1, 0.2)
"""False-alarm rates at which the choice of a model is judged."""
_EDGE: Final = 1e-4  # scores of 0 and 1 have no log-odds


@dataclass(frozen=True)
class Shape:
    """What a pooled model may look like: which features, hinges of each, products with log k, pull to 0."""

    features: tuple[str, ...]
    knots: int
    by_step: bool
    penalty: float


_FEW: Final = ("x_s", "x_s_ewm")
SHAPES: Final = (
    Shape(_FEW, 0, False, 100.0),
    Shape(OF_SCORES, 0, False, 100.0),
    Shape(OF_SCORES, 0, True, 100.0),
    Shape(OF_SCORES, 0, True, 3.0),
    Shape(OF_SCORES, 3, True, 3.0),
)
"""From the stiffest to the most flexible."""


@dataclass(frozen=True, eq=False)
class Pooled:
    """Log-odds of failure by ridge logistic regression on the features of scores and log k.

    With `savings`, a row of a failed run counts as often as an alarm there would save on average: the
    log-odds are then ln [P(fail | x) E(what an alarm saves | fail, x) / P(success | x)] up to a constant.
    The rows of a run share one weight, 1 / K.
    """

    shape: Shape
    odds: bool  # whether scores are probabilities, whose log-odds the features are of
    mean: Floats
    spread: Floats
    knots: tuple[Floats, ...]
    center: Floats
    scale: Floats
    weights: Floats

    @classmethod
    def chosen(cls, runs: Runs, savings: bool, seed: int) -> "Pooled":
        """Fit the shape that saves most out of fold; of equal ones the stiffest."""
        odds = bool(((runs.s >= 0.0) & (runs.s <= 1.0)).all())
        plain = _features(runs, odds)
        fold = folds_over(runs.tasks, FOLDS, seed)
        parts = [(runs.take(fold != part), (fold == part)[runs.run]) for part in range(int(fold.max()) + 1)]
        useful = len(parts) > 1 and all(learn.success.any() and learn.failed.any() for learn, _ in parts)
        best = (-1.0, SHAPES[0])
        for shape in SHAPES if useful else ():
            evidence = np.zeros(len(runs.k))
            for learn, judge in parts:
                apart = cls.fitted(learn, plain[~judge], shape, odds, savings)
                evidence[judge] = apart.on(plain[judge], runs.k[judge])
            gain = _saved(runs, evidence)
            best = (gain, shape) if gain > best[0] else best
        return cls.fitted(runs, plain, best[1], odds, savings)

    @classmethod
    def fitted(cls, runs: Runs, plain: Floats, shape: Shape, odds: bool, savings: bool) -> "Pooled":
        """Fit one shape to runs with both outcomes; `plain` has their features."""
        plain = plain[:, [OF_SCORES.index(name) for name in shape.features]]
        mean, spread = plain.mean(axis=0), plain.std(axis=0)
        spread = np.where(spread > 1e-12, spread, 1.0)
        z = (plain - mean) / spread
        quantiles = np.linspace(0.0, 1.0, shape.knots + 2)[1:-1]
        knots = tuple(np.unique(np.quantile(column, quantiles)) for column in z.T)
        terms = _terms(z, runs.k, knots, shape.by_step)
        center, scale = terms.mean(axis=0), terms.std(axis=0)
        scale = np.where(scale > 1e-12, scale, 1.0)
        x = np.column_stack([np.ones(len(terms)), (terms - center) / scale])
        failed = runs.failed[runs.run]
        weights = logistic(x, failed.astype(np.float64), shape.penalty, _times(runs, failed, savings))
        return cls(shape, odds, mean, spread, knots, center, scale, weights)

    def of(self, runs: Runs) -> Floats:
        """The evidence of every row."""
        return self.on(_features(runs, self.odds), runs.k)

    def on(self, plain: Floats, k: Ints) -> Floats:
        """The evidence of rows with these features."""
        used = plain[:, [OF_SCORES.index(name) for name in self.shape.features]]
        z = (used - self.mean) / self.spread
        terms = (_terms(z, k, self.knots, self.shape.by_step) - self.center) / self.scale
        return summed(terms.T, self.weights[1:], self.weights[0])


def _features(runs: Runs, odds: bool) -> Floats:
    """`OF_SCORES` of every row, (rows, features)."""
    s = runs.s
    if odds:
        near = np.clip(s, _EDGE, 1.0 - _EDGE)
        s = np.log(near / (1.0 - near))
    rows = with_scores(runs.rows.select("trace", "k", s=pl.Series(s)))
    return rows.select(OF_SCORES).to_numpy()


def _terms(z: Floats, k: Ints, knots: tuple[Floats, ...], by_step: bool) -> Floats:
    step = np.log(k)
    columns = [step, np.maximum(step - np.log(3.0), 0.0)]
    for column, bends in zip(z.T, knots, strict=True):
        columns.append(column)
        columns.extend(np.maximum(column - knot, 0.0) for knot in bends)
        if by_step:
            columns.append(column * step)
    return np.column_stack(columns)


def _times(runs: Runs, failed: Bools, savings: bool) -> Floats:
    """How often each row counts; the average is 1 in each class."""
    each = 1.0 / runs.length[runs.run]
    if savings:
        left = runs.total[runs.run] - runs.c
        each = np.where(failed, each * left, each)
    for side in (failed, ~failed):
        total = each[side].sum()
        each[side] *= side.sum() / total if total > 0.0 else 0.0
    return each


def _saved(runs: Runs, evidence: Floats) -> float:
    """Cost that alarms save on failed runs, at thresholds of the runs themselves; mean over `LEVELS`."""
    peaks = np.sort(runs.most(evidence)[runs.success])
    left = runs.total[runs.run] - runs.c
    gain = 0.0
    for alpha in LEVELS:
        rank = min(order(len(peaks), alpha, "conformal") or len(peaks), len(peaks))
        alarm = runs.first(evidence > peaks[rank - 1])
        gain += float(left[alarm[(alarm >= 0) & runs.failed]].sum())
    return gain / len(LEVELS)
