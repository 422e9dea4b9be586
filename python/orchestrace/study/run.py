"""The verb that measures all cells of a study, and goes on where it stopped."""

import os
from collections.abc import Mapping
from itertools import groupby
from typing import Any

import polars as pl

from ..corpus import check_numbers
from ..credit import methods
from ..errors import ParameterError
from ..progress import Progress, reporting
from .cells import Cell, cells
from .config import StudyConfig, parse_config, read_config
from .costs import doubled, extrapolated
from .folder import StudyFolder
from .load import load, write_tables
from .measure import FAILED, OK, REFUSED, TOO_SLOW
from .workers import Here, Workers

Measured = dict[str, list[tuple[float, float, float]]]
"""By series, what was measured: events and agents of a trace, seconds for it."""


def run(
    config: StudyConfig | Mapping[str, Any] | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    workers: int = 1,
    threads: int | None = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Measure every cell of a study: each method on corpora of every preset and size whose truth is known.

    Parameters
    ----------
    config
        A TOML file (docs/study.md), a mapping of the same keys, or what `read_config` returned.
    folder
        For the results; made if absent. One that has results of the same configuration is gone on with,
        whatever ended the last run; cells that failed are tried again.
    workers
        Processes that measure at the same time; each call uses `threads` threads beside. With 1, the default,
        times are those of a call that has the machine to itself. 0 measures in this process: custom methods
        are known, and no call can be stopped that is over the budget.
    threads, progress
        As in `read_traces`; progress counts cells.

    Returns
    -------
    DataFrame
        What `load` returns for the folder, where the tables are Parquet files too.

    Raises
    ------
    ParameterError
        The configuration is wrong, or the folder has a study of another one.
    InputError
        A file cannot be read or written.

    Notes
    -----
    Cells run from the smallest size to the largest. A cell of which smaller sizes say, by a power law, that
    it takes longer than the budget is not run, and one that takes twice the budget is stopped: its ``status``
    is ``too_slow``, its ``cost_s_extrapolated`` what the law says. Numbers are the same on every run,
    whatever the workers and threads; times are not, and so neither is which of two cells near the budget is
    in it.

    Time is that of the methods; memory that of the largest corpus and call, for each worker.

    Source: the ladder of arXiv 2605.02801, sections 6 and 7, with planted contributions in place of rewards
    that nobody knows the truth of.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> config = {
    ...     "sizes": [{"events": 10, "agents": 2, "traces": 16}, {"events": 20, "agents": 4, "traces": 16}],
    ...     "presets": {"additive": {"outcome": "linear"}},
    ...     "methods": ["flow", "grpo"],
    ... }
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = ot.study.run(config, folder, workers=0)
    >>> table.height, table["status"].unique().to_list()
    (8, ['ok'])
    """
    check_numbers(workers=workers, threads=threads)
    if workers > 256:
        raise ParameterError(f"workers is {workers}, expected at most 256")
    if isinstance(config, Mapping):
        config = parse_config(config)
    elif not isinstance(config, StudyConfig):
        config = read_config(config)
    place = StudyFolder.begun(folder, config)
    todo = cells(config)
    measured: Measured = {}
    slow: set[str] = set()
    bench = Workers(config, workers, threads) if workers else Here(config, threads)
    done = 0
    try:
        with reporting(progress, "measuring") as callback:
            for _, rung in groupby(todo, key=lambda cell: cell.size):
                left = []
                for cell in rung:
                    there = place.found(cell)
                    if there is None or there["status"] == FAILED:
                        left.append(cell)
                    else:
                        done += 1
                        _learn(cell, there, measured, slow)
                asked = []
                for cell in left:
                    foreseen = _foreseen(cell, config, measured, slow)
                    if foreseen is None:
                        asked.append(cell)
                        continue
                    place.write(cell, foreseen)
                    slow.add(cell.series)
                    done += 1
                if callback is not None:
                    callback(done, len(todo))
                # Costs of a rung are known before the next one begins: what it is extrapolated from.
                for cell, found in bench.measure(asked):
                    _complete(cell, found, measured)
                    place.write(cell, found)
                    _learn(cell, found, measured, slow)
                    done += 1
                    if callback is not None:
                        callback(done, len(todo))
    finally:
        bench.close()
    write_tables(place)
    return load(folder)


def _learn(cell: Cell, found: dict[str, Any], measured: Measured, slow: set[str]) -> None:
    if found["status"] == OK:
        each = found["cost"]["seconds"] / cell.size.traces
        point = float(cell.size.events), float(cell.size.agents), each
        measured.setdefault(cell.series, []).append(point)
    elif found["status"] == TOO_SLOW:
        slow.add(cell.series)


def _foreseen(cell: Cell, config: StudyConfig, measured: Measured, slow: set[str]) -> dict[str, Any] | None:
    """The result of a cell that is not worth trying: its cost, by what smaller sizes say; else None."""
    points = [(size, each) for size, _, each in measured.get(cell.series, [])]
    known = extrapolated(points, cell.size.events)
    over = known is not None and known[0] * cell.size.traces > config.budget_s
    if cell.series not in slow and not over:
        return None
    found: dict[str, Any] = {"status": TOO_SLOW, "reason": "budget", "numbers": {}, "cost": {}}
    _complete(cell, found, measured)
    return found


def _complete(cell: Cell, found: dict[str, Any], measured: Measured) -> None:
    """Say what a cell would have cost that was not measured to its end."""
    if found["status"] not in (TOO_SLOW, REFUSED):
        return
    points, traces = measured.get(cell.series, []), cell.size.traces
    cost = found["cost"]
    cost["points"] = len(points)
    stopped = cost.get("stopped_s")
    known = extrapolated([(size, each) for size, _, each in points], cell.size.events)
    if found["status"] == REFUSED and _asks_all_coalitions(cell) and points:
        size, players, each = max(points)
        cost["law"] = "coalitions"
        cost["cost_s_extrapolated"] = traces * doubled(
            each, size, players, cell.size.events, cell.size.agents
        )
    elif known is not None:
        cost["law"], cost["exponent"] = "power", known[1]
        cost["cost_s_extrapolated"] = max(known[0] * traces, stopped or 0.0)
    elif stopped is not None:
        cost["cost_s_extrapolated"] = stopped


def _asks_all_coalitions(cell: Cell) -> bool:
    """Whether a method that can draw coalitions was asked for all of them."""
    row = methods().filter(name=cell.run.name)
    return "samples" not in cell.run.params and any(one["name"] == "samples" for one in row["params"][0])
