"""The reading of recordings: arguments become files here, the core does the rest."""

import glob
import itertools
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, BinaryIO, Literal, TypedDict

import polars as pl

from .. import _core
from ..base.arguments import Count, Share, Threads
from ..base.deferred import Deferred
from ..base.errors import InputError, ParameterError, QuarantineError
from ..base.misfits import judge_fields
from ..base.paths import expanded, expect_an_end, is_file
from ..base.progress import Progress, reporting
from ..base.schema import SCHEMAS, TraceBy, lifted_kind, unknown_name
from ..base.text import counted, plain
from ..base.verbs import verb
from ..storage.addresses import is_address, is_collapsed
from ..storage.objects import RemoteObject
from .corpus import Corpus
from .mapping_files import MappingFile, read_mapping
from .on_disk import MANIFEST, is_corpus
from .recording_names import KINDS, is_recording
from .remote_inputs import read_copies, remote_files
from .skipped import lossy_counts, warn_of_skipped

Source = str | os.PathLike[str] | BinaryIO
OnError = Literal["quarantine", "raise"]
TimeBasis = Literal["seconds", "partial", "ordinal", "unknown"]

_row_files = Deferred("orchestrace.corpus.row_files")
_core.open_rows_with(lambda path: _row_files.rows_of(path))

_LISTED = 5
"""Kinds of records that a message names."""
_BESIDE = 10_000
"""Names of a folder that are looked through for one like a name that is not there."""


