"""Sums and means that depend neither on the number of threads nor on the order of rows, and do not wrap."""

from typing import Final

import polars as pl

_MOST: Final = pl.lit(2**63 - 1, pl.Int128)


def total(column: pl.Expr) -> pl.Expr:
    """The sum of a count, at most the greatest one; null, not 0, where no row has one.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.base.sums import total
    >>> counts = pl.DataFrame({"n": [2**62, 2**62, 2**62]})
    >>> counts.select(total(pl.col("n"))).item() == 2**63 - 1
    True
    """
    exact = column.cast(pl.Int128).sum()
    return pl.when(column.is_not_null().any()).then(pl.min_horizontal(exact, _MOST)).cast(pl.Int64)


def ordered_total(column: pl.Expr) -> pl.Expr:
    """The sum of floats in ascending order; null where there are no floats.

    Threads hand numbers over in any order, on which a sum of floats depends.
    """
    return column.drop_nulls().sort().cum_sum().last()


def ordered_mean(column: pl.Expr) -> pl.Expr:
    """The mean of floats in ascending order; null where there are no floats.

    Recordings come in any order, on which a sum of floats depends.
    """
    return column.sort().mean()
