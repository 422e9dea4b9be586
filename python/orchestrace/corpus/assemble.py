"""Tables of callers, converted to the schemas of a corpus."""

from typing import Final, Protocol, runtime_checkable

import polars as pl

from .. import _core
from ..base.errors import ParameterError, SchemaError
from ..base.schema import REQUIRED, SCHEMAS, cast_exactly, lifted_kind, unknown_name
from ..base.text import plain

_ORDER: Final = {
    "traces": ["trace"],
    "events": ["trace", "seq"],
    "edges": ["trace"],
    "measures": ["trace"],
    "findings": ["trace"],
}
# The core derives the other columns where they are absent.
_NEEDED: Final = {
    **REQUIRED,
    "traces": frozenset({"trace", "trace_id"}),
    "events": REQUIRED["events"] - {"seq"},
}

_OF_POLARS: Final = (pl.exceptions.PolarsError, pl.exceptions.PanicException)


@runtime_checkable
class ArrowTable(Protocol):
    """A table of pyarrow, DuckDB or another library that hands its columns over."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The columns as an Arrow stream in a capsule."""


Table = pl.DataFrame | pl.LazyFrame | ArrowTable


def _reason(error: BaseException) -> str:
    return plain(next(iter(str(error).splitlines()), "") or type(error).__name__)


def frame_of(table: object, name: str) -> pl.DataFrame:
    """Anything with ``__arrow_c_stream__``, or a Polars frame, as a DataFrame."""
    _core.check_process()
    if isinstance(table, pl.LazyFrame):
        try:
            return table.collect()
        except _OF_POLARS as error:
            raise SchemaError(
                f"{name}: the lazy frame cannot be computed ({_reason(error)}); collect it first and see"
            ) from error
    if isinstance(table, pl.DataFrame):
        return table
    if hasattr(table, "__arrow_c_stream__"):
        try:
            return pl.DataFrame(table)
        except (*_OF_POLARS, TypeError, ValueError) as error:
            raise SchemaError(
                f"{name}: Polars cannot take this table over ({_reason(error)}); give its columns distinct "
                "names and plain Arrow types"
            ) from None
    raise SchemaError(f"{name} is of type {type(table).__name__}, expected a frame or __arrow_c_stream__")


def tables_of(tables: dict[str, object]) -> dict[str, pl.DataFrame]:
    """All tables of a store from those given: defaults filled, types made exact, rows ordered.

    Raises
    ------
    SchemaError
        Names the table, the column and what is wrong with it.
    """
    frames = {
        name: pl.DataFrame(schema=SCHEMAS[name]) if table is None else frame_of(table, name)
        for name, table in tables.items()
    }
    exact = {name: _conform(frame, name) for name, frame in frames.items()}
    exact["traces"] = _with_task(exact["traces"])
    exact["events"] = _with_seq(exact["events"])
    if (repeated := exact["traces"].filter(pl.col("trace").is_duplicated())).height:
        raise SchemaError(f"traces.trace has the value {repeated['trace'][0]} more than once")
    return {name: _ordered(frame, _ORDER.get(name, [])) for name, frame in exact.items()}


def _with_seq(events: pl.DataFrame) -> pl.DataFrame:
    if "seq" in events.columns:
        return events
    return events.with_columns(pl.int_range(pl.len(), dtype=pl.UInt32).over("trace").alias("seq"))


def _with_task(traces: pl.DataFrame) -> pl.DataFrame:
    task = (
        pl.col("task_id").fill_null(pl.col("trace_id")) if "task_id" in traces.columns else pl.col("trace_id")
    )
    return traces.with_columns(task_id=task)


def _conform(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    schema = SCHEMAS[table]
    if invalid := [name for name in frame.columns if "\0" in name]:
        raise SchemaError(f"{table} has a column {invalid[0]!r}, whose name contains NUL: rename it")
    for name in schema:
        if name in _NEEDED[table] and name not in frame.columns:
            raise SchemaError(f"{table} has no column '{name}' (found: {', '.join(frame.columns)})")
        if name in _NEEDED[table] and frame[name].null_count():
            raise SchemaError(f"{table}.{name} has a null in row {frame[name].is_null().arg_max()}")
    standard = [
        cast_exactly(frame[name], dtype, f"{table}.{name}")
        for name, dtype in schema.items()
        if name in frame.columns
    ]
    return pl.DataFrame(
        [*standard, *(_lifted(frame[name], table) for name in frame.columns if name not in schema)]
    )


def _lifted(column: pl.Series, table: str) -> pl.Series:
    if table != "events":
        raise SchemaError(unknown_name(f"column of {table}", column.name, SCHEMAS[table].names()))
    if column.dtype.is_integer():
        return cast_exactly(column, pl.Int64(), f"events.{column.name}")
    if column.dtype.is_float():
        return column.cast(pl.Float64)
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        return column.cast(pl.String)
    try:
        lifted_kind(column.name, column.dtype)
    except ParameterError as error:
        raise SchemaError(f"events.{column.name} is not a column of the schema; {error}") from None
    return column


def _ordered(frame: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    if (
        not keys
        or frame.select(pl.struct(keys).is_sorted() if len(keys) > 1 else pl.col(keys[0]).is_sorted()).item()
    ):
        return frame
    return frame.sort(keys, maintain_order=True)
