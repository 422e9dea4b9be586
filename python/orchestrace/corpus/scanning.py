"""Lazy frames over recordings: a query builds only its columns, and stops reading when it has enough."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from typing import Any, Final, Unpack

import polars as pl

from .. import _core
from ..base.arguments import Count, Share, Threads
from ..base.batched_scans import scan_batches
from ..base.errors import ParameterError
from ..base.schema import SCHEMAS, dtype_of
from ..base.verbs import verb
from ..storage.objects import RemoteObject
from .reading import ErrorBudget, OnError, ReadOptions, Source, checked_options, input_files
from .remote_inputs import local_files
from .skipped import lossy_counts, warn_of_skipped

_FIRST_BATCH: Final = 1
"""Bytes of the first batch: a block a worker, so that a query for a few rows reads no more than that."""
_LARGEST_BATCH: Final = 128 << 20


@verb
def scan_events(
    source: Source | Iterable[Source],
    *,
    threads: Threads = None,
    on_error: OnError = "quarantine",
    max_errors: Count | None = None,
    max_error_ratio: Share | None = None,
    **options: Unpack[ReadOptions],
) -> pl.LazyFrame:
    """Scan the events of recordings as a `polars.LazyFrame`, without holding them all.

    The columns are those of `Corpus.events`, with ``trace_id`` after ``trace``. Columns that a query does
    not use are not built, rows that its predicate rejects are dropped batch by batch, and ``head(n)`` reads
    the first block only. Every record is checked as completely as by `read_traces`, whatever the query.

    Parameters
    ----------
    source
        Files, globs and folders as in `read_traces`, looked up now. Streams are not allowed, because a plan
        may be collected many times.
    threads
        Threads that parse; ``None`` uses all cores.
    on_error, max_errors, max_error_ratio
        As in `read_traces`, decided when all of the input has been read. Rejected records are left out, and a
        warning counts them; `read_traces` and ``orchestrace validate`` say why.
    **options
        ``format mapping extras excerpt fields time_basis trace_by reward_scores null_values max_record
        max_depth max_string max_expansion`` as in `read_traces`.

    Raises
    ------
    InputError
        Nothing matches; when collected: a file cannot be read.
    QuarantineError
        When collected: more records failed than the call allows.

    Notes
    -----
    Linear in the bytes; memory is that of a batch, some 128 MiB of columns, and of what the query keeps.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> path = f"{tempfile.mkdtemp()}/runs.jsonl"
    >>> _ = ot.generate(path, traces=5, seed=0)
    >>> calls = ot.scan_events(path).filter(pl.col("type") == "tool_call").select("agent", "tool")
    >>> calls.collect().columns
    ['agent', 'tool']
    """
    budget = ErrorBudget(on_error, max_errors, max_error_ratio)
    return _scan("events", source, threads, budget, checked_options(options))


@verb
def scan_traces(
    source: Source | Iterable[Source],
    *,
    threads: Threads = None,
    on_error: OnError = "quarantine",
    max_errors: Count | None = None,
    max_error_ratio: Share | None = None,
    **options: Unpack[ReadOptions],
) -> pl.LazyFrame:
    """Scan the traces of recordings as a `polars.LazyFrame`: one row each, the columns of `Corpus.traces`.

    Parameters, errors and cost are those of `scan_events`.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> path = f"{tempfile.mkdtemp()}/runs.jsonl"
    >>> _ = ot.generate(path, traces=5, seed=0)
    >>> ot.scan_traces(path).select("n_events").collect().height
    5
    """
    budget = ErrorBudget(on_error, max_errors, max_error_ratio)
    return _scan("traces", source, threads, budget, checked_options(options))


def _scan(
    table: str,
    source: Source | Iterable[Source],
    threads: int | None,
    budget: ErrorBudget,
    options: dict[str, Any],
) -> pl.LazyFrame:
    with ExitStack() as opened:
        files = input_files(source, opened).inputs
    paths = [file for file in files if isinstance(file, str | RemoteObject)]
    if len(paths) < len(files):
        raise ParameterError("a scan reads its files again: use read_traces for streams and pipes")
    schema = _schema(table, options)

    def frames(columns: list[str], n_rows: int | None) -> Iterator[pl.DataFrame]:
        return _Reading(table, schema, paths, threads, budget, options).frames(columns, n_rows)

    return scan_batches(frames, schema)


def _schema(table: str, options: dict[str, Any]) -> pl.Schema:
    schema = dict(SCHEMAS[table])
    if table != "events":
        return pl.Schema(schema)
    lifted: dict[str, str] = options["fields"]
    named = {"trace": schema.pop("trace"), "trace_id": SCHEMAS["traces"]["trace_id"]}
    return pl.Schema({**named, **schema, **{name: dtype_of(kind) for name, kind in lifted.items()}})


class _Reading:
    """One collect of a scan."""

    def __init__(
        self,
        table: str,
        schema: pl.Schema,
        paths: list[str | RemoteObject],
        threads: int | None,
        budget: ErrorBudget,
        options: dict[str, Any],
    ) -> None:
        self._table = table
        self._schema = schema
        self._paths = paths
        self._threads = threads
        self._budget = budget
        self._options = options

    def frames(self, columns: list[str], n_rows: int | None) -> Iterator[pl.DataFrame]:
        """The table batch by batch, with the columns that are asked for."""
        with local_files(self._paths) as files:
            yield from self._frames_of(files, columns, n_rows)

    def _frames_of(
        self, files: list[tuple[str, str]], wanted: list[str], n_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        inputs = [(path, name, (0, 0, 0, False)) for path, name in files]
        if self._table == "events":
            event_columns = [name for name in SCHEMAS["events"] if name in wanted]
            # The place of its trace's row leads from an event to the id.
            named = ["trace"] if "trace_id" in wanted and "trace" not in event_columns else []
            tables = ["events", "traces"] if "trace_id" in wanted else ["events"]
            reader = _core.TraceReader(inputs, tables=tables, columns=event_columns + named, **self._options)
        else:
            reader = _core.TraceReader(inputs, tables=[self._table], **self._options)
        # A few rows are in the first block; a second worker would only read the next one in vain.
        threads = 1 if n_rows is not None and n_rows <= 1_000 else self._threads
        limit, read, quarantined = _FIRST_BATCH, 0, 0
        rejects: list[pl.DataFrame] = []
        skipped: list[pl.DataFrame] = []
        while (batch := reader.next(limit, threads=threads)) is not None:
            store, parts, _ = batch
            read += sum(part[0] for part in parts)
            if count := store.records_quarantined:
                quarantined += count
                rejects = rejects or [pl.DataFrame(store.table("quarantine")).head(100)]
            skipped.append(lossy_counts(pl.LazyFrame(store.table("record_counts"))))
            yield self._frame(store, wanted)
            limit, threads = min(max(4 * limit, 16 << 20), _LARGEST_BATCH), self._threads
        if quarantined:
            self._budget.check(quarantined, read, rejects[0])
            warnings.warn(
                f"{quarantined:,} of {read:,} records were rejected and are not in the result; "
                "read_traces(...).quarantine says why",
                stacklevel=2,
            )
        warn_of_skipped(skipped)

    def _frame(self, store: _core.Store, wanted: list[str]) -> pl.DataFrame:
        frame = pl.DataFrame(store.table(self._table))
        if "trace_id" in wanted and "trace_id" not in frame.columns:
            traces = pl.DataFrame(store.table("traces"))
            first = int(traces["trace"][0]) if traces.height else 0
            ids = traces["trace_id"].gather(frame["trace"] - first)
            frame = frame.with_columns(trace_id=ids)
        if not frame.width:
            # Columns that no event of this batch has: there are only their rows.
            frame = pl.DataFrame({wanted[0]: pl.repeat(None, store.n_events, eager=True)})
            frame = frame.cast({wanted[0]: self._schema[wanted[0]]})
        return frame.select(
            pl.col(name) if name in frame.columns else pl.lit(None, self._schema[name]).alias(name)
            for name in wanted
        )
