"""Tasks of a plan on a Ray cluster: results are digests, the rows stay in the shared folder."""

import logging
import re
from collections.abc import Iterator
from typing import Any, Final

from ..base.errors import InputError, OrchestraceError, ParameterError
from ..base.text import plain
from .running import run_task
from .tasks import Plan, Task, TaskResult
from .worker_processes import limits, refused

_AHEAD: Final = 4
"""Tasks that are handed to Ray for each that it has room for, so that no worker waits for the driver."""
_OVERHEAD: Final = 256 << 20
"""What a worker takes beside the budget of a task: Python, Polars, the package."""


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
        self._ray = _imported()
        self._corpus = corpus
        self._threads = threads
        self._own = not self._ray.is_initialized()
        if self._own:
            self._ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
        memory = plan.call.memory + _OVERHEAD
        self._check_room(memory)
        self._most = workers
        self._remote = self._ray.remote(
            num_cpus=threads,
            memory=memory,
            max_retries=retries,
            retry_exceptions=False,
            runtime_env={"env_vars": limits(threads)},
        )(_run)
        self._open: dict[Any, Task] = {}

    def results(self, tasks: list[Task]) -> Iterator[TaskResult]:
        ray = self._ray
        waiting = list(reversed(tasks))
        while waiting or self._open:
            while waiting and len(self._open) < self._room():
                task = waiting.pop()
                self._open[self._remote.remote(task, self._corpus, self._threads)] = task
            ready, _ = ray.wait(list(self._open), num_returns=1)
            for reference in ready:
                task = self._open.pop(reference)
                try:
                    answer = ray.get(reference)
                except ray.exceptions.RayError as error:
                    raise InputError(_lost(task, error)) from error
                if isinstance(answer, dict):
                    raise refused(task, answer)
                yield answer

    def close(self) -> None:
        """Cancel what runs, and leave the cluster if it was joined here."""
        for reference in self._open:
            self._ray.cancel(reference, force=True)
        self._open.clear()
        if self._own:
            self._ray.shutdown()

    def _room(self) -> int:
        """How many tasks may be handed over."""
        if self._most is not None:
            return self._most
        cores = int(self._ray.cluster_resources().get("CPU", 1))
        return _AHEAD * max(1, cores // self._threads)

    def _check_room(self, memory: int) -> None:
        """Refuse a plan that no node has room for, which Ray would let wait for ever."""
        nodes = [one["Resources"] for one in self._ray.nodes() if one["Alive"]]
        fits = any(one.get("CPU", 0) >= self._threads and one.get("memory", 0) >= memory for one in nodes)
        if not fits:
            most = max((one.get("memory", 0) for one in nodes), default=0)
            cores = max((one.get("CPU", 0) for one in nodes), default=0)
            if self._own:
                self._ray.shutdown()
            raise ParameterError(
                f"no node has {self._threads} cores and {memory >> 20:,} MiB for a task (the largest have"
                f" {int(cores)} and {int(most) >> 20:,}): plan with read_corpus(..., memory=...) of less, or"
                " threads= of fewer"
            )


def _run(task: Task, corpus: str | None, threads: int) -> TaskResult | dict[str, str]:
    """What a worker does; what the task refuses is a value, since only lost workers are tried again."""
    try:
        return run_task(task, corpus=corpus, threads=threads)
    except OrchestraceError as error:
        return {"kind": type(error).__name__, "text": plain(error)}


def _lost(task: Task, error: Exception) -> str:
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines() if line.strip()]
    # a traceback from the worker ends with what it raised; what Ray itself says begins with it
    told = lines[-1 if "Traceback (most" in str(error) else 0] if lines else ""
    return (
        f"task {task.number} was lost on the cluster ({type(error).__name__}: {plain(told)[:200]}); what is"
        f" done is in '{task.folder}', and the same call resumes from it"
    )


def _imported() -> Any:
    try:
        import ray
    except ImportError:
        raise ParameterError("engine='ray' needs Ray: pip install 'orchestrace[ray]'") from None
    return ray
