"""Agreement of credit with planted contributions: rank correlation, signs, rollouts needed."""

from typing import Any, Final

import numpy as np
import polars as pl

from ..base.arrays import Floats, Ints
from ..corpus.corpus import Corpus
from ..scaling.diffusion import rollouts_at
from ..statistics import rankings
from ..statistics.influence import NO_INTERVAL, Interval, correlation_interval, mean_interval
from ..synthetic.planting import Truth

TOP: Final = 0.05


def judged(
    corpus: Corpus, truth: Truth, credits: pl.DataFrame, unit: str, confidence: float
) -> tuple[dict[str, Any], pl.DataFrame]:
    """Numbers of one cell, and ``task rho sign`` of its tasks."""
    rows = _joined(corpus, truth, credits, unit)
    units = credits.filter(pl.col("unit_id").is_not_null())
    absent = units.filter(pl.col("credit").fill_nan(None).is_null())
    reasons = absent["reason"].cast(pl.String).drop_nulls().value_counts()
    reasons = reasons.sort("count", "reason", descending=[True, False])
    trace, task = rows["trace"].to_numpy().astype(np.int64), rows["task"].to_numpy().astype(np.int64)
    ours, theirs = rows["credit"].to_numpy(), rows["contribution"].to_numpy()
    starts = rankings.segment_starts(trace)
    rho, sign = _within(ours, theirs, starts)
    tasks = task[starts]
    numbers: dict[str, Any] = {
        "n_rows": units.height,
        "null_share": absent.height / units.height if units.height else None,
        "null_reason": reasons["reason"][0] if reasons.height else None,
        "rho_n_traces": int(np.isfinite(rho).sum()),
        "rho_n_tasks": int(np.unique(tasks[np.isfinite(rho)]).size),
        "rho_sd_rollouts": _sd_within(rho, tasks),
    }
    estimates: dict[str, tuple[float | None, Interval]] = {
        name: mean_interval(values, tasks, confidence=confidence, within=within)[:2]
        for name, values, within in (("rho", rho, (-1.0, 1.0)), ("sign", sign, (0.0, 1.0)))
    }
    estimates["pooled"] = pooled(ours, theirs, task, confidence)
    for name, (value, around) in estimates.items():
        numbers |= {name: value, f"{name}_lower": around.lower, f"{name}_upper": around.upper}
    numbers |= _needed(numbers["pooled"], numbers["pooled_lower"], numbers["pooled_upper"])
    why = [around.reason for value, around in estimates.values() if value is not None]
    numbers["interval_reason"] = next((reason for reason in why if reason is not None), None)
    numbers["pooled_n_tasks"] = _tasks_that_vary(ours, theirs, task)
    numbers["snr"] = _signal(rows)
    numbers["sampling_share"] = _sampling_share(units)
    by_trace = pl.DataFrame({"task": tasks, "rho": rho, "sign": sign}).fill_nan(None)
    by_task = by_trace.group_by("task").agg(pl.col("rho", "sign").mean()).sort("task")
    by_task = by_task.filter(pl.any_horizontal(pl.col("rho", "sign").is_not_null()))
    return numbers, by_task


def _joined(corpus: Corpus, truth: Truth, credits: pl.DataFrame, unit: str) -> pl.DataFrame:
    """``trace task unit_id kind credit contribution``, in order of trace; task is a number."""
    facts = corpus.traces.select("trace", pl.col("task_id").cast(pl.String)).sort("trace").collect()
    facts = facts.select("trace", task=pl.col("task_id").rank("dense").cast(pl.Int64) - 1)
    valued = credits.filter(pl.col("unit_id").is_not_null()).with_columns(pl.col("credit").fill_nan(None))
    valued = valued.drop_nulls("credit")
    if unit == "event":
        kinds = corpus.events.select("trace", "seq", kind=pl.col("type").cast(pl.String)).collect()
        rows = valued.select("trace", "seq", "credit", "unit_id")
        rows = rows.join(truth.contributions.drop("trace_id"), on=["trace", "seq"], maintain_order="left")
        # Events are classed over rollouts by their type, not by their place.
        rows = rows.join(kinds, on=["trace", "seq"], maintain_order="left")
    else:
        by_agent = truth.agents.select("trace", "contribution", unit_id="agent")
        rows = valued.select("trace", "credit", pl.col("unit_id").cast(pl.String))
        rows = rows.join(by_agent, on=["trace", "unit_id"], maintain_order="left")
        rows = rows.with_columns(kind="unit_id")
    rows = rows.join(facts, on="trace", maintain_order="left")
    return rows.select("trace", "task", "kind", "credit", "contribution").sort("trace", maintain_order=True)


