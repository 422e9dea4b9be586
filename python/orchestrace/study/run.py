"""The verb `study.run`: measures all cells of a study, and resumes where it stopped."""

import os
import warnings
from collections.abc import Mapping
from itertools import groupby
from typing import Annotated, Any

import polars as pl

from ..base.arguments import Integer, Threads
from ..base.engines import RunBy, engine_of
from ..base.errors import ParameterError
from ..base.progress import Progress, reporting
from ..base.verbs import verb
from ..credit.registry import FITTED, registered
from ..credit.verb import list_methods
from ..distributed.verb_engines import PlanEngine
from ..distributed.worker_processes import cores, limits
from .cells import Cell, cells
from .config import FEWEST_TASKS, StudyConfig, parse_config, read_config
from .costs import doubled, extrapolated, foretold
from .folder import StudyFolder
from .load import load, write_tables
from .measure import FAILED, OK, REFUSED, TOO_SLOW
from .ray_cells import RayCells
from .workers import Crew, Here, Workers

Points = dict[str, list[tuple[float, float, float]]]
"""By series, what is known: events and agents of a trace, seconds for it."""


@verb
def run(
    config: StudyConfig | Mapping[str, Any] | str | os.PathLike[str],
    folder: str | os.PathLike[str],
    *,
    workers: Annotated[int | None, Integer(0, 256)] = None,
    engine: RunBy = None,
    threads: Threads = None,
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
        Processes that measure at the same time; each call uses `threads` threads beside. None is 1: times are
        those of a call that has the machine to itself. 0 measures in this process: custom methods are known,
        and no call can be stopped that is over the budget.
    engine
        Who measures instead, ``"processes"`` of this machine or ``"ray"``, a cluster, as many cells at a time
        as there are cores; `distributed.processes` and `distributed.ray` make an engine with ``workers`` and
        other options. A cell is a task, which is begun again if its process or node dies. What is found comes
        back cell by cell, so nothing but this process has to see `folder`.
    threads, progress
        As in `read_traces`; progress counts cells. With a named engine, cores of a call, by default one.

    Returns
    -------
    DataFrame
        What `load` returns for the folder, where the tables are Parquet files too.

    Raises
    ------
    ParameterError
        The configuration is wrong, the folder has a study of another one, a method is registered by
        `credit_method` and `workers` is not 0, `workers` is given beside an engine, or Ray is not installed
        or has no node with room.
    InputError
        A file cannot be read or written.

    Warns
    -----
    RuntimeWarning
        Once, before anything is measured: a size has fewer than five tasks. Its values are measured, and
        marked in the report, which draws no conclusion from them.

    Notes
    -----
    Cells run from the smallest size to the largest. A cell of which smaller sizes say, by a power law, that
    it takes longer than the budget is not run, and one that takes twice the budget is stopped: its ``status``
    is ``too_slow``, its ``cost_s_extrapolated`` what the law says, or a ``lower_bound`` that what the stopped
    call took says. Numbers are the same on every run,
    whatever the workers and threads; times are not, and so neither is which of two cells near the budget is
    in it. On a cluster every time is that of the node which the costs name, where the budget counts, too:
    compare times of one node, or of nodes that are alike.

    Time is that of the methods; memory that of the largest corpus and call, for each worker.

    Source: the ladder of arXiv 2605.02801, sections 6 and 7, with planted contributions in place of rewards,
    whose true credit is unknown.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> config = {
    ...     "sizes": [{"events": 10, "agents": 2, "traces": 40}, {"events": 20, "agents": 4, "traces": 40}],
    ...     "presets": {"additive": {"outcome": "linear"}},
    ...     "methods": ["flow", "grpo"],
    ... }
    >>> table = ot.study.run(config, tempfile.mkdtemp(), workers=0)
    >>> table.height, table["status"].unique().to_list()
    (8, ['ok'])
    """
    runner = None if engine is None else _engine(engine, threads, workers)
    if isinstance(config, Mapping):
        config = parse_config(config)
    elif not isinstance(config, StudyConfig):
        config = read_config(config)
    if workers != 0 or runner is not None:
        _refuse_local_methods(config)
    place = StudyFolder.begun(folder, config)
    if few := few_tasks(config):
        warnings.warn(few, RuntimeWarning, stacklevel=3)
    todo = cells(config)
    forecast = _Forecast()
    bench = _crew(config, runner, workers, threads)
    done = 0
    try:
        with reporting(progress, "measuring") as callback:
            for _, rung in groupby(todo, key=lambda cell: cell.size):
                left = []
                for cell in rung:
                    earlier = place.read(cell)
                    if earlier is None or earlier["status"] == FAILED:
                        left.append(cell)
                    else:
                        done += 1
                        forecast.learn(cell, earlier)
                wanted = []
                for cell in left:
                    foreseen = forecast.foreseen(cell, config)
                    if foreseen is None:
                        wanted.append(cell)
                        continue
                    place.write(cell, foreseen)
                    forecast.learn(cell, foreseen)
                    done += 1
                if callback is not None:
                    callback(done, len(todo))
                # Costs of a rung are known before the next one begins, which is extrapolated from them.
                for cell, result in bench.measure(wanted):
                    forecast.learn(cell, result)
                    forecast.complete(cell, result)
                    place.write(cell, result)
                    done += 1
                    if callback is not None:
                        callback(done, len(todo))
    finally:
        bench.close()
    write_tables(place)
    return load(folder)


def _refuse_local_methods(config: StudyConfig) -> None:
    """Methods that this process registered are not known to those that would measure them."""
    for run in config.methods:
        if run.name in registered() and run.name not in FITTED:
            raise ParameterError(
                f"method '{run.name}' is registered in this process, and those that measure do not know"
                " it: pass workers=0, without an engine"
            )


def _engine(engine: object, threads: int | None, workers: int | None) -> PlanEngine:
    runner = engine_of(engine, threads)
    if not isinstance(runner, PlanEngine):
        raise ParameterError(
            f"engine is of type {type(runner).__name__}, which measures no cells: take distributed.processes"
            " or distributed.ray"
        )
    if workers is not None:
        name = runner.crew.engine
        raise ParameterError(
            f"workers is given beside an engine: give it to the engine, distributed.{name}(workers={workers})"
        )
    return runner


def _crew(config: StudyConfig, engine: PlanEngine | None, workers: int | None, threads: int | None) -> Crew:
    if engine is None:
        count = 1 if workers is None else workers
        return Workers(config, count, threads) if count else Here(config, threads)
    crew = engine.crew
    if crew.engine == "ray":
        return RayCells(config, crew.address, crew.threads, crew.retries, crew.workers)
    count = max(1, cores() // crew.threads) if crew.workers is None else crew.workers
    return Workers(config, count, crew.threads, crew.retries, limits(crew.threads))


def few_tasks(config: StudyConfig) -> str:
    """A warning about sizes with too few tasks for conclusions; empty where all have enough."""
    texts = [
        f"size {size.label} has {size.tasks} ({size.traces} traces in groups of {size.group_size}; five tasks"
        f" are {FEWEST_TASKS * size.group_size} traces)"
        for size in config.sizes
        if size.tasks < FEWEST_TASKS
    ]
    if not texts:
        return ""
    marked = "the report marks their values and draws no conclusion from them"
    return f"fewer than five tasks: {', '.join(texts)}; {marked}"


class _Forecast:
    """What smaller sizes say of larger ones, by series."""

    def __init__(self) -> None:
        self._measured: Points = {}
        self._stopped: Points = {}
        self._slow: set[str] = set()

    def learn(self, cell: Cell, result: dict[str, Any]) -> None:
        """Take in the result of a cell; the time of a call that was stopped is a lower bound."""
        spent, points = result["cost"].get("stopped_s"), self._stopped
        if result["status"] == OK:
            spent, points = result["cost"]["seconds"], self._measured
        elif result["status"] == TOO_SLOW:
            self._slow.add(cell.series)
        if spent is not None:
            point = float(cell.size.events), float(cell.size.agents), spent / cell.size.traces
            points.setdefault(cell.series, []).append(point)

    def foreseen(self, cell: Cell, config: StudyConfig) -> dict[str, Any] | None:
        """The result of a cell that is not worth trying: its cost, by what smaller sizes say; else None."""
        law = extrapolated(_of_events(self._measured, cell), cell.size.events)
        over = law is not None and law[0] * cell.size.traces > config.budget_s
        if cell.series not in self._slow and not over:
            return None
        result: dict[str, Any] = {"status": TOO_SLOW, "reason": "budget", "numbers": {}, "cost": {}}
        self.complete(cell, result)
        return result

    def complete(self, cell: Cell, result: dict[str, Any]) -> None:
        """Extrapolate the cost of a cell that was not measured to its end."""
        if result["status"] not in (TOO_SLOW, REFUSED):
            return
        cost, traces, points = result["cost"], cell.size.traces, self._measured.get(cell.series, [])
        if result["status"] == REFUSED and _asks_all_coalitions(cell) and points:
            size, players, each = max(points)
            seconds = doubled(each, size, players, cell.size.events, cell.size.agents)
            cost |= {"law": "coalitions", "lower_bound": False, "points": len(points)}
            cost["cost_s_extrapolated"] = traces * seconds
            return
        law = foretold(_of_events(self._measured, cell), _of_events(self._stopped, cell), cell.size.events)
        if law is None:
            cost["points"] = 0
            return
        cost |= {"law": law.law, "exponent": law.exponent, "points": law.points}
        cost["lower_bound"] = law.lower_bound
        cost["cost_s_extrapolated"] = max(traces * law.seconds, cost.get("stopped_s", 0.0))


def _of_events(points: Points, cell: Cell) -> list[tuple[float, float]]:
    return [(events, each) for events, _, each in points.get(cell.series, [])]


def _asks_all_coalitions(cell: Cell) -> bool:
    """Whether a method that can draw coalitions was asked for all of them."""
    row = list_methods().filter(name=cell.run.name)
    return "samples" not in cell.run.params and any(param["name"] == "samples" for param in row["params"][0])
