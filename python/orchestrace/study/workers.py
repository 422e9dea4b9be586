"""Processes that measure cells, and that are ended when a call is over its budget."""

import queue
import time
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from ..base.children import Answers, Child
from .cells import Cell
from .config import StudyConfig
from .measure import FAILED, TOO_SLOW, Bench

PATIENCE = 2.0
"""How many budgets a call may take that was not expected to be over one."""


class Crew(Protocol):
    """Who measures cells."""

    def measure(self, todo: list[Cell]) -> Iterator[tuple[Cell, dict[str, Any]]]:
        """Every cell with what was found, as it is ready."""

    def close(self) -> None:
        """End what runs."""


class Here:
    """Cells one after the other in this process; nothing can be ended."""

    def __init__(self, config: StudyConfig, threads: int | None) -> None:
        self._bench = Bench(config, threads)

    def measure(self, todo: list[Cell]) -> Iterator[tuple[Cell, dict[str, Any]]]:
        for cell in todo:
            yield cell, self._bench.measure(cell)

    def close(self) -> None:
        """Nothing is open."""


class Workers:
    """Processes that measure cells at the same time. Results come as they are ready.

    A cell whose process dies is begun again up to `retries` times, and has failed then.
    """

    def __init__(
        self,
        config: StudyConfig,
        count: int,
        threads: int | None,
        retries: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._config = config
        self._threads = threads
        self._retries = retries
        self._environment = environment
        self._deaths: dict[str, int] = {}
        self._answers: Answers = queue.Queue()
        self._workers: list[_Worker | None] = [None] * count

    def measure(self, todo: list[Cell]) -> Iterator[tuple[Cell, dict[str, Any]]]:
        waiting = list(todo)
        busy: dict[_Worker, Cell] = {}
        while waiting or busy:
            for place, worker in enumerate(self._workers):
                if waiting and (worker is None or worker not in busy):
                    started = worker or self._started(place)
                    cell = waiting.pop(_nearest(waiting, started.corpus, [w.corpus for w in busy]))
                    busy[started] = cell
                    started.ask(cell)
            yield from self._next(busy, waiting)

    def _next(
        self, busy: dict["_Worker", Cell], waiting: list[Cell]
    ) -> Iterator[tuple[Cell, dict[str, Any]]]:
        """Results of the next answer, or of the cells whose time is over."""
        ends = [worker.since + PATIENCE * self._config.budget_s for worker in busy if worker.since]
        try:
            wait = max(min(ends) - time.monotonic(), 0.0) if ends else None
            worker, answer = self._answers.get(timeout=wait)
        except queue.Empty:
            for worker in list(busy):
                late = worker.since and time.monotonic() - worker.since >= PATIENCE * self._config.budget_s
                if late:
                    spent = time.monotonic() - worker.since
                    yield busy.pop(worker), {**nothing(TOO_SLOW, "budget"), "cost": {"stopped_s": spent}}
                    self._end(worker)
            return
        if worker not in busy:  # a late message of a worker that has ended
            if answer is None:
                self._end(worker)
            return
        if answer is None:
            cell, ending = busy.pop(worker), worker.describe_end()
            self._end(worker)
            self._deaths[cell.name] = self._deaths.get(cell.name, 0) + 1
            if self._deaths[cell.name] > self._retries:
                del self._deaths[cell.name]
                yield cell, nothing(FAILED, ending)
            else:
                waiting.insert(0, cell)
        elif answer["stage"] == "done":
            yield busy.pop(worker), answer["found"]
        else:
            worker.since = time.monotonic() if answer["stage"] == "call" else 0.0

    def _started(self, place: int) -> "_Worker":
        worker = _Worker(self._config, self._threads, self._answers, self._environment)
        self._workers[place] = worker
        return worker

    def _end(self, worker: "_Worker") -> None:
        worker.end()
        self._workers = [None if other is worker else other for other in self._workers]

    def close(self) -> None:
        for worker in self._workers:
            if worker is not None:
                worker.end()


class _Worker(Child):
    def __init__(
        self,
        config: StudyConfig,
        threads: int | None,
        answers: Answers,
        environment: Mapping[str, str] | None,
    ) -> None:
        self.corpus = ""
        self.since = 0.0  # when the call began that counts against the budget; 0 between calls
        super().__init__(f"{__package__}.work", answers, environment)
        self.send({"config": config.text(), "threads": threads})

    def ask(self, cell: Cell) -> None:
        self.corpus = cell.corpus
        self.send({"cell": cell.name})


def nothing(status: str, reason: str) -> dict[str, Any]:
    """What is found of a cell that was not measured."""
    return {"status": status, "reason": reason, "numbers": {}, "cost": {}}


def _nearest(waiting: list[Cell], held: str, others: list[str]) -> int:
    """The cell to take next: of the corpus in memory, else the first whose corpus no other worker has."""
    for place, cell in enumerate(waiting):
        if cell.corpus == held:
            return place
    return next((place for place, cell in enumerate(waiting) if cell.corpus not in others), 0)
