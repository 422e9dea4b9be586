"""How rewards are gamed: the hacking risks of each family, as detectors with intervals."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from .. import _core
from ..base.arguments import public
from ..base.arrays import Floats, Ints
from ..base.checks import check_numbers
from ..base.errors import ParameterError
from ..base.progress import Progress, reporting
from ..base.schema import CREDITS
from ..corpus.corpus import Corpus
from ..corpus.frames import check_corpus, collected
from ..corpus.reward import Reward, amounts
from ..credit.verb import credit
from ..evaluation.accounts import free_ride
from ..metrics.verb import metrics
from ..statistics.influence import check_confidence
from ..statistics.rankings import midranks, segment_starts
from ..statistics.resampling import (
    Statistic,
    centered_correlation_of,
    rank_correlation_of,
    ratio_of,
    resampled,
    sums_of,
)
from .balance import centered

Within = Literal["task", "corpus"]

FEWEST_TRACES: Final = 20
FEWEST_TASKS: Final = 5
_PAIRED: Final = 3
"""Traces that tasks need, on average, for ranks within tasks."""

HAZARDS: Final = pl.Schema(
    {
        "family": pl.Enum([f"R{n}" for n in range(1, 9)]),
        "detector": pl.String(),
        "reward": pl.String(),
        "unit_id": pl.String(),
        "train_step": pl.Float64(),
        "value": pl.Float64(),
        "lower": pl.Float64(),
        "upper": pl.Float64(),
        "bound": pl.String(),
        "n_traces": pl.UInt32(),
        "n_tasks": pl.UInt32(),
        "alarm": pl.Boolean(),
        "reason": CREDITS["reason"],
        "params": CREDITS["params"],
    }
)
"""Columns and types of what `hazards` returns."""


@dataclass(frozen=True)
class _Window:
    """The traces of one step of training, by task."""

    step: float | None
    frame: pl.DataFrame
    within: Within

    def told(self, *columns: str) -> tuple[list[Floats], Ints, int]:
        """Columns where none is null, and the tasks of their rows, numbered from 0."""
        rows = self.frame.drop_nulls(list(columns)).sort("task", maintain_order=True)
        _, tasks = np.unique(rows["task"].to_numpy(), return_inverse=True)
        values = [rows[name].cast(pl.Float64).to_numpy() for name in columns]
        return values, tasks, int(tasks.max()) + 1 if tasks.size else 0


Found = tuple[Statistic, int, int]
"""A statistic, its clusters, its traces."""
Detect = Callable[[_Window], Found]


@dataclass(frozen=True)
class _Detector:
    """One row of the result, but for its window."""

    family: str
    name: str
    sign: Literal[">", ">=", "<"]
    bound: float
    detect: Detect | None
    reward: str | None = None
    unit_id: str | None = None

    def alarms(self, lower: float, upper: float) -> bool:
        if self.sign == "<":
            return upper < self.bound
        return lower > self.bound or (self.sign == ">=" and lower >= self.bound)


@public
def hazards(
    corpus: Corpus,
    rewards: pl.DataFrame | pl.LazyFrame,
    *,
    outcome: Reward = "team",
    success: float = 1.0,
    within: Within | None = None,
    confidence: float = 0.95,
    n_boot: int = 2000,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Look for signs that rewards are gamed: each family's hacking risks, with intervals over tasks.

    Parameters
    ----------
    corpus
        The recordings.
    rewards
        Rows of `compute` and `mix` for these recordings: what would be optimized. A reward of units counts as
        their sum in each trace.
    outcome
        What the run really earned: a channel, or a weighted sum of channels, as in `credit`.
    success
        The least outcome of a run that passed.
    within
        ``"task"`` ranks traces within their task, ``"corpus"`` over all. None is ``"task"`` where tasks have
        three traces or more on average: hard tasks are long *and* fail, which is no hacking.
    confidence, n_boot, seed
        Coverage of the intervals, resamples of tasks, and the seed of these.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        One row per detector, reward and step of training (``train_step``, null where none is recorded):
        ``family detector reward unit_id train_step value lower upper bound n_traces n_tasks alarm reason
        params``. ``value`` is dimensionless but for ``fake_success``, in units of the reward. ``alarm``: the
        whole interval is beyond ``bound``; never with fewer than 20 traces or 5 tasks (``support.absent``).
        A detector whose input nothing gives is a row with null and ``field.absent``.

    Raises
    ------
    ParameterError
        An unknown channel, traces that are not of the corpus, an option out of range.

    Notes
    -----
    Detectors, with corr Spearman's rank correlation over traces, R the outcome, r the reward, and the size
    excess X(r) = corr(r, size) - corr(r, R): does a reward pay for volume rather than for the outcome?

    - R1 ``free_ride``: agents with a free-ride index above ½ under the shares of ``flow``
    - R2 ``share_gap``: mean over traces of the largest gap between an agent's part of r and of ``flow``,
      among the agents that some run pays
    - R3 ``role_rank``: corr(r of the role, R)
    - R4 ``step_padding``: X with size = turns; ``dead_work``: events without a path to the outcome
    - R5 ``tool_spam``: X with size = calls; ``fake_success``: mean r of failed less that of passed runs
      (within tasks the slope of r on failing, both less the mean of their task); ``duplicate_calls``:
      repeated calls
    - R6 ``padding``: X with size = tokens; ``redundancy``: repeated messages
    - R7 ``idle_spawns``: spawned agents without an event that leads to the outcome, of all spawned
    - R8 ``drowned``: the share of Var(r) that the weighted outcome brings; ``sign_flip``: runs whose
      advantage by r has another sign than that by R, of those whose advantage by R is not 0

    Intervals: percentiles over resampled tasks. O(n_boot · traces) per detector of ranks over the corpus,
    O(n_boot · tasks) for the others. Source: risks, arXiv 2605.02801, families R1 to R8; the detectors and
    bounds are this project's (docs/reference/definitions.md, D26).

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=40, seed=0)
    >>> found = ot.rewards.hazards(corpus, ot.rewards.compute(corpus, ["distinct_calls"]), n_boot=200)
    >>> found.filter(detector="tool_spam")["family"].unique().to_list()
    ['R5']
    """
    check_corpus(corpus)
    check_numbers(threads=threads, n_boot=n_boot, seed=seed)
    confidence = check_confidence(confidence)
    if within not in (None, "task", "corpus"):
        raise ParameterError(f"within is {within!r}, expected 'task', 'corpus' or None")
    needed = ("trace", "reward", "family", "unit", "unit_id", "value", "params")
    paid = collected(rewards, "rewards", needed).with_columns(
        pl.col("reward", "family", "unit", "params").cast(pl.String)
    )
    with reporting(progress, "looking for hazards"):
        frame, parts = _per_trace(corpus, paid, outcome, success, threads)
        detectors = list(_detectors(paid, parts))
    sizes = frame.group_by("task").len()["len"]
    mode: Within = within or ("task" if len(sizes) and float(sizes.mean() or 0) >= _PAIRED else "corpus")  # type: ignore[arg-type]
    options = {"outcome": outcome, "success": success, "within": mode, "confidence": confidence}
    params = json.dumps({**options, "n_boot": n_boot, "seed": seed, "version": _core.VERSION}, sort_keys=True)
    rows = []
    steps = frame["train_step"].unique().sort(nulls_last=True)
    for step in steps if len(steps) else [None]:
        window = _Window(step, frame.filter(pl.col("train_step").eq_missing(pl.lit(step))), mode)
        for one in detectors:
            rows.append(
                _row(one, window, n_boot=n_boot, confidence=confidence, seed=seed) | {"params": params}
            )
    return pl.DataFrame(rows, schema=HAZARDS)


