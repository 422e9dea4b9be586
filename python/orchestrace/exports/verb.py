"""The verb `export`: checks, measures, writes under another name, then renames."""

import io
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import polars as pl

from .. import _core
from ..base.arguments import Count, Listed, Threads
from ..base.errors import InputError, ParameterError
from ..base.paths import path_of
from ..base.progress import Progress, reporting
from ..base.publication import published_file, published_folder, refuse_existing
from ..base.schema import unknown_name
from ..base.text import plain
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.joined_ids import joined_ids
from ..corpus.parts import sizes_of, stored_table
from ..schedules.scheduling import Durations
from .format import VIEWER_BYTES, Export, Request, Sink, check_folder
from .pseudonyms import Pseudonyms
from .targets import EXPORTS

Format = Annotated[str, Listed(lambda: EXPORTS)]
"""What `export` writes: the name of a target."""

_SAMPLE_EVENTS: Final = 20_000
"""Events from which the size of a file is estimated."""
_SAMPLE_TRACES: Final = 32


@dataclass(frozen=True)
class ExportSize:
    """How large an export would be."""

    traces: int
    events: int
    edges: int
    bytes: int
    """Exact if all traces were measured, else in proportion to some of them."""
    exact: bool

    def __str__(self) -> str:
        about = "" if self.exact else "about "
        rows = f"{self.traces:,} traces, {self.events:,} events, {self.edges:,} edges"
        return f"{about}{self.bytes:,} bytes ({rows})"


@verb
def export(
    corpus: Corpus,
    format: Format,
    path: str | os.PathLike[str],
    *,
    trace_id: str | Iterable[str] | None = None,
    window: tuple[float, float] | None = None,
    credits: pl.DataFrame | pl.LazyFrame | None = None,
    effects: pl.DataFrame | pl.LazyFrame | None = None,
    returns: pl.DataFrame | pl.LazyFrame | None = None,
    per: Literal["turn", "token"] = "turn",
    durations: Durations = "auto",
    program_order: bool = False,
    memory: int | str = "2GiB",
    anonymize: bytes | None = None,
    max_bytes: Count | None = None,
    overwrite: bool = False,
    threads: Threads = None,
    progress: Progress = None,
) -> int:
    """Write recordings for another tool.

    Parameters
    ----------
    corpus
        The recordings.
    format
        A name of `list_exports`, which says of each format what it shows, what opens it and which of the
        options below it takes: native traces, tables, timelines, charts, event logs, tables for trainers.
    path
        The file, which gets its name when it is complete. For a format that is a folder, one that is absent
        or empty.
    trace_id
        Which traces; None takes all, or the only one if the format shows one trace.
    window
        Only events that are going on between these two times of the schedule, in seconds (in steps, where
        that is what it counts) since the trace began, and the edges among them.
    credits
        Rows of `credit` at unit ``event``, of one method: ``trace seq credit``, shown with every event. Of
        tables for trainers, and of episodes that are written back, as in `trainers.trainer_table`.
    effects
        Rows of `replay` for ``drop(each="event")``: ``trace unit_id effect lower upper tier``. Shown with
        every event, beside what they rest on.
    returns, per
        As in `trainers.trainer_table`.
    durations, program_order
        As in `simulate`, whose earliest times are drawn.
    memory
        The budget that `read_corpus` gives the verbs of the tables that are written.
    anonymize
        A secret of at least 16 bytes. Names, tasks, ids and hashes are written as pseudonyms by this key,
        times begin at 0 in each trace, and texts, extras and places are left out. None writes what is
        recorded.
    max_bytes
        Size limit; a larger file is not kept. None means 64 MiB for formats that a viewer loads as a whole
        and no limit for others. `export_size` estimates the size before the first byte, and a trace with too
        many events and edges is refused at once.
    overwrite
        Replace a file that exists.
    threads, progress
        As in `read_traces`; progress counts traces.

    Returns
    -------
    int
        Bytes written, in all files.

    Raises
    ------
    ParameterError
        Unknown format or trace, an option that means nothing to the format, a short key, traces of another
        format than the one that is written back, a single trace whose edges close a cycle, two credits or
        effects of one event, or more bytes than allowed.
    InputError
        The file exists and `overwrite` is false, or it cannot be written.

    Notes
    -----
    A file has another name until it is complete, so a crash leaves the old file or none. A corpus on disk
    goes through memory piece by piece. O(events + edges). The file of each format names its source.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import orchestrace as ot
    >>> path = tempfile.mkdtemp() + "/trace.json"
    >>> corpus = ot.generate(traces=1, seed=0)
    >>> effects = ot.replay(corpus, ot.interventions.drop(each="event"))
    >>> written = ot.export(corpus, "perfetto", path, effects=effects)
    >>> sorted(json.loads(pathlib.Path(path).read_text()))
    ['displayTimeUnit', 'otherData', 'traceEvents']
    """
    target = path_of(path)
    options: dict[str, Any] = {
        "window": window,
        "credits": credits,
        "effects": effects,
        "returns": returns,
        "per": per,
    }
    options |= {"durations": durations, "program_order": program_order, "memory": memory, "threads": threads}
    options["anonymize"] = anonymize
    kind, some, request = _judged(corpus, format, trace_id, options)
    if not (overwrite or kind.folder):
        refuse_existing(target)
    if kind.importer is not None:
        _refuse_source(some, target)
    limit = kind.max_bytes if max_bytes is None else max_bytes
    if limit is not None:
        _check_size(_measured(kind, some, request, limit), limit, kind)
    with reporting(progress, "exporting") as callback:
        request = _with(request, progress=callback)
        if kind.folder:
            check_folder(target)
            with published_folder(target) as folder:
                kind.write(some, folder, request)
            return sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
        with published_file(target, overwrite=overwrite) as file:
            sink = Sink(file, limit)
            try:
                kind.write(some, sink, request)
            except (InputError, pl.exceptions.PolarsError):
                if sink.failure is not None:
                    raise sink.failure from None
                raise
            return sink.written


