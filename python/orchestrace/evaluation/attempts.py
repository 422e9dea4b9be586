"""What k attempts at a task give: pass@k and pass^k with intervals, the k that pays, power of comparisons."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from ..base.arguments import Alpha, Amount, Confidence, Positive, PositiveShare, Power, Share, Success
from ..base.arrays import ROUNDING, Floats, Ints
from ..base.errors import ParameterError
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward
from ..metrics.verb import metrics
from ..statistics.influence import mean_interval
from ..statistics.power import detectable, tasks_needed
from .pass_rates import chances, judged_runs, numbers_of_trials

ATTEMPTS: Final = pl.Schema(
    {
        "metric": pl.String(),
        "k": pl.UInt32(),
        "value": pl.Float64(),
        "lower": pl.Float64(),
        "upper": pl.Float64(),
        "lowest": pl.Float64(),
        "highest": pl.Float64(),
        "n_tasks": pl.UInt32(),
        "few_tasks": pl.Boolean(),
        "reason": CREDITS["reason"],
        "interval_reason": CREDITS["reason"],
    }
)
"""Columns and types of what `attempts` returns."""

_MOST_OF_TASKS: Final = 0.8
"""Below this share of the tasks, a number is of other tasks than the numbers of a smaller k."""
_MOST_BY_DEFAULT: Final = 100
"""The largest k unless a caller names others."""
_SHARE: Final = (0.0, 1.0)


Range = tuple[float, float] | None
"""Between what a value of a task lies, where that is known."""


@verb
def attempts(
    corpus: Corpus,
    *,
    reward: Reward = "team",
    success: Success = 1.0,
    k: int | Sequence[int] | None = None,
    by: Literal["task", "group"] = "task",
    worth: Positive | None = None,
    cost: Amount | None = None,
    signal: Share = 0.5,
    difference: PositiveShare = 0.05,
    correlation: Share = 0.0,
    alpha: Alpha = 0.05,
    power: Power = 0.8,
    confidence: Confidence = 0.95,
) -> pl.DataFrame:
    """Say what k attempts at each task give: pass@k and pass^k with intervals, the k that pays, and power.

    Parameters
    ----------
    corpus
        The recordings; attempts at a task are traces with its ``task_id``.
    reward, success, by
        As of `pass_rates`. Of several groups of one task, intervals are over tasks.
    k
        How many attempts; None: 1 to the most judged attempts of a task, 100 at most.
    worth
        What a solved task is worth, in the unit of `cost`; None: no row says what attempts gain.
    cost
        What an attempt costs; None: what recordings say, the metric ``cost_usd``.
    signal
        The share of groups with a signal that a recommended k has to reach.
    difference
        Of the pass rates of two systems, for which ``tasks_needed`` is computed.
    correlation
        Of the two systems' pass rates over tasks; 0 is cautious.
    alpha, power
        The rate of false alarms of the comparison, and how often it finds a difference that is there.
    confidence
        Coverage of the intervals.

    Returns
    -------
    DataFrame
        A row per metric and k: ``metric`` (String), ``k`` (UInt32, null where it is not about k attempts),
        ``value``, its interval over tasks ``lower upper``, and ``lowest highest`` (Float64), what pass@k and
        pass^k of all tasks are if each attempt that broke had failed, or had passed; ``n_tasks`` (UInt32)
        that ``value`` rests on, and ``few_tasks`` (Boolean), whether these are fewer than 80 % of those with
        a judged attempt. ``reason`` says why ``value`` is null: ``reward.absent``, where no attempt was
        judged; ``support.absent``, where no task has k judged attempts, or as below; ``result.range``.
        ``interval_reason`` says why ``lower upper`` are null (docs/intervals.md). In this order:

        ``mean_reward``: avg@k, which is the same for every k. ``broken``: the share of a task's attempts
        without a reward, which are neither passed nor failed. ``pass_any`` and ``pass_all``: pass@k and
        pass^k. ``without_signal``: the share of groups of k attempts in which all pass or all fail, so that
        advantages are 0; with k null, of the groups as recorded. ``attempts_until_pass``: how many attempts
        are paid if a verifier ends them at the first that passes, or after k.

        ``detectable_difference``: the least difference of the pass rates of two systems, on these tasks with
        k attempts at each, that a paired t test finds. ``tasks_needed`` to find `difference`. Neither has an
        interval. Both are null with ``group.degenerate`` where nothing varies, and with ``support.absent``
        with fewer than two tasks, where tasks have several groups, or where no task has two attempts
        and k > 1 or `correlation` > 0.

        ``gain_all_paid`` and ``gain_until_pass``, with `worth`: that of pass@k, less the cost of k attempts,
        or of those until the first that passes. ``field.absent`` where no cost is recorded.

        ``best_for_signal``: k is the smallest for which `signal` is reached, the value the share of groups
        with a signal. ``best_all_paid`` and ``best_until_pass``, with `worth`: k is that of the largest gain,
        the value that gain. These values are out of fold: each task is judged at the k that the other
        tasks choose. No k with ``few_tasks`` is recommended; null with ``support.absent`` without any.

    Raises
    ------
    ParameterError
        An unknown channel, an option out of range, a `cost` without `worth`, or a power up to `alpha`.

    Notes
    -----
    Of a task with c of n judged attempts passed, attempts until the first that passes, k at most, are
    ((n + 1) - (n - k + 1) C(n - c, k) / C(n, k)) / (c + 1) on average over all orders, and their cost is
    pass@k times the mean cost of its passed attempts, plus the rest of the attempts times that of its failed
    ones; both unbiased. Means are over tasks. A difference of two systems with k attempts at each of m tasks
    has the variance (2 (1 - r) s_b² + 2 s_w² / k) / m: s_w² is the mean over tasks of p (1 - p) n / (n - 1),
    s_b² what the variance of p has beyond that. The test has m - 1 degrees of freedom, so the difference that
    it finds is that of the noncentral t. ``lowest highest`` are of all tasks with k attempts, judged or not:
    for k > 1 these may be more tasks than those of ``value``, which may then lie outside.

    O(traces) for each k.

    Source: M. Chen et al., arXiv 2107.03374; tau-bench, arXiv 2406.12045; noncentral t, Johnson & Welch 1940;
    bounds, Manski 1989.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=64, seed=0)
    >>> table = ot.evaluation.attempts(corpus, k=[1, 2], worth=1.0, cost=0.1)
    >>> table.filter(pl.col("metric") == "pass_any")["value"].is_sorted()
    True
    """
    if worth is None and cost is not None:
        raise ParameterError(f"cost is {cost}, expected None without worth: give what a solved task is worth")
    if power <= alpha:
        raise ParameterError(f"power is {power}, expected a number above alpha, which is {alpha}")
    counted = _Counted.of(corpus, reward, success, by, confidence)
    most = min(max([1, *counted.n.tolist()]), _MOST_BY_DEFAULT)
    sizes = sorted(set(numbers_of_trials(k, most)))
    every, some = _chances(sizes, counted.n, counted.passed)
    alike = every + (1.0 - some)
    paid = _until_pass(sizes, counted, some)
    shares = [_SHARE] * len(sizes)
    rows = [
        counted.row("mean_reward", None, counted.rewards),
        _broken(counted),
        *_bounded(counted, sizes, pass_any=some, pass_all=every),
        counted.row("without_signal", None, _as_recorded(counted), _SHARE),
        *counted.rows("without_signal", sizes, alike, shares),
        *counted.rows("attempts_until_pass", sizes, paid, [(1.0, float(size)) for size in sizes]),
        *_comparison(counted, sizes, correlation, difference, alpha, power),
    ]
    best = [_best(counted, "best_for_signal", sizes, 1.0 - alike, lambda of: _reaching(of, signal), shares)]
    if worth is not None:
        costs = _costs(corpus, counted, cost)
        lacks = "field.absent" if not np.isfinite(costs.of_attempt).any() else "support.absent"
        gains = _gains(sizes, worth, costs, some, paid)
        for name, gain, within in zip(_GAINS, gains, _ranges(sizes, worth, cost), strict=True):
            rows += counted.rows(f"gain_{name}", sizes, gain, within, lacks)
            best.append(_best(counted, f"best_{name}", sizes, gain, _largest, within, lacks))
    return pl.DataFrame([*rows, *best], schema=ATTEMPTS)


@dataclass(frozen=True)
class _Counted:
    """The attempts at each task (or of each group), in order of names; arrays are (tasks,)."""

    runs: pl.DataFrame
    """A row per attempt: ``row``, the place of its task in the arrays, and whether it ``passed``."""
    clusters: Ints
    """The task of each."""
    n: Ints
    """Judged attempts."""
    passed: Ints
    broken: Ints
    """Attempts that were never judged."""
    rewards: Floats
    """The mean over judged attempts, NaN without."""
    confidence: float

    @classmethod
    def of(cls, corpus: Corpus, reward: Reward, success: float, by: str, confidence: float) -> "_Counted":
        runs = judged_runs(corpus, reward, success)
        tasks = (
            runs.group_by(f"{by}_id")
            .agg(
                task=pl.col("task_id").first(),
                n=pl.col("passed").count().cast(pl.Int64),
                passed=pl.col("passed").sum().cast(pl.Int64),
                broken=pl.col("passed").null_count().cast(pl.Int64),
                rewards=pl.col("reward").mean().cast(pl.Float64),
            )
            .sort(f"{by}_id")
            .with_columns(cluster=pl.col("task").rank("dense").cast(pl.Int64) - 1)
            .with_row_index("row")
        )
        name = f"{by}_id"
        place = tasks.select("row", name)
        placed = runs.join(place, on=name, how="left", nulls_equal=True, maintain_order="left")
        cluster, n, passed, broken = (
            tasks[column].to_numpy() for column in ("cluster", "n", "passed", "broken")
        )
        rewards = tasks["rewards"].fill_null(math.nan).to_numpy()
        return cls(placed.select("trace", "row", "passed"), cluster, n, passed, broken, rewards, confidence)

    @property
    def n_judged(self) -> int:
        """How many tasks have a judged attempt."""
        return int((self.n > 0).sum())

    def is_few(self, n_tasks: int) -> bool:
        return n_tasks < _MOST_OF_TASKS * self.n_judged

    def row(
        self,
        metric: str,
        k: int | None,
        values: Floats,
        within: Range = None,
        lacks: str = "support.absent",
    ) -> dict[str, Any]:
        """The mean over the tasks whose value is not NaN, with its interval."""
        counted = ~np.isnan(values)
        n_tasks = int(counted.sum())
        row: dict[str, Any] = {"metric": metric, "k": k}
        row |= {"n_tasks": n_tasks, "few_tasks": self.is_few(n_tasks)}
        if not n_tasks:
            reason = lacks if self.n_judged else "reward.absent"
            return row | {"reason": reason, "interval_reason": reason}
        if not np.isfinite(values[counted]).all():
            return row | {"reason": "result.range", "interval_reason": "result.range"}
        if within is not None and within[0] == within[1]:  # one attempt is always paid
            return row | dict.fromkeys(("value", "lower", "upper"), within[0])
        mean = mean_interval(values, self.clusters, confidence=self.confidence, within=within)
        return row | {
            "value": mean.estimate,
            "lower": mean.around.lower,
            "upper": mean.around.upper,
            "reason": "result.range" if mean.estimate is None else None,
            "interval_reason": mean.around.reason,
        }

    def rows(
        self,
        metric: str,
        sizes: list[int],
        values: Floats,
        within: Sequence[Range],
        lacks: str = "support.absent",
    ) -> list[dict[str, Any]]:
        """A row per k, of values (k, tasks)."""
        each = zip(sizes, values, within, strict=True)
        return [self.row(metric, size, at, span, lacks) for size, at, span in each]


def _chances(sizes: list[int], n: Ints, passed: Ints) -> tuple[Floats, Floats]:
    """pass^k and pass@k of every task, (k, tasks); NaN where a task has fewer than k attempts."""
    pairs, places = np.unique(np.stack([n, passed], axis=1), axis=0, return_inverse=True)
    missing = (math.nan, math.nan)
    table = [[chances(k, n, c) if n >= k else missing for n, c in pairs.tolist()] for k in sizes]
    values: Floats = np.array(table, dtype=np.float64).reshape(len(sizes), len(pairs), 2)[:, places.ravel()]
    return values[..., 0], values[..., 1]


def _until_pass(sizes: list[int], counted: _Counted, some: Floats) -> Floats:
    """How many attempts are paid until the first that passes, k at most, (k, tasks)."""
    k = np.array(sizes, dtype=np.float64)[:, None]
    paid: Floats = (counted.n + 1.0 - (counted.n - k + 1.0) * (1.0 - some)) / (counted.passed + 1.0)
    return paid


def _as_recorded(counted: _Counted) -> Floats:
    """1 of groups in which all judged attempts passed or all failed, else 0; NaN of those without any."""
    alike = (counted.passed == 0) | (counted.passed == counted.n)
    return np.where(counted.n > 0, alike.astype(np.float64), math.nan)


def _broken(counted: _Counted) -> dict[str, Any]:
    """The share of a task's attempts that were never judged."""
    shares = counted.broken / (counted.n + counted.broken)
    return counted.row("broken", None, shares, _SHARE)


