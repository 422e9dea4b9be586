"""The source record of an event, as it stands in its file."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from .. import _core
from ..base.errors import InputError, ParameterError

if TYPE_CHECKING:
    from .corpus import Corpus

_SAME: Final = ("id", "t", "type", "agent", "role", "to", "tool", "content_ref")
"""Fields that callers do not replace after reading: if one of them differs, the file has changed."""

_COMPRESSED: Final = (".gz", ".zst", ".bz2", ".xz", ".zip")
_RATIO: Final = 8
"""Bytes of JSON in a byte of a compressed file, about."""


@dataclass(frozen=True)
class EventSource:
    """Where an event comes from, as `Corpus.source` finds it.

    Parameters
    ----------
    file
        The file as the tables name it; of an archive with the entry, ``<archive>/<entry>``.
    line
        Its line there, from 1.
    offset, length
        Its bytes, in the decompressed file or entry.
    text
        The bytes as text; invalid UTF-8 becomes U+FFFD.

    Examples
    --------
    >>> from orchestrace.corpus.source import EventSource
    >>> EventSource("runs.jsonl", 1, 0, 2, "{}").text
    '{}'
    """

    file: str
    line: int
    offset: int
    length: int
    text: str


def event_source(corpus: "Corpus", trace: int, seq: int) -> EventSource:
    """Find the record of an event: see `Corpus.source`."""
    row = _trace_row(corpus, trace)
    if seq >= row["n_events"]:
        raise ParameterError(
            f"trace {trace} has no event {seq}: its last one has the seq {row['n_events'] - 1}"
        )
    store, places = _read_again(corpus, trace, row)
    if not _is_same(corpus, trace, seq, store):
        raise _changed(row["file"], trace)
    place = places[seq if len(places) > 1 else 0]
    return EventSource(*place, _text(corpus, trace, row, place))


def event_places(corpus: "Corpus", trace: int) -> list[tuple[str, int]]:
    """File and line of every event of a trace, in order of `seq`, by one reading of what it was made of.

    Raises
    ------
    ParameterError, InputError
        As `Corpus.source`.
    """
    row = _trace_row(corpus, trace)
    _, places = _read_again(corpus, trace, row)
    file_lines = [(file, line) for file, line, _, _ in places]
    return file_lines if len(file_lines) > 1 else file_lines * row["n_events"]


def reading_size(corpus: "Corpus", trace: int) -> int:
    """About how many bytes are read to find the places of the events of a trace.

    Raises
    ------
    ParameterError, InputError
        As `Corpus.source`.
    """
    row = _trace_row(corpus, trace)
    if row["file"] is None or row["offset"] is None:
        return 0
    home = corpus._input(row["file"])
    inputs = _inputs_again(corpus, row)
    if inputs == [home] and not home[0].endswith(_COMPRESSED):
        return int(row["length"])
    return sum(
        os.path.getsize(path) * (_RATIO if path.endswith(_COMPRESSED) else 1)
        for path, _ in inputs
        if os.path.isfile(path)
    )


def event_texts(corpus: "Corpus", trace: int, events: Iterable[int]) -> list[str]:
    """The records of some events of a trace, as `Corpus.source` has them; what several share is read once.

    Raises
    ------
    ParameterError, InputError
        As `Corpus.source`.
    """
    row = _trace_row(corpus, trace)
    _, places = _read_again(corpus, trace, row)
    of_events = [places[seq if len(places) > 1 else 0] for seq in events]
    texts = {place: _text(corpus, trace, row, place) for place in dict.fromkeys(of_events)}
    return [texts[place] for place in of_events]


def record_of(corpus: "Corpus", row: dict[str, Any]) -> str:
    """The record of a run, from a file or an archive; `row` is that of its trace.

    Raises
    ------
    InputError
        The file is gone or has changed.
    """
    place = (row["file"], row["line"], row["offset"], row["length"])
    return _text(corpus, row["trace"], row, place)


def _text(corpus: "Corpus", trace: int, row: dict[str, Any], place: tuple[str, int, int, int]) -> str:
    path, name = corpus._input(place[0])
    text = _core.record_bytes(path, name, place, **_options(corpus, row))
    if text is None:
        raise _changed(row["file"], trace)
    return text.decode("utf-8", errors="replace")


def _options(corpus: "Corpus", row: dict[str, Any]) -> dict[str, Any]:
    return {**corpus._read_options(), "format": row["importer"]}


def _inputs_again(corpus: "Corpus", row: dict[str, Any]) -> list[tuple[str, str]]:
    """The files that a trace was made of, each with its name: of a format that spreads traces, all of it."""
    home = corpus._input(row["file"])
    ((_, is_spread),) = _core.formats([home], **_options(corpus, row))
    return _inputs_of(corpus, row["importer"]) if is_spread else [home]


def _changed(file: str, trace: int) -> InputError:
    return InputError(f"'{file}' has changed since trace {trace} was read from it: read it again")


def _read_again(
    corpus: "Corpus", trace: int, row: dict[str, Any]
) -> tuple[_core.Store, list[tuple[str, int, int, int]]]:
    """A trace read once more, and where its events are: a place for each, or one for all."""
    file = row["file"]
    if file is None or row["offset"] is None:
        raise InputError(f"trace {trace} was not read from a file, so that its events have no source")
    place = (file, row["line"], row["offset"], row["length"])
    inputs = _inputs_again(corpus, row)
    store, places = _core.locate(inputs, row["trace_id"], place, **_options(corpus, row))
    if store.n_events != row["n_events"] or len(places) not in (1, store.n_events):
        raise _changed(file, trace)
    return store, places


def _trace_row(corpus: "Corpus", trace: int) -> dict[str, Any]:
    names = pl.col("file", "importer").cast(pl.String)
    rows = corpus.traces.filter(pl.col("trace") == trace).select(
        "trace_id", "n_events", names, "line", "offset", "length"
    )
    matching = rows.collect(engine="streaming")
    if not matching.height:
        raise ParameterError(f"unknown trace {trace}: it is not in the column 'trace' of this corpus")
    return matching.row(0, named=True)


def _inputs_of(corpus: "Corpus", importer: object) -> list[tuple[str, str]]:
    """All files that had records of a format, in order, each with its name."""
    counts = corpus.record_counts.filter(pl.col("importer").cast(pl.String) == importer)
    files = counts.select(pl.col("file").cast(pl.String)).collect(engine="streaming")["file"]
    return list(dict.fromkeys(corpus._input(file) for file in files.drop_nulls().unique(maintain_order=True)))


def _is_same(corpus: "Corpus", trace: int, seq: int, store: _core.Store) -> bool:
    """Whether the event that was read again is the one that is in the tables."""

    def row(events: pl.LazyFrame) -> tuple[object, ...]:
        words = [pl.col(name).cast(pl.String) if name != "t" else pl.col(name) for name in _SAME]
        return events.select(words).collect(engine="streaming").row(0)

    stored = corpus.events.filter(pl.col("trace") == trace, pl.col("seq") == seq)
    again = pl.LazyFrame(store.table("events")).filter(pl.col("seq") == seq)
    absent = set(_SAME) - set(again.collect_schema())
    return row(stored) == row(again.with_columns(pl.lit(None).alias(name) for name in absent))
