"""Polars schemas of all tables, built from the core at import."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

import polars as pl

from .. import _core
from .errors import ParameterError, SchemaError
from .text import plain

Over = Literal["all", "trainable"]
"""Whose credit is asked for (docs/reference/definitions.md, D11)."""
Unit = Literal["team", "role", "agent", "turn", "event", "orchestrator", "message", "tool", "token"]

_DTYPES: Final[dict[str, pl.DataType]] = {
    "u32": pl.UInt32(),
    "u64": pl.UInt64(),
    "i64": pl.Int64(),
    "f64": pl.Float64(),
    "bool": pl.Boolean(),
    "text": pl.String(),
    "name": pl.Categorical(),
    "time": pl.Datetime("ns", "UTC"),
    "f64_list": pl.List(pl.Float64()),
}
TraceBy = Literal["trace", "conversation"]
"""What becomes one trace, if a format records both."""

Lifted = Literal["text", "i64", "f64", "bool"]
"""Kinds of columns that a caller may lift."""


def dtype_of(kind: str, words: list[str] | None = None) -> pl.DataType:
    """The Polars type of a kind of column; `words` are those of a closed vocabulary."""
    return pl.Enum(words or []) if kind == "word" else _DTYPES[kind]


_TABLES: Final = dict(_core.tables())

SCHEMAS: Final[dict[str, pl.Schema]] = {
    table: pl.Schema({name: dtype_of(kind, words) for name, kind, _, words in columns})
    for table, columns in _TABLES.items()
}
"""Columns and types of every table of a `Corpus`, in order."""

REQUIRED: Final[dict[str, frozenset[str]]] = {
    table: frozenset(name for name, _, nullable, _ in columns if not nullable)
    for table, columns in _TABLES.items()
}
"""Columns that hold no null."""

TYPE_WEIGHTS: Final[Mapping[str, float]] = MappingProxyType(_core.TYPE_WEIGHTS)
"""Weight of each type of edge where nobody gives another, in the order of the schema."""

CREDITS: Final = SCHEMAS.pop("credits")
"""Columns and types of what `credit` returns."""

REPLAYS: Final = SCHEMAS.pop("replays")
"""Columns and types of what `replay` returns."""


def _extension_fields() -> tuple[str, ...]:
    names = SCHEMAS["events"].names()
    return tuple(names[names.index("trusted") + 1 : names.index("extras")])


EXTENSION_FIELDS: Final = _extension_fields()
"""Columns of `events` that a recording may or may not have."""


MAPPING_COUNTS: Final[dict[str, Any]] = {
    "key": pl.String,
    "pointer": pl.String,
    "matched": pl.UInt64,
    "of": pl.UInt64,
    "type": pl.String,
}
"""What a reading found of each key of its mapping."""


def lifted_kind(name: str, dtype: object) -> str:
    """The kind of a column that a caller asks for by a Polars type.

    Raises
    ------
    ParameterError
        If no lifted column can have this type.
    """
    if "\0" in name:
        raise ParameterError(f"the name of field {name!r} contains NUL, which tables do not allow: rename it")
    kinds: tuple[str, ...] = get_args(Lifted)
    for kind in kinds:
        if dtype == _DTYPES[kind]:
            return kind
    possible = ", ".join(f"pl.{_DTYPES[kind]}" for kind in kinds)
    raise ParameterError(f"field '{name}': type {dtype} cannot be lifted (possible: {possible})")


def unknown_name(kind: str, word: str, names: list[str]) -> str:
    """The one wording for a name that does not exist, with the nearest one that does."""
    nearest = _core.nearest(word, names)
    hint = f"; did you mean '{nearest}'?" if nearest else ""
    # names that come out of a recording may be any number
    more = f" and {len(names) - 40:,} more" if len(names) > 40 else ""
    return plain(f"unknown {kind} '{word}'{hint} (known: {', '.join(names[:40])}{more})")


def cast_exactly(column: pl.Series, dtype: pl.DataType, place: str) -> pl.Series:
    """Give a column the type of the schema without changing a value.

    Names may be any kind of string, numbers any width that holds them; text is never read as a number.

    Raises
    ------
    SchemaError
        Names the place, the type or value found and what was expected.
    """
    if column.dtype == dtype:
        return column
    if column.null_count() == column.len():
        return pl.Series(column.name, [], dtype).extend_constant(None, column.len())
    wrong = SchemaError(f"{place} has type {column.dtype}, expected {_spelling(dtype)}")
    is_text = column.dtype == pl.String or isinstance(column.dtype, pl.Categorical | pl.Enum)
    try:
        if isinstance(dtype, pl.Enum):
            if not is_text:
                raise wrong
            _check_words(column, dtype, place)
            return column.cast(pl.String).cast(dtype)
        if dtype == pl.String or isinstance(dtype, pl.Categorical):
            if not is_text:
                raise wrong
            return column.cast(pl.String).cast(dtype)
        if dtype.is_numeric() and column.dtype.is_numeric():
            return _cast_number(column, dtype, place)
        if isinstance(dtype, pl.Datetime) and isinstance(column.dtype, pl.Datetime):
            aware = column if column.dtype.time_zone else column.dt.replace_time_zone("UTC")
            return aware.dt.convert_time_zone("UTC").cast(dtype)
        if isinstance(dtype, pl.List) and isinstance(column.dtype, pl.List | pl.Array):
            inner = column.dtype.inner
            if isinstance(inner, pl.DataType) and inner.is_numeric():
                return column.cast(dtype)
    except pl.exceptions.PolarsError as error:
        raise SchemaError(f"{place}: {str(error).splitlines()[0]}") from None
    raise wrong


def _cast_number(column: pl.Series, dtype: pl.DataType, place: str) -> pl.Series:
    cast = column.cast(dtype)
    if dtype.is_integer() and column.dtype.is_float():
        changed = column.filter(cast.cast(column.dtype) != column)
        if changed.len():
            raise SchemaError(
                f"{place} has the value {changed[0]}, expected whole numbers ({_spelling(dtype)})"
            )
    return cast


def _check_words(column: pl.Series, dtype: pl.Enum, place: str) -> None:
    words = dtype.categories.to_list()
    for word in column.cast(pl.String).drop_nulls().unique(maintain_order=True):
        if word not in words:
            raise SchemaError(f"{place}: " + unknown_name("word", word, words))


def _spelling(dtype: pl.DataType) -> str:
    return "one of a fixed list of words" if isinstance(dtype, pl.Enum) else str(dtype)
