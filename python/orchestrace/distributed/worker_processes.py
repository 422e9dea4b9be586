"""Worker processes of this machine, each of which runs one task at a time."""

import os
import queue
import sys
from collections.abc import Iterator
from typing import Any, Final

from ..base import errors
from ..base.children import Answers, Child, module_folders
from ..base.errors import InputError, OrchestraceError
from .tasks import Call, Plan, Task, TaskResult

_SHARE: Final = 0.8
"""Of the machine's memory, what the budgets of all workers may take."""


def fitting_workers(call: Call, threads: int) -> int:
    """As many workers as this machine has cores and memory for; Windows is not asked for memory."""
    if sys.platform == "win32":
        return max(1, cores() // threads)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(cores() // threads, int(memory * _SHARE) // call.memory))


def cores() -> int:
    """Of this machine, those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Processes:
    """Processes that are started anew, not forked; one that dies is replaced, and its task run again."""

    def __init__(self, plan: Plan, corpus: str | None, workers: int, threads: int, retries: int) -> None:
        self._plan = plan
        self._first = {
            "plan": plan.folder,
            "id": plan.id,
            "corpus": corpus,
            "threads": threads,
            "modules": plan.call.modules,  # judged: this process has imported them
            "folders": module_folders(plan.call.modules),
        }
        self._threads = threads
        self._retries = retries
        self._answers: Answers = queue.Queue()
        self._workers: list[_Worker | None] = [None] * workers

    def results(self, tasks: list[Task]) -> Iterator[TaskResult]:
        waiting = list(tasks)
        busy: dict[_Worker, Task] = {}
        deaths: dict[int, int] = {}
        while waiting or busy:
            for place, worker in enumerate(self._workers):
                if waiting and (worker is None or worker not in busy):
                    started = worker or self._started(place)
                    task = waiting.pop(0)
                    busy[started] = task
                    started.send({"task": task.number})
            worker, answer = self._answers.get()
            if answer is not None and answer["stage"] == "ready":
                continue
            task = busy.pop(worker)
            if answer is None:
                ending = worker.describe_end()
                self._end(worker)
                deaths[task.number] = deaths.get(task.number, 0) + 1
                if deaths[task.number] > self._retries:
                    raise InputError(_died(task, deaths[task.number], ending))
                waiting.insert(0, task)
            elif answer["stage"] == "refused":
                raise refused(task, answer)
            else:
                yield TaskResult(**answer["result"])

    def close(self) -> None:
        for worker in self._workers:
            if worker is not None:
                worker.end()

    def _started(self, place: int) -> "_Worker":
        worker = _Worker(self._first, self._answers, self._threads)
        self._workers[place] = worker
        return worker

    def _end(self, worker: "_Worker") -> None:
        worker.end()
        self._workers = [None if other is worker else other for other in self._workers]


class _Worker(Child):
    def __init__(self, first: dict[str, Any], answers: Answers, threads: int) -> None:
        super().__init__(f"{__package__}.work", answers, limits(threads))
        self.send(first)


def limits(threads: int) -> dict[str, str]:
    """The environment in which no library starts more threads than a task has cores."""
    names = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return dict.fromkeys(names, str(threads))


def refused(task: Task, answer: dict[str, Any]) -> OrchestraceError:
    """The error that a task ended with, of the same kind, with the number of the task."""
    kinds = {"ParameterError": errors.ParameterError, "SchemaError": errors.SchemaError}
    return kinds.get(answer["kind"], InputError)(f"task {task.number}: {answer['text']}")


def _died(task: Task, times: int, ending: str) -> str:
    often = "once, and" if times == 1 else f"{times} times, and each time"
    return (
        f"task {task.number} was started {often} {ending}: its budget is"
        f" {task.call.memory >> 20:,} MiB; use fewer workers, or plan with a smaller"
        " read_corpus(..., memory=...)"
    )
