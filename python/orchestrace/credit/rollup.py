"""Rows of units from values of events, for methods written in Python (docs/reference/definitions.md, D11)."""

import polars as pl

from .. import _core
from ..base.schema import CREDITS
from ..corpus.corpus import Corpus
from ..corpus.parts import store_of


def roll_up(
    corpus: Corpus,
    *,
    unit: str,
    quantity: str,
    values: pl.DataFrame,
    traces: pl.DataFrame,
    threads: int | None = None,
) -> pl.DataFrame:
    """Rows of `credit` at a unit, without the columns that are constant in a call.

    Parameters
    ----------
    corpus
        A corpus in memory.
    unit, quantity
        Level of the rows; ``"share"`` or ``"advantage"``.
    values
        One row per event, in corpus order: ``value reason``. One that is null without a reason is in no row.
    traces
        One row per trace, in corpus order: ``trace amount remainder reason``. Without an amount all rows of
        the trace are null with the reason; else the reason goes to units that have no other.
    threads
        As in `read_traces`.

    Returns
    -------
    DataFrame
        ``trace unit_id trace_id seq credit`` and, where they are not null throughout, ``residual reason``.

    Notes
    -----
    O(events), by the core.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> from orchestrace.credit.rollup import roll_up
    >>> corpus = ot.generate(traces=1, seed=0)
    >>> none = pl.lit(None, pl.String)
    >>> values = corpus.events.select("seq", value=1.0, reason=none).collect()
    >>> traces = pl.DataFrame({"trace": [0], "amount": [float(values.height)], "remainder": [0.0]})
    >>> traces = traces.with_columns(reason=none)
    >>> rows = roll_up(corpus, unit="team", quantity="share", values=values, traces=traces)
    >>> rows["credit"].sum() == values.height
    True
    """
    refused = pl.col("amount").is_null() & pl.col("reason").is_not_null()
    stream = _core.roll_up(
        store_of(corpus),
        quantity=quantity,
        unit=unit,
        events=values.select("value", pl.col("reason").cast(pl.String)),
        traces=traces.select(
            "amount", "remainder", reason=pl.when(refused).then(pl.col("reason").cast(pl.String))
        ),
        threads=threads,
    )
    rows = pl.DataFrame(stream)
    noted = traces.filter(~refused & pl.col("reason").is_not_null()).select("trace", note="reason")
    if noted.height == 0:
        return rows
    if "reason" not in rows.columns:
        rows = rows.with_columns(reason=pl.lit(None, CREDITS["reason"]))
    rows = rows.join(noted, on="trace", how="left", maintain_order="left")
    # The row without a unit holds the remainder, of which the reason says nothing.
    note = pl.when(pl.col("unit_id").is_not_null()).then(pl.col("note").cast(CREDITS["reason"]))
    return rows.with_columns(reason=pl.coalesce("reason", note)).drop("note")
