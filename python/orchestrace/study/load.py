"""The tables of a study: measurements, costs, schedules, tasks."""

import os
from typing import Any, Final, Literal

import polars as pl

from ..base.publication import write_parquet
from ..base.verbs import verb
from .cells import CREDIT, REWARD, SCHEDULE, STOP, Cell
from .folder import StudyFolder

Table = Literal["study", "cells", "costs", "schedules", "rewards", "stops", "tasks"]
TABLES: Final = ("cells", "costs", "schedules", "rewards", "stops", "tasks")

_KEY: Final[dict[str, Any]] = {
    "kind": pl.String,
    "preset": pl.String,
    "events": pl.UInt32,
    "agents": pl.UInt32,
    "replicate": pl.UInt32,
    "method": pl.String,
    "unit": pl.String,
}
_SHAPE: Final[dict[str, Any]] = {"n_traces": pl.UInt32, "n_events": pl.UInt64, "mean_agents": pl.Float64}
_ENDS: Final = ("", "_lower", "_upper")
_NUMBERS: Final[dict[str, Any]] = {
    "status": pl.String,
    "reason": pl.String,
    **_SHAPE,
    "n_rows": pl.UInt64,
    "null_share": pl.Float64,
    "null_reason": pl.String,
    **{f"{name}{end}": pl.Float64 for name in ("rho", "sign", "pooled", "rollouts") for end in _ENDS},
    "interval_reason": pl.String,
    "rho_n_traces": pl.UInt32,
    "rho_n_tasks": pl.UInt32,
    "pooled_n_tasks": pl.UInt32,
    "rho_sd_rollouts": pl.Float64,
    "snr": pl.Float64,
    "sampling_share": pl.Float64,
}
_COSTS: Final[dict[str, Any]] = {
    "seconds": pl.Float64,
    "events_per_s": pl.Float64,
    "repeats": pl.UInt32,
    "peak_bytes": pl.UInt64,
    "grown_bytes": pl.UInt64,
    "cost_s_extrapolated": pl.Float64,
    "exponent": pl.Float64,
    "law": pl.String,
    "lower_bound": pl.Boolean,
    "points": pl.UInt32,
    "stopped_s": pl.Float64,
    "node": pl.String,
}
_CURVE: Final = ("makespan", "speedup", "over_lower", "of_upper", "utilization")
_SCHEDULES: Final[dict[str, Any]] = {
    "k": pl.UInt32,
    "n_traces": pl.UInt32,
    "n_tasks": pl.UInt32,
    **{f"{name}{end}": pl.Float64 for name in _CURVE for end in _ENDS},
    "best": pl.Float64,
    "worst": pl.Float64,
    "parallelism": pl.Float64,
    "in_bounds": pl.Float64,
    "interval_reason": pl.String,
    "time_unit": pl.String,
}
_REWARDS: Final[dict[str, Any]] = {
    "status": pl.String,
    "reason": pl.String,
    "n_traces": pl.UInt32,
    "n_tasks": pl.UInt32,
    "n_rows": pl.UInt64,
    "null_share": pl.Float64,
    "null_reason": pl.String,
    "mean": pl.Float64,
    "sd": pl.Float64,
    **{f"follows{end}": pl.Float64 for end in _ENDS},
    "interval_reason": pl.String,
}
_STOPS: Final[dict[str, Any]] = {
    "status": pl.String,
    "reason": pl.String,
    "n_traces": pl.UInt32,
    "n_tasks": pl.UInt32,
    "n_epochs": pl.UInt64,
    "truth": pl.Float64,
    "value": pl.Float64,
    **{f"regret{end}": pl.Float64 for end in _ENDS},
    "bound": pl.Float64,
    "mean_k": pl.Float64,
    "early": pl.Float64,
    "interval_reason": pl.String,
}
_TASKS: Final[dict[str, Any]] = {"task": pl.Int64, "rho": pl.Float64, "sign": pl.Float64}


_TABLE_OF: Final = {REWARD: "rewards", STOP: "stops"}


