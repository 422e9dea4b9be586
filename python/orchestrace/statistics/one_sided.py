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


def p_rare_losses(gains: Floats, margin: float) -> Floats:
    """How likely so small a mean loss is at most, if tasks lost a margin on average and lost it rarely.

    Few tasks that differ say little of how much tasks vary: the deviation that they show is too small, and a
    test that trusts it passes too often. Here the deviation is at least the one that losses would have.

    Parameters
    ----------
    gains
        Differences of success of each task, (families, tasks) float64, in -1..1.
    margin
        The mean loss of the null hypothesis, above 0 and below 1.

    Returns
    -------
    Floats
        (families,) float64: one-sided p-values; 0 where no task differs.

    Notes
    -----
    Of single attempts a difference is -1, 0 or 1; if its mean is -m, its variance is m(1 - m) + 2 E[d+^2] or
    more. Of k attempts it comes in steps of 1/k, and losses of single attempts have a k-th of m(1 - m): the
    least step that is seen stands for 1/k. Half of a step is taken off the mean, as for any sum of few steps;
    of it a part where tasks are better, too, whose sum has more values. O(families tasks).

    Source: the score test with the variance of the null hypothesis, Tango 1998; Yates' correction.

    Examples
    --------
    One of 30 tasks is lost, and a tenth is tolerated; exactly it is P(Bin(30, 0.1) <= 1) = 0.184:

    >>> import numpy as np
    >>> from orchestrace.statistics.one_sided import p_rare_losses
    >>> gains = np.zeros((1, 30))
    >>> gains[0, 0] = -1.0
    >>> round(float(p_rare_losses(gains, 0.1)[0]), 3)
    0.181
    """
    from scipy.special import ndtr

    n_tasks = gains.shape[1]
    steps = np.where(gains != 0.0, np.abs(gains), np.inf).min(axis=1)
    step = np.where(np.isfinite(steps), steps, 0.0)
    variance = step * margin * (1.0 - margin) + 2.0 * np.square(np.maximum(gains, 0.0)).mean(axis=1)
    n_better = (gains > 0.0).sum(axis=1)
    distance = margin + gains.mean(axis=1) - step / (2.0 * n_tasks * (1.0 + n_better))
    with np.errstate(divide="ignore", invalid="ignore"):
        p: Floats = ndtr(-distance / np.sqrt(variance / n_tasks))
    return np.where(step > 0.0, p, 0.0)


def p_alike(value: Floats, n_tasks: int, bound: float) -> Floats:
    """The sign test where all tasks say the same: 2**-n_tasks above the bound, 1 elsewhere.

    Where no range is known, tasks that agree leave the mean of others open, but not the median: n tasks on
    one side of it have this chance. O(n).

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.statistics.one_sided import p_alike
    >>> p_alike(np.array([0.0, -0.2]), 5, -0.1).tolist()
    [0.03125, 1.0]
    """
    return np.where(value > bound, 0.5**n_tasks, 1.0)


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