@verb
def read_traces(
    source: Source | Iterable[Source],
    *,
    format: str = "auto",
    mapping: MappingFile | None = None,
    on_error: OnError = "quarantine",
    max_errors: Count | None = None,
    max_error_ratio: Share | None = None,
    threads: Threads = None,
    extras: bool = True,
    excerpt: Count = 200,
    fields: Mapping[str, object] | None = None,
    time_basis: TimeBasis | None = None,
    trace_by: TraceBy = "trace",
    reward_scores: Sequence[str] = (),
    null_values: Mapping[str, Sequence[float]] | None = None,
    max_record: Count | None = None,
    max_depth: Count | None = None,
    max_string: Count | None = None,
    max_expansion: Count | None = None,
    max_decompressed: Count | None = None,
    progress: Progress = None,
) -> Corpus:
    """Read recordings into memory.

    Parameters
    ----------
    source
        A path, a glob (``**`` is recursive, follows links to folders, and searches each folder once), a
        folder, ``"-"`` for standard input, a binary file object, the address of objects (``s3://``, ``gs://``,
        ``az://``, ``http(s)://``: docs/object-storage.md), or a list of these. A leading ``~`` is the
        home folder. A list keeps its order; a glob and a folder are sorted by path. A folder gives its
        ``.json``, ``.jsonl``, ``.ndjson`` and ``.traj`` files and its archives (``.eval``, ``.zip``,
        ``.tar``, ``.tgz``), compressed (``.gz``, ``.zst``) or not, and its tables (``.parquet``, ``.arrow``,
        ``.feather``), a row of which is a record, but no hidden ones. A file that you name is read whatever
        its name ends with. Entries of an archive are read like files, compressed (``.gz``, ``.zst``) or not,
        if their names are those of recordings or one of their first twenty lines begins like JSON.
    format
        Name of an importer (see `list_importers`), or ``"auto"`` to detect it from the content.
    mapping
        A TOML or JSON file, or a dict of its keys, that maps the fields of a custom format
        (docs/formats/mapping.md). It applies to the whole source.
    on_error
        ``"quarantine"`` puts records that fail into `Corpus.quarantine` and continues. ``"raise"`` reads
        everything, then raises `QuarantineError` if any record failed.
    max_errors, max_error_ratio
        Raise `QuarantineError` if more records than this number, and also more than this share, failed. If
        only one of the two is given, it decides alone.
    threads
        Number of threads; ``None`` uses all cores. The result does not depend on it.
    extras
        ``False`` drops unknown event fields. The default keeps them as one JSON string per event.
    excerpt
        Bytes of a rejected record to quote in the quarantine; 0 for private data.
    fields
        Unknown event fields to lift into columns of `Corpus.events`: name to Polars type, one of
        ``pl.String``, ``pl.Int64``, ``pl.Float64``, ``pl.Boolean``.
    time_basis
        What the numbers in ``t`` mean, if the recordings do not say so.
    trace_by
        ``"conversation"`` makes one trace of all traces that share a conversation or session id, in formats
        that record one: ``otel``, ``langfuse``, ``langsmith``, ``openai_agents``. That id is then the
        ``trace_id``.
    reward_scores
        Names of scores of the whole trace to read as rewards. By default scores are metrics, because only you
        know whether more "toxicity" is good. Native traces have rewards of their own and take no names.
    null_values
        Numbers that say that a value is not known, by the name of a reward, cost or metric, or of the column
        of a data set that has the outcome: ``{"score": [-1]}``. They become no row of `Corpus.measures`;
        where they stand for a reward, the trace has the finding ``reward.unscored``. Columns of verdicts
        (``resolved``, ``success``, ``solved``, ``target``) need none: there, only yes and no are outcomes.
    max_record
        Bytes of one record (512 MiB, at most 2 GB); a longer one is rejected as ``record.too_large`` and
        never held in memory. If the first MiB does not show the format, detection reads on up to this limit.
    max_string
        Bytes of one string as written (64 MiB); a longer one rejects its record as ``record.too_large``.
    max_depth
        Levels of nesting (128); deeper records are rejected as ``json.depth``. At most 1,000, which every
        stack holds.
    max_expansion
        Ratio of decompressed to compressed bytes (1,000), checked every MiB after the first 16. Beyond it,
        the rest of the input is one reject, ``input.expansion``.
    max_decompressed
        Bytes to which one compressed input may expand (1 TiB); beyond them the same ``input.expansion``.
    progress
        ``True`` for a bar in bytes on stderr, or a callable of (bytes done, bytes in all).

    Raises
    ------
    InputError
        Nothing matches, or a file cannot be read.
    ParameterError
        An option has an unknown value, or a mapping is invalid; the message names file, key and what was
        expected.
    QuarantineError
        Records failed and ``on_error="raise"``, or more than the bounds allow.

    Warns
    -----
    UserWarning
        Nothing could be used, because there is no record or all are ignored or rejected; the warning says
        why. Or entries of archives show no recording and were skipped; it names some.

    Notes
    -----
    One pass, linear in the bytes; compressed input and archives are recognized by their first bytes. Formats
    that spread a trace over records and files are put together from all inputs of the call; their traces come
    after those of other formats. `Corpus.record_counts` says what became of every record.

    Examples
    --------
    >>> import io
    >>> import orchestrace as ot
    >>> record = (
    ...     b'{"trace_id": "a", "task_id": "q", "edges": [], "rewards": {"team": 1},'
    ...     b' "costs": {"tokens": 9, "wall_clock_s": 2},'
    ...     b' "events": [{"id": "e1", "t": 0, "type": "return", "agent": "solo"}]}'
    ... )
    >>> corpus = ot.read_traces(io.BytesIO(record + b"\\n{}\\n"))
    >>> corpus.records
    {'read': 2, 'used': 1, 'ignored': 0, 'duplicate': 0, 'quarantined': 1}
    """
    budget = ErrorBudget(on_error, max_errors, max_error_ratio)
    options = checked_options(
        {
            "format": format,
            "mapping": mapping,
            "extras": extras,
            "excerpt": excerpt,
            "fields": fields,
            "time_basis": time_basis,
            "trace_by": trace_by,
            "reward_scores": reward_scores,
            "null_values": null_values,
            "max_record": max_record,
            "max_depth": max_depth,
            "max_string": max_string,
            "max_expansion": max_expansion,
            "max_decompressed": max_decompressed,
        }
    )
    with reporting(progress, "reading", in_bytes=True) as callback, ExitStack() as opened:
        inputs = input_files(source, opened).inputs
        store = read_inputs(inputs, threads, callback, options)
    corpus = Corpus(store, {name: value for name, value in options.items() if name != "format"})
    if store.records_quarantined:
        budget.check(store.records_quarantined, store.records_read, corpus._stored("quarantine"))
    if (reason := nothing_used(corpus)) is not None:
        warnings.warn(reason, UserWarning, stacklevel=3)
    warn_of_skipped([lossy_counts(corpus.record_counts)], stacklevel=3)
    return corpus