def _row(one: _Detector, window: _Window, *, n_boot: int, confidence: float, seed: int) -> dict[str, Any]:
    row: dict[str, Any] = {
        "family": one.family,
        "detector": one.name,
        "reward": one.reward,
        "unit_id": one.unit_id,
        "train_step": window.step,
        "bound": f"{one.sign} {one.bound:g}",
        "alarm": False,
    }
    if one.detect is None:
        return row | {"reason": "field.absent", "n_traces": 0, "n_tasks": 0}
    statistic, n_tasks, n_traces = one.detect(window)
    row |= {"n_traces": n_traces, "n_tasks": n_tasks}
    if not n_traces:
        return row | {"reason": "field.absent"}
    value, lower, upper = resampled(statistic, n_tasks, n_boot=n_boot, confidence=confidence, seed=seed)
    row |= {"value": value, "lower": lower, "upper": upper}
    if value is None:
        return row | {"reason": "ratio.empty"}
    if n_traces < FEWEST_TRACES or n_tasks < FEWEST_TASKS or lower is None or upper is None:
        return row | {"reason": "support.absent"}
    return row | {"alarm": one.alarms(lower, upper)}


# --- detectors -------------------------------------------------------------------------------------------


def _detectors(paid: pl.DataFrame, parts: dict[str, float]) -> Iterator[_Detector]:
    """Every detector of every reward; one of a family that no reward has stands without a reward."""
    yield _Detector("R1", "free_ride", ">", 0.5, _ratio("n_free", "n_shared"))
    of = dict(paid.select("reward", "family").unique(maintain_order=True).iter_rows())

    def named(family: str) -> list[str | None]:
        return [name for name, one in of.items() if one == family] or [None]

    for name in named("R2"):
        yield _Detector("R2", "share_gap", ">", 0.25, _mean(f"gap {name}") if name else None, name)
    for name in named("R3"):
        units = paid.filter(reward=name)["unit_id"].unique(maintain_order=True) if name else [None]
        for unit in units:
            column = f"role {name} {unit}"
            yield _Detector(
                "R3", "role_rank", "<", 0.1, _rank(column, "outcome") if name else None, name, unit
            )
    for name in named("R4"):
        yield _Detector(
            "R4", "step_padding", ">", 0.0, _excess(f"paid {name}", "n_turns") if name else None, name
        )
    yield _Detector("R4", "dead_work", ">", 0.3, _mean("dead_events"))
    for name in named("R5"):
        yield _Detector(
            "R5", "tool_spam", ">", 0.0, _excess(f"paid {name}", "n_tool_calls") if name else None, name
        )
        yield _Detector(
            "R5", "fake_success", ">=", 0.0, _failed_less_passed(f"paid {name}") if name else None, name
        )
    yield _Detector("R5", "duplicate_calls", ">", 0.2, _mean("call_redundancy"))
    for name in named("R6"):
        yield _Detector("R6", "padding", ">", 0.0, _excess(f"paid {name}", "tokens") if name else None, name)
    yield _Detector("R6", "redundancy", ">", 0.3, _mean("message_redundancy"))
    yield _Detector("R7", "idle_spawns", ">", 0.3, _ratio("n_idle", "n_spawned"))
    for name in named("R8"):
        weight = parts.get(name) if name else None
        share = None if weight is None else _variance_share(f"paid {name}", "outcome", weight)
        yield _Detector("R8", "drowned", "<", 0.2, share, name)
        yield _Detector("R8", "sign_flip", ">", 0.25, _sign_flip(f"paid {name}") if name else None, name)


