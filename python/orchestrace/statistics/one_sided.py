"""One-sided tests of a mean over tasks, and Holm's rule for several of them.

They ask what the intervals of `influence` answer: a p-value is at most a level exactly where the end of the
interval with that level on the side excludes the bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..base.deferred import Deferred
from .influence import NO_SPREAD

if TYPE_CHECKING:
    import numpy as np

    from ..base.arrays import Bools, Floats
else:
    np = Deferred("numpy")


def p_above(
    mean: Floats,
    stderr: Floats,
    n_tasks: int,
    bound: float,
    *,
    within: tuple[float, float] | None = None,
) -> Floats:
    """How likely a mean as high as this is at most, if the truth were not above a bound.

    Parameters
    ----------
    mean, stderr
        Means over tasks and their standard errors, s / sqrt(tasks), both (n,) float64.
    n_tasks
        Two at least.
    bound
        What the mean is compared with.
    within
        The least and the greatest that a task can be, where that is known.

    Returns
    -------
    Floats
        (n,) float64: one-sided p-values. NaN where all tasks say the same and no range is known.

    Notes
    -----
    Student's t with n_tasks - 1 degrees of freedom. `within` a range the score test of Wilson's interval with
    that t; where all tasks agree there, (bound / mean)**n_tasks on the scale of 0 to 1, the chance to see
    none of the tasks that would have to differ. O(n).

    Source: that of `influence.interval`.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.statistics.one_sided import p_above
    >>> round(float(p_above(np.array([0.0]), np.array([0.01]), 100, -0.02)[0]), 4)
    0.0241
    """
    from scipy.special import stdtr

    df = n_tasks - 1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if within is None:
            p: Floats = stdtr(df, (bound - mean) / stderr)
            return np.where(stderr <= NO_SPREAD * np.abs(mean), np.nan, p)
        least, most = within
        share = np.clip((mean - least) / (most - least), 0.0, 1.0)
        error, limit = stderr / (most - least), (bound - least) / (most - least)
        if limit <= 0.0 or limit >= 1.0:
            return np.full(np.shape(mean), 0.0 if limit < 0.0 else 1.0)
        trials = share * (1.0 - share) / np.square(error)
        p = stdtr(df, (limit - share) / np.sqrt(limit * (1.0 - limit) / trials))
        alike = (error <= NO_SPREAD) | (share <= 0.0) | (share >= 1.0)
        unseen = np.where(share > limit, np.power(limit / share, n_tasks), 1.0)
        return np.where(alike, unseen, p)


def p_below(
    mean: Floats,
    stderr: Floats,
    n_tasks: int,
    bound: float,
    *,
    within: tuple[float, float] | None = None,
) -> Floats:
    """`p_above` of the other side: how likely a mean as low as this is, if the truth were not below."""
    mirrored = None if within is None else (-within[1], -within[0])
    return p_above(-mean, stderr, n_tasks, -bound, within=mirrored)


def holm(p: Floats) -> Floats:
    """P-values of several tests, adjusted so that any false alarm among them is as rare as the level.

    Parameters
    ----------
    p
        (tests,) float64; NaN of a test that could not be made, which counts as one that found nothing.

    Returns
    -------
    Floats
        (tests,) float64: at most a level where Holm's rule rejects at that level; NaN stays.

    Notes
    -----
    O(tests log tests). Source: S. Holm 1979.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.statistics.one_sided import holm
    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    tests = np.where(np.isnan(p), 1.0, p)
    order = np.argsort(tests, kind="stable")
    steps = np.maximum.accumulate(tests[order] * np.arange(p.size, 0, -1))
    adjusted = np.empty(p.size)
    adjusted[order] = np.minimum(steps, 1.0)
    return np.where(np.isnan(p), np.nan, adjusted)


def holm_rejects(p: Floats, levels: Floats) -> Bools:
    """Which tests Holm's rule rejects, in many families at once.

    Parameters
    ----------
    p
        (tests, families) float64; NaN is never rejected.
    levels
        (tests,) float64, ascending: what the least p-value is compared with, then the next.

    Returns
    -------
    Bools
        (tests, families).

    Notes
    -----
    With ``alpha / tests ... alpha`` as levels it is `holm` at most alpha. Other levels are those of one look
    of several, at each of these totals. O(families tests log tests).

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.statistics.one_sided import holm_rejects
    >>> holm_rejects(np.array([[0.01], [0.2]]), np.array([0.025, 0.05])).ravel().tolist()
    [True, False]
    """
    tests = np.where(np.isnan(p), 2.0, p)
    order = np.argsort(tests, axis=0, kind="stable")
    passed = np.take_along_axis(tests, order, axis=0) <= levels[:, None]
    rejected = np.empty(p.shape, dtype=np.bool_)
    np.put_along_axis(rejected, order, np.logical_and.accumulate(passed, axis=0), axis=0)
    return rejected