def read_inputs(
    inputs: list[str | BinaryIO | RemoteObject],
    threads: int | None,
    progress: Callable[[int, int], object] | None,
    options: dict[str, Any],
) -> _core.Store:
    """Read inputs into memory, wherever they lie; options are those of the core.

    Raises
    ------
    InputError
        One cannot be read.
    ParameterError
        Streams and objects are mixed.
    """
    local = [file for file in inputs if not isinstance(file, RemoteObject)]
    if len(local) == len(inputs):
        return _core.read(local, threads=threads, progress=progress, **options)
    named = [file for file in inputs if isinstance(file, str | RemoteObject)]
    if len(named) < len(inputs):
        raise ParameterError("streams and object storage in one source: read them with calls of their own")
    return read_copies(named, threads, progress, options)


def nothing_used(corpus: Corpus) -> str | None:
    """Why nothing could be used of what was read for a corpus; None if something was.

    Examples
    --------
    >>> import io
    >>> from orchestrace.corpus.reading import nothing_used, read_traces
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     nothing_used(read_traces(io.BytesIO(b"")))
    'nothing could be used: the input has no record'
    """
    if len(corpus) or (records := corpus.records)["used"]:
        return None
    if not records["read"]:
        return "nothing could be used: the input has no record"
    kinds = ("quarantined", "ignored", "duplicate")
    counts = ", ".join(f"{records[kind]:,} {kind}" for kind in kinds if records[kind])
    reason = f"nothing could be used of {counted(records['read'], 'record')}: {counts}"
    rejects = corpus.quarantine.select("file", "line", "code", "path", "message").head(1).collect()
    for file, line, code, path, message in rejects.iter_rows():
        reason += f", the first at {file}:{line}: {code}{f' at {path}' if path else ''}: {message}"
    if rejects.is_empty():
        ignored = corpus.record_counts.filter(pl.col("status") == "ignored").select("kind").collect()
        listed = ", ".join(sorted(set(ignored["kind"].drop_nulls()))[:_LISTED])
        reason += f" ({listed})" if listed else ""
    return plain(reason)


class ReadOptions(TypedDict, total=False):
    """Options of reading that `read_traces` documents."""

    format: str
    mapping: MappingFile | None
    extras: bool
    excerpt: Count
    fields: Mapping[str, object] | None
    time_basis: TimeBasis | None
    trace_by: TraceBy | None
    reward_scores: Sequence[str]
    null_values: Mapping[str, Sequence[float]] | None
    max_record: Count | None
    max_depth: Count | None
    max_string: Count | None
    max_expansion: Count | None
    max_decompressed: Count | None


def checked_options(arguments: ReadOptions) -> dict[str, Any]:
    """Options of reading as the core takes them."""
    _core.check_process()
    if unknown := sorted(arguments.keys() - ReadOptions.__annotations__.keys()):
        raise ParameterError(unknown_name("option", unknown[0], sorted(ReadOptions.__annotations__)))
    judge_fields(ReadOptions, arguments)
    options: dict[str, Any] = {
        **arguments,
        "fields": _kinds(arguments.get("fields") or {}),
        "reward_scores": _names("reward_scores", arguments.get("reward_scores", ())),
        "null_values": _numbers("null_values", arguments.get("null_values") or {}),
    }
    if (mapping := arguments.get("mapping")) is not None:
        if (named := arguments.get("format", "auto")) not in ("auto", "mapping"):
            raise ParameterError(f"mapping defines a format, and format is {named!r}: leave one out")
        options |= {"format": "mapping", "mapping": read_mapping(mapping)}
    return options


def _names(option: str, value: object) -> list[str]:
    """A list of names. A single text is refused, since each of its letters would be a name."""
    names = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else None
    if names is None or not all(isinstance(name, str) for name in names):
        raise ParameterError(f"{option} is {value!r}, expected a list of names")
    return sorted(set(names))


