"""Shared parts of detectors of hazards and failure modes: windows of training, intervals, rows, alarms."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from ...base.arrays import Floats, Ints
from ...base.schema import CREDITS
from ...corpus.corpus import Corpus
from ...metrics.verb import metrics
from ...statistics.rankings import midranks, segment_starts
from ...statistics.resampling import (
    Statistic,
    centered_correlation_of,
    rank_correlation_of,
    ratio_of,
    resampled,
)
from ...statistics.sums import sums_of

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
"""Columns and types of what `detect_hacking` returns."""

Resampling = Mapping[str, Any]
"""How intervals are made: `n_boot`, `confidence` and `seed` of `resampled`."""


@dataclass(frozen=True)
class Window:
    """The traces of one step of training, by task."""

    step: float | None
    frame: pl.DataFrame
    within: Within

    def complete_columns(self, *columns: str) -> tuple[list[Floats], Ints, int]:
        """Columns where none is null, and the tasks of their rows, numbered from 0."""
        rows = self.frame.drop_nulls(list(columns)).sort("task", maintain_order=True)
        _, tasks = np.unique(rows["task"].to_numpy(), return_inverse=True)
        values = [rows[name].cast(pl.Float64).to_numpy() for name in columns]
        return values, tasks, int(tasks.max()) + 1 if tasks.size else 0


Detection = tuple[Statistic, int, int]
"""A statistic, its clusters, its traces."""
Detect = Callable[[Window], Detection]


@dataclass(frozen=True)
class Detector:
    """One row of the result, but for its window."""

    family: str
    name: str
    sign: Literal[">", ">=", "<"]
    bound: float
    detect: Detect | None
    reward: str | None = None
    unit_id: str | None = None
    absent: str = "field.absent"

    @property
    def bound_text(self) -> str:
        """The bound, as the result states it."""
        return f"{self.sign} {self.bound:g}"

    def alarms(self, lower: float, upper: float) -> bool:
        if self.sign == "<":
            return upper < self.bound
        return lower > self.bound or (self.sign == ">=" and lower >= self.bound)


def chosen(within: Within | None, frame: pl.DataFrame) -> Within:
    """Within tasks if they have three traces or more on average, where nobody chose."""
    sizes = frame.group_by("task").len()["len"]
    return within or ("task" if len(sizes) and sizes.sum() >= _PAIRED * len(sizes) else "corpus")


def rows_of(
    detectors: Iterable[Detector], frame: pl.DataFrame, within: Within, resampling: Resampling
) -> list[dict[str, Any]]:
    """A row per step of training and detector, but for the column ``params``."""
    detectors = list(detectors)
    steps = frame["train_step"].unique().sort(nulls_last=True)
    rows = []
    for step in steps if len(steps) else [None]:
        window = Window(step, frame.filter(pl.col("train_step").eq_missing(pl.lit(step))), within)
        rows += [_row(detector, window, resampling) for detector in detectors]
    return rows


def _row(detector: Detector, window: Window, resampling: Resampling) -> dict[str, Any]:
    row: dict[str, Any] = {
        "family": detector.family,
        "detector": detector.name,
        "reward": detector.reward,
        "unit_id": detector.unit_id,
        "train_step": window.step,
        "bound": detector.bound_text,
        "alarm": False,
    }
    if detector.detect is None:
        return row | {"reason": detector.absent, "n_traces": 0, "n_tasks": 0}
    statistic, n_tasks, n_traces = detector.detect(window)
    row |= {"n_traces": n_traces, "n_tasks": n_tasks}
    if not n_traces:
        return row | {"reason": detector.absent}
    value, lower, upper = resampled(statistic, n_tasks, **resampling)
    row |= {"value": value, "lower": lower, "upper": upper}
    if value is None:
        return row | {"reason": "ratio.empty"}
    if n_traces < FEWEST_TRACES or n_tasks < FEWEST_TASKS or lower is None or upper is None:
        return row | {"reason": "support.absent"}
    return row | {"alarm": detector.alarms(lower, upper)}


def ratio(numerator: str, denominator: str) -> Detect:
    """The sum of one column over that of another."""

    def detect(window: Window) -> Detection:
        (a, b), tasks, n = window.complete_columns(numerator, denominator)
        return ratio_of(sums_of(a, tasks, n), sums_of(b, tasks, n)), n, a.size

    return detect


def mean(column: str) -> Detect:
    """The mean over traces."""

    def detect(window: Window) -> Detection:
        (a,), tasks, n = window.complete_columns(column)
        return ratio_of(sums_of(a, tasks, n), sums_of(np.ones(a.size), tasks, n)), n, a.size

    return detect


def rank_statistic(a: Floats, b: Floats, tasks: Ints, n: int, within: Within) -> Statistic:
    """Of ranks over all rows, or within tasks."""
    if within == "corpus":
        return rank_correlation_of(a, b, tasks)
    starts = segment_starts(tasks)
    half = (np.bincount(tasks)[tasks] + 1.0) / 2.0
    return centered_correlation_of(midranks(a, starts) - half, midranks(b, starts) - half, tasks, n)


def rank(column: str, other: str) -> Detect:
    """Spearman's correlation of two columns."""

    def detect(window: Window) -> Detection:
        (a, b), tasks, n = window.complete_columns(column, other)
        return rank_statistic(a, b, tasks, n, window.within), n, a.size

    return detect


def idle_spawns(corpus: Corpus, threads: int | None) -> pl.DataFrame:
    """Of each trace the spawned names that own no event with a path to the outcome."""
    members = metrics(corpus, by="agent", threads=threads)
    live = members.filter(pl.col("utilization") > 0).select("trace", pl.col("agent").cast(pl.String))
    measured = members.group_by("trace").agg(pl.col("utilization").is_not_null().any().alias("known"))
    spawned = (
        corpus.events.filter((pl.col("type") == "spawn") & pl.col("to").is_not_null())
        .select("trace", pl.col("to").cast(pl.String).alias("agent"))
        .unique()
        .collect(engine="streaming")
    )
    idle = spawned.join(live, on=["trace", "agent"], how="anti").group_by("trace").len("n_idle")
    rows = (
        spawned.select("trace")
        .unique()
        .join(idle, on="trace", how="left")
        .join(measured, on="trace", how="left")
    )
    return rows.select("trace", n_idle=pl.when("known").then(pl.col("n_idle").fill_null(0)).cast(pl.Float64))
