"""Measures of callers: read from files, matched to traces, validated."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import polars as pl

from ..base.errors import InputError, ParameterError, SchemaError
from ..base.paths import expect_an_end, path_of
from ..base.schema import SCHEMAS, cast_exactly, unknown_name
from ..base.text import plain
from .assemble import frame_of

if TYPE_CHECKING:
    from .corpus import Corpus

Measures = pl.DataFrame | pl.LazyFrame | str | os.PathLike[str]

_KEY: Final = ["trace", "kind", "name"]
_IDS: Final = {"trace_id": pl.String()}
"""Ids of digits alone are ids all the same."""

_READERS: Final[dict[str, Callable[[BinaryIO], pl.DataFrame]]] = {
    ".csv": lambda file: pl.read_csv(file, schema_overrides=_IDS, infer_schema_length=None),
    ".parquet": pl.read_parquet,
    ".jsonl": lambda file: pl.read_ndjson(file, schema_overrides=_IDS, infer_schema_length=None),
    ".ndjson": lambda file: pl.read_ndjson(file, schema_overrides=_IDS, infer_schema_length=None),
}


def measures_of(corpus: "Corpus", given: Measures) -> pl.DataFrame:
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
    what = "measures"
    if isinstance(given, str | os.PathLike):
        path = path_of(given)
        what, frame = plain(str(path)), _read(path)
    else:
        frame = frame_of(given, what)
    new = _checked(corpus._located(frame, what), what)
    if (twice := new.filter(pl.struct(_KEY).is_duplicated())).height:
        traces = twice["trace"].unique(maintain_order=True)
        ids = corpus._stored("traces").filter(pl.col("trace").is_in(traces.head(3).implode()))["trace_id"]
        more = f" and {traces.len() - 3:,} more" if traces.len() > 3 else ""
        raise ParameterError(
            plain(f"{what}: '{twice['name'][0]}' is given twice for {', '.join(map(repr, ids))}{more}")
        )
    return new


def _read(path: Path) -> pl.DataFrame:
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(_READERS)
        raise ParameterError(f"'{path}' ends in '{path.suffix}', expected a file of measures: {known}")
    expect_an_end(path)
    try:
        with open(path, "rb") as file:
            return reader(file)
    except pl.exceptions.PolarsError as error:
        reason = str(error).partition("\n")[0]
        raise InputError(plain(f"{path}: cannot be read as {path.suffix} ({reason})")) from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error


def _checked(given: pl.DataFrame, what: str) -> pl.DataFrame:
    """Measures by number of trace, with the columns and types of the table."""
    if not ("name" in given.columns and "value" in given.columns):
        given = _long(given, what)
    elif "kind" not in given.columns:
        given = given.with_columns(kind=pl.lit("reward"))
    schema = SCHEMAS["measures"]
    for column in given.columns:
        if column not in schema:
            raise ParameterError(unknown_name(f"column of {what}", column, schema.names()))
    exact = [
        _numbers(given[name], what) if name == "value" else cast_exactly(given[name], dtype, f"{what}.{name}")
        for name, dtype in schema.items()
    ]
    new = pl.DataFrame(exact).drop_nulls("value")
    if (odd := new.filter(~pl.col("value").is_finite())).height:
        raise ParameterError(
            f"{what}: '{odd['name'][0]}' has the value {odd['value'][0]}, expected a finite number"
        )
    return new


def _long(wide: pl.DataFrame, what: str) -> pl.DataFrame:
    channels = [name for name in wide.columns if name != "trace"]
    if not channels:
        raise ParameterError(
            f"{what}: no column beside the key, expected one per channel, or 'name' and 'value'"
        )
    return (
        pl.DataFrame([wide["trace"], *(_numbers(wide[name], what) for name in channels)])
        .unpivot(on=channels, index="trace", variable_name="name", value_name="value")
        .with_columns(kind=pl.lit("reward"))
    )


def _numbers(column: pl.Series, what: str) -> pl.Series:
    """A column of values; what holds or not is 1 or 0."""
    if column.dtype == pl.Boolean or column.dtype.is_numeric() or column.null_count() == column.len():
        return column.cast(pl.Float64)
    first = column.drop_nulls()[0]
    raise SchemaError(
        plain(f"{what}: column '{column.name}' is {column.dtype} (it has {first!r}), expected numbers")
    )
