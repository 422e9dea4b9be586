"""The test of a gate: oriented differences of tasks, their p-values, and the verdict over several metrics."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..base.arrays import Bools, Floats
from ..statistics.influence import NO_SPREAD, mean_interval
from ..statistics.one_sided import holm, holm_rejects, p_above, p_alike, p_below, p_rare_losses
from ..statistics.sequential import repeated_p
from .gate_metrics import GateMetric
from .gate_pairs import LARGEST_LOG, Design, Paired, Range
from .gate_plan import planned

Verdict = Literal["pass", "fail", "inconclusive"]


@dataclass(frozen=True)
class OneSidedTests:
    """One-sided p-values, a row per metric: (metrics, families) float64, NaN where there is no test."""

    noninferior: Floats
    superior: Floats
    worse: Floats

    def verdicts(self, design: Design) -> tuple[Bools, Bools]:
        """Which metrics pass and which fail, (metrics, families)."""
        passed = holm_rejects(self.noninferior, design.levels)
        return passed, holm_rejects(self.worse, design.levels) & ~passed


def p_values(gains: Floats, metric: GateMetric, within: Range) -> tuple[Floats, Floats, Floats]:
    """P-values of non-inferiority, superiority, inferiority, each (families,), of gains (families, tasks)."""
    n_tasks = gains.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        mean = gains.mean(axis=1)
        stderr = gains.std(axis=1, ddof=1) / math.sqrt(n_tasks)
    rounding = NO_SPREAD * np.abs(gains).max(axis=1)
    stderr = np.where(stderr <= rounding, 0.0, stderr)
    noninferior = p_above(mean, stderr, n_tasks, metric.bound, within=within)
    superior = p_above(mean, stderr, n_tasks, 0.0, within=within)
    worse = p_below(mean, stderr, n_tasks, 0.0, within=within)
    if within is not None:
        if metric.bound < 0.0:
            noninferior = np.maximum(noninferior, p_rare_losses(gains, -metric.bound))
        return noninferior, superior, worse
    # without a range and without a spread, signs alone say something
    alike = (stderr == 0.0) & np.isfinite(mean)
    return (
        np.where(alike, p_alike(mean, n_tasks, metric.bound), noninferior),
        np.where(alike, p_alike(mean, n_tasks, 0.0), superior),
        np.where(alike, p_alike(-mean, n_tasks, 0.0), worse),
    )


def rows_of(pairs: list[Paired], design: Design) -> list[dict[str, object]]:
    """A row per metric: estimates, interval, adjusted p-values, verdict and plan."""
    nothing = np.full(1, math.nan)
    each = [
        p_values(pair.gains[None, :], pair.metric, pair.within)
        if pair.problem is None and pair.n_tasks > 1
        else (nothing, nothing, nothing)
        for pair in pairs
    ]
    tests = OneSidedTests(*(np.array([p[which] for p in each]) for which in range(3)))
    passed, failed = tests.verdicts(design)
    adjusted = {
        name: holm(np.array([repeated_p(float(p), design.looks, design.look) for p in of[:, 0]]))
        for name, of in (
            ("p_noninferior", tests.noninferior),
            ("p_superior", tests.superior),
            ("p_worse", tests.worse),
        )
    }
    rows = []
    for at, pair in enumerate(pairs):
        verdict = "pass" if passed[at, 0] else "fail" if failed[at, 0] else "inconclusive"
        reported = {name: None if math.isnan(p[at]) else float(p[at]) for name, p in adjusted.items()}
        plan = planned(pair, design)
        if verdict == "fail":  # the plan is for a change without an effect
            plan = {name: value for name, value in plan.items() if name != "more_tasks"}
        rows.append(_estimates(pair, design) | reported | {"verdict": verdict} | plan)
    return rows


def _estimates(pair: Paired, design: Design) -> dict[str, object]:
    metric = pair.metric
    row: dict[str, object] = {
        "metric": metric.name,
        "better": metric.better,
        "scale": metric.scale,
        "margin": metric.margin,
        "n_tasks": pair.n_tasks,
        "n_runs_base": int(pair.attempts[0].sum()),
        "n_runs_new": int(pair.attempts[1].sum()),
    }
    if pair.problem in ("support.absent", "result.range"):
        return row | {"reason": pair.problem, "interval_reason": pair.problem}
    row |= {"base": float(pair.base.mean()), "new": float(pair.new.mean())}
    if pair.problem is not None:
        return row | {"reason": pair.problem, "interval_reason": pair.problem}
    clusters = np.arange(pair.n_tasks)
    mean = mean_interval(pair.gains, clusters, confidence=1.0 - 2.0 * design.level, within=pair.within)
    ends = mean.around.lower, mean.around.upper
    values = [_shown(value, metric) for value in (mean.estimate, *(ends if metric.sign > 0 else ends[::-1]))]
    alike = mean.around.reason == "group.degenerate"  # no interval, but a sign test
    is_tested = ends[0] is not None or alike
    reason = "support.absent" if pair.n_tasks < 2 else None if is_tested else mean.around.reason
    return row | {
        "difference": values[0],
        "lower": values[1],
        "upper": values[2],
        "reason": reason,
        "interval_reason": mean.around.reason,
    }


def _shown(gain: float | None, metric: GateMetric) -> float | None:
    """A gain as new less base; of ratios new / base - 1."""
    if gain is None:
        return None
    change = metric.sign * gain
    return math.expm1(min(change, LARGEST_LOG)) if metric.scale == "ratio" else change