def _ratio(part: str, whole: str) -> Detect:
    def detect(window: _Window) -> Found:
        (a, b), tasks, n = window.told(part, whole)
        return ratio_of(sums_of(a, tasks, n), sums_of(b, tasks, n)), n, a.size

    return detect


def _mean(column: str) -> Detect:
    def detect(window: _Window) -> Found:
        (a,), tasks, n = window.told(column)
        return ratio_of(sums_of(a, tasks, n), sums_of(np.ones(a.size), tasks, n)), n, a.size

    return detect


def _rank_statistic(a: Floats, b: Floats, tasks: Ints, n: int, within: Within) -> Statistic:
    if within == "corpus":
        return rank_correlation_of(a, b, tasks)
    starts = segment_starts(tasks)
    half = (np.bincount(tasks)[tasks] + 1.0) / 2.0
    return centered_correlation_of(midranks(a, starts) - half, midranks(b, starts) - half, tasks, n)


def _rank(column: str, other: str) -> Detect:
    def detect(window: _Window) -> Found:
        (a, b), tasks, n = window.told(column, other)
        return _rank_statistic(a, b, tasks, n, window.within), n, a.size

    return detect


def _excess(column: str, size: str) -> Detect:
    """corr(column, size) - corr(column, outcome)."""

    def detect(window: _Window) -> Found:
        (a, b, y), tasks, n = window.told(column, size, "outcome")
        by_size = _rank_statistic(a, b, tasks, n, window.within)
        by_outcome = _rank_statistic(a, y, tasks, n, window.within)
        return (lambda times: by_size(times) - by_outcome(times)), n, a.size

    return detect


