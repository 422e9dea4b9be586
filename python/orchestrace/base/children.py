"""Child processes that answer lines of JSON with lines of JSON."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

Answers = queue.Queue[Any]
"""Pairs of a child and what it said; None when it will say nothing more."""


class Child:
    """A Python process that runs a module of the package, a line of JSON for each message.

    It is started anew, not forked, so it may be used beside threads, and in scripts without a guard for
    ``__main__``.
    """

    def __init__(self, module: str, answers: Answers, environment: Mapping[str, str] | None = None) -> None:
        # A session of its own: Ctrl-C reaches the one who decides what to do about it.
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **(environment or {})},
        )
        threading.Thread(target=self._listen, args=(answers,), daemon=True).start()

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send a message; if the child has exited, its answers end."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def end(self) -> None:
        """Kill the process, whatever it does."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()

    def fate(self) -> str:
        """How a process ended that says nothing more."""
        code = self.process.wait()
        if code >= 0:
            return f"the process ended with {code}"
        return f"the process ended with signal {-code}" + (
            ", perhaps for want of memory" if code == -9 else ""
        )

    def _listen(self, answers: Answers) -> None:
        assert self.process.stdout is not None
        with suppress(OSError, ValueError):  # closed while it is read
            for line in self.process.stdout:
                try:
                    answers.put((self, json.loads(line)))
                except ValueError:
                    break
        answers.put((self, None))


def answering() -> Callable[..., None]:
    """What a child answers by: keywords, which become a line of JSON.

    Called once, before anything is printed. What is printed from then on goes to standard error, so that
    nothing is taken for an answer. The process ends by itself when whoever started it is gone.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()

    def tell(**message: Any) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    return tell


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
