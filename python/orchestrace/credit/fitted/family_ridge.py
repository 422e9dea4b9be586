"""Linear regression in which each family of columns is shrunk by a variance of its own.

```text
y = X θ + noise,   θ_j ~ N(0, τ²_f) for the columns j of family f,   noise ~ N(0, σ²)
```

The variances are those under which the data are likeliest (evidence of the second kind, D. MacKay, Neural
Computation 4 (1992)), found by his fixed point from moments alone. A family that explains nothing gets a
variance near 0 and disappears. The posterior of θ is normal: its mean is a ridge regression, its covariance
has the doubt that shrinkage leaves. O(steps · p³).
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from ...base.arrays import Bools, Floats, Ints

_STEPS: Final = 200
_CLOSE: Final = 1e-3  # of the logarithm of a variance: its own doubt is a hundred times that
_SMALLEST: Final = 1e-6  # of a variance, as a share of that of y; below, a family is left out


@dataclass(frozen=True)
class Sums:
    """Cross products of centred rows: ``xx`` (p, p), ``xy`` (p, k) for k outcomes, ``yy`` (k,); ``n`` degrees
    of freedom.
    """

    xx: Floats
    xy: Floats
    yy: Floats
    n: float

    def __add__(self, other: "Sums") -> "Sums":
        """Of the rows of both."""
        return Sums(self.xx + other.xx, self.xy + other.xy, self.yy + other.yy, self.n + other.n)

    def part(self, columns: Bools) -> "Sums":
        """Of the columns that are marked."""
        return Sums(self.xx[np.ix_(columns, columns)], self.xy[columns], self.yy, self.n)

    def error(self, weights: Floats) -> Floats:
        """Σ (y - x·θ)² for each outcome; `weights` are (p, k)."""
        errors: Floats = (
            self.yy - 2.0 * (weights * self.xy).sum(axis=0) + (weights * (self.xx @ weights)).sum(axis=0)
        )
        return np.maximum(errors, 0.0)


@dataclass(frozen=True)
class Posterior:
    """What is known of θ: mean (p,) and covariance (p, p); the variances, of each family and of noise."""

    mean: Floats
    covariance: Floats
    of_family: Floats
    noise: float


def posterior(sums: Sums, family: Ints, families: int) -> Posterior:
    """θ of the first outcome. Columns and families that nothing varies in stay at 0."""
    p = len(family)
    right, square = sums.xy[:, 0], float(sums.yy[0])
    scale = square / max(sums.n, 1.0)
    if p == 0 or scale <= 0.0:
        return Posterior(np.zeros(p), np.zeros((p, p)), np.zeros(families), scale)
    variance = np.full(families, scale)
    noise, floor = scale, _SMALLEST * scale
    for _ in range(_STEPS):
        live = np.flatnonzero(variance[family] > floor)
        mean, covariance = _solved(sums, live, 1.0 / variance[family[live]], noise)
        size = np.bincount(family[live], minlength=families)
        left = np.bincount(family[live], weights=np.diagonal(covariance), minlength=families)
        free = np.clip(size - left / variance, 1e-12, None)  # parameters that the data determine
        squares = np.bincount(family[live], weights=np.square(mean), minlength=families)
        fresh = np.where(size > 0, np.maximum(squares / free, floor), floor)
        error = square + float(mean @ (sums.xx[np.ix_(live, live)] @ mean - 2.0 * right[live]))
        level = max(error / max(sums.n - float(free[size > 0].sum()), 1.0), floor)
        moved = np.append(np.log(fresh / variance)[size > 0], np.log(level / noise))
        variance, noise = fresh, level
        if np.abs(moved).max() < _CLOSE:
            break
    live = np.flatnonzero(variance[family] > floor)
    weights, doubt = np.zeros(p), np.zeros((p, p))
    weights[live], doubt[np.ix_(live, live)] = _solved(sums, live, 1.0 / variance[family[live]], noise)
    return Posterior(weights, doubt, np.where(variance > floor, variance, 0.0), noise)


def _solved(sums: Sums, live: Ints, precision: Floats, noise: float) -> tuple[Floats, Floats]:
    """Mean and covariance of the live columns under given variances."""
    inverse = sums.xx[np.ix_(live, live)] / noise
    inverse[np.diag_indices(len(live))] += precision
    covariance: Floats = np.asarray(np.linalg.inv(inverse), dtype=np.float64)
    mean: Floats = np.asarray(covariance @ sums.xy[live, 0] / noise, dtype=np.float64)
    return mean, covariance
