"""Whether the credits of a frame add up: shares do, advantages do not."""

import polars as pl

from .verb import list_methods


def quantities(credits: pl.DataFrame) -> pl.Series:
    """``share`` or ``advantage`` of every row, as the column ``quantity`` says, else the registered method.

    Null where neither is known.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.credit.quantities import quantities
    >>> credits = ot.credit(ot.generate(traces=2, seed=0), method="grpo", unit="agent")
    >>> quantities(credits.drop("quantity")).unique().to_list()
    ['advantage']
    """
    if "quantity" in credits.columns:
        return credits["quantity"].cast(pl.String)
    if "method" not in credits.columns:
        return pl.Series("quantity", [None] * credits.height, pl.String)
    table = list_methods().select("name", "quantity")
    named = credits["method"].cast(pl.String)
    return named.replace_strict(table["name"], table["quantity"], default=None, return_dtype=pl.String).alias(
        "quantity"
    )
