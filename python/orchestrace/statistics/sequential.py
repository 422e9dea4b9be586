"""Looks at data that still grow: how strict each of several planned looks has to be.

Who looks five times at 5 % and stops at the first alarm has 14 % of false alarms. Here the rate is spent:
hardly anything of it at the first looks, nearly all at the last.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np

from ..base.arrays import Floats

_REACH: Final = 9.0
"""Below so many deviations a sum that goes on is not looked for."""
_FARTHEST: Final = 60.0
"""Beyond so many deviations no boundary is."""
_POINTS: Final = 401
"""Of the grid on which densities are carried on: odd, for Simpson's rule."""
_LEAST: Final = 1e-9
"""Repeated p-values are not followed below."""


def spent(alpha: float, share: float) -> float:
    """The rate of false alarms that may be used up after a share of the tasks.

    Parameters
    ----------
    alpha
        The rate of all looks together, one-sided.
    share
        Of the planned tasks, above 0 and up to 1.

    Returns
    -------
    float
        2 (1 - F(z / sqrt(share))) with F(z) = 1 - alpha / 2: close to O'Brien & Fleming's boundary.

    Notes
    -----
    O(1). Source: Lan & DeMets 1983, Biometrika 70:659.

    Examples
    --------
    >>> from orchestrace.statistics.sequential import spent
    >>> round(spent(0.05, 0.5), 5), round(spent(0.05, 1.0), 5)
    (0.00557, 0.05)
    """
    from scipy.special import ndtr, ndtri

    return 2.0 * float(ndtr(float(ndtri(alpha / 2.0)) / math.sqrt(share)))


@lru_cache(maxsize=4096)
def nominal_levels(alpha: float, looks: int, until: int | None = None) -> tuple[float, ...]:
    """What the p-value of each look is compared with, so that all looks together keep a rate.

    Parameters
    ----------
    alpha
        The rate of false alarms of all looks together, one-sided, between 0 and 1.
    looks
        How many are planned, after equal numbers of tasks.
    until
        The last look that is asked for; None: all.

    Returns
    -------
    tuple of float
        One-sided levels, rising; with one look it is `alpha`.

    Notes
    -----
    The sums at the looks are those of a random walk with normal steps; its density below the boundaries is
    carried from look to look by Simpson's rule. O(looks) integrals of 401 by 401 points.

    Source: Armitage, McPherson & Rowe 1969; Lan & DeMets 1983.

    Examples
    --------
    >>> from orchestrace.statistics.sequential import nominal_levels
    >>> [round(level, 5) for level in nominal_levels(0.025, 3)]
    [0.0001, 0.00601, 0.02313]
    """
    from scipy.special import ndtr

    if looks == 1:
        return (alpha,)
    levels: list[float] = []
    points: Floats = np.zeros(0)
    weights = points
    step = math.sqrt(1.0 / looks)
    for look in range(1, (until or looks) + 1):
        share = look / looks
        unit = math.sqrt(share)
        target = spent(alpha, share) - (spent(alpha, (look - 1) / looks) if look > 1 else 0.0)

        bound = _boundary(target, points, weights, step, unit)
        levels.append(float(ndtr(-bound / unit)))
        grid = np.linspace(min(-_REACH * unit, bound - 1.0), bound, _POINTS)
        if look == 1:
            density = _normal(grid / unit) / unit
        else:
            density = _normal((grid[:, None] - points[None, :]) / step) @ weights / step
        points, weights = grid, density * _simpson(grid)
    return tuple(levels)


def _boundary(target: float, points: Floats, weights: Floats, step: float, unit: float) -> float:
    """Beyond what the next sum lies with the probability `target`, of walks that are below the boundaries."""
    from scipy.optimize import brentq
    from scipy.special import ndtr

    def excess(bound: float) -> float:
        beyond = weights @ ndtr((points - bound) / step) if points.size else ndtr(-bound / unit)
        return float(beyond) - target

    low, high = -_REACH * unit, _FARTHEST * unit
    if excess(high) >= 0.0:
        return high
    if excess(low) <= 0.0:
        return low
    return float(brentq(excess, low, high, xtol=1e-12, rtol=1e-14))


def _normal(at: Floats) -> Floats:
    density: Floats = np.exp(-0.5 * np.square(at)) / math.sqrt(2.0 * math.pi)
    return density


def _simpson(grid: Floats) -> Floats:
    weights: Floats = np.full(grid.size, 2.0)
    weights[1::2] = 4.0
    weights[0] = weights[-1] = 1.0
    weights *= (grid[1] - grid[0]) / 3.0
    return weights


def repeated_p(p: float, looks: int, look: int) -> float:
    """The p-value of a look with all looks counted: the least rate at which this look would alarm.

    Parameters
    ----------
    p
        The one-sided p-value of the look alone; NaN stays.
    looks, look
        How many looks are planned, and which this is, from 1.

    Returns
    -------
    float
        At most alpha exactly where `p` is at most the level of this look under alpha. Not below 1e-9.

    Notes
    -----
    O(look) integrals for each of about 40 halvings.

    Source: repeated p-values, Jennison & Turnbull 2000, section 9.

    Examples
    --------
    >>> from orchestrace.statistics.sequential import nominal_levels, repeated_p
    >>> round(repeated_p(nominal_levels(0.05, 4)[1], 4, 2), 6)
    0.05
    """
    if looks == 1 or math.isnan(p):
        return p
    low, high = math.log(_LEAST), 0.0
    if p <= nominal_levels(_LEAST, looks, look)[-1]:
        return _LEAST
    if p >= 1.0:
        return 1.0
    while high - low > 1e-10:
        middle = (low + high) / 2.0
        if p <= nominal_levels(math.exp(middle), looks, look)[-1]:
            high = middle
        else:
            low = middle
    return math.exp(high)
