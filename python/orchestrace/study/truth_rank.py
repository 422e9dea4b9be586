"""How well credit finds planted contributions: rank correlation, signs at the top, rollouts needed."""

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from .. import rankings
from ..corpus import Corpus
from ..diffusion import rollouts_at
from ..planted import Truth
from ..resampling import cluster_interval, draws

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

TOP: Final = 0.05


def judged(
    corpus: Corpus, truth: Truth, credits: pl.DataFrame, unit: str, n_boot: int, seed: int, confidence: float
) -> tuple[dict[str, Any], pl.DataFrame]:
    """Numbers of one cell, and ``task rho sign`` of its tasks."""
    import numpy as np

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
    for name, values in (("rho", rho), ("sign", sign)):
        mean, low, high = cluster_interval(values, tasks, n_boot, seed, confidence)
        numbers |= {name: mean, f"{name}_low": low, f"{name}_high": high}
    pooled, low, high = _pooled(ours, theirs, task, n_boot, seed, confidence)
    numbers |= {"pooled": pooled, "pooled_low": low, "pooled_high": high, **_needed(pooled, low, high)}
    numbers["snr"] = _signal(rows)
    numbers["sampling_share"] = _sampling_share(units)
    own = pl.DataFrame({"task": tasks, "rho": rho, "sign": sign}).fill_nan(None)
    by_task = own.group_by("task").agg(pl.col("rho", "sign").mean()).sort("task")
    by_task = by_task.filter(pl.any_horizontal(pl.col("rho", "sign").is_not_null()))
    return numbers, by_task


def _joined(corpus: Corpus, truth: Truth, credits: pl.DataFrame, unit: str) -> pl.DataFrame:
    """``trace task unit_id kind credit contribution``, in order of trace; task is a number."""
    facts = corpus.traces.select("trace", pl.col("task_id").cast(pl.String)).sort("trace").collect()
    facts = facts.select("trace", task=pl.col("task_id").rank("dense").cast(pl.Int64) - 1)
    known = credits.filter(pl.col("unit_id").is_not_null()).with_columns(pl.col("credit").fill_nan(None))
    known = known.drop_nulls("credit")
    if unit == "event":
        kinds = corpus.events.select("trace", "seq", kind=pl.col("type").cast(pl.String)).collect()
        found = known.select("trace", "seq", "credit", "unit_id")
        found = found.join(truth.contributions.drop("trace_id"), on=["trace", "seq"], maintain_order="left")
        # The place of an event is no class of events over rollouts: its type is.
        found = found.join(kinds, on=["trace", "seq"], maintain_order="left")
    else:
        by_agent = truth.agents.select("trace", "contribution", unit_id="agent")
        found = known.select("trace", "credit", pl.col("unit_id").cast(pl.String))
        found = found.join(by_agent, on=["trace", "unit_id"], maintain_order="left")
        found = found.with_columns(kind="unit_id")
    found = found.join(facts, on="trace", maintain_order="left")
    return found.select("trace", "task", "kind", "credit", "contribution").sort("trace", maintain_order=True)


def _within(ours: "Floats", theirs: "Floats", starts: "Ints") -> tuple["Floats", "Floats"]:
    """Spearman's rho of every trace, and the share of right signs among its units with the largest
    contributions; NaN where credit or truth does not vary, since what ranks nothing has no signs."""
    import numpy as np

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
    known = pl.DataFrame({"task": tasks, "rho": rho}).filter(pl.col("rho").is_finite())
    own = known.group_by("task").agg(n=pl.len(), var=pl.col("rho").var(ddof=1)).filter(pl.col("n") > 1)
    own = own.sort("task")
    if own.is_empty():
        return None
    free = own["n"].to_numpy() - 1.0
    return float(((own["var"].to_numpy() * free).sum() / free.sum()) ** 0.5)


def _pooled(
    ours: "Floats", theirs: "Floats", task: "Ints", n_boot: int, seed: int, confidence: float
) -> tuple[float | None, float | None, float | None]:
    """Pearson's correlation of credit with contribution over all units and rollouts of a task: the rho of
    6.9, to which credit that is one number for a whole rollout contributes too.

    Both are centred in their task and their moments summed over tasks, which the interval resamples.
    """
    import numpy as np

    if not ours.size:
        return None, None, None
    _, code = np.unique(task, return_inverse=True)
    count = np.bincount(code)
    x = ours - (np.bincount(code, weights=ours) / count)[code]
    y = theirs - (np.bincount(code, weights=theirs) / count)[code]
    moments = np.stack([np.bincount(code, weights=part) for part in (x * y, x * x, y * y)], axis=1)

    def correlation(sums: "Floats") -> "Floats":
        scale = np.sqrt(sums[..., 1] * sums[..., 2])
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(scale > 0, np.clip(sums[..., 0] / scale, -1.0, 1.0), np.nan)

    mean = float(correlation(moments.sum(axis=0)[None])[0])
    if not np.isfinite(mean):
        return None, None, None
    if count.size < 2:
        return mean, None, None
    drawn = np.concatenate([correlation(times @ moments) for times in draws(count.size, n_boot, seed)])
    drawn = drawn[np.isfinite(drawn)]
    if not drawn.size:  # few tasks vary, and no resample has one of them
        return mean, None, None
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return mean, float(low), float(high)


def _needed(rho: float | None, low: float | None, high: float | None) -> dict[str, float | None]:
    """Rollouts at rho and at the ends of its interval; the larger end is unknown where that contains 0."""
    needed: dict[str, float | None] = {"rollouts": None if rho is None else rollouts_at(abs(rho))}
    if low is None or high is None:
        return needed | {"rollouts_low": None, "rollouts_high": None}
    needed["rollouts_low"] = rollouts_at(max(abs(low), abs(high)))
    needed["rollouts_high"] = None if low <= 0.0 <= high else rollouts_at(min(abs(low), abs(high)))
    return needed


def _signal(rows: pl.DataFrame) -> float | None:
    """Median over classes (a task's agent, a task's type of event) of ``|mean| / sd`` of their credit over
    the rollouts of the task (6.9)."""
    if rows.is_empty():
        return None
    each = rows.group_by("task", "kind", "trace").agg(pl.col("credit").mean())
    ordered = each.sort("task", "kind", "trace").group_by("task", "kind", maintain_order=True)
    found = ordered.agg(n=pl.len(), mean=pl.col("credit").mean(), sd=pl.col("credit").std(ddof=1))
    found = found.filter(pl.col("n") > 1, pl.col("sd") > 0)
    median = found.select((pl.col("mean").abs() / pl.col("sd")).median()).item()
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
