"""Recordings and corpora below the root, opened for tools."""

from pathlib import Path
from typing import Final

from ... import read_corpus, read_traces
from ...base.errors import InputError
from ...base.text import plain
from ...corpus.corpus import Corpus
from ...corpus.on_disk import MANIFEST, is_corpus
from ...corpus.reading import nothing_used
from ...disk.partitioned import PartitionedCorpus
from .confinement import Root
from .query_process import QueryProcess

MOST_READ: Final = 1 << 30
"""Bytes of recordings that a tool reads into memory; a corpus on disk may have any size."""


class Recordings:
    """What tools read: the root, the corpora on disk that are open, and the process that runs queries.

    An open corpus remembers which files it has compared with their checksums, so that the next question does
    not wait for that again.
    """

    def __init__(self, root: Root) -> None:
        self.root = root
        self.queries = QueryProcess(root)
        self._open: dict[Path, tuple[tuple[int, int, int], PartitionedCorpus]] = {}

    def opened(self, path: str) -> Corpus:
        """The corpus or the recordings that a client names.

        Raises
        ------
        InputError, ParameterError
            It is not below the root, is too large, or nothing of it can be used.
        """
        place = self.root.place(path)
        size = self.root.bytes_below(place)
        if place.is_dir() and is_corpus(str(place)):
            return self._corpus(place)
        if size > MOST_READ:
            raise InputError(
                f"'{plain(self.root.shown(place))}' has {size:,} bytes, expected at most {MOST_READ:,}: make"
                " a corpus of it with 'orchestrace ingest', and ask that"
            )
        corpus = read_traces(place)
        if (reason := nothing_used(corpus)) is not None:
            raise InputError(reason)
        return corpus

    def _corpus(self, place: Path) -> PartitionedCorpus:
        about = (place / MANIFEST).stat()
        state = (about.st_ino, about.st_size, about.st_mtime_ns)
        before = self._open.get(place)
        if before is None or before[0] != state:
            self._open = {place: (state, read_corpus(place))}
        return self._open[place][1]
