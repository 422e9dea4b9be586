"""Evidence for fitted laws: errors on held-out clusters, choice of a model, resampled parameters."""

import hashlib

import numpy as np

from ..base.arrays import Floats, Ints
from ..statistics.influence import mean_interval
from ..statistics.resampling import draws
from .law_models import Law, Points


class Rows:
    """Rows of one group, and the points that a choice of rows makes."""

    def __init__(self, x: Floats, y: Floats, codes: Ints, relative: bool) -> None:
        self.log_x = np.log(x)
        self.relative = relative
        self.target = np.log(y) if relative else y
        self.codes = codes
        self.values, self.at = np.unique(self.log_x, return_inverse=True)
        # one for all fits, so that resamples are fitted in the same coordinates
        self.center = float(0.5 * (self.values[0] + self.values[-1]))

    def points(self, times: Floats | None = None) -> Points:
        """The rows, each so many times, put together by x."""
        size = self.values.size
        times = np.ones(self.at.size, np.float64) if times is None else times
        weight: Floats = np.bincount(self.at, times, size).astype(np.float64)
        total = np.bincount(self.at, times * self.target, size)
        seen = weight > 0.0
        z = self.values[seen] - self.center
        return Points(z, weight[seen], total[seen] / weight[seen], self.center, self.relative)


def deal(names: list[str], n_folds: int, seed: int) -> Ints:
    """The fold of each cluster: dealt out in the order of a hash of seed and name."""

    def key(i: int) -> tuple[bytes, str]:
        return hashlib.blake2b(f"{seed}/{names[i]}".encode(), digest_size=16).digest(), names[i]

    order = sorted(range(len(names)), key=key)
    fold = np.empty(len(names), np.int64)
    fold[order] = np.arange(len(names)) % n_folds
    return fold


def held_out(data: Rows, law: Law, fold_of: Ints) -> Floats | None:
    """Squared errors of all rows, each of a fit without its cluster; None where a part is too small."""
    squares = np.empty(data.at.size)
    for fold in np.unique(fold_of):
        out = fold_of == fold
        points = data.points((~out).astype(np.float64))
        if points.z.size <= len(law.parameters):
            return None
        theta = law.fit(points)
        if theta is None:
            return None
        predicted = law.curve(theta, data.log_x[out])
        with np.errstate(divide="ignore", invalid="ignore"):
            squares[out] = np.square((np.log(predicted) if data.relative else predicted) - data.target[out])
    return squares if np.isfinite(squares).all() else None


def simplest(squares: dict[str, Floats], data: Rows) -> str | None:
    """The simplest model that is within one standard error of the best."""
    if not squares:
        return None
    # laws that are exact but for rounding are not distinguished
    least = 1e-20 * (1.0 if data.relative else float(np.square(data.target).mean()))
    best = min(squares, key=lambda model: float(squares[model].mean()))
    for model, errors in squares.items():
        worse = mean_interval(errors - squares[best], data.codes, confidence=0.5)
        if (worse.estimate or 0.0) <= max(worse.around.stderr or 0.0, least):
            return model
    return best


def resampled(data: Rows, law: Law, theta: Floats, n_clusters: int, n_boot: int, seed: int) -> Floats:
    """Parameters of resampled clusters; resamples with too few distinct x are left out."""
    parameters = []
    for block in draws(n_clusters, n_boot, seed):
        for times in block:
            points = data.points(times[data.codes])
            if points.z.size < len(law.parameters):
                continue
            refitted = law.fit(points, theta)
            if refitted is not None and np.isfinite(refitted).all():
                parameters.append(refitted)
    return np.array(parameters).reshape(-1, theta.size)
