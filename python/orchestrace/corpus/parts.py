"""What verbs may ask of any corpus beside its public tables: the protocol of every kind of corpus.

`Corpus` keeps it in memory, `PartitionedCorpus` on disk. A verb that calls the core goes through the pieces
of a corpus, each in memory, and hands their stores to a kernel: `core_frames` of `pieces` does both. Rooms
outside `corpus` use the functions below, and no private member.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import polars as pl

from .. import _core

if TYPE_CHECKING:
    from .corpus import Corpus


class CorpusParts(Protocol):
    """The members that the functions below and the tables of a corpus are made of."""

    @property
    def _store(self) -> _core.Store:
        """The tables of the core; of one piece, since a corpus on disk has none as a whole."""

    def pieces(self) -> "Iterator[tuple[str, Callable[[], Corpus]]]":
        """The corpus in memory, piece by piece, each with whole groups: a lasting name, and what loads it."""

    def _sizes(self) -> dict[str, int]:
        """Rows of every table."""

    def _table(self, name: str) -> pl.LazyFrame:
        """A table, which may be a scan of files."""

    def _stored(self, name: str) -> pl.DataFrame:
        """A table of traces in memory."""

    def _divisions(self, name: str) -> Iterator[pl.LazyFrame]:
        """A table of traces in pieces, each with all rows of its traces."""

    def _streams(self, name: str) -> list[_core.Stream]:
        """A table as the core hands it out, piece by piece."""

    def _lifted(self) -> Mapping[str, str]:
        """Columns that fields of events were lifted into, and their kinds."""

    def _input(self, file: str) -> tuple[str, str]:
        """Where a file of the tables, or the archive that it lies in, can be read again, and its name."""


def store_of(piece: CorpusParts) -> _core.Store:
    """The tables of a piece, as kernels take them."""
    return piece._store


def stores(corpus: CorpusParts) -> Iterator[_core.Store]:
    """The tables of every piece, each loaded when it is its turn."""
    return (store_of(load()) for _, load in corpus.pieces())


def sizes_of(corpus: CorpusParts) -> dict[str, int]:
    """Rows of every table of a corpus, without reading one."""
    return corpus._sizes()


def table_of(corpus: CorpusParts, name: str) -> pl.LazyFrame:
    """A table of a corpus by its name in `SCHEMAS`."""
    return corpus._table(name)


def stored_table(corpus: CorpusParts, name: str) -> pl.DataFrame:
    """A table of a corpus in memory, as it is stored."""
    return corpus._stored(name)


def divisions(corpus: CorpusParts, name: str) -> Iterator[pl.LazyFrame]:
    """A table of traces in pieces, each with all rows of its traces; on disk the partitions."""
    return corpus._divisions(name)


def input_of(corpus: CorpusParts, file: str) -> tuple[str, str]:
    """Where a file of the tables, or the archive that it lies in, can be read again, and its name.

    Raises
    ------
    InputError
        It is not there any more.
    """
    return corpus._input(file)


def file_of_records(corpus: "Corpus", file: str) -> tuple[str, dict[str, Any]]:
    """Where a file of the tables lies, to read its records again, and the options that it was read with.

    Raises
    ------
    InputError
        It is gone, was a stream, or is in an archive.
    """
    return corpus._origin(file), corpus._read_options()