@verb
def export_size(
    corpus: Corpus,
    format: Format,
    *,
    trace_id: str | Iterable[str] | None = None,
    window: tuple[float, float] | None = None,
    credits: pl.DataFrame | pl.LazyFrame | None = None,
    effects: pl.DataFrame | pl.LazyFrame | None = None,
    returns: pl.DataFrame | pl.LazyFrame | None = None,
    per: Literal["turn", "token"] = "turn",
    durations: Durations = "auto",
    program_order: bool = False,
    threads: Threads = None,
) -> ExportSize:
    """Estimate how large an export would be, before it is written.

    Parameters
    ----------
    corpus, format, trace_id, window, credits, effects, returns, per, durations, program_order, threads
        As in `export`.

    Returns
    -------
    ExportSize
        ``traces events edges`` that would be looked at (int), ``bytes`` (int), and whether that is exact: up
        to 32 traces and about 20,000 events are written to nowhere and counted, of more as many are taken
        from all over the corpus. Of ``parquet``, whose compression gains by length, it is an upper bound.

    Raises
    ------
    ParameterError
        As in `export`.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=3, seed=0)
    >>> size = ot.export_size(corpus, "ocel")
    >>> size.traces, size.exact
    (3, True)
    """
    options: dict[str, Any] = {
        "window": window,
        "credits": credits,
        "effects": effects,
        "returns": returns,
        "per": per,
    }
    options |= {"durations": durations, "program_order": program_order, "threads": threads}
    return _measured(*_judged(corpus, format, trace_id, options))


