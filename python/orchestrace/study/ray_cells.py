"""Cells on a Ray cluster: a task is a cell, in a process that its node ends when it is over its budget."""

import json
import platform
from collections.abc import Iterator
from typing import Any, Final

from .. import _core
from ..distributed.ray_cluster import Cluster, Lost, RayCalls
from ..distributed.worker_processes import limits
from .cells import Cell, cells
from .config import StudyConfig, begun_config
from .measure import FAILED
from .workers import Workers, nothing

_HELD: Final[dict[tuple[str, int, int], tuple[Workers, dict[str, Cell]]]] = {}
"""Of this process of a node, the child that measures and its cells: it holds the corpus of the last one."""


class RayCells:
    """Cells on the cluster that Ray is connected to, or connects to here. Results come as they are ready."""

    def __init__(
        self, config: StudyConfig, address: str | None, threads: int, retries: int, workers: int | None
    ) -> None:
        self._config = config.text()
        self._threads = threads
        self._retries = retries
        self._cluster = Cluster(address)
        self._cluster.check_room(threads, 0, "give the engine threads= of fewer")
        self._calls = RayCalls(
            self._cluster, _measured, threads=threads, memory=0, retries=retries, workers=workers
        )

    def measure(self, todo: list[Cell]) -> Iterator[tuple[Cell, dict[str, Any]]]:
        for cell, answer in self._calls.answers(todo, self._arguments):
            result = answer
            if isinstance(answer, Lost):
                result = nothing(FAILED, f"lost on the cluster ({answer.reason})")
            yield cell, result

    def _arguments(self, cell: Cell) -> tuple[str, str, str, int, int]:
        return _core.VERSION, self._config, cell.name, self._threads, self._retries

    def close(self) -> None:
        """Cancel what runs, and leave the cluster if it was joined here."""
        self._calls.close()
        self._cluster.close()


def _measured(version: str, config: str, name: str, threads: int, retries: int) -> dict[str, Any]:
    """What a worker does: the cell, and in its costs the node."""
    node = platform.node()
    if version != _core.VERSION:
        return nothing(
            FAILED,
            f"node '{node}' has orchestrace {_core.VERSION}, and the study is of {version}: install the same"
            " version everywhere",
        )
    key = (config, threads, retries)
    if key not in _HELD:
        for workers, _ in _HELD.values():
            workers.close()
        _HELD.clear()
        read = begun_config(json.loads(config))
        by_name = {cell.name: cell for cell in cells(read)}
        _HELD[key] = Workers(read, 1, threads, retries, limits(threads)), by_name
    workers, by_name = _HELD[key]
    ((_, result),) = workers.measure([by_name[name]])
    return {**result, "cost": {**result["cost"], "node": node}}
