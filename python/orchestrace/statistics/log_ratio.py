"""The ratio of two sides of the same tasks, with an interval: that of the mean logarithm."""

from typing import Final, NamedTuple

import numpy as np

from ..base.arrays import Floats
from .influence import NO_SPREAD, mean_interval


class TaskRatio(NamedTuple):
    """The geometric mean over tasks of b / a, its ends, and why one of the three is null.

    ``reason`` is ``support.absent`` with fewer than two tasks, ``ratio.empty`` where a task has a value that
    is not above 0, ``group.degenerate`` where all tasks have the same ratio, ``result.range`` where a value
    is beyond the floats.
    """

    estimate: float | None
    lower: float | None
    upper: float | None
    reason: str | None


NO_TASK: Final = TaskRatio(None, None, None, "support.absent")


def task_ratio(a: Floats, b: Floats, *, confidence: float) -> TaskRatio:
    """How many times as much side b has, and an interval over tasks.

    Parameters
    ----------
    a, b
        The value of each task on either side, (tasks,) float64, in the same order and unit.
    confidence
        The coverage, between 0 and 1.

    Returns
    -------
    TaskRatio
        exp of the mean of ln(b / a), and exp of the ends of Student's t interval of that mean. With one task
        the ratio is there and its ends are null.

    Notes
    -----
    Where b is a times one factor, but for noise that both sides share, this is that factor, however skewed
    the tasks are. Where the factor differs with the size of the task, it is not the ratio of the two means:
    every task counts alike (docs/intervals.md). O(tasks).

    Source: Student 1908, of logarithms.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.statistics.log_ratio import task_ratio
    >>> got = task_ratio(np.array([1.0, 100.0, 7.0]), np.array([2.0, 190.0, 15.0]), confidence=0.95)
    >>> [round(value, 2) for value in got[:3]]
    [2.01, 1.73, 2.34]
    """
    if not a.size:
        return NO_TASK
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return TaskRatio(None, None, None, "result.range")
    if min(a.min(), b.min()) <= 0.0:
        return TaskRatio(None, None, None, "ratio.empty")
    logs = np.log(b) - np.log(a)
    if np.ptp(logs) <= NO_SPREAD:
        logs = np.full(logs.size, logs.mean())  # equal ratios differ by rounding only
    mean = mean_interval(logs, np.arange(logs.size), confidence=confidence)
    with np.errstate(over="ignore"):
        ratio, *ends = (
            None if value is None else float(np.exp(value))
            for value in (mean.estimate, mean.around.lower, mean.around.upper)
        )
    if any(value is not None and not 0.0 < value < np.inf for value in (ratio, *ends)):
        return TaskRatio(None, None, None, "result.range")
    return TaskRatio(ratio, ends[0], ends[1], mean.around.reason)
