"""A bar on stderr for long calls; a callable of (done, total) for everybody else."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[int, int], object] | bool | None


@contextmanager
def reporting(progress: Progress, what: str) -> Iterator[Callable[[int, int], object] | None]:
    """Turn the `progress` option of a call into the callback that the core takes.

    ``True`` draws a bar in bytes on stderr if that is a terminal and nothing otherwise.
    """
    if callable(progress):
        yield progress
    elif not progress or not sys.stderr.isatty():
        yield None
    else:
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TransferSpeedColumn
        from rich.progress import Progress as Bars

        columns = (TextColumn(what), BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn())
        with Bars(*columns, console=Console(stderr=True), transient=True) as bars:
            task = bars.add_task(what, total=None)
            yield lambda done, total: bars.update(task, completed=done, total=total or None)
