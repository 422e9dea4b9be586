"""Advantages that a trainer dumped, for rows or for their tokens, as one number a row."""

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..base.errors import ParameterError


class RowAdvantages(NamedTuple):
    """The advantages of rows.

    Parameters
    ----------
    values
        (rows,), that of each row; NaN where trained tokens of one row have several.
    misplaced
        (rows,), whether tokens have one that the mask leaves out, or lack one that it trains.
    n_trained
        (rows,), how many tokens the mask trains; None where advantages are numbers.
    """

    values: NDArray[np.float64]
    misplaced: NDArray[np.bool_]
    n_trained: NDArray[np.float64] | None


def advantages_of(part: pl.DataFrame, advantage: str, mask: str | None) -> RowAdvantages:
    """The advantages of rows, from a column of numbers or of lists; `mask` is a column of lists.

    Raises
    ------
    ParameterError
        A column has another type, or a row has more or fewer flags than advantages.
    """
    if not isinstance(part[advantage].dtype, pl.List | pl.Array):
        if mask is not None:
            raise ParameterError(
                f"mask: column '{advantage}' has a number a row, expected a list for its tokens"
            )
        return RowAdvantages(numbers(part, advantage), np.zeros(part.height, bool), None)
    lists = {"value": _lists(part, advantage)}
    lists["kept"] = lists["value"].list.eval(pl.lit(1.0)) if mask is None else _lists(part, mask)
    rows = pl.DataFrame(lists).with_row_index("row")
    sizes = rows.select(pl.col("value", "kept").list.len().fill_null(0))
    unequal = (sizes["value"] != sizes["kept"]).arg_max() if (sizes["value"] != sizes["kept"]).any() else None
    if unequal is not None:
        flags, values = sizes["kept"][unequal], sizes["value"][unequal]
        raise ParameterError(
            f"mask: row {unequal} has {flags} flags, expected one for each of {values} advantages"
        )
    value, is_trained = pl.col("value"), pl.col("kept").fill_null(0.0) != 0.0
    assigned = value.filter(is_trained, (value != 0.0) | value.is_nan())
    of_rows = (
        rows.filter(pl.col("value").list.len() > 0)
        .explode("value", "kept")
        .group_by("row")
        .agg(
            n_trained=is_trained.sum(),
            low=assigned.min(),
            high=assigned.max(),
            nothing=value.filter(is_trained).eq(0.0).any() & assigned.len().gt(0),
            outside=(value.ne(0.0) & ~is_trained).any(),
        )
    )
    joined = rows.select("row").join(of_rows, on="row", how="left", maintain_order="left")
    low, high = joined["low"].fill_null(0.0).to_numpy(), joined["high"].fill_null(0.0).to_numpy()
    with np.errstate(invalid="ignore"):
        agrees = high - low <= 1e-6 * np.maximum(1.0, np.abs(low))
    misplaced = joined.select((pl.col("nothing") | pl.col("outside")).fill_null(False)).to_series()
    n_trained = joined["n_trained"].fill_null(0).cast(pl.Float64).to_numpy()
    return RowAdvantages(np.where(agrees, (low + high) / 2, np.nan), misplaced.to_numpy(), n_trained)


def numbers(part: pl.DataFrame, name: str) -> NDArray[np.float64]:
    """A column of numbers, NaN where one is null; of lists their sums, NaN where one has no number."""
    kind = part[name].dtype
    if isinstance(kind, pl.List | pl.Array):
        of_tokens = _lists(part, name).list.eval(pl.element().filter(pl.element().is_not_null()))
        sums = pl.select(pl.when(of_tokens.list.len() > 0).then(of_tokens.list.sum())).to_series()
        totals: NDArray[np.float64] = sums.fill_null(float("nan")).to_numpy()
        return totals
    if not (kind.is_numeric() or kind in (pl.Boolean, pl.Null)):
        raise ParameterError(f"column '{name}' has type {kind}, expected a number in each row")
    values: NDArray[np.float64] = part[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
    return values


def _lists(part: pl.DataFrame, name: str) -> pl.Series:
    column = part[name]
    if isinstance(column.dtype, pl.Array):
        column = column.arr.to_list()
    inner = column.dtype.inner if isinstance(column.dtype, pl.List) else None
    if inner is None or not (inner.is_numeric() or inner in (pl.Boolean, pl.Null)):
        raise ParameterError(
            f"column '{name}' has type {column.dtype}, expected a list of numbers in each row"
        )
    return column.cast(pl.List(pl.Float64))