def _bounded(counted: _Counted, sizes: list[int], **values: Floats) -> list[dict[str, Any]]:
    """Rows of pass@k and pass^k, with their bounds over what broken attempts could have been."""
    attempted = counted.n + counted.broken
    all_failed = _chances(sizes, attempted, counted.passed)
    all_passed = _chances(sizes, attempted, counted.passed + counted.broken)
    rows = []
    for metric, of in values.items():
        side = int(metric == "pass_any")
        bounds = zip(all_failed[side], all_passed[side], strict=True)
        for row, (least, most) in zip(
            counted.rows(metric, sizes, of, [_SHARE] * len(sizes)), bounds, strict=True
        ):
            reached = ~np.isnan(least)
            if reached.any():
                row |= {"lowest": float(least[reached].mean()), "highest": float(most[reached].mean())}
            rows.append(row)
    return rows


def _comparison(
    counted: _Counted, sizes: list[int], correlation: float, difference: float, alpha: float, power: float
) -> list[dict[str, Any]]:
    """What a comparison of two systems with k attempts at each task finds, and what it needs."""
    judged = counted.n > 0
    n, passed = counted.n[judged], counted.passed[judged]
    row = {"n_tasks": len(n), "few_tasks": False}
    independent = len(np.unique(counted.clusters[judged])) == len(n) >= 2
    noncentral = detectable(len(n), alpha=alpha, power=power) if independent else math.nan
    differences, needed = [], []
    for k in sizes:
        deviation = _deviation(n, passed, k, correlation) if independent else None
        smallest: float | None = None
        many: int | None = None
        if not len(n):
            reason = "reward.absent"
        elif deviation is None:
            reason = "support.absent"
        elif deviation == 0.0:
            reason = "group.degenerate"
        else:
            reason = "result.range"
            smallest = noncentral * deviation / math.sqrt(len(n))
            many = tasks_needed(difference, deviation, alpha=alpha, power=power)
        of_k = row | {"metric": "detectable_difference", "k": k}
        differences.append(_unless_infinite(of_k, smallest, reason))
        needed.append(_unless_infinite(row | {"metric": "tasks_needed", "k": k}, many, reason))
    return differences + needed


