"""What a gate compares: metrics with a direction, a scale and a margin, and their values of every run."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

import polars as pl

from ..base.arguments import Number
from ..base.errors import InputError, ParameterError
from ..base.schema import unknown_name
from ..base.text import briefly
from ..corpus.corpus import Corpus
from ..corpus.names import names_of
from ..corpus.reward import Reward
from ..metrics.verb import metrics, numeric
from .pass_rates import judged_runs

Better = Literal["higher", "lower"]
Scale = Literal["difference", "ratio"]
Margin = float | Mapping[str, float]
"""How much worse is tolerated: one number, or one of each metric."""

MARGIN: Final = 0.02
"""Of a metric that has none in a mapping."""
_DIRECTIONS: Final[tuple[Better, ...]] = get_args(Better)
_JUDGED: Final = ("success", "reward")
_SPENT: Final = {"tokens": ("tokens",), "seconds": ("wall_clock_s", "elapsed"), "dollars": ("cost_usd",)}
"""Metrics that are compared as ratios, with the columns of `metrics` that have them, the best first."""


@dataclass(frozen=True)
class GateMetric:
    """A metric of a gate: its name, which way is better, how two sides are compared, what is tolerated."""

    name: str
    better: Better
    scale: Scale
    margin: float
    column: str | None = None
    """Of the table of `metrics`, for a metric that is none of ours."""

    @property
    def is_success(self) -> bool:
        """Whether it is the share of runs that succeed."""
        return self.name == "success" and self.column is None

    @property
    def is_judged(self) -> bool:
        """Whether it is about the outcome, and not measured on the recording."""
        return self.name in _JUDGED and self.column is None

    @property
    def sign(self) -> float:
        """What turns a difference so that more is better."""
        return 1.0 if self.better == "higher" else -1.0

    @property
    def bound(self) -> float:
        """The margin on the scale of the test, where more is better: the least that is tolerated."""
        return -self.margin if self.scale == "difference" else -math.log1p(self.margin)


def gate_metrics(metric: str | Sequence[str], margin: Margin) -> list[GateMetric]:
    """The metrics that a caller names, with their margins.

    Raises
    ------
    ParameterError
        A name that is neither ours nor has a direction, a metric twice, or a margin that is none.
    """
    names = [metric] if isinstance(metric, str) else names_of("metric", metric)
    if not names:
        raise ParameterError("metric is empty: name at least one, as 'success'")
    margins = dict(margin) if isinstance(margin, Mapping) else dict.fromkeys(names, margin)
    for name in margins:
        if name not in names:
            raise ParameterError(unknown_name("metric of a margin", briefly(name).strip("'"), names))
    chosen = [_metric(name, margins.get(name, MARGIN)) for name in names]
    for each in chosen:
        if [other.name for other in chosen].count(each.name) > 1:
            raise ParameterError(f"metric has '{each.name}' twice")
    return chosen


def _metric(text: str, margin: object) -> GateMetric:
    if not Number(0.0).has(margin):
        raise ParameterError(
            f"margin is {briefly(margin)} for metric '{text}', expected {Number(0.0).expected(margin)}"
        )
    size = float(margin)  # type: ignore[arg-type]  # it is a number
    if text in _JUDGED:
        if text == "success" and size >= 1.0:
            raise ParameterError(
                f"margin is {size:g} for metric 'success', expected a number from 0 to below 1"
            )
        return GateMetric(text, "higher", "difference", size)
    if text in _SPENT:
        return GateMetric(text, "lower", "ratio", size)
    name, colon, direction = text.rpartition(":")
    for better in _DIRECTIONS:
        if colon and direction == better:
            return GateMetric(name, better, "difference", size, column=name)
    ours = [*_JUDGED, *_SPENT]
    hint = unknown_name("metric", text, ours)
    either = f"'{text}:lower' or '{text}:higher'"
    raise ParameterError(f"{hint}; of other metrics say which way is better: {either}")


def runs_of(
    corpora: Mapping[str, Corpus],
    chosen: Sequence[GateMetric],
    *,
    reward: Reward,
    success: float,
    broken: Literal["refuse", "failed"],
) -> dict[str, pl.DataFrame]:
    """Every run of each side: ``trace task_id``, and a Float64 column per metric, null where it has none.

    Raises
    ------
    ParameterError
        An unknown channel or metric.
    InputError
        A metric that only one of the sides has.
    """
    judged = any(each.is_judged for each in chosen)
    tables = {side: _table(corpus, chosen) for side, corpus in corpora.items()}
    runs: dict[str, pl.DataFrame] = {}
    for side, corpus in corpora.items():
        if judged:
            try:
                frame = judged_runs(corpus, reward, success)
            except ParameterError as error:
                raise ParameterError(f"{side}: {error}") from None
        else:
            frame = corpus.traces.select("trace", "task_id").collect(engine="streaming")
        runs[side] = frame
    columns: dict[str, dict[str, pl.Expr]] = {side: {} for side in corpora}
    for each in chosen:
        if each.is_judged:
            value = pl.col("reward") if each.name == "reward" else pl.col("passed")
            if each.is_success and broken == "failed":
                value = value.fill_null(value=False)
            sources = dict.fromkeys(corpora, value)
        else:
            source = _source(each, tables)
            sources = dict.fromkeys(corpora, pl.col(f"measured {source}"))
        for side, expression in sources.items():
            number = expression.cast(pl.Float64)
            # what is NaN or infinite was not measured, and nothing can be a part of nothing
            is_measured = number.is_finite() & (number > 0.0 if each.scale == "ratio" else pl.lit(value=True))
            finite = pl.when(is_measured).then(number)
            columns[side][each.name] = finite
    sides: dict[str, pl.DataFrame] = {}
    for side, frame in runs.items():
        table = tables[side]
        if table is not None:
            measured = table.select("trace", pl.exclude("trace").name.prefix("measured "))
            frame = frame.join(measured, on="trace", how="left", maintain_order="left")
        sides[side] = frame.select(
            "trace", "task_id", *(value.alias(name) for name, value in columns[side].items())
        )
    _refuse_one_sided(sides, chosen)
    return sides


def _table(corpus: Corpus, chosen: Sequence[GateMetric]) -> pl.DataFrame | None:
    """The columns of `metrics` that the gate needs; None where it needs none."""
    if all(each.is_judged for each in chosen):
        return None
    others = [each.column for each in chosen if each.column is not None]
    table = metrics(corpus) if others else metrics(corpus, groups=["scale"])
    for name in others:
        if name not in (known_names := numeric(table)):
            raise ParameterError(unknown_name("metric", name, known_names))
    names = {column for columns in _SPENT.values() for column in columns if column in table.columns}
    # times in steps are no seconds
    is_clock = pl.col("time_unit").cast(pl.String) == "seconds"
    elapsed = pl.when(is_clock | ("elapsed" in others)).then(pl.col("elapsed"))
    return table.select("trace", *sorted({*names, *others} - {"elapsed"}), elapsed.alias("elapsed"))


def _source(each: GateMetric, tables: Mapping[str, pl.DataFrame | None]) -> str:
    """The column of both sides that has the metric of most runs: one clock for both."""
    candidates = [each.column] if each.column is not None else list(_SPENT[each.name])
    present = {
        name: min(
            0 if table is None or name not in table.columns else table[name].count()
            for table in tables.values()
        )
        for name in candidates
    }
    return max(candidates, key=present.__getitem__)  # the first of the largest


def _refuse_one_sided(sides: Mapping[str, pl.DataFrame], chosen: Sequence[GateMetric]) -> None:
    for each in chosen:
        counts = {side: frame[each.name].count() for side, frame in sides.items()}
        lacking = [side for side, count in counts.items() if not count]
        having = [side for side, count in counts.items() if count]
        if lacking and having:
            raise InputError(
                f"metric '{each.name}' is recorded in {having[0]} and not in {lacking[0]}: nothing to compare"
            )


def schema_of_metric() -> dict[str, Any]:
    """Types of what a row says of its metric."""
    return {"better": pl.Enum(get_args(Better)), "scale": pl.Enum(get_args(Scale))}
