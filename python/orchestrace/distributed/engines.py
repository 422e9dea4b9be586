"""Engines that run the tasks of a plan: processes of this machine, or a Ray cluster."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Protocol

from ..base.arguments import Count, Integer, Size
from ..base.engines import EngineName
from ..base.errors import ParameterError
from ..base.progress import Progress, reporting
from ..base.verbs import verb
from ..storage.addresses import is_address
from .folder import clear_parts, corpus_place, part_of, plan_of
from .judging import judge_plan
from .ray_tasks import RayTasks, joined
from .tasks import Plan, Task, TaskResult
from .worker_processes import Processes, fitting_workers


class Tasks(Protocol):
    """A runner of tasks, which gives their results as they are ready."""

    def results(self, tasks: list[Task]) -> Iterator[TaskResult]:
        """Run the tasks."""

    def close(self) -> None:
        """End what runs."""


@verb
def run(
    plan: Plan | str | os.PathLike[str],
    *,
    engine: EngineName = "processes",
    workers: Size | None = None,
    threads: Annotated[int, Integer(1, 1024)] = 1,
    retries: Count = 2,
    address: str | None = None,
    corpus: str | os.PathLike[str] | None = None,
    progress: Progress = None,
) -> list[TaskResult]:
    """Run the tasks of a plan that have no part yet, and return the results of all.

    Parameters
    ----------
    plan
        The plan, or its folder.
    engine
        ``"processes"``: processes of this machine, started anew. ``"ray"``: tasks on a Ray cluster, whose
        nodes see the folders of the corpus and of the plan under the same names (the
        extra ``ray``).
    workers
        Tasks at a time. None: as many as there are cores and memory for; of Ray, what it schedules.
    threads
        Cores of a task. Its reading and computing start no more threads than that.
    retries
        How often a task is started again after its worker dies.
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
        An unknown engine, a number out of range, Ray is not installed, no node has room for a task, or the
        module of a method of yours is not imported here.
    SchemaError
        The plan is damaged, another version of orchestrace made it, or it is not what `plan` makes.
    InputError
        The worker of a task died more than `retries` times, or a task failed: the corpus has changed or is
        damaged, or the part cannot be written. The message names the task.

    Notes
    -----
    Tasks with the most events start first. What is done stays done: after an error, a kill or Ctrl-C, which
    ends all workers, the same call does what is left. A task asks Ray for its cores, and for the budget of
    the plan plus 256 MiB of memory.

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
    crew = Crew(engine, workers, threads, retries, address)
    loaded = plan_of(plan)
    judge_plan(loaded)
    place = None if corpus is None else _absolute(corpus_place(corpus))
    return crew.results(loaded, corpus=place, progress=progress)


def _absolute(place: str) -> str:
    """An address, or the full path of a folder: workers may have another current folder."""
    return place if is_address(place) else os.path.abspath(place)


@dataclass(frozen=True)
class Crew:
    """Who runs tasks, for `run` and the engines of verbs; it is checked when it is made."""

    engine: EngineName
    workers: int | None
    threads: int
    retries: int
    address: str | None

    def __post_init__(self) -> None:
        if self.address is not None and self.engine != "ray":
            raise ParameterError(f"address is of engine='ray', and engine is '{self.engine}': leave it out")

    def results(
        self,
        plan: Plan,
        *,
        corpus: str | None = None,
        progress: Progress = None,
        only: frozenset[int] | None = None,
    ) -> list[TaskResult]:
        """The results of all tasks of a plan, or of some; those whose parts are not there are run."""
        wanted = [task for task in plan.tasks if only is None or task.number in only]
        results = {part.task: part.result for part in map(part_of, wanted) if part.result is not None}
        todo = [task for task in wanted if task.number not in results]
        todo.sort(key=lambda task: -task.events)
        with reporting(progress, "running tasks") as callback:
            if callback is not None:
                callback(len(results), len(wanted))
            if todo:
                with closing(self._tasks(plan, corpus)) as tasks:
                    for result in tasks.results(todo):
                        results[result.task] = result
                        if callback is not None:
                            callback(len(results), len(wanted))
        clear_parts(Path(plan.folder))
        return [results[task.number] for task in wanted]

    @contextmanager
    def joined(self, budget: int) -> Iterator[None]:
        """One connection to the cluster for several plans of a budget; processes share nothing."""
        if self.engine != "ray":
            yield
            return
        with closing(joined(self.address, self.threads, budget)):
            yield

    def _tasks(self, plan: Plan, corpus: str | None) -> Tasks:
        if self.engine == "ray":
            return RayTasks(plan, corpus, self.address, self.threads, self.retries, self.workers)
        count = fitting_workers(plan.call, self.threads) if self.workers is None else self.workers
        return Processes(plan, corpus, min(count, len(plan.tasks)), self.threads, self.retries)
