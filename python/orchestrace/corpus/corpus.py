"""The class `Corpus`: recordings in memory, as tables."""

import os
import pickle
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, overload

import polars as pl

from .. import _core
from ..base.arguments import Count, Threads
from ..base.errors import InputError, OrchestraceError, ParameterError
from ..base.progress import Progress, reporting
from ..base.publication import published, target_of
from ..base.schema import EXTENSION_FIELDS, MAPPING_COUNTS, SCHEMAS, cast_exactly, dtype_of, unknown_name
from ..base.verbs import verb
from ..storage.addresses import is_address
from .arrow_tables import arrow_table
from .assemble import Table, frame_of, tables_of
from .coded_frames import store_of_frames
from .display import as_html, as_text
from .joined_ids import with_joined_ids
from .measures import Measures, measures_of
from .numpy_arrays import numpy_columns
from .remote_inputs import read_again
from .source import EventSource, event_source

if TYPE_CHECKING:
    import pyarrow


_DERIVED = {"agents"}


class Corpus:
    """Recordings as immutable columns; every table is a `polars.LazyFrame`.

    Made by `read_traces`, `generate` and `Corpus.from_arrow`. A table always has its full schema: a column
    that no record has is a null literal and takes no memory. (``trace``, ``seq``) is the key of an event
    inside a corpus; join different corpora on ``trace_id``.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=4, seed=0)
    >>> corpus.traces.collect().height
    4
    >>> corpus.events.collect_schema()["t"]
    Float64
    """

    is_whole: ClassVar[bool] = True
    """Whether a name that it lacks is unknown. A part of a corpus may lack what other parts have."""

    def __init__(self, store: _core.Store, options: dict[str, Any] | None = None) -> None:
        self._store = store
        self._options = options or {}  # of reading, to find records again
        self._frames: dict[str, pl.DataFrame] = {}
        self._mapping_counts = (store.mapping_counts or ([], []))[0]

    @classmethod
    @verb
    def from_arrow(
        cls,
        *,
        traces: object,
        events: object,
        edges: object = None,
        measures: object = None,
        labels: object = None,
        findings: object = None,
        quarantine: object = None,
        record_counts: object = None,
        threads: Threads = None,
    ) -> "Corpus":
        """Make a corpus of tables: Polars frames or anything with ``__arrow_c_stream__``.

        Columns are found by name and given our types, exactly or not at all. Needed are ``traces``: ``trace
        trace_id``; ``events``: ``trace id t type agent``; ``edges``: ``trace src dst type`` (``src`` and
        ``dst`` are ``seq`` of the same trace); ``measures``: ``trace kind name value``. The rest has
        defaults: ``seq`` is the order of rows, ``task_id`` the trace_id, ``group_id`` the first of the
        trace's events, else the task_id; counts and ``agents`` are derived, whatever is given. A column
        of ``events`` that the schema does not have is kept as a lifted column.

        Raises
        ------
        SchemaError
            A column is absent, has another type, a null or a word where there must not be one, or the
            tables contradict each other.

        Notes
        -----
        Linear; a table that is not in order of ``trace`` (events: and ``seq``) is sorted.

        Examples
        --------
        >>> import polars as pl
        >>> import orchestrace as ot
        >>> events = pl.DataFrame({"trace": [0, 0], "id": ["a", "b"], "t": [0.0, 1.0],
        ...     "type": ["message", "return"], "agent": ["worker", "worker"]})
        >>> traces = pl.DataFrame({"trace": [0], "trace_id": ["one"]})
        >>> corpus = ot.Corpus.from_arrow(traces=traces, events=events)
        >>> corpus.traces.select("task_id", "importer", "n_events").collect().row(0)
        ('one', 'arrow', 2)
        """
        tables = {
            "traces": traces,
            "events": events,
            "edges": edges,
            "measures": measures,
            "labels": labels,
            "findings": findings,
            "quarantine": quarantine,
        }
        # Counts that are not given are made of the other tables; an empty table says that nothing was read.
        if record_counts is not None:
            tables["record_counts"] = record_counts
        return cls(store_of_frames(tables_of(tables), threads=threads))

    @property
    def traces(self) -> pl.LazyFrame:
        """One row per trace, in input order; key ``trace``."""
        return self._table("traces")

    @property
    def events(self) -> pl.LazyFrame:
        """One row per event, in document order; key (``trace``, ``seq``); lifted columns come last."""
        return self._table("events")

    @property
    def edges(self) -> pl.LazyFrame:
        """One row per edge; ``src`` and ``dst`` are ``seq`` of the same trace."""
        return self._table("edges")

    @property
    def agents(self) -> pl.LazyFrame:
        """One row per name that acts in a trace, in order of first appearance."""
        return self._table("agents")

    @property
    def measures(self) -> pl.LazyFrame:
        """One row per reward, cost and metric of a trace; key (``trace``, ``kind``, ``name``)."""
        return self._table("measures")

    @property
    def labels(self) -> pl.LazyFrame:
        """What people said about traces; key (``trace_id``, ``annotator``)."""
        return self._table("labels")

    @property
    def findings(self) -> pl.LazyFrame:
        """What is odd about accepted traces: code, first place and how often."""
        return self._table("findings")

    @property
    def quarantine(self) -> pl.LazyFrame:
        """One row per record that was not accepted: place, code, JSON pointer, message, excerpt."""
        return self._table("quarantine")

    @property
    def records(self) -> dict[str, int]:
        """How many records were ``read``: the sum of ``used``, ``ignored``, ``duplicate``, ``quarantined``.

        A record is what its format counts: a trace, a line of a session, a span. It is used if it is in a
        trace, ignored if it means nothing to one, a duplicate if it repeats another one, else quarantined.
        The numbers are about the reading: a filter leaves them as they are.
        """
        counts = self.record_counts.group_by("status").agg(pl.col("count").sum()).collect()
        by_status = dict(counts.select(pl.col("status").cast(pl.String), "count").iter_rows())
        kinds = {
            word: int(by_status.get(word, 0)) for word in ("used", "ignored", "duplicate", "quarantined")
        }
        return {"read": sum(kinds.values()), **kinds}

    @property
    def record_counts(self) -> pl.LazyFrame:
        """What became of the records that were read: file, importer, status, kind of the ignored, count."""
        return self._table("record_counts")

    @property
    def mapping_counts(self) -> pl.DataFrame:
        """How often each key of the mapping found a value: ``key pointer matched of type``.

        What the columns mean says `orchestrace.mapping.check`. Empty where nothing was read by a mapping. The
        numbers are about the reading: a filter leaves them as they are.
        """
        return pl.DataFrame(self._mapping_counts, schema=MAPPING_COUNTS, orient="row")

    def slices(self) -> Iterator["Corpus"]:
        """The corpus in pieces that memory has room for; here the corpus itself, on disk several.

        Of a corpus on disk without traces it is one piece, which is empty but has the columns of all others.
        """
        loading = [load for _, load in self.pieces()] or [lambda: Corpus(_core.read([]))]
        yield from (load() for load in loading)

    def reward_channels(self) -> list[str]:
        """Names of all rewards that some trace has, sorted.

        Examples
        --------
        >>> import orchestrace as ot
        >>> "team" in ot.generate(traces=2, seed=0).reward_channels()
        True
        """
        names = self.measures.filter(pl.col("kind") == "reward").select(
            pl.col("name").cast(pl.String).unique()
        )
        return sorted(names.collect(engine="streaming")["name"])

    def pieces(self) -> Iterator[tuple[str, Callable[[], "Corpus"]]]:
        """Like `slices`, but with stable names, and each piece is loaded only when it is needed."""
        yield "part=000", lambda: self

    def _divisions(self, name: str) -> Iterator[pl.LazyFrame]:
        """A table of traces in pieces, each with all rows of its traces; on disk the partitions."""
        yield self._table(name)

    def _streams(self, name: str) -> list[_core.Stream]:
        """A table as the core hands it out, piece by piece."""
        return [self._store.table(name)]

    def _lifted(self) -> Mapping[str, str]:
        """Columns that fields of events were lifted into, and their kinds."""
        return self._store.lifted

    @verb
    def filter(self, *predicates: pl.Expr | bool | list[bool]) -> "Corpus":
        """The traces for which all predicates on columns of `traces` hold, with everything that is theirs.

        Examples
        --------
        >>> import polars as pl
        >>> import orchestrace as ot
        >>> corpus = ot.generate(traces=4, seed=0)
        >>> len(corpus.filter(pl.col("trace") < 2))
        2
        """
        numbers = self.traces.filter(*predicates).select("trace").collect()["trace"]
        return Corpus(self._store.filter(numbers.to_list()), self._options)

    @verb
    def with_measures(self, frame: Measures) -> "Corpus":
        """Add rewards, costs or metrics of your own to the traces of a corpus.

        Parameters
        ----------
        frame
            A frame, or the path of a file with one: ``.csv``, ``.parquet``, ``.jsonl`` or ``.ndjson``. Keyed
            by ``trace`` or ``trace_id``. Wide: every other column is a reward channel. Long: ``name``,
            ``value`` and optionally ``kind`` (default ``"reward"``). Numbers, or flags, which are 1 and 0. A
            measure replaces one of the same trace, kind and name. A null changes nothing.

        Raises
        ------
        InputError
            The file cannot be read.
        ParameterError
            Unknown or ambiguous traces, one measure given twice, or a value that is not finite.
        SchemaError
            A column is absent or holds no numbers.

        Examples
        --------
        >>> import polars as pl
        >>> import orchestrace as ot
        >>> corpus = ot.generate(traces=2, seed=0)
        >>> extended = corpus.with_measures(pl.DataFrame({"trace": [0, 1], "mine": [0.5, 1.0]}))
        >>> extended.measures.filter(pl.col("name") == "mine").select("value").collect()["value"].to_list()
        [0.5, 1.0]
        """
        new = measures_of(self, frame)
        key = ["trace", "kind", "name"]
        merged = pl.concat([self._stored("measures"), new]).unique(key, keep="last", maintain_order=True)
        return self._replacing(measures=merged.sort("trace", maintain_order=True))

    @verb
    def with_fields(self, frame: Table) -> "Corpus":
        """The corpus with own values of extension fields: scores, critics' values, turns, grouping keys.

        Parameters
        ----------
        frame
            Keyed by ``trace`` or ``trace_id`` and by ``seq`` or ``id``; every other column is one of
            `EXTENSION_FIELDS`. A value replaces what is there, a null leaves it. ``group_id`` regroups the
            traces that it names.

        Raises
        ------
        ParameterError
            Unknown or ambiguous events, a column that is no extension field.
        SchemaError
            A column that does not have the type of its field.

        Examples
        --------
        >>> import polars as pl
        >>> import orchestrace as ot
        >>> corpus = ot.generate(traces=2, seed=0)
        >>> scored = corpus.with_fields(pl.DataFrame({"trace": [0], "seq": [0], "score": [0.25]}))
        >>> scored.events.filter(pl.col("score").is_not_null()).select("score").head(1).collect().item()
        0.25
        """
        located = self._located(frame_of(frame, "fields"), "fields")
        events = self._stored("events")
        if "seq" not in located.columns and "id" not in located.columns:
            raise ParameterError("fields have neither a column 'seq' nor 'id' to find the events by")
        key = ["trace", *(name for name in ("seq", "id") if name in located.columns)]
        located = located.with_columns(
            cast_exactly(located[name], SCHEMAS["events"][name], f"fields.{name}") for name in key
        )
        fields = [name for name in located.columns if name not in key]
        for name in fields:
            if name not in EXTENSION_FIELDS:
                raise ParameterError(unknown_name("extension field", name, list(EXTENSION_FIELDS)))
        _check_keys(located.select(key), events.select(key), "event")
        new = located.select(
            *key,
            *(
                cast_exactly(located[n], SCHEMAS["events"][n], f"fields.{n}").alias(f"new {n}")
                for n in fields
            ),
        )
        joined = events.join(new, on=key, how="left", maintain_order="left")
        values = {
            n: pl.coalesce(f"new {n}", n) if n in events.columns else pl.col(f"new {n}") for n in fields
        }
        order = [
            name for name in (*SCHEMAS["events"], *self._store.lifted) if name in {*events.columns, *fields}
        ]
        events = joined.with_columns(**values).select(order)
        if "group_id" not in fields:
            return self._replacing(events=events)
        regrouped = located.filter(pl.col("group_id").is_not_null())["trace"].unique().implode()
        derived = pl.when(~pl.col("trace").is_in(regrouped)).then("group_id")  # null: the core finds it again
        return self._replacing(events=events, traces=self._stored("traces").with_columns(group_id=derived))

    @verb
    def write_jsonl(
        self,
        target: str | os.PathLike[str] | BinaryIO,
        *,
        overwrite: bool = False,
        threads: Threads = None,
        progress: Progress = None,
    ) -> int:
        """Write the corpus as native JSONL, one document per line, and return the number of traces.

        What was read in the native format comes back as it was, up to the order of keys and the spelling of
        numbers. Facts that the format has no place for travel on the first event as ``x_trace``.

        Parameters
        ----------
        target
            A path or a binary file object. A file has its name when it is complete, and is removed if it
            cannot be completed.
        overwrite
            Replace a file that exists.
        threads, progress
            As in `read_traces`.

        Raises
        ------
        InputError
            The file exists and `overwrite` is false, or it cannot be written.

        Examples
        --------
        >>> import io
        >>> import orchestrace as ot
        >>> buffer = io.BytesIO()
        >>> ot.generate(traces=3, seed=0).write_jsonl(buffer)
        3
        """
        with published(target, overwrite=overwrite) as sink, reporting(progress, "writing") as callback:
            return self._store.write_jsonl(sink, threads=threads, progress=callback)

    @overload
    def to_arrow(self, table: str) -> "pyarrow.Table": ...
    @overload
    def to_arrow(self, table: None = None) -> "dict[str, pyarrow.Table]": ...
    @verb
    def to_arrow(self, table: str | None = None) -> "pyarrow.Table | dict[str, pyarrow.Table]":
        """One table as a `pyarrow.Table`, or all of them by name.

        Numbers, texts and names of a corpus in memory are not copied: the tables share the buffers of the
        core. Types: numbers as in the schema, names ``dictionary<uint32, string>``, words of closed
        vocabularies ``dictionary<uint8, string_view>``, texts ``string_view``, ``started_at`` ``timestamp[ns,
        UTC]``. A column that no record has is all null. A corpus on disk is read as a whole.

        Raises
        ------
        ParameterError
            There is no such table, or pyarrow is not installed.

        Examples
        --------
        >>> import orchestrace as ot
        >>> corpus = ot.generate(traces=2, seed=0)
        >>> corpus.to_arrow("traces").num_rows, sorted(corpus.to_arrow())[:3]
        (2, ['agents', 'edges', 'events'])
        """
        if table is not None:
            return arrow_table(self, table)
        return {name: arrow_table(self, name) for name in SCHEMAS}

    @verb
    def to_numpy(self, table: str) -> dict[str, Any]:
        """The columns of one table as NumPy arrays by name, all of the length of the table.

        - Numbers that are always there: arrays of their type (``trace``, ``seq``: uint32; ``t``: float64).
        - Other floats: float64, NaN for null; no recorded number is NaN.
        - Other integers and flags: `numpy.ma.MaskedArray`, masked for null.
        - Names and words: (``codes``, ``categories``), int32 with -1 for null, and an object array of texts.
        - Texts: object arrays of str, None for null. Lists: object arrays of float64 arrays, None for null.
        - ``started_at``: datetime64[ns], in UTC, NaT for null.

        Raises
        ------
        ParameterError
            There is no such table.

        Notes
        -----
        Linear; floats and full integers are not copied where they lie in one piece. Texts cost a Python
        object each: leave them to `to_arrow` where there are many.

        Examples
        --------
        >>> import orchestrace as ot
        >>> events = ot.generate(traces=2, seed=0).to_numpy("events")
        >>> events["t"].dtype.name, events["type"].codes.dtype.name
        ('float64', 'int32')
        """
        return numpy_columns(self, table)

    @verb
    def write_quarantined(self, target: str | os.PathLike[str] | BinaryIO, *, overwrite: bool = False) -> int:
        """Write the rejected records as they stand in their files, one per line, and return how many.

        Line k is row k of `quarantine`, sorted by file and offset, so that each can be mended beside what is
        wrong with it; the mended file is an input like any other. A line end inside of a record becomes a
        space.

        Parameters
        ----------
        target
            A path or a binary file object. A file has its name when it is complete, and is removed if it
            cannot be completed.
        overwrite
            Replace a file that exists.

        Raises
        ------
        InputError
            A file is gone, has changed, or was a stream that cannot be read again; the target exists and
            `overwrite` is false, or it cannot be written.

        Examples
        --------
        >>> import io, tempfile
        >>> import orchestrace as ot
        >>> path = f"{tempfile.mkdtemp()}/runs.jsonl"
        >>> with open(path, "w") as file:
        ...     _ = file.write('{"trace_id": 1}\\n')
        >>> broken = io.BytesIO()
        >>> ot.read_traces(path).write_quarantined(broken), broken.getvalue()
        (1, b'{"trace_id": 1}\\n')
        """
        sink = target_of(target)
        places = self.quarantine.select(pl.col("file").cast(pl.String), "offset", "length")
        rejects = places.unique().sort("file", "offset").collect(engine="streaming")
        origins = {file: self._origin(file) for file in rejects["file"].unique(maintain_order=True)}
        if isinstance(sink, Path) and os.path.realpath(sink) in map(os.path.realpath, origins.values()):
            raise ParameterError(f"the target '{sink}' is one of the files that the records are in")
        with published(sink, overwrite=overwrite) as out:
            for (file,), rows in rejects.group_by("file", maintain_order=True):
                spans = rows.select("offset", "length").rows()
                count = _core.copy_records(origins[str(file)], spans, out)
                if count != len(spans):
                    raise InputError(
                        f"'{file}' has changed since it was read: {count} of {len(spans)} records found"
                    )
        return rejects.height

    def identity(self) -> dict[str, object] | None:
        """What a result depends on beside the call; None if that is unknown."""
        return None

    @verb
    def source(self, trace: Count, seq: Count) -> "EventSource":
        """Find the record that an event was made of, with its text.

        Parameters
        ----------
        trace, seq
            The key of the event.

        Returns
        -------
        EventSource
            ``file line offset length text``. A native trace gives the object of the event in its document.
            Other formats give the record as their reader counts it: the line of a session, the span, the
            sample, in Who&When the whole document. If several records describe an event, you get the one that
            made it: for a call its own line, for a text its first line, for a result the line of the result.

        Raises
        ------
        ParameterError
            The corpus has no such trace, or the trace no such event.
        InputError
            The trace was not read from a file, or the file is gone or has changed.

        Notes
        -----
        Tables keep no text, so this reads again, with the options of the first reading: the record of a
        native trace, or all files of a format that spreads traces over files. Compressed files are read up to
        the record. `with_fields` and `with_measures` do not change the source.

        Examples
        --------
        >>> import tempfile
        >>> import orchestrace as ot
        >>> path = f"{tempfile.mkdtemp()}/runs.jsonl"
        >>> _ = ot.generate(path, traces=2, seed=0)
        >>> source = ot.read_traces(path).source(1, 0)
        >>> source.line, source.text[:7]
        (2, '{"id":"')
        """
        return event_source(self, trace, seq)

    def _origin(self, file: str) -> str:
        """Where a file of the tables lies."""
        path, name = self._input(file)
        if name != file:
            raise InputError(f"'{file}' is in the archive '{name}': unpack it and read its files")
        return path

    def _input(self, file: str) -> tuple[str, str]:
        """Path and name of a file of the tables, or of the archive that it lies in, to read it again."""
        if is_address(file):
            return read_again(file)
        if os.path.isfile(file):
            return file, file
        for end, letter in enumerate(file):
            if letter == "/" and os.path.isfile(file[:end]):
                return file[:end], file[:end]
        raise InputError(f"'{file}' is not a file that can be read again (looked from '{os.getcwd()}')")

    def _read_options(self) -> dict[str, Any]:
        """Options of the reading, as the core takes them."""
        return self._options

    def __copy__(self) -> "Corpus":
        return self  # nothing of it changes

    def __deepcopy__(self, _: object) -> "Corpus":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Its tables, as another process takes them: linear in the size of the corpus."""
        tables = {name: self._stored(name) for name in SCHEMAS if name not in _DERIVED}
        return _unpickled, (pickle.dumps(tables, protocol=5), self._options, self._mapping_counts)

    def __len__(self) -> int:
        return self._store.n_traces

    def __repr__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)

    def _sizes(self) -> dict[str, int]:
        return {name: self._store.table(name).num_rows for name in SCHEMAS}

    def _stored(self, name: str) -> pl.DataFrame:
        _core.check_process()
        if name not in self._frames:
            self._frames[name] = pl.DataFrame(self._store.table(name))
        return self._frames[name]

    def _table(self, name: str) -> pl.LazyFrame:
        frame = self._stored(name)
        schema = dict(SCHEMAS[name])
        if name == "events":
            schema |= {field: dtype_of(kind) for field, kind in self._store.lifted.items()}
        absent = [
            pl.lit(None, dtype).alias(column)
            for column, dtype in schema.items()
            if column not in frame.columns
        ]
        return frame.lazy().with_columns(absent).select(list(schema))

    def _replacing(self, **frames: pl.DataFrame) -> "Corpus":
        tables = {name: self._stored(name) for name in SCHEMAS if name not in _DERIVED}
        return _of_tables({**tables, **frames}, self._options, self._mapping_counts)

    def _located(self, frame: pl.DataFrame, label: str) -> pl.DataFrame:
        """A frame with its traces by number, checked to be traces of this corpus."""
        key = [name for name in ("trace", "trace_id") if name in frame.columns]
        if not key:
            raise ParameterError(
                f"{label}: found neither a column 'trace' nor 'trace_id' to find the traces by"
            )
        frame = frame.with_columns(
            cast_exactly(frame[name], SCHEMAS["traces"][name], f"{label}.{name}") for name in key
        )
        traces = self._stored("traces").select("trace", "trace_id")
        if key == ["trace_id"] and not frame["trace_id"].is_in(traces["trace_id"].implode()).all():
            frame = frame.with_columns(
                trace_id=with_joined_ids(frame["trace_id"], self._stored("findings"), traces)
            )
        _check_keys(frame.select(key).unique(maintain_order=True), traces.select(key), "trace")
        if "trace" not in key:
            frame = frame.join(traces, on="trace_id", how="left", maintain_order="left")
        return frame.drop("trace_id", strict=False)


def _of_tables(tables: dict[str, pl.DataFrame], options: dict[str, Any], mapping_counts: Any) -> Corpus:
    """A corpus of the tables of another."""
    corpus = Corpus(store_of_frames(tables), options)
    corpus._mapping_counts = mapping_counts
    return corpus


def _unpickled(tables: bytes, options: dict[str, Any], mapping_counts: Any) -> Corpus:
    """A corpus of another process. Where this one cannot use it, it says so when it is used: who unpickles
    arguments, such as a worker of a `Pool`, takes no error and waits for ever."""
    try:
        _core.check_process()
    except OrchestraceError:
        return _Unusable()
    return _of_tables(pickle.loads(tables), options, mapping_counts)


class _Unusable(Corpus):
    """A corpus in a process that was forked without the threads that it needs."""

    def __init__(self) -> None:
        """Nothing is here."""

    def __getattr__(self, name: str) -> Any:
        _core.check_process()
        raise AttributeError(name)


def _check_keys(keys: pl.DataFrame, existing: pl.DataFrame, kind: str) -> None:
    """Refuse keys that the corpus does not have, and keys that are not unique here or there."""
    unknown = keys.join(existing, on=keys.columns, how="anti", nulls_equal=True, maintain_order="left")
    if unknown.height:
        more = f" and {unknown.height - 3} more" if unknown.height > 3 else ""
        raise ParameterError(f"unknown {kind}: {_shown(unknown.head(3))}{more}")
    if keys.is_duplicated().any():
        raise ParameterError(f"{kind} given twice: {_shown(keys.filter(keys.is_duplicated()).head(1))}")
    twice = existing.filter(existing.is_duplicated())
    ambiguous = twice.join(keys, on=keys.columns, how="semi", maintain_order="left")
    if ambiguous.height:
        by = "'trace'" if kind == "trace" else "'seq'"
        raise ParameterError(
            f"{kind} is not unique in the corpus: {_shown(ambiguous.head(1))}; give the column {by} instead"
        )


def _shown(keys: pl.DataFrame) -> str:
    return "; ".join(", ".join(f"{k} {v!r}" for k, v in row.items()) for row in keys.iter_rows(named=True))
