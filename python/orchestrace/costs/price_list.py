"""Lists of prices: the dated one of the package, and those of users."""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import polars as pl

from ..base.errors import InputError, SchemaError
from ..base.paths import expect_an_end, path_of
from ..base.schema import unknown_name
from ..base.text import briefly, plain
from ..base.verbs import verb


@dataclass(frozen=True)
class PlannedPrices:
    """A list of prices as plain values: what tasks of a plan get for a file, which may change."""

    columns: dict[str, list[Any]]


Prices = str | os.PathLike[str] | pl.DataFrame | PlannedPrices | None
"""What a verb takes as ``prices``: ``"package"``, a file, a frame; None is no list."""

KINDS: Final = ("input", "cache_read", "cache_write", "cache_write_1h", "output")
"""Kinds of tokens that have a price of their own, in dollars per million."""

PRICES: Final[dict[str, Any]] = {
    "model": pl.String,
    "provider": pl.String,
    "valid_from": pl.Date,
    "valid_to": pl.Date,
    "context_above": pl.Int64,
    **dict.fromkeys(KINDS, pl.Float64),
    "batch": pl.Float64,
    "batch_cache": pl.Float64,
    "source": pl.String,
    "retrieved": pl.Date,
}
"""Columns of a list of prices, in order."""

_NEEDED: Final = ("model", "input", "output")
_KEY: Final = ("model", "provider", "context_above")


@verb
def list_prices() -> pl.DataFrame:
    """List the prices that the package knows, each with its source and the day on which that was read.

    Returns
    -------
    DataFrame
        A row per model, time and size of the context. ``model``: a name without the date of its version;
        ``provider``. ``valid_from`` and ``valid_to`` (Date): the first day on which the row holds, and the
        first on which it no longer does; null is open. ``context_above`` (Int64): the row holds for requests
        with more tokens of input than that, null for all that no such row is for. US dollars per million
        tokens (Float64): ``input``, which no cache gave or took; ``cache_read``; ``cache_write`` and
        ``cache_write_1h``, to keep for minutes or for an hour; ``output``. Null: no price is known. ``batch``
        is the factor of a batch on input and output, ``batch_cache`` on what a cache gives and takes.
        ``source`` and ``retrieved`` (Date) say where and when a price was read.

    Notes
    -----
    The standard tier of the provider's own interface. Prices by the hour of the day, by region or by
    priority, storage of caches, fees of tools, pictures and sound are not in it.

    Examples
    --------
    >>> import orchestrace as ot
    >>> haiku = ot.costs.list_prices().filter(model="claude-haiku-4-5")
    >>> haiku.select("input", "cache_read", "cache_write", "cache_write_1h", "output").row(0)
    (1.0, 0.1, 1.25, 2.0, 5.0)
    """
    return _packaged()


@cache
def _packaged() -> pl.DataFrame:
    place = Path(__file__).parent / "prices.csv"
    return checked(pl.read_csv(place, infer_schema=False), "prices.csv")


@verb
def read_prices(path: str | os.PathLike[str]) -> pl.DataFrame:
    """Read a list of prices from a CSV file.

    Parameters
    ----------
    path
        The file. Its columns are those of `prices`; ``model``, ``input`` and ``output`` have to be there. A
        date is written ``2026-11-26``; an empty field is not known.

    Returns
    -------
    DataFrame
        The list, with the columns of `prices`.

    Raises
    ------
    InputError
        The file cannot be read, or is no CSV file.
    SchemaError
        A column is unknown or missing, or a row has a value that is no price or no date.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import orchestrace as ot
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "ours.csv"
    >>> _ = file.write_text("model,input,output\\nours-7b,0.2,0.2\\n")
    >>> ot.costs.read_prices(file).select("model", "input", "output").row(0)
    ('ours-7b', 0.2, 0.2)
    """
    place = path_of(path)
    expect_an_end(place)
    try:
        text = pl.read_csv(place.read_bytes(), infer_schema=False, comment_prefix="#")
    except OSError as error:
        raise InputError(f"'{plain(place)}': {error.strerror}") from None
    except pl.exceptions.PolarsError as error:
        raise InputError(
            f"'{plain(place)}' is no list of prices: expected a CSV file with the columns model, input,"
            f" output ({briefly(str(error).splitlines()[0])})"
        ) from None
    return checked(text, f"'{plain(place)}'")