def _unless_infinite(row: dict[str, Any], value: float | None, reason: str) -> dict[str, Any]:
    """The row with the value, or why there is none."""
    if value is None or not math.isfinite(value):
        return row | {"reason": reason}
    return row | {"value": float(value)}


def _deviation(n: Ints, passed: Ints, k: int, correlation: float) -> float | None:
    """The deviation over tasks of the difference of two systems with k attempts; None where it is unknown."""
    rates = passed / n
    variance = float(rates.var(ddof=1))
    several = n > 1
    if not several.any():
        return math.sqrt(2.0 * variance) if k == 1 and correlation == 0.0 else None
    # of one attempt, without bias
    scatter = rates * (1.0 - rates) * n / np.maximum(n - 1, 1)
    within = float(scatter[several].mean())
    of_rates = np.where(several, scatter, within) / n
    between = max(0.0, variance - float(of_rates.mean()))
    return math.sqrt(2.0 * (1.0 - correlation) * between + 2.0 * within / k)


_GAINS: Final = ("all_paid", "until_pass")


@dataclass(frozen=True)
class _Costs:
    """What attempts at each task cost on average, (tasks,); NaN where no cost is recorded."""

    of_passed: Floats
    of_failed: Floats
    of_attempt: Floats


def _costs(corpus: Corpus, counted: _Counted, cost: float | None) -> _Costs:
    """The mean cost of passed and of failed attempts; 0 of a kind that a task does not have."""
    if cost is not None:
        same = np.full(len(counted.n), float(cost))
        return _Costs(same, same, same)
    spent = metrics(corpus, groups=["scale"]).select("trace", cost="cost_usd")
    of_kind = pl.col("cost").filter("passed"), pl.col("cost").filter(~pl.col("passed"))
    means = (
        counted.runs.join(spent, on="trace", how="left", maintain_order="left")
        .group_by("row")
        .agg(of_passed=of_kind[0].mean(), of_failed=of_kind[1].mean())
        .sort("row")
        .with_columns(pl.col("of_passed", "of_failed").cast(pl.Float64).fill_null(math.nan))
    )
    failed = counted.n - counted.passed
    of_passed = np.where(counted.passed > 0, means["of_passed"].to_numpy(), 0.0)
    of_failed = np.where(failed > 0, means["of_failed"].to_numpy(), 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        of_attempt = (counted.passed * of_passed + failed * of_failed) / counted.n
    return _Costs(of_passed, of_failed, of_attempt)


def _gains(
    sizes: list[int], worth: float, costs: _Costs, some: Floats, paid: Floats
) -> tuple[Floats, Floats]:
    """What k attempts gain if all are paid, and if a verifier ends them, (k, tasks)."""
    k = np.array(sizes, dtype=np.float64)[:, None]
    unknown = np.isnan(some) | np.isnan(costs.of_attempt)
    with np.errstate(over="ignore", invalid="ignore"):
        sold = worth * some
        gains = (
            sold - k * costs.of_attempt,
            sold - (some * costs.of_passed + (paid - some) * costs.of_failed),
        )
    # what is NaN for another reason is a difference of infinities
    all_paid, until_pass = (
        np.where(unknown, math.nan, np.where(np.isnan(gain), math.inf, gain)) for gain in gains
    )
    return all_paid, until_pass


def _ranges(sizes: list[int], worth: float, cost: float | None) -> tuple[list[Range], list[Range]]:
    """Between what gains lie, where the cost of an attempt is one number."""
    if cost is None or not math.isfinite(max(sizes) * cost + worth):
        return [None] * len(sizes), [None] * len(sizes)
    return (
        [(-size * cost, worth - size * cost) for size in sizes],
        [(-size * cost, worth - cost) for size in sizes],
    )


def _best(
    counted: _Counted,
    metric: str,
    sizes: list[int],
    values: Floats,
    choose: Callable[[Floats], Ints],
    within: Sequence[Range],
    lacks: str = "support.absent",
) -> dict[str, Any]:
    """The k that all tasks choose by their means, and the mean value of tasks at the k that others choose."""
    counts = (~np.isnan(values)).sum(axis=1).tolist()
    candidates = [at for at, count in enumerate(counts) if count and not counted.is_few(count)]
    values = values[candidates]
    out_of_fold = np.full(values.shape[1], math.nan)
    if not candidates:
        return counted.row(metric, None, out_of_fold, lacks=lacks)
    if np.isinf(values).any():
        return counted.row(metric, None, np.full(values.shape[1], math.inf))
    n_clusters, clusters = int(counted.clusters.max()) + 1, counted.clusters
    with np.errstate(over="ignore", invalid="ignore"):
        sums = np.array([np.bincount(clusters, np.nan_to_num(row), n_clusters) for row in values])
        sizes_of = np.array([np.bincount(clusters, ~np.isnan(row), n_clusters) for row in values])
        total, count = sums.sum(axis=1, keepdims=True), sizes_of.sum(axis=1, keepdims=True)
        chosen = int(choose(total / count)[0])
        by_others = choose((total - sums) / (count - sizes_of))[clusters]
    if chosen < 0:
        return counted.row(metric, None, out_of_fold, lacks=lacks)
    judged = by_others >= 0
    out_of_fold[judged] = values[by_others[judged], np.flatnonzero(judged)]
    return counted.row(metric, sizes[candidates[chosen]], out_of_fold, _hull(within[at] for at in candidates))


def _hull(ranges: Iterable[Range]) -> Range:
    """The range that contains all of these; None where one is unknown."""
    lows, highs = [], []
    for span in ranges:
        if span is None:
            return None
        lows.append(span[0])
        highs.append(span[1])
    return min(lows), max(highs)


def _largest(means: Floats) -> Ints:
    """Of each column the first of its largest means; -1 where it has none."""
    comparable = np.where(np.isfinite(means), means, -math.inf)
    most = comparable.max(axis=0)
    with np.errstate(invalid="ignore"):
        first = (comparable >= most - ROUNDING * np.abs(most)).argmax(axis=0)
    return np.where(np.isfinite(most), first, -1)


def _reaching(means: Floats, least: float) -> Ints:
    """Of each column the first mean that is not below the least; -1 where all are."""
    reached = means >= least - ROUNDING
    return np.where(reached.any(axis=0), reached.argmax(axis=0), -1)