@verb
def list_exports() -> pl.DataFrame:
    """All formats that `export` writes.

    Returns
    -------
    DataFrame
        ``name summary scope opens suffix importer options`` (String, options a List(String)); ``scope`` says
        how much is shown: one ``trace``, any ``traces``, or the ``corpus``. ``importer`` is the only format
        of recordings that can be written back so, null for any.

    Examples
    --------
    >>> import orchestrace as ot
    >>> {"jsonl", "perfetto", "ocel"} <= set(ot.list_exports()["name"])
    True
    """
    columns = ("name", "summary", "scope", "opens", "suffix", "importer")
    rows = [
        {**{name: getattr(entry, name) for name in columns}, "options": list(entry.options)}
        for entry in EXPORTS.values()
    ]
    schema = {**dict.fromkeys(columns, pl.String()), "options": pl.List(pl.String)}
    return pl.DataFrame(rows, schema=schema)


def default_name(format: str) -> Path:
    """The default name of the file of a format."""
    kind = EXPORTS.get(format)
    if kind is None:
        raise ParameterError(unknown_name("format", format, list(EXPORTS)))
    stem = "trace" if kind.scope != "corpus" else "turns" if kind.suffix == ".parquet" else "corpus"
    return Path(stem + kind.suffix)


def only_traces(corpus: Corpus, trace_id: str | Iterable[str]) -> Corpus:
    """The corpus of the traces with these ids, each of which exactly one trace has.

    Raises
    ------
    ParameterError
        No trace has one of them, or several have.
    """
    names = [trace_id] if isinstance(trace_id, str) or not isinstance(trace_id, Iterable) else list(trace_id)
    for name in names:
        if not isinstance(name, str):
            raise ParameterError(f"trace_id is {name!r}, expected the name of a trace")
    every = corpus.traces.select("trace", "trace_id")
    traces = every.filter(pl.col("trace_id").is_in(names)).collect(engine="streaming")
    if unknown := set(names).difference(traces["trace_id"]):
        parts = {name: trace for name, trace in joined_ids(corpus.findings).items() if name in unknown}
        other = pl.DataFrame({"trace": list(parts.values()), "trace_id": list(parts)}, schema=traces.schema)
        traces = pl.concat([traces, other])
    counts = dict(traces.group_by("trace_id").len().rows())
    for name in names:
        if (count := counts.get(name, 0)) > 1:
            raise ParameterError(f"trace_id '{name}' has {count:,} traces, expected one")
        if not count:
            existing = corpus.traces.select("trace_id").collect(engine="streaming")["trace_id"].to_list()
            nearest = _core.nearest(name, existing)
            hint = f"; did you mean '{nearest}'?" if nearest else ""
            raise ParameterError(f"no trace has the trace_id '{name}'{hint} ({len(existing):,} are known)")
    return corpus.filter(pl.col("trace").is_in(traces["trace"].implode()))


def _judged(
    corpus: Corpus, format: str, trace_id: str | Iterable[str] | None, options: dict[str, Any]
) -> tuple[Export, Corpus, Request]:
    """The format, traces and options of a call. Raises ParameterError where they do not fit."""
    kind = EXPORTS[format]
    defaults = {field.name: field.default for field in fields(Request)}
    for name, value in options.items():
        is_default = value is None or (isinstance(value, str | bool) and value == defaults[name])
        if name != "threads" and name not in kind.options and not is_default:
            raise ParameterError(
                f"{name} means nothing to the export '{kind.name}' (its options: {', '.join(kind.options)})"
            )
    if options.get("anonymize") is not None:
        Pseudonyms(options["anonymize"])
    window = options.get("window")
    request = Request(**{**options, "window": None if window is None else _times(window)})
    return kind, _chosen(corpus, kind, trace_id), request


def _chosen(corpus: Corpus, kind: Export, trace_id: str | Iterable[str] | None) -> Corpus:
    """The corpus of the chosen traces."""
    if trace_id is not None:
        corpus = only_traces(corpus, trace_id)
    if kind.importer is not None:
        _expect_recordings_of(corpus, kind.importer)
    if kind.scope != "trace":
        return corpus
    if (count := len(corpus)) != 1:
        raise ParameterError(f"the corpus has {count:,} traces, expected one: give trace_id=")
    return next(piece for piece in corpus.slices() if len(piece))


