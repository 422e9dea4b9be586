"""Weights of edge types from targets and their predictions: identification, estimates, errors, folds.

A prediction is a function of nine parameters, a weight for each edge type and the leak, and comes with its
slopes in them. Nothing here knows graphs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Floats, Ints
from ..base.schema import TYPE_WEIGHTS
from ..statistics.influence import t_quantile

Model = Literal["noisy_or", "noisy_and", "linear"]
Loss = Literal["log", "squared"]
Predict = Callable[[Floats], tuple[Floats, Floats]]
"""From nine parameters to predictions (n,) and slopes (n, 9)."""

EDGE_TYPES: Final = tuple(TYPE_WEIGHTS)
N: Final = len(EDGE_TYPES)
LEAK: Final = N
SURE: Final = 1e-6  # no prediction counts as surer than this, so that one surprise costs a finite loss
_GRID: Final = (0.25, 0.5, 0.8, 0.1, 0.05, 0.02)
_MOST_LEAK: Final = 0.999
_STEPS: Final = 50
_CLUSTERS: Final = 4096  # whose matrices are in memory at a time
_AT_BOUND: Final = 1e-6
_COLLINEAR: Final = 1e-10  # least eigenvalue, of columns of length 1, that counts as above 0
# Apart, so that no symmetry of equal weights passes for collinearity.
_APART: Final = np.array([0.83, 1.11, 0.95, 1.19, 0.88, 1.06, 1.15, 0.91, 0.52])


@dataclass(frozen=True)
class Observations:
    """Targets in 0..1, their clusters by number, and which of them count."""

    predict: Predict
    targets: Floats
    clusters: Ints
    counted: NDArray[np.bool_]


@dataclass(frozen=True)
class Task:
    """What is estimated."""

    model: Model
    loss: Loss
    leak: bool

    @property
    def most(self) -> float:
        """The largest weight: probabilities end at 1."""
        return np.inf if self.model == "linear" else 1.0


@dataclass(frozen=True)
class Estimate:
    """Parameters as they are used, their errors, and the reason where one is not identified."""

    used: Floats
    stderr: Floats
    reasons: tuple[str | None, ...]
    loss: float
    converged: bool


def estimate(seen: Observations, task: Task, *, errors: bool = True) -> Estimate:
    """Least loss within the bounds; clustered sandwich errors of what is identified."""
    shared = np.where(np.arange(N + 1) < N, 0, -1)
    objective = _Objective(seen, task, shared, 1)
    # begin at the best of a few: where every sum is cut at 1 the slope is 0
    common = _least(seen, task, shared, np.array([min(_GRID, key=lambda w: objective(np.array([w]))[0])]))
    groups, reasons = _identified(seen, task, float(common.x[0]))
    starts = [float(common.x[0])]
    if errors:  # the fit of a fold begins once
        starts += [starts[0] / 2, (starts[0] + 1.0) / 2 if task.most == 1.0 else 0.05]
    n_free = int(groups.max()) + 1
    minima = [_least(seen, task, groups, _begin(groups, n_free, start)) for start in starts if n_free]
    used = np.full(N + 1, common.x[0])
    used[LEAK] = 0.0
    stderr = np.full(N + 1, np.nan)
    if not minima:
        return Estimate(used, stderr, reasons, common.loss, True)
    best = min(minima, key=lambda minimum: minimum.loss)
    used[groups >= 0] = best.x[groups[groups >= 0]]
    at_bound = ((used < _AT_BOUND) | (used > task.most - _AT_BOUND)) & (groups >= 0)
    reasons = tuple(
        "weight.bound" if bound and reason is None else reason
        for bound, reason in zip(at_bound, reasons, strict=True)
    )
    if errors:
        stderr, reasons = _sandwich(seen, task, groups, best.x, reasons)
    return Estimate(used, stderr, reasons, best.loss, best.converged)


def _begin(groups: Ints, n_free: int, start: float) -> Floats:
    begin = np.full(n_free, start)
    if groups[LEAK] >= 0:
        begin[groups[LEAK]] = 0.05
    return begin


# --- loss ------------------------------------------------------------------------------------------------


def losses(task: Task, predicted: Floats, targets: Floats) -> tuple[Floats, Floats, Floats]:
    """Loss of every target, its slope in the prediction, and its expected curvature in it."""
    if task.loss == "squared":
        return np.square(targets - predicted), 2.0 * (predicted - targets), np.full_like(targets, 2.0)
    within = 1.0 - 2.0 * SURE
    p = SURE + within * predicted
    value = -(targets * np.log(p) + (1.0 - targets) * np.log1p(-p))
    spread = p * (1.0 - p)
    return value, within * (p - targets) / spread, within**2 / spread


def _spread(groups: Ints, free: Floats) -> Floats:
    """All nine parameters from the free ones; what is not free is 0."""
    return np.where(groups >= 0, free[np.maximum(groups, 0)], 0.0) if free.size else np.zeros(N + 1)


def _gather(groups: Ints, slopes: Floats, n_free: int) -> Floats:
    """Slopes in the free parameters: those of types that share one add up."""
    gathered = np.zeros((slopes.shape[0], n_free))
    for k in np.flatnonzero(groups >= 0):
        gathered[:, groups[k]] += slopes[:, k]
    return gathered


@dataclass(frozen=True)
class _Minimum:
    x: Floats
    loss: float
    converged: bool


class _Objective:
    """Mean loss of the counted targets as a function of the free parameters, with its gradient.

    A type that no prediction depends on has no slope, so 0 is as good as any value.
    """

    def __init__(self, seen: Observations, task: Task, groups: Ints, n_free: int) -> None:
        self.seen, self.task, self.groups, self.n_free = seen, task, groups, n_free
        self.share = seen.counted / max(int(seen.counted.sum()), 1)

    def parts(self, free: Floats) -> tuple[float, Floats, Floats]:
        """Loss; its slope in every prediction; slopes of the predictions."""
        predicted, slopes = self.seen.predict(_spread(self.groups, free))
        value, by, _ = losses(self.task, predicted, self.seen.targets)
        # einsum adds in one order, whatever BLAS would do
        return (
            float(np.einsum("i,i", self.share, value)),
            self.share * by,
            _gather(self.groups, slopes, self.n_free),
        )

    def __call__(self, free: Floats) -> tuple[float, Floats]:
        value, by, slopes = self.parts(free)
        return value, np.einsum("i,ij->j", by, slopes)


def _least(seen: Observations, task: Task, groups: Ints, begin: Floats) -> _Minimum:
    n_free = begin.size
    objective = _Objective(seen, task, groups, n_free)
    scored = _scoring(objective, begin)
    if scored.converged:
        return scored
    most = None if task.most == np.inf else task.most
    bounds = [(0.0, most if groups[LEAK] != k else _MOST_LEAK) for k in range(n_free)]
    options = {"maxiter": 1000, "maxfun": 5000, "ftol": 1e-15, "gtol": 1e-10, "maxls": 50}
    from scipy.optimize import minimize

    done = minimize(
        objective, np.clip(scored.x, 0.0, most), jac=True, method="L-BFGS-B", bounds=bounds, options=options
    )
    # the line search ends abnormally where rounding hides any further gain, which is the end as well
    slope = np.abs(np.clip(done.x - done.jac, 0.0, most) - done.x).max()
    return _Minimum(done.x, float(done.fun), bool(done.success or slope < 1e-6))


def _scoring(objective: _Objective, begin: Floats) -> _Minimum:
    """Fisher scoring within the bounds: each step is a non-negative or bounded least-squares problem.

    Where all inputs are recorded and no sum stops at 1, predictions of `linear` are linear in the weights,
    and the first step is the least-squares solution.
    """
    from scipy.optimize import lsq_linear, nnls

    task, groups = objective.task, objective.groups
    most = np.where(np.arange(begin.size) == groups[LEAK], _MOST_LEAK, task.most)
    x, value = begin, objective(begin)[0]
    for _ in range(_STEPS):
        predicted, slopes = objective.seen.predict(_spread(groups, x))
        _, by, bend = losses(task, predicted, objective.seen.targets)
        design = _gather(groups, slopes, objective.n_free)
        aim = np.einsum("ij,j->i", design, x) - by / bend
        root = np.sqrt(objective.share * bend)[:, None]
        # the problem in a triangle of as many rows as columns
        triangle: Floats = np.asarray(np.linalg.qr(root * np.column_stack([design, aim]), mode="r"))
        left, right = triangle[:, :-1], triangle[:, -1]
        if np.isinf(most).all():
            to = nnls(left, right)[0]
        else:
            to = np.clip(lsq_linear(left, right, (0.0, most), method="bvls").x, 0.0, most)
        to = np.where(np.abs(left).max(axis=0) > 0.0, to, x)  # what moves nothing stays where it is
        if np.abs(to - x).max() < 1e-10:
            return _Minimum(x, value, True)
        step = 1.0
        while (reached := objective(x + step * (to - x))[0]) > value and step > 1e-4:
            step /= 2
        if reached > value:
            return _Minimum(x, value, bool(np.abs(to - x).max() < 1e-7))
        x, value = x + step * (to - x), reached
    return _Minimum(x, value, False)


# --- what the data can show ------------------------------------------------------------------------------


def _identified(seen: Observations, task: Task, common: float) -> tuple[Ints, tuple[str | None, ...]]:
    """The free parameter of each of the nine, -1 where it has none, and the reason why.

    Types without any slope have no parameter; those whose slopes are linearly dependent share one.
    """
    columns = np.arange(N + 1) < N + task.leak
    best: tuple[int, Floats, NDArray[np.bool_]] | None = None
    for size in (np.clip(common, 0.05, 0.5), 0.05, 0.005):  # until no sum is cut at 1
        at = np.where(columns, _APART * size, 0.0)
        slopes = seen.predict(at)[1][seen.counted]
        slopes = np.where(columns, slopes, 0.0)
        moved = np.abs(slopes).max(axis=0, initial=0.0) > 0.0
        null = _null_space(slopes[:, moved])
        rank = int(moved.sum()) - null.shape[1]
        if best is None or rank > best[0]:
            best = rank, null, moved
    assert best is not None
    _, null, moved = best
    movable = np.flatnonzero(moved)
    if task.leak and moved[LEAK] and np.abs(null[-1:]).max(initial=0.0) > 1e-6:
        without, updated = _identified(seen, replace(task, leak=False), common)
        return without, (*updated[:LEAK], "type.collinear: some types")
    projection = null @ null.T
    groups = np.full(N + 1, -1)
    reasons: list[str | None] = ["type.unmoved" if column else None for column in columns]
    n_free = 0
    for place, k in enumerate(movable):
        reasons[k] = None
        if groups[k] < 0:
            groups[movable[_connected(projection, place)]] = n_free
            n_free += 1
    for k in movable:
        others = [EDGE_TYPES[o] for o in movable if o != k and groups[o] == groups[k]]
        if others:
            reasons[k] = f"type.collinear: {', '.join(others)}"
    return groups, tuple(reasons)


def _null_space(slopes: Floats) -> Floats:
    """Directions (p, m) in which no prediction moves."""
    rows = np.sqrt(np.square(slopes).sum(axis=1, keepdims=True))
    unit = np.divide(slopes, rows, out=np.zeros_like(slopes), where=rows > 0.0)
    lengths = np.sqrt(np.square(unit).sum(axis=0))
    unit = unit / np.where(lengths > 0.0, lengths, 1.0)
    values, vectors = np.linalg.eigh(np.einsum("ij,ik->jk", unit, unit))
    null = vectors[:, values < _COLLINEAR]
    # in terms of the slopes as they are
    scaled = null / np.where(lengths > 0.0, lengths, 1.0)[:, None]
    return np.linalg.qr(scaled)[0] if scaled.shape[1] else scaled


def _connected(projection: Floats, start: int) -> list[int]:
    members, left = [start], [start]
    while left:
        for other in np.flatnonzero(np.abs(projection[left.pop()]) > 1e-6):
            if int(other) not in members:
                members.append(int(other))
                left.append(int(other))
    return sorted(members)


# --- errors ----------------------------------------------------------------------------------------------


def _sandwich(
    seen: Observations, task: Task, groups: Ints, x: Floats, reasons: tuple[str | None, ...]
) -> tuple[Floats, tuple[str | None, ...]]:
    """Standard errors that hold whatever the spread of targets around their mean, and inside a cluster."""
    stderr = np.full(N + 1, np.nan)
    n_clusters = int(np.unique(seen.clusters[seen.counted]).size)
    updated = list(reasons)
    inside = np.flatnonzero((x > _AT_BOUND) & (x < task.most - _AT_BOUND))
    free = [k for k in range(N + 1) if groups[k] in inside and reasons[k] is None]
    if n_clusters < 2:
        for k in free:
            updated[k] = "tasks.few"
        return stderr, tuple(updated)
    objective = _Objective(seen, task, groups, x.size)
    curvature = np.zeros((inside.size, inside.size))
    for row, at in enumerate(inside):
        h = min(1e-5, x[at] / 2, (task.most - x[at]) / 2)
        step = np.zeros_like(x)
        step[at] = h
        curvature[row] = (objective(x + step)[1] - objective(x - step)[1])[inside] / (2 * h)
    curvature = (curvature + curvature.T) / 2
    bent = _bent(curvature)
    for k in free:
        if groups[k] not in inside[bent]:
            updated[k] = "curvature.none"
    inside, curvature = inside[bent], curvature[np.ix_(bent, bent)]
    if not inside.size:
        return stderr, tuple(updated)
    free = [k for k in free if groups[k] in inside]
    errors = np.sqrt(np.diag(_jackknife(objective, x, inside, curvature, n_clusters)))
    for k in free:
        stderr[k] = errors[np.flatnonzero(inside == groups[k])[0]]
    return stderr, tuple(updated)


def _bent(curvature: Floats) -> NDArray[np.bool_]:
    """Parameters along which the loss has a least point: those of a flat direction are left out."""
    bent: NDArray[np.bool_] = np.diag(curvature) > 0.0
    while bent.any():
        inside = np.ix_(bent, bent)
        length = np.sqrt(np.diag(curvature[inside]))
        values, vectors = np.linalg.eigh(curvature[inside] / length[:, None] / length)
        if values[0] > 1e-9:
            break
        bent[np.flatnonzero(bent)[np.abs(vectors[:, 0]) > 1e-3]] = False
    return bent


def _jackknife(objective: _Objective, x: Floats, inside: Ints, curvature: Floats, n_clusters: int) -> Floats:
    """Covariance by leaving out each cluster, one Newton step away from the estimate (CR3).

    The curvature of a cluster is its expected one, the product of the slopes.
    """
    seen = objective.seen
    predicted, slopes = seen.predict(_spread(objective.groups, x))
    slopes = _gather(objective.groups, slopes, objective.n_free)[:, inside]
    by, bend = losses(objective.task, predicted, seen.targets)[1:]
    order = np.argsort(seen.clusters, kind="stable")
    order = order[seen.counted[order]]
    starts = np.flatnonzero(np.diff(seen.clusters[order], prepend=-1))
    covariance = np.zeros((inside.size, inside.size))
    for from_ in range(0, starts.size, _CLUSTERS):
        here = starts[from_ : from_ + _CLUSTERS]
        end = starts[from_ + _CLUSTERS] if from_ + _CLUSTERS < starts.size else order.size
        rows = order[here[0] : end]
        j = slopes[rows]
        score = np.add.reduceat((objective.share * by)[rows, None] * j, here - here[0])
        outer = (objective.share * bend)[rows, None, None] * j[:, :, None] * j[:, None, :]
        left = curvature - np.add.reduceat(outer, here - here[0])
        # a cluster that holds all the curvature cannot be left out: then the estimate does not move
        regular = np.linalg.eigvalsh(left)[:, :1, None] > 1e-9 * np.linalg.eigvalsh(curvature)[0]
        moved = np.linalg.solve(np.where(regular, left, curvature), score[:, :, None])[:, :, 0]
        covariance += np.einsum("gi,gj->ij", moved, moved)
    return covariance * (n_clusters - 1) / n_clusters


def interval(weight: float, stderr: float, n_clusters: int, most: float) -> tuple[float, float]:
    """95 % by Student's t with one degree of freedom less than clusters, within the bounds.

    A probability by its log-odds, where estimates near a bound are less skewed.
    """
    t = t_quantile(0.975, n_clusters - 1)
    if most == np.inf:
        return max(weight - t * stderr, 0.0), weight + t * stderr
    center, half = np.log(weight / (1.0 - weight)), t * stderr / (weight * (1.0 - weight))
    lower, upper = (1.0 / (1.0 + np.exp(-np.clip(center + side * half, -700.0, 700.0))) for side in (-1, 1))
    return float(lower), float(upper)


# --- held-out clusters -----------------------------------------------------------------------------------


def held_out(seen: Observations, task: Task, fold: Ints) -> tuple[Floats, Floats]:
    """Predictions of every target by a fit to the other folds, and the mean of the targets of these."""
    predicted, base = np.zeros_like(seen.targets), np.zeros_like(seen.targets)
    of = fold[seen.clusters]
    for k in range(int(fold.max()) + 1):
        out = of == k
        fitted = estimate(replace(seen, counted=seen.counted & ~out), task, errors=False)
        predicted[out] = seen.predict(fitted.used)[0][out]
        base[out] = seen.targets[~out].mean()
    return predicted, base
