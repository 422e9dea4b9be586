"""Search in the recordings behind a corpus, or in recordings that were never read."""

import os
import warnings
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from .. import _core
from ..base.arguments import Count, Size, Threads
from ..base.errors import InputError, ParameterError
from ..base.progress import Progress, reporting
from ..base.text import counted, plain
from ..base.verbs import verb
from .corpus import Corpus
from .mapping_files import MappingFile
from .matched_events import MATCHES, matched_events
from .reading import Source, checked_options, input_files

_IMPORTERS: Final = frozenset(str(importer["name"]) for importer in _core.importers())


@verb
def grep(
    corpus: Corpus | Source | Iterable[Source],
    pattern: str,
    *,
    fixed: bool = False,
    ignore_case: bool = False,
    context: Count = 40,
    max_count: Size | None = None,
    format: str = "auto",
    mapping: MappingFile | None = None,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Find a text in the records of recordings, and the events that it is of.

    The text of a record is its bytes with the escapes of its JSON strings undone: a quote is found where the
    record has ``\\\\"``, a line end where it has ``\\\\n``, é where it has ``\\\\u00e9``. Keys, numbers and
    punctuation of the record are text, too. A match lies in one record.

    Parameters
    ----------
    corpus
        A corpus whose recordings still lie where they were read, or what `read_traces` takes: files, folders,
        globs. Nothing of those is read but what has a match, and what the traces of a match are spread over.
    pattern
        A regular expression, in the syntax of Rust's crate ``regex`` (no look-around, no references back);
        ``^`` and ``$`` match at lines of the text. One that matches the empty text is refused.
    fixed
        The pattern is a text.
    ignore_case
        Letters match in both cases, of all scripts.
    context
        Characters of the same line to show before and behind a match.
    max_count
        The most matches, the first ones of the files; a warning says that there are more.
    format, mapping
        As in `read_traces`, for files; a corpus knows its own.
    threads
        Number of threads; ``None`` uses all cores. The result does not depend on it.
    progress
        ``True`` for a bar in bytes on stderr, or a callable of (bytes done, bytes in all).

    Returns
    -------
    DataFrame
        A row for each match, in order of files and places: ``trace`` (UInt32; null for files, which have no
        numbers), ``trace_id``, ``event_id``, ``seq``, ``agent``, ``type``, ``file``, ``line`` (from 1),
        ``offset`` and ``length`` (bytes, decompressed), ``match`` (its first 1 KiB) and ``text`` (at most 1
        KiB more to each side; ``…`` stands where the line goes on), ``reason``: why there is no event.
        ``event.several``: several are made of the record, or the match ends in another one; ``event.none``:
        none is made of that part of its trace; ``event.unknown``: a record is a whole trace, and its format
        does not say where events lie; ``trace.several``: several traces are made of the record;
        ``trace.rejected``: it is in quarantine; ``trace.none``: it is ignored, repeats another one, or is
        what a document has around its records; ``trace.absent``: its trace is not in this corpus, which was
        filtered or whose file has grown.

    Raises
    ------
    ParameterError
        The pattern is no expression, or an option has a wrong value.
    InputError
        A file is gone, is a stream, or has changed since it was read so that traces begin elsewhere. What was
        changed in place is not noticed.

    Warns
    -----
    UserWarning
        There are more matches than `max_count`, or a part of an input could not be searched, because it is
        damaged or a record is longer than 512 MiB.

    Notes
    -----
    Linear in the bytes. Records that cannot match are not parsed. Of formats that spread a trace over records
    and files, all files are read again as soon as there is a match, since only together they say whose it is.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> path = f"{tempfile.mkdtemp()}/runs.jsonl"
    >>> _ = ot.generate(path, traces=3, seed=0)
    >>> matches = ot.grep(ot.read_traces(path), '"type": *"return"')
    >>> matches["type"].drop_nulls().unique().to_list(), matches["reason"].drop_nulls().unique().to_list()
    (['return'], ['event.none'])
    """
    searched = _searched(corpus, format, mapping)
    with reporting(progress, "searching", in_bytes=True) as callback:
        stream, _, is_cut, unsearched = _core.search(
            searched.inputs,
            (pattern, fixed, ignore_case),
            (context, max_count, False),
            threads=threads,
            progress=callback,
            **searched.options,
        )
    hits = pl.DataFrame(stream)
    if is_cut:
        message = f"max_count is {max_count:,}, and there are more matches: these are the first ones"
        warnings.warn(message, UserWarning, stacklevel=3)
    _warn_of_unsearched(unsearched)
    if hits.is_empty():
        return pl.DataFrame(schema=MATCHES)
    with reporting(progress, "reading", in_bytes=True) as callback:
        return matched_events(hits, searched.inputs, searched.corpus, searched.options, threads, callback)


def count_matches(
    corpus: Corpus | Source | Iterable[Source],
    pattern: str,
    *,
    fixed: bool = False,
    ignore_case: bool = False,
    format: str = "auto",
    mapping: MappingFile | None = None,
    threads: int | None = None,
    progress: Progress = None,
) -> int:
    """Count the matches that `grep` finds, with its arguments, without reading the events that they are of.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> from orchestrace.corpus.searching import count_matches
    >>> path = f"{tempfile.mkdtemp()}/runs.jsonl"
    >>> _ = ot.generate(path, traces=3, seed=0)
    >>> count_matches(path, "trace_id", fixed=True)
    3
    """
    searched = _searched(corpus, format, mapping)
    with reporting(progress, "searching", in_bytes=True) as callback:
        _, count, _, unsearched = _core.search(
            searched.inputs,
            (pattern, fixed, ignore_case),
            (0, None, True),
            threads=threads,
            progress=callback,
            **searched.options,
        )
    _warn_of_unsearched(unsearched)
    return count


@dataclass(frozen=True)
class _Searched:
    """Files to search, each a path and its name in the tables, and how to read them."""

    inputs: list[tuple[str, str]]
    options: dict[str, Any]
    corpus: Corpus | None


def _searched(
    corpus: Corpus | Source | Iterable[Source], format: str, mapping: MappingFile | None
) -> _Searched:
    if isinstance(corpus, Corpus):
        if format != "auto" or mapping is not None:
            raise ParameterError("format and mapping are for files: a corpus knows its own")
        counts = corpus.record_counts.select(pl.col("file", "importer").cast(pl.String)).drop_nulls()
        records = counts.unique(maintain_order=True).collect(engine="streaming")
        files = records["file"].unique(maintain_order=True)
        options = corpus._read_options()
        importers = _IMPORTERS.intersection(records["importer"])
        if "mapping" not in options and len(importers) == 1:
            options = {**options, "format": min(importers)}
        elif options.get("mapping") is not None:
            options = {**options, "format": "mapping"}
        read = list(dict.fromkeys(map(corpus._input, files)))
        _check_lengths(corpus, read)
        return _Searched(read, options, corpus)
    options = checked_options({"format": format, "mapping": mapping})
    with ExitStack() as opened:
        inputs = input_files(corpus, opened).inputs
    paths = [file for file in inputs if isinstance(file, str)]
    once: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        once.setdefault(_real(path, folders), path)
    if len(paths) < len(inputs):
        other = next(file for file in inputs if not isinstance(file, str))
        name = getattr(other, "name", None) or getattr(other, "address", "")
        shown = f"'{plain(str(name))}'" if name else "the source"
        raise InputError(
            f"{shown} is no file of this machine, and has to be read twice: save it to a file first"
        )
    return _Searched([(path, path) for path in once.values()], options, None)


def _check_lengths(corpus: Corpus, inputs: list[tuple[str, str]]) -> None:
    """Compare files with where the corpus has traces in them.

    Raises
    ------
    InputError
        A file of text is shorter than that.
    """
    end = (pl.col("offset") + pl.col("length")).max()
    file = pl.col("file").cast(pl.String)
    ends = dict(corpus.traces.group_by(file).agg(end=end).collect(engine="streaming").iter_rows())
    for path, name in inputs:
        last = ends.get(name)
        if last is None or not os.path.isfile(path):
            continue
        with open(path, "rb") as opened:
            begins_as_text = opened.read(2).lstrip()[:1] in (b"{", b"[", b"\xef", b"")
        if begins_as_text and os.path.getsize(path) < last:
            raise InputError(f"'{plain(name)}' has changed since the corpus was read from it: read it again")


def _warn_of_unsearched(parts: list[tuple[str, int, str]]) -> None:
    if parts:
        file, offset, why = parts[0]
        listed = counted(len(parts), "part")
        text = f"{listed} of the input could not be searched, the first at byte {offset:,} of {file}: {why}"
        warnings.warn(plain(text), UserWarning, stacklevel=4)


def _real(path: str, folders: dict[str, str]) -> str:
    """The path without links; each folder is looked at once, and not again for each file in it."""
    folder, name = os.path.split(path)
    if name in ("", os.curdir, os.pardir) or os.path.islink(path):
        return os.path.realpath(path)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], name)
