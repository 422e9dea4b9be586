"""The tables of a corpus on disk as views in SQL, over the files that its manifest lists."""

from collections.abc import Iterator
from typing import Final, Literal

import polars as pl

from ..base.errors import InputError, ParameterError, SchemaError
from ..base.schema import SCHEMAS, dtype_of
from ..base.text import plain
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from .integrity import reading
from .joined_views import identifier, joined_views
from .manifest import GATHERED, SIDE, Part, StoredFile, stored
from .partitioned import OnDisk, PartitionedCorpus, on_disk
from .shards import columns_of, replaced, replaced_files, scan_side

Dialect = Literal["duckdb", "polars"]

SEPARATOR: Final = ";\n"
"""What ends a statement; it is nowhere else in the text for Polars."""

_BETWEEN: Final = ",\n  "
"""Between columns, and between files: a line each."""

_PATTERN: Final = "[*?"
"""Characters that make a path a pattern to both engines; in brackets, each stands for itself."""

_TYPES: Final[dict[pl.DataType, str]] = {
    pl.UInt32(): "UINTEGER",
    pl.UInt64(): "UBIGINT",
    pl.Int64(): "BIGINT",
    pl.Float64(): "DOUBLE",
    pl.Boolean(): "BOOLEAN",
    pl.String(): "VARCHAR",
    pl.Datetime("ns", "UTC"): "TIMESTAMP WITH TIME ZONE",
    pl.List(pl.Float64()): "DOUBLE[]",
}
"""Names of types that both engines know; what is missing here is text."""


@verb
def sql_views(corpus: Corpus, *, dialect: Dialect = "duckdb") -> str:
    """SQL that makes every table of a corpus on disk a view, for DuckDB or for Polars.

    Parameters
    ----------
    corpus
        One on disk, as `read_corpus` opens it.
    dialect
        ``"duckdb"``: ``CREATE OR REPLACE VIEW`` statements, a file that ``duckdb -init`` reads. ``"polars"``:
        ``CREATE TABLE`` statements that `polars.SQLContext` runs one at a time, each as a lazy frame.

    Returns
    -------
    str
        Statements, each ended by ``;`` and a line feed; in the text for Polars these two stand together
        nowhere else, so ``text.split(";\\n")`` divides it. Views ``traces events edges agents measures labels
        findings quarantine record_counts`` have the columns of the tables of `Corpus`, words and names as
        text. Beside them: ``named_events`` (events with trace_id, task_id, importer), ``named_edges`` (edges
        with ids and agents of both ends), ``rewards`` (trace_id, channel, value), ``failed_traces`` (those
        with a reward ``team`` below 1) and ``agent_usage`` (events, tokens and cost_usd by trace and agent;
        null where nothing is recorded).

    Raises
    ------
    ParameterError
        The corpus is in memory, in object storage, filtered or changed; or a path or column cannot be
        written in the dialect.
    SchemaError
        Its layout is 1.0, whose tables need more than a view.
    InputError
        A file is gone, or is not readable.

    Notes
    -----
    Paths are absolute, so the text works from any folder, and for as long as the corpus stays where it is.
    Only files that the manifest lists are named, and rows that a later ingest replaced are left out. An
    ingest may merge files: write the views again after it. SQL engines read files as they are, and compare
    no checksums. A corpus in object storage is refused: copy its objects into a folder, and open that.
    Opens the footer of each file: time is linear in the number of files, whatever their rows.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> folder = tempfile.mkdtemp()
    >>> _ = ot.generate(f"{folder}/runs.jsonl", traces=5, seed=0)
    >>> _ = ot.ingest(f"{folder}/runs.jsonl", f"{folder}/corpus")
    >>> views = ot.disk.sql_views(ot.read_corpus(f"{folder}/corpus"), dialect="polars")
    >>> import polars as pl
    >>> context = pl.SQLContext()
    >>> for statement in filter(None, views.split(";\\n")):
    ...     _ = context.execute(statement)
    >>> context.execute("SELECT COUNT(*) AS n FROM traces", eager=True).item()
    5
    """
    if not isinstance(corpus, PartitionedCorpus):
        raise ParameterError(
            "corpus is in memory, expected one on disk, whose files SQL can read: make it with ingest, or"
            " export(corpus, 'parquet', folder), and open it with read_corpus"
        )
    opened = on_disk(corpus)
    _check(opened)
    views = _Views(opened, dialect)
    tables = {name: views.table(name) for name in SCHEMAS}
    statements = [
        _statement(dialect, name, query)
        for name, query in {**tables, **joined_views(views.columns("events"))}.items()
    ]
    return _heading(opened, dialect) + "".join(statement + SEPARATOR for statement in statements)


