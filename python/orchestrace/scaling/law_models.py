"""Curves of `fit_law`: power, saturating and broken power laws, by least squares on points."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final, Protocol

import numpy as np

from ..base.arrays import Floats

# A law whose bend lies this far outside the range of x cannot be distinguished from one without, or from a
# step.
_LEAST_BEND: Final = 0.05
_MOST_BEND: Final = 50.0
_STARTS: Final = 3
_EXPONENTS: Final = np.array([-3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0])
_KNOTS: Final = 8
_LOOKS: Final = 64


@dataclass(frozen=True)
class Points:
    """Rows put together by x; the sum of squares of a curve differs from that of the rows by a constant.

    Attributes
    ----------
    z
        Distinct log x less `center`, ascending.
    weight
        How many rows, or how often they were drawn; all above 0.
    target
        Their mean: of log y under relative errors, else of y.
    center
        What was taken from log x, one number for all fits that are compared.
    relative
        Whether errors are relative.
    """

    z: Floats
    weight: Floats
    target: Floats
    center: float
    relative: bool

    @property
    def width(self) -> float:
        """From the least to the greatest log x."""
        return float(self.z[-1] - self.z[0])

    def residuals(self, curve: Floats) -> Floats:
        """Weighted differences from a curve on the scale of `target`; its last axis is that of the points."""
        return np.sqrt(self.weight) * (curve - self.target)

    def loss(self, curve: Floats) -> float:
        """Weighted sum of squares."""
        return float(np.square(self.residuals(curve)).sum())


class Law(Protocol):
    """One family of curves."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Their names, in the order of all arrays of them."""

    def fit(self, points: Points, near: Floats | None = None) -> Floats | None:
        """Parameters of the least sum of squares, begun at those `near`, or from many places."""

    def curve(self, theta: Floats, log_x: Floats) -> Floats:
        """y at each x, ``(..., m)`` of parameters ``(..., p)``."""

    def identified(self, theta: Floats, points: Points) -> bool:
        """Whether the points distinguish these parameters from others that fit as well."""


class Power:
    """y = scale * x^exponent."""

    parameters = ("scale", "exponent")

    def fit(self, points: Points, near: Floats | None = None) -> Floats | None:
        if points.relative:
            slope, level = _line(points.z, points.target, points.weight)
            return _with_scale(level, np.array([slope]), -slope * points.center)

        def shape(p: Floats) -> Floats:
            return np.exp(_bounded(p[..., :1] * points.z))

        starts = _EXPONENTS[:, None] if near is None else near[None, 1:]
        p = _projected(points, shape, _fewest(points, shape, starts))
        if p is None:
            return None
        return _scaled(_multiple(points, shape(p)), -p[0] * points.center, p)

    def curve(self, theta: Floats, log_x: Floats) -> Floats:
        scale, exponent = np.moveaxis(theta, -1, 0)[..., None]
        return _times_exp(scale, exponent * log_x)

    def identified(self, theta: Floats, points: Points) -> bool:
        return _has_scale(theta)