def _numbers(option: str, value: object) -> dict[str, list[float]]:
    """Numbers by name, in order. What is no finite number equals none that is recorded, and is refused."""
    if not isinstance(value, Mapping):
        raise ParameterError(f"{option} is {value!r}, expected numbers by name, as in {{'score': [-1]}}")
    named: dict[str, list[float]] = {}
    for name, numbers in sorted(value.items(), key=lambda item: str(item[0])):
        listed = list(numbers) if isinstance(numbers, Iterable) and not isinstance(numbers, str) else None
        if not isinstance(name, str) or listed is None or not all(map(_is_number, listed)):
            raise ParameterError(f"{option} has {name!r}: {numbers!r}, expected a name and a list of numbers")
        named[name] = sorted({float(number) for number in listed})
    return named


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


class ErrorBudget:
    """How many rejected records a call goes on with: it stops when both bounds that are given are passed."""

    def __init__(self, on_error: str, max_errors: int | None, max_error_ratio: float | None) -> None:
        bounded = max_errors is not None or max_error_ratio is not None
        if on_error == "raise" and bounded:
            raise ParameterError(
                "on_error='raise' stops at the first error: max_errors and max_error_ratio have no use"
            )
        self._limited = bounded or on_error == "raise"
        self._errors = max_errors or 0
        self._ratio = max_error_ratio or 0.0

    def check(self, quarantined: int, read: int, rejects: pl.DataFrame) -> None:
        """Raise if the records so far are more than the call allows; `rejects` are some of those rejected."""
        if self._limited and quarantined > self._errors and quarantined > self._ratio * read:
            raise QuarantineError(rejects, quarantined)


def _kinds(fields: Mapping[str, object]) -> dict[str, str]:
    for name in fields:
        if name in SCHEMAS["events"]:
            raise ParameterError(f"field '{name}' is a column of events already and need not be lifted")
    return {name: lifted_kind(name, dtype) for name, dtype in fields.items()}


@dataclass
class Inputs:
    """The files that a source names, in order."""

    inputs: list[str | BinaryIO | RemoteObject] = field(default_factory=list)
    skipped: int = 0
    """Files of folders whose names are not those of recordings, hidden ones not counted."""


def input_files(source: Source | Iterable[Source], opened: ExitStack) -> Inputs:
    """The files that a source names; what has to be opened first is closed with `opened`."""
    listing = Inputs()
    _add_files(source, opened, listing)
    return listing


def _add_files(source: Source | Iterable[Source], opened: ExitStack, listing: Inputs) -> None:
    if isinstance(source, str | os.PathLike):
        _add_path(expanded(source), opened, listing)
    elif hasattr(source, "read"):
        listing.inputs.append(source)  # type: ignore[arg-type]  # a file object is iterable too
    elif isinstance(source, Iterable):
        members = list(source)
        if not members:
            raise InputError("no input: the list of sources is empty")
        for member in members:
            _add_files(member, opened, listing)
    else:
        raise ParameterError(
            f"source is of type {type(source).__name__}, expected a path, a binary file or a list of these"
        )


def _add_path(path: str, opened: ExitStack, listing: Inputs) -> None:
    if path == "-":
        if (stdin := getattr(sys.stdin, "buffer", None)) is None:
            raise InputError("standard input is closed")
        listing.inputs.append(stdin)
    elif is_address(path):
        objects, skipped = remote_files(path)
        listing.inputs += objects
        listing.skipped += skipped
    elif os.path.isdir(path):
        _add_folder(path, listing)
    elif is_file(path):
        listing.inputs.append(path)
    elif os.path.exists(path):
        listing.inputs.append(opened.enter_context(_special(path)))
    elif glob.has_magic(path):
        matches = sorted({match for match in _matches(path) if is_file(match)})
        if not matches:
            raise InputError(f"no file matches '{plain(path)}' (looked from '{os.getcwd()}')")
        listing.inputs += matches
    elif is_collapsed(path):
        raise InputError(
            f"no such file: '{plain(path)}'; give an address as text, since a Path drops a slash"
        )
    else:
        raise InputError(
            f"no such file or folder: '{plain(path)}'{_nearby(path)} (looked from '{os.getcwd()}')"
        )


