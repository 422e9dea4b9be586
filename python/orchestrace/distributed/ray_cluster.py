"""Calls of a function on a Ray cluster, with the cores and the memory that each asks for."""

import logging
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from ..base.errors import ParameterError
from ..base.extras import install
from ..base.text import plain
from .worker_processes import limits

T = TypeVar("T")

_AHEAD: Final = 4
"""Calls that are handed to Ray for each that it has room for, so that no worker waits for the driver."""


@dataclass(frozen=True)
class Lost:
    """Why a call has no answer: its workers died, or it raised."""

    reason: str


class Cluster:
    """The cluster that Ray is connected to, or connects to here and leaves again."""

    def __init__(self, address: str | None) -> None:
        self.ray = _imported()
        self._own = not self.ray.is_initialized()
        if self._own:
            with tempfile.TemporaryDirectory() as empty:
                # Without a folder for the job, Ray lets workers import from the current one first.
                Path(empty, "README").write_text("The folder of a job of orchestrace: it has no files.\n")
                self.ray.init(
                    address=address,
                    log_to_driver=False,
                    logging_level=logging.WARNING,
                    runtime_env={"working_dir": empty},
                )

    def check_room(self, cores: int, memory: int, cure: str) -> None:
        """Refuse what no node has room for, which Ray would let wait for ever.

        Raises
        ------
        ParameterError
            No node has so many cores and bytes; `cure` says what to do. The cluster is left.
        """
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        if any(node.get("CPU", 0) >= cores and node.get("memory", 0) >= memory for node in nodes):
            return
        most = max((node.get("memory", 0) for node in nodes), default=0)
        widest = int(max((node.get("CPU", 0) for node in nodes), default=0))
        self.close()
        raise ParameterError(
            f"no node has {cores} cores and {memory >> 20:,} MiB for a task (the largest have {widest} and"
            f" {int(most) >> 20:,}): {cure}"
        )

    def cores(self) -> int:
        """Of all nodes."""
        return int(self.ray.cluster_resources().get("CPU", 1))

    def close(self) -> None:
        """Leave the cluster if it was joined here."""
        if self._own:
            self.ray.shutdown()


class RayCalls:
    """A function that workers call; one whose worker is lost is called again, `retries` times."""

    def __init__(
        self,
        cluster: Cluster,
        function: Callable[..., Any],
        *,
        threads: int,
        memory: int,
        retries: int,
        workers: int | None,
    ) -> None:
        self._cluster = cluster
        self._threads = threads
        self._most = workers
        self._remote = cluster.ray.remote(
            num_cpus=threads,
            memory=memory,
            max_retries=retries,
            retry_exceptions=False,
            runtime_env={"env_vars": limits(threads)},
        )(function)
        self._open: dict[Any, Any] = {}

    def answers(
        self, items: Sequence[T], arguments: Callable[[T], tuple[Any, ...]]
    ) -> Iterator[tuple[T, Any]]:
        """Call the function for every item, and give each with its answer, or `Lost`, as it is ready."""
        ray = self._cluster.ray
        waiting = list(reversed(items))
        while waiting or self._open:
            while waiting and len(self._open) < self._room():
                item = waiting.pop()
                self._open[self._remote.remote(*arguments(item))] = item
            ready, _ = ray.wait(list(self._open), num_returns=1)
            for reference in ready:
                item = self._open.pop(reference)
                try:
                    answer = ray.get(reference)
                except ray.exceptions.RayError as error:
                    answer = Lost(_reason_of(error))
                yield item, answer

    def close(self) -> None:
        """Cancel what runs."""
        for reference in self._open:
            self._cluster.ray.cancel(reference, force=True)
        self._open.clear()

    def _room(self) -> int:
        """How many calls may be handed over."""
        if self._most is not None:
            return self._most
        return _AHEAD * max(1, self._cluster.cores() // self._threads)


def _reason_of(error: Exception) -> str:
    lines = [line.strip() for line in re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines() if line.strip()]
    # A traceback of a worker ends with its error; an error of Ray itself begins with it.
    reason = lines[-1 if "Traceback (most" in str(error) else 0] if lines else ""
    return f"{type(error).__name__}: {plain(reason)[:200]}"


def _imported() -> Any:
    try:
        import ray
    except ImportError:
        raise ParameterError(f"engine='ray' needs Ray: {install('ray')}") from None
    return ray
