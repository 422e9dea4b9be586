"""Tasks of a plan on a Ray cluster: results are digests, the rows stay in the shared folder."""

from collections.abc import Iterator
from typing import Final

from ..base.children import import_modules, module_folders
from ..base.errors import InputError, OrchestraceError
from ..base.text import plain
from .ray_cluster import Cluster, Lost, RayCalls
from .running import run_task
from .tasks import Plan, Task, TaskResult
from .worker_processes import refused

_OVERHEAD: Final = 256 << 20
"""What a worker takes beside the budget of a task: Python, Polars, the package."""
_CURE: Final = "plan with read_corpus(..., memory=...) of less, or threads= of fewer"


class RayTasks:
    """A plan on the cluster that Ray is connected to, or connects to here."""

    def __init__(
        self,
        plan: Plan,
        corpus: str | None,
        address: str | None,
        threads: int,
        retries: int,
        workers: int | None,
    ) -> None:
        self._corpus = corpus
        self._modules = plan.call.modules  # judged: this process has imported them
        self._folders = module_folders(plan.call.modules)
        self._threads = threads
        self._cluster = joined(address, threads, plan.call.memory)
        memory = plan.call.memory + _OVERHEAD
        self._calls = RayCalls(
            self._cluster, _run, threads=threads, memory=memory, retries=retries, workers=workers
        )

    def results(self, tasks: list[Task]) -> Iterator[TaskResult]:
        for task, answer in self._calls.answers(tasks, self._arguments):
            if isinstance(answer, Lost):
                raise InputError(
                    f"task {task.number} was lost on the cluster ({answer.reason}); what is done is in"
                    f" '{task.folder}', and the same call resumes from it"
                )
            if isinstance(answer, dict):
                raise refused(task, answer)
            yield answer

    def _arguments(self, task: Task) -> tuple[Task, str | None, int, tuple[str, ...], list[str]]:
        return task, self._corpus, self._threads, self._modules, self._folders

    def close(self) -> None:
        """Cancel what runs, and leave the cluster if it was joined here."""
        self._calls.close()
        self._cluster.close()


def joined(address: str | None, threads: int, budget: int) -> Cluster:
    """A cluster that has a node with room for tasks of a budget.

    Raises
    ------
    ParameterError
        Ray is not installed, or no node has.
    """
    cluster = Cluster(address)
    cluster.check_room(threads, budget + _OVERHEAD, _CURE)
    return cluster


def _run(
    task: Task, corpus: str | None, threads: int, modules: tuple[str, ...], folders: list[str]
) -> TaskResult | dict[str, str]:
    """Run a task in a worker; an error of the task is returned, since only lost workers are tried again."""
    import_modules(modules, folders)
    try:
        return run_task(task, corpus=corpus, threads=threads)
    except OrchestraceError as error:
        return {"kind": type(error).__name__, "text": plain(error)}
