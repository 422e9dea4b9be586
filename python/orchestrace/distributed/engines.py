"""Engines that run the tasks of a plan: processes of this machine, or a Ray cluster."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal, Protocol, get_args

from ..base.arguments import public
from ..base.checks import check_numbers
from ..base.errors import ParameterError
from ..base.progress import Progress, reporting
from ..base.schema import unknown_name
from .folder import clear_parts, corpus_place, parts_of_plan, plan_of
from .processes import Processes, fitting_workers
from .ray_tasks import RayTasks
from .tasks import Plan, Task, TaskResult, check_engine

EngineName = Literal["processes", "ray"]


class Engine(Protocol):
    """What runs tasks and gives their results as they are ready."""

    def results(self, tasks: list[Task]) -> Iterator[TaskResult]:
        """Run the tasks."""

    def close(self) -> None:
        """End what runs."""


@public
def run(
    plan: Plan | str | os.PathLike[str],
    *,
    engine: EngineName = "processes",
    workers: int | None = None,
    threads: int = 1,
    retries: int = 2,
    address: str | None = None,
    corpus: str | os.PathLike[str] | None = None,
    progress: Progress = None,
) -> list[TaskResult]:
    """Run the tasks of a plan whose parts are not there, and return the results of all.

    Parameters
    ----------
    plan
        The plan, or its folder.
    engine
        ``"processes"``: processes of this machine, started anew. ``"ray"``: tasks on a Ray cluster, whose
        nodes see the folders of the corpus and of the plan under the same names (``pip install
        'orchestrace[ray]'``).
    workers
        Tasks at a time. None: as many as there are cores and memory for; of Ray, what it schedules.
    threads
        Cores of a task. Its reading and computing start no more threads than that.
    retries
        How often a task is begun again whose worker dies.
    address
        Of the Ray cluster, as in ``ray.init``; None is the one that is connected, or one of this machine.
    corpus
        As in `run_task`.
    progress
        As in `read_traces`; counts tasks.

    Returns
    -------
    list of TaskResult
        One for each task, in the order of the plan, for `reduce`.

    Raises
    ------
    ParameterError
        An unknown engine, a number out of range, Ray is not installed, or no node has room for a task.
    InputError
        The worker of a task died more than `retries` times, or a task failed: the corpus has changed or is
        damaged, or the part cannot be written. The message names the task.

    Notes
    -----
    Tasks with the most events are begun first. What is done stays done: after an error, a kill or Ctrl-C,
    which ends all workers, the same call does what is left. A task asks Ray for its cores, and for the budget
    of the plan plus 256 MiB of memory.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> place = tempfile.mkdtemp()
    >>> _ = ot.generate(f"{place}/runs.jsonl", traces=20, seed=0)
    >>> _ = ot.ingest(f"{place}/runs.jsonl", f"{place}/corpus", partitions=2)
    >>> plan = ot.distributed.plan(f"{place}/corpus", "taint", folder=f"{place}/plan")
    >>> results = ot.distributed.run(plan, workers=1)
    >>> ot.distributed.reduce(results).height
    20
    """
    check_numbers(workers=workers, threads=threads, retries=retries)
    if workers == 0:
        raise ParameterError("workers is 0, expected at least 1")
    if engine not in get_args(EngineName):
        raise ParameterError(unknown_name("engine", str(engine), list(get_args(EngineName))))
    if address is not None and engine != "ray":
        raise ParameterError(f"address is of engine='ray', and engine is '{engine}': leave it out")
    known = plan_of(plan)
    check_engine(known.call)
    place = None if corpus is None else corpus_place(corpus)
    found = {part.task: part.result for part in parts_of_plan(known) if part.result is not None}
    todo = [task for task in known.tasks if task.number not in found]
    todo.sort(key=lambda task: -task.events)
    with reporting(progress, "running tasks") as callback:
        if callback is not None:
            callback(len(found), len(known.tasks))
        if todo:
            made = _engine(engine, known, place, workers, threads, retries, address)
            with closing(made):
                for result in made.results(todo):
                    found[result.task] = result
                    if callback is not None:
                        callback(len(found), len(known.tasks))
    clear_parts(Path(known.folder))
    return [found[task.number] for task in known.tasks]


def _engine(
    name: EngineName,
    plan: Plan,
    corpus: str | None,
    workers: int | None,
    threads: int,
    retries: int,
    address: str | None,
) -> Engine:
    if name == "ray":
        return RayTasks(plan, corpus, address, threads, retries, workers)
    count = fitting_workers(plan.call, threads) if workers is None else workers
    return Processes(plan, corpus, min(count, len(plan.tasks)), threads, retries)