def _nearby(path: str) -> str:
    """A hint at a file or folder of a similar name in the same folder."""
    folder, name = os.path.split(os.path.normpath(path))
    try:
        with os.scandir(folder or ".") as entries:
            beside = [entry.name for entry in itertools.islice(entries, _BESIDE)]
    except (OSError, ValueError):  # no folder, or a name that no folder can have
        return ""
    speakable = sorted(filter(str.isprintable, beside))
    nearest = _core.nearest(name, speakable) if name.isprintable() else None
    return f"; did you mean '{plain(os.path.join(folder, nearest))}'?" if nearest else ""


def _matches(pattern: str) -> Iterator[str]:
    """Paths that match a glob; ``**`` is any folders below, links to folders too, each folder once.

    `glob.iglob` follows a link to a folder above again and again, until the name is too long.
    """
    head, stars, tail = f"{os.sep}{pattern}".partition(f"{os.sep}**{os.sep}")
    if not stars and head.endswith(f"{os.sep}**"):
        head, stars, tail = head[:-3], "**", "*"
    head = head[1:]
    if not stars:
        yield from glob.iglob(pattern)
        return
    if not head:
        head = os.sep if pattern.startswith(os.sep) else ""
    for folder in glob.iglob(head) if head else ("",):
        for below in _folders(folder):
            yield from _matches(os.path.join(glob.escape(below), tail))


def _folders(top: str) -> Iterator[str]:
    """A folder and those below it except hidden ones, each under its own name rather than that of a link."""
    seen: set[tuple[int, int]] = set()
    entered, linked = [top], list[str]()
    while entered or linked:
        folder = entered.pop() if entered else linked.pop(0)
        try:
            stat = os.stat(folder or os.curdir)
            if (stat.st_dev, stat.st_ino) in seen:
                continue
            with os.scandir(folder or os.curdir) as listed:
                entries = sorted((entry for entry in listed if entry.is_dir()), key=lambda entry: entry.name)
        except OSError:
            continue  # a folder that may not be listed is skipped
        seen.add((stat.st_dev, stat.st_ino))
        yield folder
        for entry in reversed(entries):
            if not entry.name.startswith("."):
                (linked if entry.is_symlink() else entered).append(os.path.join(folder, entry.name))


def _special(path: str) -> BinaryIO:
    """A pipe or a device, opened without waiting for its other end; the reader waits, and can be interrupted.

    Linux distinguishes a pipe that nobody has written to from one at its end, other systems do not.
    """
    expect_an_end(path)
    at_once = 0
    if sys.platform == "linux":
        at_once = os.O_NONBLOCK
    try:
        return open(path, "rb", buffering=0, opener=lambda name, flags: os.open(name, flags | at_once))
    except OSError as error:
        raise InputError(f"{plain(path)}: {error.strerror or error}") from error


def _add_folder(path: str, listing: Inputs) -> None:
    if is_corpus(path):
        raise InputError(f"'{path}' is a corpus that ingest made: open it with read_corpus")
    here: list[str] = []
    others: list[str] = []
    below = [path]
    while below:
        folder = below.pop()
        try:
            with os.scandir(folder) as listed:
                entries = list(listed)
        except OSError:
            continue  # a folder that may not be listed is skipped
        if any(entry.name == MANIFEST for entry in entries) and is_corpus(folder):
            continue
        for entry in entries:
            name = entry.name
            if entry.is_dir():
                if not name.startswith(".") and not entry.is_symlink():
                    below.append(entry.path)
            elif not is_recording(name):
                others += [] if name.startswith(".") else [entry.path]
            # A pipe or device that only lies in it would be waited for; a link to nothing is an error.
            elif entry.is_file() or not os.path.exists(entry.path):
                here.append(entry.path)
    if not here:
        message = f"no recording ({KINDS}) in folder '{plain(path)}'"
        if others:
            message += (
                f"; it has {counted(len(others), 'file')} of other kinds, '{plain(min(others))}' for one:"
            )
            message += " name them to have them read, whatever they are"
        raise InputError(message)
    listing.skipped += len(others)
    listing.inputs += sorted(here)
