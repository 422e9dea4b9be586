"""The process that runs queries: whatever a query does to it, the server goes on."""

import queue
import threading
import warnings
import weakref
from typing import Any, Final

from ...base.children import Answers, Child
from ...base.errors import ParameterError
from .answers import Answer
from .confinement import Root

SECONDS: Final = 60.0
"""How long a query may take, from the call to its answer; the process is ended after that."""

Reply = dict[str, Any] | None
"""What the process answers; None when it has ended."""

_MODULE: Final = "orchestrace.cli.serving.query_work"


class QueryProcess:
    """A process that is started for the first query, and anew after one that it did not survive.

    SQL is parsed and planned in code that no timer can interrupt, and that a deep query crashes.

    Parameters
    ----------
    root
        The folder that it may read.
    """

    def __init__(self, root: Root) -> None:
        self._root = root
        self._child: Child | None = None
        self._answers: Answers = queue.Queue()
        self._is_asked = self._is_stopped = False
        self._changing = threading.Lock()

    def ask(self, path: str, query: str, rows: int) -> Answer:
        """The answer to a query; one at a time.

        Raises
        ------
        ParameterError
            It is refused, takes too long, or ended the process.
        """
        child = self._begun()
        try:
            reply = self._replied(child, path, query, rows)
        finally:
            self._finished()
        if reply is None:
            raise ParameterError("query ended the process that ran it: ask for less at once")
        if "error" in reply:
            raise ParameterError(reply["error"])
        for line in reply["warnings"]:
            warnings.warn(line, stacklevel=2)
        content: Answer = reply["content"]
        return content

    def allow(self) -> None:
        """Let queries run again after `stop`."""
        with self._changing:
            self._is_stopped = False

    def stop(self) -> None:
        """End the query that runs, or that is about to; from any thread."""
        with self._changing:
            self._is_stopped = True
            if self._is_asked:
                self.kill()

    def kill(self) -> None:
        """The same without waiting for another thread: for a handler of signals, before the process ends."""
        if (child := self._child) is not None:
            child.process.kill()

    def _begun(self) -> Child:
        with self._changing:
            if self._is_stopped:
                raise ParameterError("query was cancelled")
            if self._child is not None and self._child.process.poll() is not None:
                self._end()
            if self._child is None:
                self._answers = queue.Queue()
                self._child = Child(_MODULE, self._answers)
                weakref.finalize(self, self._child.end)
            self._is_asked = True
            return self._child

    def _replied(self, child: Child, path: str, query: str, rows: int) -> Reply:
        child.send(
            {"root": str(self._root.folder), "path": path, "query": query, "rows": rows, "seconds": SECONDS}
        )
        try:
            reply: Reply = self._answers.get(timeout=SECONDS)[1]
        except queue.Empty:
            self._end()
            raise ParameterError(f"query takes more than {SECONDS:.0f} s: ask for less of it") from None
        if reply is None:
            self._end()
        return reply

    def _finished(self) -> None:
        with self._changing:
            self._is_asked = False
            if self._is_stopped:
                self._end()

    def _end(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None
