"""Requirements on a process: the main interpreter, and the threads of Polars."""

import importlib
import os
import sys
from contextlib import suppress
from typing import Any


def _interpreters() -> Any:
    for name in ("_interpreters", "_xxsubinterpreters"):  # since and before Python 3.13
        with suppress(ImportError):
            return importlib.import_module(name)
    return None


def refuse_subinterpreter() -> None:
    """Raise where this is not the main interpreter.

    Raises
    ------
    ImportError
        Polars and NumPy keep one state for the whole process.
    """
    interpreters = _interpreters()
    if interpreters is not None and interpreters.get_current() != interpreters.get_main():
        raise ImportError(
            "orchestrace works in the main interpreter only, since Polars and NumPy do: import it there, or "
            "start a process (multiprocessing.get_context('spawn'))"
        )


refuse_subinterpreter()  # before the extension, which must not be loaded twice

from .._core import mark_orphaned  # noqa: E402

_forking = False
"""Whether Polars had threads when this process forked last."""


def polars_has_threads() -> bool:
    """Whether Polars has started its threads in this process: what it does at its first query, for good."""
    if "polars" not in sys.modules:
        return False
    pool = os.environ.get("POLARS_THREAD_NAME", "polars") + "-"
    try:
        threads = os.listdir("/proc/self/task")
    except OSError:
        return True  # nothing says so; one that was imported has been used
    for thread in threads:
        try:
            with open(f"/proc/self/task/{thread}/comm") as comm:
                name = comm.read().rstrip("\n")
        except OSError:  # it has just ended
            continue
        # "polars-0" and so on; the system keeps 15 bytes of a name
        numbered = name[len(pool) :].isdigit() or len(pool) >= 15
        if name.startswith("async-executor") or (name.startswith(pool[:15]) and numbered):
            return True
    return False


def _before_fork() -> None:
    global _forking
    _forking = polars_has_threads()


def _after_fork_in_child() -> None:
    if _forking:
        mark_orphaned()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