def _expect_recordings_of(corpus: Corpus, importer: str) -> None:
    """Refuse what was read of another format than the one that is written back."""
    name = pl.col("importer").cast(pl.String)
    others = corpus.traces.filter(name.ne_missing(importer)).select("trace_id", name).head(1).collect()
    for trace_id, other in others.iter_rows():
        raise ParameterError(
            f"trace '{trace_id}' is of the format '{other}', and only recordings of '{importer}' are written "
            f"back: read these alone, with format='{importer}', or filter the corpus"
        )


def _refuse_source(corpus: Corpus, target: Path) -> None:
    """Refuse to write over a file that the recordings are in: it may have more of them."""
    files = corpus.traces.select(pl.col("file").cast(pl.String)).unique().collect(engine="streaming")["file"]
    if os.path.realpath(target) in {os.path.realpath(file) for file in files.drop_nulls()}:
        raise ParameterError(f"the target '{target}' is one of the files that the recordings are in")


def _times(window: object) -> tuple[float, float]:
    try:
        low, high = (float(end) for end in window)  # type: ignore[attr-defined]  # a value that is not iterable is refused below
    except (TypeError, ValueError):
        raise ParameterError(f"window is {window!r}, expected two times (from, to)") from None
    if math.isnan(low) or math.isnan(high) or low > high:
        raise ParameterError(f"window is from {low:g} to {high:g}, expected the earlier time first")
    return low, high


def _with(request: Request, **changes: Any) -> Request:
    return Request(**{**{field.name: getattr(request, field.name) for field in fields(Request)}, **changes})


def _measured(kind: Export, corpus: Corpus, request: Request, limit: int | None = None) -> ExportSize:
    """Write some traces to nowhere, and take the whole in proportion.

    With a `limit` a trace that takes long to measure, and cannot be within it, is refused before its records
    are made.
    """
    sizes = corpus.traces.select("trace", "n_events", "n_edges").collect(engine="streaming")
    weight = (sizes["n_events"].cast(pl.Int64) + sizes["n_edges"].cast(pl.Int64)).alias("weight") + 1
    sample = sizes.with_columns(weight).gather_every(max(1, math.ceil(sizes.height / _SAMPLE_TRACES)))
    before = sample["n_events"].cast(pl.Int64).cum_sum() - sample["n_events"]
    sample = sample.filter(before < _SAMPLE_EVENTS)
    exact = sample.height == sizes.height
    some = corpus if exact else corpus.filter(pl.col("trace").is_in(sample["trace"].implode()))
    written = _written(kind, some, request, None if limit is None else max(limit, VIEWER_BYTES))
    total, seen = int(weight.sum() or 0), int(sample["weight"].sum() or 0)
    return ExportSize(
        traces=sizes.height,
        events=int(sizes["n_events"].sum()),
        edges=int(sizes["n_edges"].sum()),
        bytes=written if exact else math.ceil(written * total / max(seen, 1)),
        exact=exact,
    )


def _written(kind: Export, corpus: Corpus, request: Request, limit: int | None) -> int:
    if not kind.folder:
        sink = Sink(limit=limit)
        kind.write(corpus, sink, request)
        return sink.written
    total = 0
    for piece in corpus.slices():
        for name, size in sizes_of(piece).items():
            if size:
                buffer = io.BytesIO()
                stored_table(piece, name).write_parquet(buffer, compression="zstd", compression_level=1)
                total += buffer.tell()
    return total


def _check_size(size: ExportSize, limit: int, kind: Export) -> None:
    if size.bytes <= limit:
        return
    less = [name for name in ("trace_id", "window") if name in kind.options]
    fewer = f"name fewer traces ({', '.join(f'{name}=' for name in less)}), or " if less else ""
    raise ParameterError(plain(f"the file would have {size}: {fewer}pass max_bytes={size.bytes}"))