class BrokenPower:
    """y = scale * x^exponent up to ``break``, from there on with another exponent, without a jump."""

    parameters = ("scale", "exponent", "exponent_after", "break")

    def fit(self, points: Points, near: Floats | None = None) -> Floats | None:
        if points.relative:
            return self._lines(points)
        # at least two distinct x on either side
        low, high = float(points.z[1]), float(points.z[-2])

        def shape(p: Floats) -> Floats:
            knot = low + (high - low) / (1.0 + np.exp(-_bounded(p[..., 2:])))
            before, after = np.minimum(points.z - knot, 0.0), np.maximum(points.z - knot, 0.0)
            return np.exp(_bounded(p[..., :1] * before + p[..., 1:2] * after))

        if near is None:
            share = (np.arange(_KNOTS) + 0.5) / _KNOTS
            grid = np.meshgrid(_EXPONENTS, _EXPONENTS, np.log(share / (1.0 - share)), indexing="ij")
            starts = np.stack([axis.ravel() for axis in grid], axis=-1)
        else:
            at = (float(np.log(near[3])) - points.center - low) / (high - low)
            at = min(max(at, 1e-3), 1.0 - 1e-3)
            starts = np.array([[near[1], near[2], np.log(at / (1.0 - at))]])
        p = _projected(points, shape, _fewest(points, shape, starts))
        if p is None:
            return None
        knot = low + (high - low) / (1.0 + float(np.exp(-_bounded(p[2]))))
        log_break = knot + points.center
        theta = np.array([p[0], p[1], np.exp(log_break)])
        return _scaled(_multiple(points, shape(p)), -p[0] * log_break, theta)

    def _lines(self, points: Points) -> Floats | None:
        """Two lines that meet, exactly (Hudson 1966): they cross between two points, or bend at one."""
        z, t, w = points.z, points.target, points.weight
        sums = np.array([np.cumsum(w * v) for v in (np.ones_like(z), z, t, z * z, z * t, t * t)])
        left, right = sums, sums[:, -1:] - sums
        candidates = []
        # at least two distinct x on either side
        inner = np.arange(1, z.size - 2)
        if inner.size:
            (b1, m1, left_loss), (b2, m2, right_loss) = _lines_of(left[:, inner]), _lines_of(right[:, inner])
            with np.errstate(divide="ignore", invalid="ignore"):
                crossing = (m1 - m2) / (b2 - b1)
            good = np.flatnonzero((crossing > z[inner]) & (crossing < z[inner + 1]))
            # these sums have lost digits: they only rank the candidates
            candidates = crossing[
                good[np.argsort((left_loss + right_loss)[good], kind="stable")[:_LOOKS]]
            ].tolist()
        bends = z[1:-1]
        if bends.size > _LOOKS:
            bends = bends[np.linspace(0, bends.size - 1, _LOOKS).astype(np.int64)]
        best, knot = np.inf, None
        for at in candidates + bends.tolist():
            level, before, after = _hinge(points, at)
            curve = level + before * np.minimum(z - at, 0.0) + after * np.maximum(z - at, 0.0)
            loss = points.loss(curve)
            if loss < best:
                best, knot = loss, at
        if knot is None:
            return None
        level, before, after = _hinge(points, knot)
        log_break = knot + points.center
        return _with_scale(level, np.array([before, after, np.exp(log_break)]), -before * log_break)

    def curve(self, theta: Floats, log_x: Floats) -> Floats:
        scale, before, after, at = np.moveaxis(theta, -1, 0)[..., None]
        knot = np.log(at)
        return _times_exp(scale, before * np.minimum(log_x, knot) + after * np.maximum(log_x - knot, 0.0))

    def identified(self, theta: Floats, points: Points) -> bool:
        return _has_scale(theta)