def list_of(prices: Prices) -> pl.DataFrame:
    """The list that a caller means; without rows where it is None."""
    if prices is None:
        return pl.DataFrame(schema=PRICES)
    if isinstance(prices, pl.DataFrame):
        return checked(prices, "prices")
    if isinstance(prices, PlannedPrices):
        return checked(pl.DataFrame(prices.columns), "prices")
    if prices == "package":
        return _packaged()
    return read_prices(prices)


def checked(prices: pl.DataFrame, place: str) -> pl.DataFrame:
    """A list of prices with all columns and their types.

    Raises
    ------
    SchemaError
        Says which column or row is wrong. Rows are counted from 1, without header and comments.
    """
    if len(prices.columns) == 1 and (
        sign := next((mark for mark in ";\t|" if mark in prices.columns[0]), None)
    ):
        raise SchemaError(f"{place}: columns are divided by {sign!r}, expected commas")
    prices = prices.rename(str.strip)
    for name in prices.columns:
        twice = name.removesuffix("_duplicated_0")
        if twice != name and twice in PRICES:
            raise SchemaError(f"{place}: column '{twice}' is there twice")
        if name not in PRICES:
            raise SchemaError(f"{place}: {unknown_name('column', name, list(PRICES))}")
    for name in _NEEDED:
        if name not in prices.columns:
            raise SchemaError(f"{place}: column '{name}' is missing, expected at least model, input, output")
    columns = []
    for name, kind in PRICES.items():
        if name not in prices.columns:
            columns.append(pl.Series(name, [None] * prices.height, dtype=kind))
            continue
        columns.append(_typed(prices[name], name, kind, place))
    typed = pl.DataFrame(columns)
    for name in _NEEDED:
        if typed[name].null_count():
            at = typed[name].is_null().arg_true()[0]
            raise SchemaError(f"{place}, row {at + 1}: {name} is empty")
    _check_times(typed, place)
    return typed


_EXPECTED: Final = {
    pl.Float64: "a number of at least 0",
    pl.Int64: "a whole number of at least 0",
    pl.Date: "a date such as 2026-11-26",
    pl.String: "a text",
}


def _typed(column: pl.Series, name: str, kind: Any, place: str) -> pl.Series:
    """A column of a list with its type; of texts, what they say."""
    if column.dtype == pl.String:
        column = column.str.strip_chars().replace("", None)
    if column.dtype == pl.Null or (kind == pl.String and column.dtype in (pl.Categorical, pl.Enum)):
        typed = column.cast(kind)
    elif column.dtype == pl.String and kind == pl.Date:
        typed = column.str.to_date("%Y-%m-%d", strict=False)
    elif column.dtype == kind or column.dtype == pl.String:
        typed = column.cast(kind, strict=False)
    elif kind in (pl.Float64, pl.Int64) and column.dtype.is_numeric():
        typed = column.cast(kind, strict=False)
        if kind == pl.Int64:
            typed = pl.select(pl.when(typed == column).then(typed)).to_series()
    else:
        typed = pl.Series(name, [None] * len(column), dtype=kind)
    wrong = typed.is_null() & column.is_not_null()
    if kind in (pl.Float64, pl.Int64):
        wrong |= (~typed.cast(pl.Float64).is_finite() | (typed < 0)).fill_null(False)
    if wrong.any():
        at = wrong.arg_true()[0]
        raise SchemaError(
            f"{place}, row {at + 1}: {name} is {briefly(column[at])}, expected {_EXPECTED[kind]}"
        )
    return typed.alias(name)


def _check_times(prices: pl.DataFrame, place: str) -> None:
    """Refuse two prices of one model at one time."""
    ordered = prices.with_row_index("row", 1).sort(*_KEY, "valid_from", nulls_last=False, maintain_order=True)
    before = ordered.select(pl.col("row", "valid_to", *_KEY).shift().name.suffix("_before"))
    alike = pl.all_horizontal(pl.col(name).eq_missing(pl.col(f"{name}_before")) for name in _KEY)
    begins_late = (pl.col("valid_from") >= pl.col("valid_to_before")).fill_null(False)
    both = pl.concat([ordered, before], how="horizontal")
    clash = both.filter(pl.col("row_before").is_not_null(), alike, ~begins_late)
    if clash.height:
        row = clash.row(0, named=True)
        raise SchemaError(
            f"{place}, rows {row['row_before']} and {row['row']}: two prices of '{plain(row['model'])}' at"
            " one time; say with valid_from and valid_to when each holds"
        )
    empty = prices.with_row_index("row", 1).filter(pl.col("valid_from") >= pl.col("valid_to"))
    if empty.height:
        raise SchemaError(f"{place}, row {empty['row'][0]}: valid_from is not before valid_to")
