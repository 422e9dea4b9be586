"""Power of a paired t test over tasks: the least difference that it finds, and how many tasks it needs."""

from __future__ import annotations

import math
from typing import Final

from .influence import t_quantile

_LARGEST: Final = 1e9
"""A difference of more standard errors is not looked for."""
_MOST_TASKS: Final = 2**53
"""More tasks are not counted: a float holds no larger whole number exactly."""


def detectable(n_tasks: int, *, alpha: float, power: float) -> float:
    """The least difference that a test over so many tasks finds, in standard errors of the difference.

    Parameters
    ----------
    n_tasks
        Two at least.
    alpha
        The rate of false alarms of the two-sided test.
    power
        How often the difference is found, above `alpha`.

    Returns
    -------
    float
        The noncentrality at which Student's t with n_tasks - 1 degrees of freedom is significant with that
        power. Infinite where no float is large enough.

    Notes
    -----
    Student's t is noncentral where a difference is there; the normal quantiles that are often taken instead
    (2.80 at 5 % and 80 %) are right for many tasks only. O(1).

    Source: noncentral t, Johnson & Welch 1940; Cohen 1988.

    Examples
    --------
    >>> from orchestrace.statistics.power import detectable
    >>> [round(detectable(n, alpha=0.05, power=0.8), 2) for n in (5, 10, 100)]
    [3.76, 3.15, 2.83]
    """
    from scipy.optimize import brentq

    high = 1.0
    while power_of(high, n_tasks, alpha=alpha) < power:
        if high > _LARGEST:
            return math.inf
        high *= 2.0
    return float(brentq(lambda at: power_of(at, n_tasks, alpha=alpha) - power, 0.0, high))


def power_of(noncentrality: float, n_tasks: int, *, alpha: float) -> float:
    """How often a two-sided paired t test over tasks finds a difference of so many standard errors. O(1)."""
    from scipy.special import nctdtr

    df, critical = n_tasks - 1.0, t_quantile(1.0 - alpha / 2.0, n_tasks - 1.0)
    significant = 0.0
    for at in (noncentrality, -noncentrality):
        share = float(nctdtr(df, at, critical))
        # SciPy gives NaN where next to nothing lies on one side of the critical value
        significant += 1.0 - (float(at < critical) if math.isnan(share) else share)
    return significant


def tasks_needed(difference: float, deviation: float, *, alpha: float, power: float) -> int | None:
    """How many tasks a paired t test needs to find a difference.

    Parameters
    ----------
    difference
        Between two systems, above 0.
    deviation
        The standard deviation over tasks of the difference of a task, above 0.
    alpha, power
        As of `detectable`.

    Returns
    -------
    int, optional
        The least number of tasks, two or more; None where it is beyond 2**53.

    Notes
    -----
    Degrees of freedom grow with the tasks, so the number is searched for, by doubling and halving.
    O(log tasks).

    Source: that of `detectable`.

    Examples
    --------
    >>> from orchestrace.statistics.power import tasks_needed
    >>> tasks_needed(0.5, 1.0, alpha=0.05, power=0.8)
    34
    """

    def is_enough(n_tasks: int) -> bool:
        return power_of(math.sqrt(n_tasks) * difference / deviation, n_tasks, alpha=alpha) >= power

    few, many = 1, 2
    while not is_enough(many):
        if many >= _MOST_TASKS:
            return None
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if is_enough(middle) else (middle, many)
    return many