def _check(opened: OnDisk) -> None:
    manifest = opened.manifest
    if manifest.home is not None:
        raise ParameterError(
            f"the corpus is in object storage, in '{plain(manifest.home.url)}', expected one in a folder,"
            " whose files SQL can read: copy its objects there, and open it with read_corpus"
        )
    if opened.chosen is not None or opened.is_changed:
        raise ParameterError(
            "the corpus is filtered, or changed by with_measures or with_fields, expected one as read_corpus"
            " opens it: views are of its files; ask for less in SQL"
        )
    if manifest.batches:
        raise InputError(
            f"an ingest into '{plain(opened.folder)}' was cut short, and rows lie in files that SQL cannot"
            " read: repeat the same ingest, which ends it, then ask again"
        )
    if manifest.schema_version == "1.0":
        raise SchemaError(
            f"'{plain(opened.folder)}' has schema version '1.0', expected 1.1 or a later one: ingest the"
            " recordings into another folder"
        )


def _heading(opened: OnDisk, dialect: Dialect) -> str:
    """Comments that say of which corpus the views are, and how they are read."""
    use = {
        "duckdb": "DuckDB: duckdb -init FILE, or connection.execute(text).",
        "polars": "Polars: context.execute(statement) of each statement, divided at semicolon and line feed.",
    }
    return (
        f"-- Views over the corpus in '{plain(opened.folder.absolute())}'.\n"
        f"-- {use[dialect]} Write them again after an ingest, which may merge files.\n"
    )


def _statement(dialect: Dialect, name: str, query: str) -> str:
    kind = "CREATE OR REPLACE VIEW" if dialect == "duckdb" else "CREATE TABLE"
    return f"{kind} {identifier(name)} AS\n{query.strip()}"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


