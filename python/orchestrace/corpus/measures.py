"""Measures of callers: read from files, matched to traces, validated."""

import os
from typing import TYPE_CHECKING, Final

import polars as pl

from ..base.errors import ParameterError, SchemaError
from ..base.paths import path_of
from ..base.schema import SCHEMAS, cast_exactly, unknown_name
from ..base.text import plain
from .assemble import Table, frame_of
from .table_files import read_table

if TYPE_CHECKING:
    from .corpus import Corpus

Measures = Table | str | os.PathLike[str]

_KEY: Final = ["trace", "kind", "name"]


def measures_of(corpus: "Corpus", source: Measures) -> pl.DataFrame:
    """Measures of a caller as rows of the table: ``trace kind name value``.

    Raises
    ------
    InputError
        The file cannot be read.
    ParameterError
        A trace or measure is given twice or not known, or a value is not finite.
    SchemaError
        A column is absent or holds no numbers.
    """
    label = "measures"
    if isinstance(source, str | os.PathLike):
        path = path_of(source)
        label, frame = plain(str(path)), read_table(path, "measures")
    else:
        frame = frame_of(source, label)
    new = _checked(corpus._located(frame, label), label)
    if (twice := new.filter(pl.struct(_KEY).is_duplicated())).height:
        traces = twice["trace"].unique(maintain_order=True)
        ids = corpus._stored("traces").filter(pl.col("trace").is_in(traces.head(3).implode()))["trace_id"]
        more = f" and {traces.len() - 3:,} more" if traces.len() > 3 else ""
        raise ParameterError(
            plain(f"{label}: '{twice['name'][0]}' is given twice for {', '.join(map(repr, ids))}{more}")
        )
    return new


def _checked(frame: pl.DataFrame, label: str) -> pl.DataFrame:
    """Measures by number of trace, with the columns and types of the table."""
    if not ("name" in frame.columns and "value" in frame.columns):
        frame = _long(frame, label)
    elif "kind" not in frame.columns:
        frame = frame.with_columns(kind=pl.lit("reward"))
    schema = SCHEMAS["measures"]
    for column in frame.columns:
        if column not in schema:
            raise ParameterError(unknown_name(f"column of {label}", column, schema.names()))
    exact = [
        _numbers(frame[name], label)
        if name == "value"
        else cast_exactly(frame[name], dtype, f"{label}.{name}")
        for name, dtype in schema.items()
    ]
    new = pl.DataFrame(exact).drop_nulls("value")
    if (infinite := new.filter(~pl.col("value").is_finite())).height:
        raise ParameterError(
            f"{label}: '{infinite['name'][0]}' has the value {infinite['value'][0]}, expected a finite number"
        )
    return new


def _long(wide: pl.DataFrame, label: str) -> pl.DataFrame:
    channels = [name for name in wide.columns if name != "trace"]
    if not channels:
        raise ParameterError(
            f"{label}: no column beside the key, expected one per channel, or 'name' and 'value'"
        )
    return (
        pl.DataFrame([wide["trace"], *(_numbers(wide[name], label) for name in channels)])
        .unpivot(on=channels, index="trace", variable_name="name", value_name="value")
        .with_columns(kind=pl.lit("reward"))
    )


def _numbers(column: pl.Series, label: str) -> pl.Series:
    """A column of values as floats; flags are 1 and 0."""
    if column.dtype == pl.Boolean or column.dtype.is_numeric() or column.null_count() == column.len():
        return column.cast(pl.Float64)
    first = column.drop_nulls()[0]
    raise SchemaError(
        plain(f"{label}: column '{column.name}' is {column.dtype} (it has {first!r}), expected numbers")
    )
