"""The description of one export: its options, and how much it may write."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import polars as pl

from ..base.errors import ParameterError
from ..corpus.corpus import Corpus
from ..schedules.scheduling import Durations
from .pseudonyms import Pseudonyms, anonymized

Scope = Literal["trace", "traces", "corpus"]

VIEWER_BYTES: Final = 64 << 20
"""The largest file that a viewer which loads files whole opens without trouble."""


class Sink:
    """A binary file that counts what is written and refuses more than it may hold.

    Without a file it counts only, and refuses what is announced (`room_for`).
    """

    def __init__(self, target: Any = None, limit: int | None = None) -> None:
        self._target = target
        self._limit = limit
        self.written = 0
        self.failure: Exception | None = None
        """The error that was raised here: writers wrap it in an error of their own."""

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Write all of `data`.

        Raises
        ------
        ParameterError
            It is beyond the limit.
        """
        size = memoryview(data).nbytes
        if self._target is not None:
            self._expect(size)
        self.written += size
        if self._target is not None:
            try:
                self._target.write(data)
            except OSError as error:
                self.failure = error
                raise
        return size

    def room_for(self, event: int, edge: int) -> Callable[[int, int], None]:
        """A check that so many events and edges fit, made before their records are.

        `event` and `edge` are the fewest bytes that the records of one take. It raises ParameterError.
        """
        return lambda events, edges: self._expect(events * event + edges * edge)

    def _expect(self, least: int) -> None:
        if self._limit is not None and self.written + least > self._limit:
            self.failure = ParameterError(
                f"the file would have more than {self._limit:,} bytes: raise max_bytes, or export less"
            )
            raise self.failure

    def flush(self) -> None:
        """Hand on what is buffered."""
        if self._target is not None:
            self._target.flush()


@dataclass(frozen=True)
class Request:
    """The options of a call of `export`, without corpus, format and path."""

    window: tuple[float, float] | None = None
    credits: pl.DataFrame | pl.LazyFrame | None = None
    effects: pl.DataFrame | pl.LazyFrame | None = None
    returns: pl.DataFrame | pl.LazyFrame | None = None
    per: Literal["turn", "token"] = "turn"
    durations: Durations = "auto"
    program_order: bool = False
    memory: int | str = "2GiB"
    threads: int | None = None
    anonymize: bytes | None = None
    progress: Callable[[int, int], object] | None = field(default=None, compare=False)

    def pieces(self, corpus: Corpus) -> Iterator[Corpus]:
        """The corpus piece by piece, under other names if that was asked for."""
        return corpus.slices() if self.anonymize is None else anonymized(corpus, Pseudonyms(self.anonymize))

    def report(self, done: int, total: int) -> None:
        """Report how many traces are written."""
        if self.progress is not None:
            self.progress(done, total)


@dataclass(frozen=True)
class Export:
    """One target of `export`: its name, what opens it, and how it is written."""

    name: str
    summary: str
    opens: str
    """The tools that read it."""
    suffix: str
    """The suffix of its file; empty for a folder."""
    scope: Scope
    """How much it shows: one trace, some traces, the whole corpus."""
    options: tuple[str, ...]
    """The options of `export` that it takes."""
    write: Callable[[Corpus, Any, Request], None]
    """Writes into a `Sink`, or into an empty folder."""
    max_bytes: int | None = None
    """Limit where the caller gives none."""
    folder: bool = False
    importer: str | None = None
    """The format of the recordings that it writes back; None for any."""


def check_folder(path: Path) -> None:
    """Refuse a name that says file where a folder is written."""
    if not path.exists() and path.suffix in (".parquet", ".json", ".jsonl"):
        raise ParameterError(f"'{path}' is named like a file, and a folder is written: choose another name")
