"""Ridge regression from moments that add up, so that a corpus larger than memory is read once.

Columns are scaled to unit variance; `b = argmin Σ w (y - a - x·b)² + alpha |b|²` in that scale, the intercept
`a` unpenalized. Solved by the eigenvectors of the scatter: alpha = 0 gives that of least norm. O(n p²)
to add up, O(p³) to solve; a model for each of k parts O(k p³ + k² p²).
Reference: A. E. Hoerl, R. W. Kennard, Technometrics 12 (1970).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...base.arrays import Floats

GRID: Final = tuple(10.0**k for k in range(-2, 6))
"""Penalties to choose from."""

_GROUPS: Final = 5
_BLOCK: Final = 1 << 16


@dataclass(frozen=True)
class Moments:
    """Weight, means and centered scatter of the columns of `[x | y]`."""

    weight: float
    mean: Floats
    scatter: Floats

    @classmethod
    def none(cls, columns: int) -> "Moments":
        """Of no row; `columns` is that of x, and one more for y."""
        return cls(0.0, np.zeros(columns + 1), np.zeros((columns + 1, columns + 1)))

    @classmethod
    def of(cls, x: Floats, y: Floats, weights: Floats | None = None) -> "Moments":
        """Of the rows of x (n, p) and y (n,)."""
        total = cls.none(x.shape[1])
        for at in range(0, len(x), _BLOCK):
            part = slice(at, at + _BLOCK)
            w = np.ones(len(y[part])) if weights is None else weights[part]
            rows = np.column_stack([x[part], y[part]])
            weight = float(w.sum())
            mean = w @ rows / weight
            rows -= mean
            total += cls(weight, mean, rows.T @ (rows * w[:, None]))
        return total

    def __add__(self, other: "Moments") -> "Moments":
        """Chan, Golub, LeVeque (1979): no difference of large sums."""
        if other.weight == 0.0:
            return self
        if self.weight == 0.0:
            return other
        weight = self.weight + other.weight
        apart = other.mean - self.mean
        scatter = self.scatter + other.scatter
        scatter += np.outer(apart, apart) * (self.weight * other.weight / weight)
        return Moments(weight, self.mean + apart * (other.weight / weight), scatter)


def total(parts: Iterable[Moments], columns: int) -> Moments:
    """The sum of several."""
    sum_ = Moments.none(columns)
    for part in parts:
        sum_ += part
    return sum_


def all_but_one(parts: Sequence[Moments], columns: int) -> list[Moments]:
    """For each part the sum of the others. O(parts · p²): sums from both ends, since a difference from the
    total would keep a trace of the part in its last bits.
    """
    before, after = [Moments.none(columns)], [Moments.none(columns)]
    for part in parts[:-1]:
        before.append(before[-1] + part)
    for part in reversed(parts[1:]):
        after.append(part + after[-1])
    return [a + b for a, b in zip(before, reversed(after), strict=True)]


def grouped(parts: Sequence[Moments], columns: int) -> list[Moments]:
    """The same rows in at most five parts, so that fits within folds do not cost folds²."""
    return [total(parts[first::_GROUPS], columns) for first in range(min(_GROUPS, len(parts)))]


@dataclass(frozen=True)
class Linear:
    """`intercept + x·weights`."""

    weights: Floats
    intercept: float

    def __call__(self, x: Floats) -> Floats:
        """Predictions for the rows of x."""
        return x @ self.weights + self.intercept

    def error(self, moments: Moments) -> float:
        """Sum of squared errors on rows of which only the moments are known."""
        direction = np.append(-self.weights, 1.0)
        bias = moments.mean @ direction - self.intercept
        return float(direction @ moments.scatter @ direction + moments.weight * bias * bias)


def penalty(parts: Sequence[Moments]) -> float:
    """The penalty of `GRID` that predicts each part best from the others; 1 if there are fewer than two.

    More than five parts are taken together to five.
    """
    if len(parts) < 2:
        return 1.0
    columns = len(parts[0].mean) - 1
    errors = np.zeros(len(GRID))
    coarse = grouped(parts, columns)
    for part, others in zip(coarse, all_but_one(coarse, columns), strict=True):
        errors += [model.error(part) for model in ridges(others, GRID)]
    return GRID[int(errors.argmin())]


def cross_fitted(parts: Sequence[Moments], alpha: float | None) -> list[tuple[Linear, float]]:
    """A model for each part, fitted to the others, and last the one of all parts; each with its penalty.

    Without `alpha` each model chooses its own on the parts that it is fitted to.
    """
    columns = len(parts[0].mean) - 1
    models = []
    for left_out, rest in enumerate([*all_but_one(parts, columns), total(parts, columns)]):
        others = [part for i, part in enumerate(parts) if i != left_out]
        chosen = penalty(others) if alpha is None else alpha
        models.append((ridge(rest, chosen), chosen))
    return models


def ridge(moments: Moments, alpha: float) -> Linear:
    """The regression of y on x."""
    return ridges(moments, [alpha])[0]


def ridges(moments: Moments, alphas: Sequence[float]) -> list[Linear]:
    """The regression of y on x under each of several penalties."""
    p = len(moments.mean) - 1
    variance = np.diagonal(moments.scatter)[:p]
    # The rounding error of a constant column is no variance.
    floor = moments.weight * np.square(1e-12 * np.maximum(np.abs(moments.mean[:p]), 1e-300))
    varies = np.flatnonzero(variance > floor)
    scale = np.sqrt(variance[varies] / moments.weight) if moments.weight else np.ones(0)
    gram = moments.scatter[np.ix_(varies, varies)] / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(gram)
    right = vectors.T @ (moments.scatter[varies, p] / scale)
    least = len(values) * np.finfo(float).eps * values.max(initial=0.0)
    models = []
    for alpha in alphas:
        # Directions in which nothing varies have no part in the solution of least norm.
        inverse = np.zeros(len(values))
        np.divide(1.0, values + alpha, out=inverse, where=(values > least) | (alpha > 0.0))
        weights = np.zeros(p)
        weights[varies] = vectors @ (inverse * right) / scale
        models.append(Linear(weights, float(moments.mean[p] - moments.mean[:p] @ weights)))
    return models
