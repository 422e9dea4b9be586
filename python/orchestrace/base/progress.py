"""Progress of long calls: a bar on stderr, or a callable of (done, total)."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int], object] | bool | None


@contextmanager
def reporting(
    progress: Progress, label: str, *, in_bytes: bool = False
) -> Iterator[Callable[[int, int], object] | None]:
    """Turn the `progress` option of a call into the callback that the core takes.

    ``True`` draws a bar with what is done and the time that is left, of bytes also the rate: on stderr if
    that is a terminal, in the output of a notebook's cell, and nothing where the output is piped.
    """
    if callable(progress):
        yield progress
    elif not progress or not (sys.stderr.isatty() or _in_notebook()):
        yield None
    else:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            Progress as Bars,
            ProgressColumn,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        counts: tuple[ProgressColumn, ...] = (MofNCompleteColumn(),)
        if in_bytes:
            counts = (DownloadColumn(binary_units=True), TransferSpeedColumn())
        columns = (TextColumn(label), BarColumn(), *counts, TimeRemainingColumn())
        with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
            task = bars.add_task(label, total=None)
            yield lambda done, total: bars.update(task, completed=done, total=total or None)


def _in_notebook() -> bool:
    """Whether a kernel runs us, which draws what Rich draws for it."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
