"""From values of events to rows of units (ARCHITECTURE.md, D11), for methods written in Python."""

import polars as pl

from . import _core
from .corpus import Corpus
from .errors import ParameterError
from .owners import owners


def roll_up(
    corpus: Corpus,
    *,
    unit: str,
    quantity: str,
    values: pl.DataFrame,
    traces: pl.DataFrame,
    threads: int | None = None,
) -> _core.Stream | pl.DataFrame:
    """Rows of `credit` at a unit, without the columns that are constant in a call.

    Parameters
    ----------
    corpus
        A corpus in memory.
    unit, quantity
        Level of the rows; ``"share"`` or ``"advantage"``.
    values
        One row per event, in corpus order: ``trace seq value reason``.
    traces
        One row per trace, in corpus order: ``trace amount remainder reason``.

    Returns
    -------
    Stream or DataFrame
        What `polars.DataFrame` takes.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> from orchestrace.rollup import roll_up
    >>> corpus = ot.generate(traces=1, seed=0)
    >>> none = pl.lit(None, pl.String)
    >>> values = corpus.events.select("trace", "seq", value=1.0, reason=none).collect()
    >>> traces = pl.DataFrame({"trace": [0], "amount": [float(values.height)], "remainder": [0.0]})
    >>> traces = traces.with_columns(none.alias("reason"))
    >>> rows = roll_up(corpus, unit="team", quantity="share", values=values, traces=traces)
    >>> pl.DataFrame(rows)["credit"].sum() == values.height
    True
    """
    if hasattr(_core, "roll_up"):
        stream: _core.Stream = _core.roll_up(
            corpus._store,
            unit=unit,
            quantity=quantity,
            values=values.select("value", "reason"),
            traces=traces.select("amount", "remainder", "reason"),
            threads=threads,
        )[0]
        return stream
    return _rows(corpus, unit, quantity, values, traces)


def _rows(
    corpus: Corpus, unit: str, quantity: str, values: pl.DataFrame, traces: pl.DataFrame
) -> pl.DataFrame:
    names = {"team": pl.lit("team"), "agent": pl.col("owner"), "role": pl.col("role"), "event": pl.col("id")}
    if unit not in names:
        raise ParameterError(f"methods written in Python are reported at {', '.join(names)} only")
    ids = corpus.events.select("id").collect()["id"]
    events = owners(corpus).with_columns(id=ids, value=values["value"], why=values["reason"].cast(pl.String))
    events = events.with_columns(unit_id=names[unit].cast(pl.String))
    why = traces.select("trace", "amount", "remainder", of_trace=pl.col("reason").cast(pl.String))
    rows = (
        events.group_by("trace", "unit_id", maintain_order=True)
        .agg(
            seq=pl.col("seq").min(),
            total=pl.col("value").sum(),
            mean=pl.col("value").mean(),
            n=pl.col("value").count(),
            why=pl.col("why").drop_nulls().first(),
        )
        .join(why, on="trace", how="left", maintain_order="left")
    )
    has_rest = rows.filter(pl.col("unit_id").is_null()).select("trace").unique()
    rest = (
        why.filter((pl.col("remainder") != 0) if quantity == "share" else False)
        .join(has_rest, on="trace", how="anti")
        .join(events.select("trace").unique(), on="trace", how="semi")
        .with_columns(
            unit_id=pl.lit(None, pl.String),
            seq=pl.lit(None, pl.UInt32),
            total=pl.lit(0.0),
            mean=pl.lit(None, pl.Float64),
            n=pl.lit(1, pl.UInt32),
            why=pl.lit(None, pl.String),
        )
    )
    rows = pl.concat([rows, rest.select(rows.columns)])
    is_rest = pl.col("unit_id").is_null()
    if quantity == "share":
        credit = pl.col("total") + pl.when(is_rest).then("remainder").otherwise(0.0)
        credit = pl.when(pl.col("amount").is_not_null() & (pl.col("n") > 0)).then(credit)
    else:
        credit = pl.when(~is_rest).then("mean")
    rows = rows.with_columns(credit=credit)
    refusal = pl.coalesce("why", "of_trace", pl.lit("unit.none"))
    if quantity == "advantage":
        refusal = pl.when(is_rest).then(pl.lit("unit.none")).otherwise(refusal)
    return (
        rows.with_columns(
            reason=pl.when(pl.col("credit").is_null()).then(refusal).otherwise("of_trace"),
            residual=pl.col("amount") - pl.col("credit").sum().over("trace")
            if quantity == "share"
            else pl.lit(None, pl.Float64),
        )
        .sort("trace", is_rest, "seq", maintain_order=True)
        .with_columns(seq=pl.when(~is_rest).then("seq"))
        .join(
            corpus.traces.select("trace", "trace_id").collect(), on="trace", how="left", maintain_order="left"
        )
        .select("trace", "unit_id", "trace_id", "seq", "credit", "residual", "reason")
    )
