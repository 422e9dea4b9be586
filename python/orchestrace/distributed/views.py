"""Views of a corpus on disk, for a plan and for one task."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import polars as pl

from ..base.errors import SchemaError
from ..corpus.corpus import Corpus
from ..disk.partitioned import PartitionedCorpus, on_disk
from .tasks import Runs, runs_of

Piece = tuple[str, int, int, pl.Series | None]
"""Partition, number in it, about how many events, and its traces, None for all of the partition."""


class PlannedCorpus(PartitionedCorpus):
    """A whole corpus with all of its tables and without a piece.

    A verb on it judges its arguments by the names of the whole corpus and computes nothing.
    """

    def __init__(self, corpus: PartitionedCorpus) -> None:
        opened = on_disk(corpus)
        super().__init__(opened.folder, opened.manifest, opened.memory, chosen=opened.chosen)
        self.channels: tuple[str, ...] = ()
        """The rewards that the verb has asked for; none if it has not."""

    def pieces(self) -> Iterator[tuple[str, Callable[[], Corpus]]]:
        return iter(())

    def reward_channels(self) -> list[str]:
        if not self.channels:
            self.channels = tuple(super().reward_channels())
        return list(self.channels)

    def divided(self) -> Iterator[Piece]:
        """All pieces, in the order of the corpus; none is loaded."""
        for partition, parts in sorted(self._manifest.parts.items()):
            events = sum(part.rows.get("events", 0) for part in parts)
            n_traces = max(sum(part.rows.get("traces", 0) for part in parts), 1)
            for number, (_, traces, _) in enumerate(self.pieces_of(partition)):
                share = 1.0 if traces is None else len(traces) / n_traces
                yield partition, number, round(events * share), traces

    def runs_of(self, partitions: set[str]) -> Runs | None:
        """The traces of some partitions that the corpus was filtered to; None for all."""
        if self._chosen is None:
            return None
        chosen = [
            traces
            for partition in partitions
            for _, traces, _ in self.pieces_of(partition)
            if traces is not None
        ]
        return runs_of(pl.concat(chosen).sort().to_list()) if chosen else ()


def filtered(corpus: PartitionedCorpus, traces: Runs) -> PartitionedCorpus:
    """The corpus with some of its traces."""
    opened = on_disk(corpus)
    return PartitionedCorpus(opened.folder, opened.manifest, opened.memory, chosen=_numbers(traces))


def _numbers(runs: Runs) -> pl.Series:
    return pl.Series("trace", [n for first, last in runs for n in range(first, last + 1)], pl.UInt32)


class TaskCorpus(PartitionedCorpus):
    """Some pieces of a corpus, with the tables of their partitions.

    Names were looked up in the whole corpus when it was planned, so none is unknown here.
    """

    is_whole = False

    def __init__(
        self,
        corpus: PartitionedCorpus,
        wanted: Mapping[str, frozenset[int]],
        runs: Runs | None,
        channels: tuple[str, ...],
        absent: Callable[[str, int], SchemaError],
    ) -> None:
        opened = on_disk(corpus)
        full = opened.manifest
        manifest = replace(full, parts={name: full.parts[name] for name in sorted(wanted)})
        manifest.verify, manifest.verified = full.verify, full.verified  # a file is compared once
        manifest.home = full.home
        self._whole = corpus
        traces = None if runs is None else _numbers(runs)
        super().__init__(opened.folder, manifest, opened.memory, chosen=traces)
        self._wanted = wanted
        self._channels = channels
        self._absent = absent

    @property
    def full_corpus(self) -> PartitionedCorpus:
        return self._whole

    def pieces(self) -> Iterator[tuple[str, Callable[[], Corpus]]]:
        for partition in sorted(self._wanted):
            absent = set(self._wanted[partition])
            for number, (name, _, load) in enumerate(self.pieces_of(partition)):
                if number in absent:
                    absent.remove(number)
                    yield name, load
            if absent:
                raise self._absent(partition, min(absent))

    def reward_channels(self) -> list[str]:
        return list(self._channels)
