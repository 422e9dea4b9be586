"""Two sides of a gate, task by task, and how the gate is meant to err."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from ..base.arrays import Floats, Ints
from ..statistics.sequential import nominal_levels
from .gate_metrics import GateMetric

Range = tuple[float, float] | None

LARGEST_LOG: Final = 700.0
"""Beyond this a ratio is beyond the floats."""
SUCCESS_RANGE: Final = (-1.0, 1.0)
"""Between what the difference of two shares lies."""


@dataclass(frozen=True)
class Design:
    """How a gate errs: its rate of false alarms, its power, and which of how many looks this is."""

    alpha: float
    power: float
    looks: int
    look: int
    n_metrics: int

    @cached_property
    def levels(self) -> Floats:
        """What sorted p-values of this look are compared with: Holm's totals, the strictest first."""
        totals = [self.alpha / count for count in range(self.n_metrics, 0, -1)]
        return np.array([nominal_levels(total, self.looks, self.look)[-1] for total in totals])

    @property
    def level(self) -> float:
        """One-sided, of the interval of each metric: all hold together."""
        return float(self.levels[0])

    @property
    def last_level(self) -> float:
        """That of the last look, at which a plan of tasks ends."""
        return nominal_levels(self.alpha / self.n_metrics, self.looks)[-1]


@dataclass(frozen=True)
class Paired:
    """Both sides of a metric, task by task, in order of names; a task has the mean over its attempts."""

    metric: GateMetric
    base: Floats
    new: Floats
    within: Range
    tasks: list[str]
    attempts: tuple[Ints, Ints]
    """Runs of each task with a value, on either side."""

    @classmethod
    def of(cls, base: pl.DataFrame, new: pl.DataFrame, metric: GateMetric) -> "Paired":
        """Pair the runs of two sides by task; what has no value on either side is left out."""
        sides = [frame.select("task_id", value=metric.name).drop_nulls() for frame in (base, new)]
        tasks = sides[0].join(sides[1], on="task_id", how="semi")["task_id"].unique().sort()
        means, attempts = [], []
        for side in sides:
            runs = side.join(tasks.to_frame(), on="task_id", how="semi").sort("task_id", "value")
            codes = np.unique(runs["task_id"].to_numpy(), return_inverse=True)[1]
            values = runs["value"].to_numpy()
            with np.errstate(over="ignore", invalid="ignore"):
                sums = np.bincount(codes, weights=values, minlength=len(tasks))
                attempts.append(np.bincount(codes, minlength=len(tasks)))
                means.append(sums / attempts[-1])
        within = SUCCESS_RANGE if metric.is_success else None
        return cls(metric, means[0], means[1], within, tasks.to_list(), (attempts[0], attempts[1]))

    @property
    def n_tasks(self) -> int:
        """Tasks that both sides have."""
        return len(self.base)

    @cached_property
    def problem(self) -> str | None:
        """Why tasks have no differences; None where they have."""
        if not self.n_tasks:
            return "support.absent"
        if not (np.isfinite(self.base).all() and np.isfinite(self.new).all()):
            return "result.range"
        return None if np.isfinite(self.gains).all() else "result.range"

    @cached_property
    def gains(self) -> Floats:
        """By how much each task is better in new, (tasks,): a difference, or of ratios its logarithm."""
        if self.metric.scale == "ratio":
            logs: Floats = np.log(self.new) - np.log(self.base)
            return self.metric.sign * logs
        with np.errstate(over="ignore"):
            return self.metric.sign * (self.new - self.base)

    @cached_property
    def rate(self) -> float:
        """The share of runs that succeed, of both sides: the mean over tasks."""
        return float((self.base.mean() + self.new.mean()) / 2.0)

    def deviation(self, effect: float = 0.0) -> float:
        """The deviation over tasks of gains, if new were worse by so much; NaN beyond the floats.

        Of success an effect makes each success fail with one chance q, which adds to the variance of new:
        q (1 - q) p / n of a task with rate p and n attempts, q**2 var(p) over tasks, less q times the
        variance of gains, half of which is new's without what both sides share.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            variance = float(self.gains.var(ddof=1))
            if effect > 0.0 and self.metric.is_success and self.rate > 0.0:
                q = min(effect / self.rate, 1.0)
                spread = (float(self.base.var(ddof=1)) + float(self.new.var(ddof=1))) / 2.0
                sides = zip((self.base, self.new), self.attempts, strict=True)
                scatter = sum(float((side / n).mean()) for side, n in sides) / 2.0
                variance += q * q * spread + q * (1.0 - q) * scatter - q * variance
            return float(np.sqrt(max(variance, 0.0)))
