"""Comparison of two corpora, task by task, and of a team with a single agent."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from .. import _core
from ..base.arguments import ColumnName, Confidence
from ..base.errors import ParameterError
from ..base.ranges import in_range
from ..base.schema import CREDITS, unknown_name
from ..base.sums import ordered_mean
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.names import names_of, number_column
from ..metrics.verb import metrics, numeric, unit_columns
from ..statistics.influence import OUT_OF_RANGE, mean_interval
from ..statistics.log_ratio import task_ratio

Measured = Corpus | pl.DataFrame

_COMPARISON: Final = {
    "metric": pl.String(),
    "mean_a": pl.Float64(),
    "mean_b": pl.Float64(),
    "difference": pl.Float64(),
    "lower": pl.Float64(),
    "upper": pl.Float64(),
    "ratio": pl.Float64(),
    "task_ratio": pl.Float64(),
    "task_ratio_lower": pl.Float64(),
    "task_ratio_upper": pl.Float64(),
    "share_above": pl.Float64(),
    "n_tasks": pl.UInt32(),
    "n_traces_a": pl.UInt32(),
    "n_traces_b": pl.UInt32(),
    "time_unit": pl.String(),
    "reason": CREDITS["reason"],
    "interval_reason": CREDITS["reason"],
    "task_ratio_reason": CREDITS["reason"],
}


@verb
def compare_metrics(
    a: Measured,
    b: Measured,
    *,
    names: Sequence[str] | None = None,
    confidence: Confidence = 0.95,
) -> pl.DataFrame:
    """Compare the metrics of two corpora, or of two checkpoints, task by task.

    Parameters
    ----------
    a, b
        Corpora, or tables of `metrics` (a row per trace), such as the rows of two values of ``train_step``.
    names
        Metrics to compare; None is all that both have.
    confidence
        Coverage of the intervals, between 0 and 1.

    Returns
    -------
    DataFrame
        A row per metric: ``metric``; ``mean_a mean_b``, means over tasks of a task's mean over its traces;
        ``difference``, the mean of b less a over tasks, with its interval ``lower upper`` over tasks;
        ``ratio``, mean_b / mean_a; ``task_ratio``, the geometric mean over tasks of b / a, with its interval
        ``task_ratio_lower task_ratio_upper`` over tasks; ``share_above``, the share of tasks in which b is
        higher, ties counted half; ``n_tasks`` that both have with the metric, ``n_traces_a n_traces_b`` of
        these (UInt32); ``time_unit`` of metrics that are times. ``reason`` is ``support.absent`` where no
        task has the metric on both sides, ``result.range`` where one of the numbers is beyond the floats and
        so null; ``interval_reason``, why ``lower upper`` are null: ``support.absent`` with fewer than two
        tasks, ``group.degenerate`` where all tasks have the same difference, ``result.range``.
        ``task_ratio_reason``, why one of ``task_ratio task_ratio_lower task_ratio_upper`` is null: the same
        codes, and ``ratio.empty`` where the mean of a task is not above 0 on one of the sides.

    Raises
    ------
    ParameterError
        An argument is neither a corpus nor a table of metrics, `names` is not a list of names, a metric is
        unknown, or an option is out of range.

    Notes
    -----
    Only tasks (``task_id``) of both sides are compared, each with equal weight; times only where both sides
    are in one unit. The interval is that of a paired t test over tasks, of flags Wilson's in -1..1 with
    Student's t (docs/intervals.md). O(traces) for each metric.

    Read ``task_ratio`` of tokens, seconds and cost, whose tasks differ in size by orders of magnitude: if b
    takes the same multiple of every task, its interval keeps its rate, where that of ``difference`` holds
    the truth 67 to 87 % of the time or less. It counts every task alike: where large tasks change by another
    factor than small ones, the factor of the total is ``ratio``, which has no interval.

    Source: Student 1908; Wilson 1927.

    Examples
    --------
    >>> import orchestrace as ot
    >>> before, after = ot.generate(traces=16, seed=0), ot.generate(traces=16, seed=1)
    >>> table = ot.evaluation.compare_metrics(before, after, names=["parallelism"])
    >>> table["n_tasks"].item()
    2
    """
    sides = [_measured(side, which) for side, which in ((a, "a"), (b, "b"))]
    common = [name for name in numeric(sides[0]) if name in numeric(sides[1])]
    chosen = common if names is None else names_of("names", names)
    for name in chosen:
        if name not in common:
            raise ParameterError(unknown_name("metric", name, common))
    units = unit_columns()
    rows = [_compared(sides, name, units.get(name), confidence) for name in chosen]
    return in_range(pl.DataFrame(rows, schema=_COMPARISON), ["mean_a", "mean_b", "difference", "ratio"])


def _measured(side: Measured, which: str) -> pl.DataFrame:
    _core.check_process()
    table = metrics(side) if isinstance(side, Corpus) else side
    for name in ("trace", "task_id"):
        if name not in table.columns:
            raise ParameterError(f"{which} has no column '{name}': give a table of metrics, a row per trace")
    return table


def _compared(
    sides: list[pl.DataFrame], name: str, of_unit: str | None, confidence: float
) -> dict[str, object]:
    unit = None
    if of_unit is not None:
        units = [side.filter(pl.col(name).is_not_null())[of_unit].drop_nulls() for side in sides]
        shared = sorted(set(units[0].cast(pl.String)) & set(units[1].cast(pl.String)))
        # the unit of most traces of both; seconds and steps are not compared
        counts = {
            candidate: sum(int((of.cast(pl.String) == candidate).sum()) for of in units)
            for candidate in shared
        }
        unit = max(shared, key=counts.__getitem__, default=None)
        sides = [side.filter(pl.col(of_unit).cast(pl.String) == (unit or "")) for side in sides]
    value = pl.col(name).cast(pl.Float64)
    by_task = [
        side.filter(value.is_not_null())
        .group_by("task_id", maintain_order=True)
        .agg(ordered_mean(value).alias(which), pl.len().alias(f"n_{which}"))
        for side, which in zip(sides, ("a", "b"), strict=True)
    ]
    both = by_task[0].join(by_task[1], on="task_id").sort("task_id")
    row: dict[str, object] = {"metric": name, "n_tasks": both.height, "time_unit": unit}
    if not both.height:
        why = ("reason", "interval_reason", "task_ratio_reason")
        absent = dict.fromkeys(why, "support.absent")
        return {**row, "n_traces_a": 0, "n_traces_b": 0, **absent}
    differences = (both["b"] - both["a"]).to_numpy()
    flags = all(side.schema[name] == pl.Boolean for side in sides)
    if np.isfinite(differences).all():
        mean = mean_interval(
            differences,
            np.arange(both.height),
            confidence=confidence,
            within=(-1.0, 1.0) if flags else None,
        )
        difference, around = math.inf if mean.estimate is None else mean.estimate, mean.around
    else:
        difference, around = math.inf, OUT_OF_RANGE
    with np.errstate(over="ignore"):
        mean_a, mean_b = (float(both[side].to_numpy().mean()) for side in ("a", "b"))
    times = task_ratio(both["a"].to_numpy(), both["b"].to_numpy(), confidence=confidence)
    above = (differences > 0).mean() + (differences == 0).mean() / 2
    return {
        **row,
        "mean_a": mean_a,
        "mean_b": mean_b,
        "difference": difference,
        "lower": around.lower,
        "upper": around.upper,
        "ratio": mean_b / mean_a if mean_a else None,
        "task_ratio": times.estimate,
        "task_ratio_lower": times.lower,
        "task_ratio_upper": times.upper,
        "share_above": float(above),
        "n_traces_a": both["n_a"].sum(),
        "n_traces_b": both["n_b"].sum(),
        "interval_reason": around.reason,
        "task_ratio_reason": times.reason,
    }


_RELATIVE: Final = {
    "task_id": pl.String(),
    "turns_team": pl.Float64(),
    "turns_single": pl.Float64(),
    "relative_overhead": pl.Float64(),
    "coordination_efficiency": pl.Float64(),
    "relative_error_amplification": pl.Float64(),
    "error_absorption": pl.Float64(),
    "reason": CREDITS["reason"],
}


@verb
def against_single_agent(
    team: Measured, single: Measured, *, errors: ColumnName | None = None
) -> pl.DataFrame:
    """Compare turns, success and errors of a team with those of one agent on the same tasks.

    Parameters
    ----------
    team, single
        Corpora, or tables of `metrics`: runs of the team, and of a single agent.
    errors
        The column of both tables that holds a run's rate of factual errors (0..1); None leaves what needs it
        null (``field.absent``). It is not 1 - success.

    Returns
    -------
    DataFrame
        A row per task of both, and first one with ``task_id`` null for all of them together (means over
        tasks): ``turns_team turns_single`` (Float64, mean turns); ``relative_overhead`` (per cent):
        100 (T_team - T_single)/T_single; ``coordination_efficiency``: S/(T_team/T_single) of the team's
        success S; ``relative_error_amplification``: E_team/E_single; ``error_absorption``:
        (E_single - E_team)/E_single; ``reason`` where one of the last four is null: ``field.absent`` for a
        rate that is not there, ``ratio.empty`` for a rate or number of turns of 0.

    Raises
    ------
    ParameterError
        An argument is neither a corpus nor a table of metrics, or `errors` is not a column of numbers.

    Notes
    -----
    Source: arXiv 2512.08296, whose error amplification is a ratio of two systems; the metric
    ``error_amplification`` counts within one trace what went wrong downstream (arXiv 2605.02801, Table 13).

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> def runs(turns, success):
    ...     rows = {"trace": [0], "task_id": ["t"], "n_turns": [turns], "task_success": [success]}
    ...     return pl.DataFrame(rows).with_columns(time_unit=pl.lit("steps"))
    >>> row = ot.evaluation.against_single_agent(runs(27.7, 0.463), runs(7.2, 0.5)).row(0, named=True)
    >>> round(row["relative_overhead"], 1), round(row["coordination_efficiency"], 3)
    (284.7, 0.12)
    """
    sides = []
    for side, which in ((team, "team"), (single, "single")):
        table = _measured(side, which)
        error = pl.lit(None, pl.Float64)
        if errors is not None:
            error = pl.col(number_column("errors", errors, which, table.schema)).cast(pl.Float64)
        for name in ("n_turns", "task_success"):
            if name not in table.columns:
                raise ParameterError(
                    f"{which} has no column '{name}': give a table of metrics with the group 'scale'"
                )
        sides.append(
            table.select(
                "task_id", turns=pl.col("n_turns").cast(pl.Float64), success="task_success", error=error
            )
            .group_by("task_id")
            .agg(ordered_mean(pl.all()))
        )
    both = sides[0].join(sides[1], on="task_id", suffix="_single").sort("task_id")
    # efficiency is about the tasks whose success is known, in the row of all of them, too
    judged = pl.col("success").is_not_null()
    both = both.with_columns(
        judged=pl.when(judged).then("turns"), judged_single=pl.when(judged).then("turns_single")
    )
    together = both.select(pl.lit(None, pl.String).alias("task_id"), pl.exclude("task_id").mean())
    rows = pl.concat([together, both]) if both.height else both
    ratio = pl.col("turns") / pl.col("turns_single")
    of_judged = pl.col("judged") / pl.col("judged_single")
    amplified = pl.when(pl.col("error_single") > 0).then(pl.col("error") / pl.col("error_single"))
    compared = rows.select(
        "task_id",
        pl.col("turns").alias("turns_team"),
        "turns_single",
        pl.when(pl.col("turns_single") > 0).then(100 * (ratio - 1)).alias("relative_overhead"),
        pl.when(of_judged > 0).then(pl.col("success") / of_judged).alias("coordination_efficiency"),
        amplified.alias("relative_error_amplification"),
        (1 - amplified).alias("error_absorption"),
        pl.any_horizontal(pl.col("success", "error", "error_single").is_null()).alias("absent"),
    )
    of = [name for name in _RELATIVE if name.startswith(("relative", "coordination", "error"))]
    why = pl.when("absent").then(pl.lit("field.absent")).otherwise(pl.lit("ratio.empty"))
    reason = pl.when(pl.any_horizontal(pl.col(*of).is_null())).then(why).cast(CREDITS["reason"])
    compared = compared.with_columns(reason=reason)
    return compared.select(pl.col(name).cast(dtype) for name, dtype in _RELATIVE.items())
