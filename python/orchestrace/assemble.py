"""Tables that somebody else made, brought into the schemas of a corpus."""

from typing import Final

import polars as pl

from .errors import ParameterError, SchemaError
from .schema import REQUIRED, SCHEMAS, cast_exactly, lifted_kind, unknown_name

_ORDER: Final = {
    "traces": ["trace"],
    "events": ["trace", "seq"],
    "edges": ["trace"],
    "measures": ["trace"],
    "findings": ["trace"],
}
_OPTIONAL_EVENT_COLUMNS: Final = frozenset(SCHEMAS["events"]) - REQUIRED["events"]


def frame_of(table: object, name: str) -> pl.DataFrame:
    """Anything with ``__arrow_c_stream__``, or a Polars frame, as a DataFrame."""
    if isinstance(table, pl.LazyFrame):
        return table.collect()
    if isinstance(table, pl.DataFrame):
        return table
    if hasattr(table, "__arrow_c_stream__"):
        return pl.DataFrame(table)
    raise SchemaError(f"{name} is of type {type(table).__name__}, expected a frame or __arrow_c_stream__")


def tables_of(given: dict[str, object]) -> dict[str, pl.DataFrame]:
    """All tables of a store from those given: defaults filled, types made exact, rows ordered.

    Raises
    ------
    SchemaError
        Names the table, the column and what is wrong with it.
    """
    frames = {
        name: pl.DataFrame(schema=SCHEMAS[name]) if table is None else frame_of(table, name)
        for name, table in given.items()
    }
    for name in ("traces", "events", "edges"):
        _demand(frames[name], name, ["trace"])
    events = _conform(_with_seq(frames["events"]), "events")
    frames["events"] = events
    frames["edges"] = _conform(frames["edges"], "edges")
    frames["traces"] = _conform(_with_defaults(frames["traces"], events, frames["edges"]), "traces")
    if (repeated := frames["traces"].filter(pl.col("trace").is_duplicated())).height:
        raise SchemaError(f"traces.trace has the value {repeated['trace'][0]} more than once")
    for name in given.keys() - {"traces", "events", "edges"}:
        frames[name] = _conform(frames[name], name)
    return {name: _ordered(frame, _ORDER.get(name, [])) for name, frame in frames.items()}


def _demand(frame: pl.DataFrame, table: str, columns: list[str]) -> None:
    for column in columns:
        if column not in frame.columns:
            raise SchemaError(f"{table} has no column '{column}' (found: {', '.join(frame.columns)})")


def _with_seq(events: pl.DataFrame) -> pl.DataFrame:
    if "seq" in events.columns:
        return events
    return events.with_columns(pl.int_range(pl.len(), dtype=pl.UInt32).over("trace").alias("seq"))


def _with_defaults(traces: pl.DataFrame, events: pl.DataFrame, edges: pl.DataFrame) -> pl.DataFrame:
    _demand(traces, "traces", ["trace", "trace_id"])
    traces = traces.with_columns(cast_exactly(traces["trace"], pl.UInt32(), "traces.trace"))
    n_rows = pl.len().cast(pl.UInt32)
    # An owner of an event acts somewhere in its own right: results and interventions make nobody an agent.
    acting = ~pl.col("type").is_in(["tool_result", "human_intervention"]) & (
        pl.col("agent").cast(pl.String) != "user"
    )
    counted = (
        traces.select("trace")
        .join(events.group_by("trace").agg(n_events=n_rows), on="trace", how="left", maintain_order="left")
        .join(edges.group_by("trace").agg(n_edges=n_rows), on="trace", how="left", maintain_order="left")
        .join(
            events.filter(acting).group_by("trace").agg(n_agents=pl.col("agent").n_unique().cast(pl.UInt32)),
            on="trace",
            how="left",
            maintain_order="left",
        )
        .fill_null(0)
    )
    traces = traces.with_columns(counted["n_events"], counted["n_edges"], counted["n_agents"])
    filled = {
        "task_id": pl.col("trace_id"),
        "importer": pl.lit("arrow"),
        "time_basis": pl.lit("unknown"),
        "partial": pl.lit(False),
    }
    traces = traces.with_columns(
        value.alias(name) for name, value in filled.items() if name not in traces.columns
    )
    return traces if "group_id" in traces.columns else grouped(traces, events)


def grouped(traces: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """`traces` with the group that the first event with a ``group_id`` names, else its task."""
    task = pl.col("task_id").cast(pl.String)
    if "group_id" not in events.columns:
        return traces.with_columns(group_id=task)
    first = events.group_by("trace").agg(pl.col("group_id").drop_nulls().first())
    return (
        traces.drop("group_id", strict=False)
        .join(first, on="trace", how="left", maintain_order="left")
        .with_columns(pl.col("group_id").fill_null(task))
    )


def _conform(frame: pl.DataFrame, table: str) -> pl.DataFrame:
    schema = SCHEMAS[table]
    _demand(frame, table, [name for name in schema if name in REQUIRED[table]])
    columns = []
    for name, dtype in schema.items():
        if name in frame.columns:
            columns.append(cast_exactly(frame[name], dtype, f"{table}.{name}"))
        elif table != "events" or name not in _OPTIONAL_EVENT_COLUMNS:
            columns.append(pl.Series(name, [], dtype).extend_constant(None, frame.height))
    for name in REQUIRED[table]:
        if frame[name].null_count():
            raise SchemaError(f"{table}.{name} has a null in row {frame[name].is_null().arg_max()}")
    for name in frame.columns:
        if name not in schema:
            columns.append(_lifted(frame[name], table))
    return pl.DataFrame(columns)


def _lifted(column: pl.Series, table: str) -> pl.Series:
    if table != "events":
        raise SchemaError(unknown_name(f"column of {table}", column.name, SCHEMAS[table].names()))
    if column.dtype.is_integer():
        return cast_exactly(column, pl.Int64(), f"events.{column.name}")
    if column.dtype.is_float():
        return column.cast(pl.Float64)
    try:
        lifted_kind(column.name, column.dtype)
    except ParameterError as error:
        raise SchemaError(f"events.{column.name} is no column of the schema, and as a {error}") from None
    return column


def _ordered(frame: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    if (
        not keys
        or frame.select(pl.struct(keys).is_sorted() if len(keys) > 1 else pl.col(keys[0]).is_sorted()).item()
    ):
        return frame
    return frame.sort(keys, maintain_order=True)