class _Views:
    """Queries over the files of a corpus, in one dialect."""

    def __init__(self, opened: OnDisk, dialect: Dialect) -> None:
        self._folder, self._manifest, self._dialect = opened.folder.absolute(), opened.manifest, dialect

    def table(self, name: str) -> str:
        """The query of a table: all files with valid rows, those with like columns together."""
        schema = self._schema(name)
        plain_files, selects = [], []
        for file, condition in self._files(name):
            if condition:
                selects.append(f"{self._select(schema, [file])}\nWHERE {condition}")
            else:
                plain_files.append(file)
        alike: dict[tuple[str, ...], list[StoredFile]] = {}
        for file in plain_files:
            alike.setdefault(tuple(self._columns(file)), []).append(file)
        selects = [*(self._select(schema, files) for files in alike.values()), *selects]
        return "\nUNION ALL\n".join(selects) or f"SELECT {self._nulls(schema)} LIMIT 0"

    def columns(self, name: str) -> list[str]:
        """The names of the columns of a table."""
        return list(self._schema(name))

    def _schema(self, name: str) -> pl.Schema:
        """The columns of a table, as those of `Corpus`."""
        lifted = sorted(self._manifest.fields.items()) if name == "events" else []
        schema = pl.Schema({**SCHEMAS[name], **{field: dtype_of(kind) for field, kind in lifted}})
        _check_columns(list(schema), self._dialect)
        return schema

    def _columns(self, file: StoredFile) -> pl.Schema:
        with reading(self._folder, self._manifest, [file]):
            return columns_of(self._folder, self._manifest, file)

    def _files(self, table: str) -> Iterator[tuple[StoredFile, str]]:
        """Files of a table with the condition that valid rows meet, empty where all are valid."""
        manifest = self._manifest
        for partition, parts in sorted(manifest.parts.items()):
            for part in parts:
                if table in part.rows:
                    yield stored(table, partition, part), self._valid(partition, table, part)
        for part in manifest.side(table) if table in SIDE else ():
            outdated = manifest.outdated(part)
            if table == "labels":
                if GATHERED not in outdated:
                    yield stored(table, None, part), ""
                continue
            yield stored(table, None, part), self._valid_side(table, part)

    def _valid(self, partition: str, table: str, part: Part) -> str:
        """The condition of rows that no later ingest replaced, in a part of a partition."""
        if not self._manifest.outdated(part):
            return ""
        with reading(self._folder, self._manifest, self._manifest.stored()):
            stale = _ranges(replaced(self._folder, self._manifest, part))
        if not stale or table != "labels":
            return stale
        traces = self._source([stored("traces", partition, part)])
        return f'"trace_id" IN (SELECT "trace_id" FROM {traces} WHERE {stale})'

    def _valid_side(self, table: str, part: Part) -> str:
        """The same of a part of no partition: its rows name files."""
        with reading(self._folder, self._manifest, self._manifest.stored()):
            stale = replaced_files(self._manifest, part, scan_side(self._folder, self._manifest, table, part))
        names = ", ".join(map(_text, stale))
        return f'("file" IS NULL OR "file" NOT IN ({names}))' if stale else ""

    def _select(self, schema: pl.Schema, files: list[StoredFile]) -> str:
        """All rows of files with like columns."""
        present = self._columns(files[0])
        columns = _BETWEEN.join(
            _column(name, dtype) if name in present else self._null(name, dtype)
            for name, dtype in schema.items()
        )
        sources = [files] if self._dialect == "duckdb" else [[file] for file in files]
        return "\nUNION ALL\n".join(f"SELECT {columns}\nFROM {self._source(source)}" for source in sources)

    def _source(self, files: list[StoredFile]) -> str:
        paths = [self._path(f"{self._folder.as_posix()}/{file.name}") for file in files]
        if self._dialect == "polars":
            return f"read_parquet({paths[0]}, hive_partitioning => false)"
        return f"read_parquet([{_BETWEEN.join(paths)}], hive_partitioning = false)"

    def _path(self, path: str) -> str:
        """The path of a file as a literal that names this file and no other one."""
        if not path.isascii() and any("\ud800" <= c <= "\udfff" for c in path):
            raise ParameterError(f"'{plain(path)}' is no UTF-8, which SQL cannot name: rename the folder")
        special = _PATTERN + "\n" if self._dialect == "polars" else _PATTERN
        if self._dialect == "duckdb" and "\\" in path and any(c in path for c in _PATTERN):
            raise ParameterError(
                f"'{plain(path)}' has a backslash beside one of {_PATTERN}, which DuckDB cannot name: rename"
                " the folder"
            )
        # in brackets, no line feed follows a semicolon, so that the text can be divided
        return _text("".join(f"[{c}]" if c in special else c for c in path))

    def _null(self, name: str, dtype: pl.DataType) -> str:
        kind = _TYPES.get(dtype, "VARCHAR")
        if self._dialect == "polars":  # whose times have microseconds unless it is stated
            kind = kind.replace("TIMESTAMP", "TIMESTAMP(9)")
        return f"CAST(NULL AS {kind}) AS {identifier(name)}"

    def _nulls(self, schema: pl.Schema) -> str:
        return _BETWEEN.join(self._null(name, dtype) for name, dtype in schema.items())


def _check_columns(names: list[str], dialect: Dialect) -> None:
    """Refuse lifted columns whose names an engine takes for others.

    Raises
    ------
    ParameterError
        Names the column.
    """
    seen: dict[str, str] = {}
    for name in names:
        if dialect == "polars" and "\n" in name:
            raise ParameterError(f"column '{plain(name)}' has a line feed in its name: lift it under another")
        if dialect == "duckdb" and (other := seen.setdefault(name.lower(), name)) != name:
            raise ParameterError(
                f"columns '{plain(other)}' and '{plain(name)}' differ in case alone, which DuckDB does not"
                " see: lift the field under another name"
            )


def _ranges(traces: pl.Series) -> str:
    """The condition that a trace is none of these, by runs of numbers."""
    numbers = traces.unique().sort().to_frame("trace")
    runs = (
        numbers.with_columns(run=pl.col("trace").cast(pl.Int64) - pl.int_range(pl.len()))
        .group_by("run", maintain_order=True)
        .agg(low=pl.col("trace").min(), high=pl.col("trace").max())
    )
    parts = [f'"trace" BETWEEN {low} AND {high}' for _, low, high in runs.iter_rows()]
    return f"NOT ({' OR '.join(parts)})" if parts else ""


def _column(name: str, dtype: pl.DataType) -> str:
    quoted = identifier(name)
    # vocabularies grow, and names are coded by file: text is what all files have in common
    is_coded = isinstance(dtype, pl.Enum | pl.Categorical)
    return f"CAST({quoted} AS VARCHAR) AS {quoted}" if is_coded else quoted