def _within(ours: "Floats", theirs: "Floats", starts: "Ints") -> tuple["Floats", "Floats"]:
    """Spearman's rho of every trace, and the share of right signs among its units with the largest
    contributions; NaN where credit or truth does not vary, since what ranks nothing has no signs."""
    if not ours.size:
        return np.zeros(0), np.zeros(0)
    rho = rankings.spearman(ours, theirs, starts)
    sizes = np.diff(np.append(starts, ours.size))
    share = rankings.top(np.abs(theirs), starts, np.ceil(TOP * sizes - 1e-9).astype(np.int64))
    right = rankings.sums(share * (np.sign(ours) == np.sign(theirs)), starts)
    sign = right / rankings.sums(share, starts)
    return rho, np.where(np.isfinite(rho), sign, np.nan)


def _sd_within(rho: "Floats", tasks: "Ints") -> float | None:
    """Standard deviation of rho between the rollouts of one task, pooled over tasks."""
    finite = pl.DataFrame({"task": tasks, "rho": rho}).filter(pl.col("rho").is_finite())
    spreads = finite.group_by("task").agg(n=pl.len(), var=pl.col("rho").var(ddof=1)).filter(pl.col("n") > 1)
    spreads = spreads.sort("task")
    if spreads.is_empty():
        return None
    free = spreads["n"].to_numpy() - 1.0
    return float(((spreads["var"].to_numpy() * free).sum() / free.sum()) ** 0.5)


def pooled(
    ours: "Floats", theirs: "Floats", task: "Ints", confidence: float
) -> tuple[float | None, Interval]:
    """Pearson's correlation of credit with contribution over all units and rollouts of a task: the rho of
    6.9, to which credit that is one number for a whole rollout contributes too.

    Both are centered in their task and their moments summed over tasks: what a task's own moments move is its
    influence, and their share of the sums its weight.
    """
    if not ours.size:
        return None, NO_INTERVAL
    _, code = np.unique(task, return_inverse=True)
    count = np.bincount(code)
    x = ours - (np.bincount(code, weights=ours) / count)[code]
    y = theirs - (np.bincount(code, weights=theirs) / count)[code]
    xy, xx, yy = (np.bincount(code, weights=part) for part in (x * y, x * x, y * y))
    scale = float(np.sqrt(xx.sum() * yy.sum()))
    if not scale > 0.0:
        return None, NO_INTERVAL
    rho = min(max(float(xy.sum()) / scale, -1.0), 1.0)
    weight = (xx / xx.sum() + yy / yy.sum()) / 2.0
    return rho, correlation_interval(rho, xy / scale - rho * weight, weight, confidence=confidence)


def _tasks_that_vary(ours: "Floats", theirs: "Floats", task: "Ints") -> int:
    """Tasks in which both credit and contribution vary: those that a pooled correlation is made of."""
    by_task = pl.DataFrame({"task": task, "ours": ours, "theirs": theirs}).group_by("task")
    vary = by_task.agg(pl.col("ours", "theirs").max() > pl.col("ours", "theirs").min())
    return vary.filter("ours", "theirs").height


def _needed(rho: float | None, lower: float | None, upper: float | None) -> dict[str, float | None]:
    """Rollouts at rho and at the ends of its interval; the larger end is unknown where that contains 0."""
    needed: dict[str, float | None] = {"rollouts": None if rho is None else rollouts_at(abs(rho))}
    if lower is None or upper is None:
        return needed | {"rollouts_lower": None, "rollouts_upper": None}
    needed["rollouts_lower"] = rollouts_at(max(abs(lower), abs(upper)))
    needed["rollouts_upper"] = None if lower <= 0.0 <= upper else rollouts_at(min(abs(lower), abs(upper)))
    return needed


def _signal(rows: pl.DataFrame) -> float | None:
    """Median over classes (a task's agent, a task's type of event) of ``|mean| / sd`` of their credit over
    the rollouts of the task (6.9)."""
    if rows.is_empty():
        return None
    each = rows.group_by("task", "kind", "trace").agg(pl.col("credit").mean())
    ordered = each.sort("task", "kind", "trace").group_by("task", "kind", maintain_order=True)
    classes = ordered.agg(n=pl.len(), mean=pl.col("credit").mean(), sd=pl.col("credit").std(ddof=1))
    classes = classes.filter(pl.col("n") > 1, pl.col("sd") > 0)
    median = classes.select((pl.col("mean").abs() / pl.col("sd")).median()).item()
    # What a group's mean is subtracted from has mean 0 up to rounding, which is no signal.
    return None if median is None else 0.0 if median < 1e-12 else float(median)


def _sampling_share(units: pl.DataFrame) -> float | None:
    """Share of the variance of credit that is the draws of a method that samples; null for all others."""
    drawn = units.drop_nulls(["credit", "stderr"]).sort("trace", "unit_id")
    if drawn.is_empty():
        return None
    spread = drawn["credit"].var()
    if not isinstance(spread, float) or not spread > 0:
        return None
    return float((drawn["stderr"].to_numpy() ** 2).mean() / spread)