def _failed_less_passed(column: str) -> Detect:
    """Within tasks the slope of the column on failing: the difference of means, were tasks all alike."""

    def detect(window: _Window) -> Found:
        (a, passed), tasks, n = window.told(column, "passed")
        failed = 1.0 - passed
        if window.within == "task":
            x, y = centered(failed, tasks, n), centered(a, tasks, n)
            return ratio_of(sums_of(x * y, tasks, n), sums_of(x * x, tasks, n)), n, a.size
        means = [ratio_of(sums_of(a * one, tasks, n), sums_of(one, tasks, n)) for one in (failed, passed)]
        return (lambda times: means[0](times) - means[1](times)), n, a.size

    return detect


def _variance_share(column: str, outcome: str, weight: float) -> Detect:
    """Mean over groups of Cov(weight · outcome, r) / Var(r); groups without spread are left out."""

    def detect(window: _Window) -> Found:
        (r, y), tasks, n = window.told(column, outcome)
        x, z = centered(r, tasks, n), weight * centered(y, tasks, n)
        spread, both = sums_of(x * x, tasks, n), sums_of(x * z, tasks, n)
        told = spread > 0.0
        share = np.where(told, both / np.where(told, spread, 1.0), 0.0)
        return ratio_of(share, told.astype(np.float64)), n, r.size

    return detect


def _sign_flip(column: str) -> Detect:
    def detect(window: _Window) -> Found:
        (r, y), tasks, n = window.told(column, "outcome")
        a, b = (np.sign(centered(v, tasks, n)) for v in (r, y))
        counted = b != 0
        flipped = counted & (a != b)
        return ratio_of(sums_of(flipped, tasks, n), sums_of(counted, tasks, n)), n, r.size

    return detect


# --- what detectors look at ------------------------------------------------------------------------------


def _per_trace(
    corpus: Corpus, paid: pl.DataFrame, outcome: Reward, success: float, threads: int | None
) -> tuple[pl.DataFrame, dict[str, float]]:
    """A row per trace with all that detectors look at; and the weight of the outcome in each sum."""
    measured = metrics(corpus, groups=["scale", "protocol", "utilization"], threads=threads)
    frame = measured.select(
        "trace",
        pl.col("task_id").rank("dense").cast(pl.Int64).alias("task"),
        *("train_step", "n_turns", "n_tool_calls", "tokens", "dead_events"),
        *("call_redundancy", "message_redundancy", "n_spawned"),
    )
    earned = amounts(corpus, outcome).select("trace", outcome="reward")
    frame = frame.join(earned, on="trace", how="left", maintain_order="left")
    frame = frame.with_columns(passed=(pl.col("outcome") >= success).cast(pl.Float64))
    unknown = paid.join(frame, on="trace", how="anti")
    if unknown.height:
        raise ParameterError(
            f"trace {unknown['trace'][0]} of the rewards is not in the corpus: give the corpus they are of"
        )
    for (name,), rows in paid.group_by("reward", maintain_order=True):
        whole = rows.group_by("trace").agg(_total().alias(f"paid {name}"))
        frame = frame.join(whole, on="trace", how="left", maintain_order="left")
        if rows["family"][0] == "R3":
            for (unit,), of in rows.group_by("unit_id", maintain_order=True):
                told = of.select("trace", pl.col("value").alias(f"role {name} {unit}"))
                frame = frame.join(told, on="trace", how="left", maintain_order="left")
    frame = frame.join(_idle(corpus, threads), on="trace", how="left", maintain_order="left")
    weighted = outcome if isinstance(outcome, str) else None
    parts = {
        name: weight
        for name, params in paid.filter(family="R8").select("reward", "params").unique().iter_rows()
        if (weight := _weight_of(params, weighted)) is not None
    }
    return _with_shares(corpus, frame, paid, outcome, threads), parts