class Saturating:
    """y = limit + amplitude * x^-rate, rate > 0: falls or rises to the limit."""

    parameters = ("limit", "amplitude", "rate")

    def fit(self, points: Points, near: Floats | None = None) -> Floats | None:
        low, high = np.log(_LEAST_BEND / points.width), np.log(_MOST_BEND / points.width)
        if points.relative:
            return self._positive(points, low, high, near)

        def shape(p: Floats) -> Floats:
            return np.exp(_bounded(-np.exp(np.clip(p[..., :1], low, high)) * points.z))

        starts = np.linspace(low + 0.5, high - 0.5, 24)[:, None] if near is None else np.log(near[None, 2:])
        p = _projected(points, shape, _fewest(points, shape, starts, offset=True), offset=True)
        if p is None:
            return None
        rate = float(np.exp(np.clip(p[0], low, high)))
        amplitude, limit = _line(shape(p), points.target, points.weight)
        log_part = rate * points.center
        return np.array([limit, float(_times_exp(amplitude, log_part)), rate])

    def _positive(self, points: Points, low: float, high: float, near: Floats | None) -> Floats | None:
        """Relative errors need a curve above 0: it falls or rises to a limit above 0."""
        z, top = points.z, float(points.target.max())
        z0 = float(z[0])

        def rate_of(p: Floats) -> float:
            return float(np.exp(np.clip(p[2], low, high)))

        def falling(p: Floats) -> Floats:
            return np.asarray(np.logaddexp(p[0], p[1] - _bounded(rate_of(p) * (z - z0))))

        def rising(p: Floats) -> Floats:
            # above 0 at the first x, if by little
            share = 1.0 / (1.0 + np.exp(-np.clip(p[1], -30.0, 30.0)))
            return np.asarray(p[0] + np.log1p(-share * np.exp(-_bounded(rate_of(p) * (z - z0)))))

        begins: list[tuple[Callable[[Floats], Floats], Floats]] = []
        if near is None:
            y = np.exp(points.target - top)
            # relative errors to first order
            flat = Points(z, points.weight * y**-2.0, y, points.center, False)
            for guess in np.linspace(low + 0.5, high - 0.5, 12):
                amplitude, limit = _line(np.exp(-np.exp(guess) * (z - z0)), y, flat.weight)
                limit = max(limit, 0.1 * float(y.min()))
                if amplitude > 0.0:
                    begins.append((falling, np.array([np.log(limit) + top, np.log(amplitude) + top, guess])))
                else:
                    share = float(np.clip(-amplitude / limit, 0.05, 0.95))
                    begins.append(
                        (rising, np.array([np.log(limit) + top, np.log(share / (1 - share)), guess]))
                    )
        else:
            limit, amplitude, rate = (float(v) for v in near)
            logs = np.log(max(limit, 1e-300)), np.log(rate)
            part = float(np.log(max(abs(amplitude), 1e-300))) - rate * (points.center + z0)
            if amplitude > 0.0:
                begins.append((falling, np.array([logs[0], part, logs[1]])))
            else:
                share = float(np.clip(np.exp(part - logs[0]), 1e-6, 1.0 - 1e-6))
                begins.append((rising, np.array([logs[0], np.log(share / (1.0 - share)), logs[1]])))
        begins.sort(key=lambda begin: points.loss(begin[0](begin[1])))
        best, chosen = np.inf, None
        for form, start in begins[:_STARTS]:
            p = _least(partial(_apart, points, form), start)
            loss = points.loss(form(p))
            if loss < best:
                best, chosen = loss, (form, p)
        if chosen is None:
            return None
        form, p = chosen
        rate, limit = rate_of(p), float(np.exp(_bounded(p[0])))
        moved = rate * (points.center + z0)
        if form is falling:
            amplitude = float(np.exp(_bounded(p[1] + moved)))
        else:
            amplitude = -float(
                np.exp(_bounded(p[0] - np.logaddexp(0.0, -np.clip(p[1], -30.0, 30.0)) + moved))
            )
        return np.array([limit, amplitude, rate])

    def curve(self, theta: Floats, log_x: Floats) -> Floats:
        limit, amplitude, rate = np.moveaxis(theta, -1, 0)[..., None]
        return np.asarray(limit + _times_exp(amplitude, -rate * log_x))

    def identified(self, theta: Floats, points: Points) -> bool:
        """Whether the law bends where points are: no line in log x, no step at the first of them."""
        bend = float(theta[2]) * points.width
        inside = _LEAST_BEND * 1.001 < bend < _MOST_BEND * 0.999
        return bool(np.isfinite(theta).all()) and inside and theta[1] != 0.0


LAWS: Final[Mapping[str, Law]] = MappingProxyType(
    {"power": Power(), "saturating": Saturating(), "broken_power": BrokenPower()}
)
"""From the simplest on: of models that predict alike, the first is chosen."""


def _has_scale(theta: Floats) -> bool:
    """Whether the scale is a float in all its digits: steep lines meet x = 1 beyond all floats, or at 0."""
    return bool(np.isfinite(theta).all() and np.abs(theta[0]) >= np.finfo(np.float64).tiny)


def _bounded(exponent: Floats | float) -> Floats:
    """An exponent whose power is a float."""
    return np.clip(exponent, -700.0, 700.0)


