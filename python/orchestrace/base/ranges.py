"""Results beyond the range of a 64-bit float: null, with the reason ``result.range``."""

from collections.abc import Iterable

import polars as pl

from .schema import CREDITS


def finite(name: str) -> pl.Expr:
    """A column with null for every float that is infinite or NaN."""
    return pl.when(pl.col(name).is_finite()).then(pl.col(name)).alias(name)


def in_range(table: pl.DataFrame, names: Iterable[str], reason: str = "reason") -> pl.DataFrame:
    """The table with null for every NaN or infinity in these columns.

    Parameters
    ----------
    table
        Rows of a result; floats of `names` that are infinite or NaN come of sums, products or quotients of
        recorded numbers, all of which are finite.
    names
        Columns of floats.
    reason
        The column that says why a row has nulls; there a number beyond the floats goes before all else.

    Returns
    -------
    DataFrame
        The same columns and rows.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.base.ranges import in_range
    >>> table = in_range(pl.DataFrame({"x": [1.0, float("inf")], "reason": [None, None]}), ["x"])
    >>> table["x"].to_list(), table["reason"].to_list()
    ([1.0, None], [None, 'result.range'])
    """
    columns = list(names)
    beyond = pl.any_horizontal(~pl.col(name).is_finite().fill_null(True) for name in columns)
    why = pl.when(beyond).then(pl.lit("result.range")).otherwise(pl.col(reason).cast(pl.String))
    return table.with_columns(*map(finite, columns), why.cast(CREDITS["reason"]).alias(reason))