def _total() -> pl.Expr:
    """The sum of a trace's units that are paid; null where none is."""
    return pl.when(pl.col("value").count() > 0).then(pl.col("value").sum())


def _weight_of(params: str, outcome: str | None) -> float | None:
    """The weight of the outcome in a sum that `mix` made, as its own parameters tell."""
    told = json.loads(params)
    if told.get("clip") or told.get("normalize") or "weights" not in told:
        return None
    parts = told["rewards"]
    of = [name for name, about in parts.items() if about and about.get("channels.outcome") == outcome]
    return sum(told["weights"][name] * parts[name].get("weight", 1.0) for name in of) if of else None


def _idle(corpus: Corpus, threads: int | None) -> pl.DataFrame:
    """Of each trace the spawned names that own no event with a path to the outcome."""
    members = metrics(corpus, by="agent", threads=threads)
    live = members.filter(pl.col("utilization") > 0).select("trace", pl.col("agent").cast(pl.String))
    known = members.group_by("trace").agg(pl.col("utilization").is_not_null().any().alias("known"))
    spawned = (
        corpus.events.filter((pl.col("type") == "spawn") & pl.col("to").is_not_null())
        .select("trace", pl.col("to").cast(pl.String).alias("agent"))
        .unique()
        .collect(engine="streaming")
    )
    idle = spawned.join(live, on=["trace", "agent"], how="anti").group_by("trace").len("n_idle")
    told = (
        spawned.select("trace")
        .unique()
        .join(idle, on="trace", how="left")
        .join(known, on="trace", how="left")
    )
    return told.select("trace", n_idle=pl.when("known").then(pl.col("n_idle").fill_null(0)).cast(pl.Float64))


def _with_shares(
    corpus: Corpus, frame: pl.DataFrame, paid: pl.DataFrame, outcome: Reward, threads: int | None
) -> pl.DataFrame:
    """Free riders, and how far each agent's reward is from its share."""
    shares = credit(corpus, method="flow", unit="agent", reward=outcome, threads=threads)
    riders = (
        free_ride(shares)
        .group_by("trace")
        .agg(
            pl.when(pl.col("free_ride").count() > 0).then((pl.col("free_ride") > 0.5).sum()).alias("n_free"),
            pl.when(pl.col("free_ride").count() > 0).then(pl.col("free_ride").count()).alias("n_shared"),
        )
    )
    frame = frame.join(riders, on="trace", how="left", maintain_order="left")
    owned = shares.filter(pl.col("unit_id").is_not_null()).select("trace", "unit_id", "credit")
    for (name,), rows in paid.filter(family="R2").group_by("reward", maintain_order=True):
        # who is never paid has no reward to compare: a lead, where the rule is about workers
        rows = rows.filter((pl.col("value") != 0).any().over("unit_id"))
        both = owned.join(rows.select("trace", "unit_id", "value"), on=["trace", "unit_id"], how="inner")
        whole = pl.col("credit", "value").sum().over("trace")
        both = both.with_columns(whole.name.prefix("all_")).filter(
            (pl.col("all_credit") > 0) & (pl.col("all_value") > 0)
        )
        gap = (pl.col("value") / pl.col("all_value") - pl.col("credit") / pl.col("all_credit")).abs().max()
        told = both.group_by("trace").agg(gap.alias(f"gap {name}"))
        frame = frame.join(told, on="trace", how="left", maintain_order="left")
    return frame