def _times_exp(factor: Floats | float, exponent: Floats | float) -> Floats:
    """factor * e^exponent, which may be finite where e^exponent overflows."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return np.asarray(np.sign(factor) * np.exp(np.log(np.abs(factor)) + exponent))


def _with_scale(level: float, others: Floats, log_part: float) -> Floats:
    """The scale e^(level + log_part) before the other parameters."""
    with np.errstate(over="ignore"):
        return np.concatenate([[np.exp(level + log_part)], others])


def _scaled(factor: float, log_part: float, others: Floats) -> Floats:
    return np.concatenate([[_times_exp(factor, log_part)], others])


def _line(v: Floats, t: Floats, w: Floats) -> tuple[float, float]:
    """Slope and intercept of the weighted least-squares line; a slope of 0 where v does not vary."""
    total = w.sum()
    middle, mean = (w * v).sum() / total, (w * t).sum() / total
    around = v - middle
    spread = (w * around * around).sum()
    slope = float((w * around * (t - mean)).sum() / spread) if spread > 0.0 else 0.0
    return slope, float(mean - slope * middle)


def _lines_of(sums: Floats) -> tuple[Floats, Floats, Floats]:
    """Slopes, intercepts and losses from the sums of w, wz, wt, wzz, wzt and wtt."""
    n, z, t, zz, zt, tt = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        slope = (zt - z * t / n) / (zz - z * z / n)
        return slope, (t - slope * z) / n, tt - t * t / n - slope * (zt - z * t / n)


def _hinge(points: Points, knot: float) -> tuple[float, float, float]:
    """Level at the knot, slopes before and after it, of the least sum of squares."""
    w, t = points.weight, points.target
    before, after = np.minimum(points.z - knot, 0.0), np.maximum(points.z - knot, 0.0)
    # no point is on both sides, so that the normal equations have one unknown left: the level
    top, bottom, sides = (w * t).sum(), w.sum(), []
    for side in (before, after):
        square, first, both = (w * side * side).sum(), (w * side).sum(), (w * side * t).sum()
        top, bottom = top - first * both / square, bottom - first * first / square
        sides.append((square, first, both))
    level = float(top / bottom)
    before_slope, after_slope = (float((both - level * first) / square) for square, first, both in sides)
    return level, before_slope, after_slope


def _multiple(points: Points, shape: Floats) -> float:
    """The factor of a shape that fits best."""
    return float((points.weight * shape * points.target).sum() / (points.weight * shape * shape).sum())


def _apart(points: Points, form: Callable[[Floats], Floats], p: Floats) -> Floats:
    return points.residuals(form(p))


def _remainder(points: Points, shape: Floats, offset: bool) -> Floats:
    """Weighted residuals after what is linear was fitted (Golub & Pereyra 1973), for each row of shapes."""
    w, t = points.weight, points.target
    if offset:
        total = w.sum()
        t = t - (w * t).sum() / total
        shape = shape - (w * shape).sum(axis=-1, keepdims=True) / total
    square = (w * shape * shape).sum(axis=-1, keepdims=True)
    factor = np.where(square > 0.0, (w * shape * t).sum(axis=-1, keepdims=True), 0.0)
    factor = factor / np.where(square > 0.0, square, 1.0)
    return np.asarray(np.sqrt(w) * (factor * shape - t))


def _fewest(
    points: Points, shape: Callable[[Floats], Floats], starts: Floats, offset: bool = False
) -> Floats:
    """The best of some starts."""
    if len(starts) <= _STARTS:
        return starts
    # in pieces: 648 starts times many points is more than a fit should hold
    size = max(1, (1 << 20) // points.z.size)
    pieces = (starts[i : i + size] for i in range(0, len(starts), size))
    loss = [np.square(_remainder(points, shape(piece), offset)).sum(axis=-1) for piece in pieces]
    return starts[np.argsort(np.concatenate(loss), kind="stable")[:_STARTS]]


def _projected(
    points: Points, shape: Callable[[Floats], Floats], starts: Floats, offset: bool = False
) -> Floats | None:
    """The parameters of a shape whose best multiple leaves the least sum of squares."""
    best, chosen = np.inf, None
    for start in starts:
        p = _least(lambda p: _remainder(points, shape(p), offset), start)
        loss = float(np.square(_remainder(points, shape(p), offset)).sum())
        if loss < best:
            best, chosen = loss, p
    return chosen


def _least(residuals: Callable[[Floats], Floats], start: Floats) -> Floats:
    """Levenberg and Marquardt, as MINPACK has it: one thread, the same steps on every run."""
    from scipy.optimize import leastsq

    # the full output is what keeps it from warning where it ran out of steps: any point is judged by its loss
    solution = leastsq(residuals, start, ftol=1e-12, xtol=1e-12, maxfev=500, full_output=True)
    return np.atleast_1d(np.asarray(solution[0], np.float64))