@verb
def load(folder: str | os.PathLike[str], table: Table = "study") -> pl.DataFrame:
    """Read a table of a study, complete or not.

    Parameters
    ----------
    folder
        What `run` wrote.
    table
        ``study``: cells of credit with their costs beside. ``cells``: their numbers alone, which are the same
        on every run. ``costs``: seconds and memory alone, of schedules too. ``schedules``: a row per
        corpus, queue and k. ``rewards``, ``stops``: a row per rule and corpus. ``tasks``: a row per cell of
        credit and task.

    Returns
    -------
    DataFrame
        Every row begins with the cell: ``kind preset events agents replicate method unit``.

        Numbers: ``status`` (``ok``; ``too_slow`` for the budget; ``refused`` by the method, ``failed``) and
        its ``reason``; ``n_traces n_events mean_agents`` (of the team that came about) ``n_rows null_share
        null_reason``; ``rho``: Spearman's rank correlation of credit with planted contribution among the
        units of a trace, mean over traces; ``sign``: share of right signs among the 5 % of a trace's units
        with the largest contribution; ``pooled``: Pearson's correlation over the units of all rollouts of a
        task; ``rollouts``: how many show an effect at that correlation (5 %, power 80 %); each with
        ``_lower`` and ``_upper``, intervals over tasks; ``interval_reason`` where one is null:
        ``support.absent`` with fewer than two tasks. ``rho_n_traces rho_n_tasks``: with a rho, which is not
        defined where credit does not vary; ``pooled_n_tasks``: in which credit and contribution vary.
        ``rho_sd_rollouts``: standard deviation of rho between rollouts of a task. ``snr``: median of
        |mean|/sd of credit over rollouts, by agent or type of event. ``sampling_share``: of the variance of
        credit, what the draws of a method make.

        Costs: ``seconds`` (of the shortest of ``repeats`` calls), ``events_per_s`` (1/s), ``peak_bytes``
        (of the process, its corpus included) and ``grown_bytes`` (beyond what it held before, a lower bound
        of the call's own; both null if the system does not report it); and where a cell was not measured
        ``cost_s_extrapolated`` from ``points`` sizes, by the ``law`` ``power`` with its ``exponent`` in
        events, ``linear`` in events, or ``coalitions``, of which each agent more makes twice as many. It is
        a ``lower_bound`` where one of the points is a call that was stopped, or there is one alone; after
        a call that was stopped also ``stopped_s``, when. ``node``: the name of the machine of a cluster that
        all this was measured on; null where the call that measured ran on it.

        Schedules: ``makespan speedup utilization`` with intervals over ``n_tasks`` tasks; ``over_lower``
        (makespan by its lower bound, at least 1) and ``of_upper`` (by its upper, at most 1); ``best
        worst``: speed-ups that the bounds allow; ``parallelism`` T1/T∞; ``in_bounds``: share of traces within
        both; ``time_unit``; ``interval_reason`` of the first interval that is null: ``group.degenerate``
        where all tasks have one value, as the speed-up of one slot.

        Rewards: ``n_rows null_share null_reason`` of what the rule pays; ``mean sd`` of what it pays a run;
        ``follows`` with its interval over tasks: Pearson's correlation of that with the outcome, both
        centered in the task.

        Stops, of the runs that `synthetic.stops` draws: ``truth``, what the best rule that sees the past is
        worth; ``value`` of this rule on tasks that it was not fitted on; ``regret`` = truth - value with its
        interval; ``bound``, the dual upper bound of a learned rule; ``mean_k early`` as in
        `stopping.evaluate`.

    Raises
    ------
    InputError
        The folder has no study.
    ParameterError
        No such table.

    Notes
    -----
    Linear in cells and tasks.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> config = {
    ...     "sizes": [{"events": 10, "agents": 2, "traces": 40}],
    ...     "presets": {"additive": {"outcome": "linear"}},
    ...     "methods": ["flow"], "units": ["agent"], "slots": [1, 2],
    ... }
    >>> folder = tempfile.mkdtemp()
    >>> _ = ot.study.run(config, folder, workers=0)
    >>> ot.study.load(folder, "schedules").select("k", "in_bounds").rows()
    [(1, 1.0), (2, 1.0)]
    """
    frames = tables(StudyFolder.opened(folder))
    if table != "study":
        return frames[table]
    return frames["cells"].join(frames["costs"], on=list(_KEY), how="left", maintain_order="left")


def write_tables(place: StudyFolder) -> None:
    """Write the tables as Parquet, beside the cells."""
    for name, frame in tables(place).items():
        write_parquet(frame, place.path / f"{name}.parquet", overwrite=True)


def tables(place: StudyFolder) -> dict[str, pl.DataFrame]:
    """All tables of what is there."""
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
    for cell, result in place.all_results():
        key = _key(cell)
        cost = result["cost"]
        if seconds := cost.get("seconds"):
            cost = cost | {"events_per_s": result["numbers"]["n_events"] / seconds}
        rows["costs"].append(key | {name: cost.get(name) for name in _COSTS})
        state = {"status": result["status"], "reason": result["reason"]}
        if cell.kind == SCHEDULE:
            rows["schedules"] += [key | row for row in result.get("rows", [])]
            continue
        if cell.kind != CREDIT:
            rows[_TABLE_OF[cell.kind]] += [key | state | row for row in result.get("rows", [{}])]
            continue
        numbers = state | result["numbers"]
        rows["cells"].append(key | {name: numbers.get(name) for name in _NUMBERS})
        tasks = result.get("tasks") or {name: [] for name in _TASKS}
        pairs = zip(*(tasks[name] for name in _TASKS), strict=True)
        rows["tasks"] += [key | dict(zip(_TASKS, values, strict=True)) for values in pairs]
    schemas = {"cells": _NUMBERS, "costs": _COSTS, "tasks": _TASKS}
    schemas |= {"schedules": _SCHEDULES, "rewards": _REWARDS, "stops": _STOPS}
    return {name: pl.DataFrame(rows[name], schema=_KEY | schemas[name]) for name in TABLES}


def _key(cell: Cell) -> dict[str, Any]:
    return {
        "kind": cell.kind,
        "preset": cell.preset,
        "events": cell.size.events,
        "agents": cell.size.agents,
        "replicate": cell.replicate,
        "method": cell.run.label,
        "unit": cell.unit,
    }
