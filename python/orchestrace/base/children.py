"""Child processes that answer lines of JSON with lines of JSON."""

import importlib
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

Answers = queue.Queue[Any]
"""Pairs of a child and what it said; None when it will say nothing more."""


class Child:
    """A Python process that runs a module of the package, a line of JSON for each message.

    It is started anew, not forked, so it may be used beside threads, and in scripts without a guard for
    ``__main__``. It imports from `import_folders` alone, so that no file that lies where a command is started
    is taken for a module.
    """

    def __init__(self, module: str, answers: Answers, environment: Mapping[str, str] | None = None) -> None:
        # A new session: Ctrl-C reaches only the parent, which decides what to do about it.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(import_folders()), **(environment or {})},
        )
        threading.Thread(target=self._listen, args=(answers,), daemon=True).start()

    def send(self, message: Mapping[str, Any]) -> None:
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

    def describe_end(self) -> str:
        """Say how the process ended: its exit code or signal."""
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


def import_folders() -> list[str]:
    """The folders that a child imports from: those of this process, without an implicit current folder.

    ``python -m``, ``python -c``, an interactive Python and an empty entry of ``PYTHONPATH`` all put the
    current folder before the standard library. Whatever lies there would run in a child. It stays if it holds
    the script that runs, if ``PYTHONPATH`` names it in full, or if this package lies in it. Relative entries
    mean another folder wherever a process goes, and are left out.
    """
    chosen = {
        _real(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if _is_absolute(entry)
    }
    chosen.add(_real(Path(__file__).parents[2]))
    main = sys.modules.get("__main__")
    script = getattr(main, "__file__", None)
    if script is not None and getattr(main, "__spec__", None) is None:
        chosen.add(_real(Path(script).parent))
    try:
        here = _real(Path.cwd())
    except FileNotFoundError:  # it was removed
        here = ""
    return [entry for entry in sys.path if _is_absolute(entry) and (_real(entry) != here or here in chosen)]


def module_folders(modules: Iterable[str]) -> list[str]:
    """The folders that a child needs besides, to import modules that this process has imported."""
    searched = {_real(entry) for entry in import_folders()}
    folders: dict[str, None] = {}
    for name in modules:
        top = sys.modules[name.partition(".")[0]]
        places = getattr(top, "__path__", None) or [getattr(top, "__file__", None)]
        for place in places:
            if place is not None and _real(folder := Path(place).absolute().parent) not in searched:
                folders[os.fspath(folder)] = None
    return list(folders)


def import_modules(modules: Iterable[str], folders: Iterable[str]) -> None:
    """Import modules by name, from `folders` where no other folder has them.

    These stand last, behind the standard library and what is installed, which they must not replace.
    """
    sys.path.extend(folder for folder in folders if folder not in sys.path)
    for name in modules:
        importlib.import_module(name)


def _is_absolute(entry: str) -> bool:
    return isinstance(entry, str) and os.path.isabs(entry)


def _real(path: str | Path) -> str:
    """A folder under the one name that all ways to it have in common."""
    return os.path.normcase(os.path.realpath(path))


def answering() -> Callable[..., None]:
    """Return the function by which a child answers: its keywords become a line of JSON.

    Called once, before anything is printed. What is printed from then on goes to standard error, so that
    nothing is taken for an answer. The process ends by itself when whoever started it is gone.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()

    def answer(**message: Any) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    return answer


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
