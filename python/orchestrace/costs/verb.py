"""The verb `costs.table`: tokens and dollars by model, run, agent or role."""

from typing import Any, Final, Literal

import polars as pl

from .. import _core
from ..base.progress import Progress, reporting
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.parts import store_of
from .price_list import Prices, list_of
from .pricing import BASIS, TOKENS, added, spent, totals, with_basis

By = Literal["model", "trace", "agent", "role", "importer"]

DOLLARS: Final[dict[str, Any]] = {
    "cost_usd": pl.Float64,
    "basis": BASIS,
    "unpriced_share": pl.Float64,
    "floor": pl.Boolean,
    "recorded_usd": pl.Float64,
    "priced_usd": pl.Float64,
    "unpriced_tokens": pl.Int64,
    "reason": CREDITS["reason"],
}
"""Columns about dollars, in order."""

_SUMS: Final[dict[str, Any]] = {**dict.fromkeys(TOKENS, pl.Int64), **DOLLARS}


@verb
def table(
    corpus: Corpus,
    *,
    by: By = "model",
    prices: Prices = "package",
    batch: bool = False,
    progress: Progress = None,
) -> pl.DataFrame:
    """Add up tokens and dollars, and say how much of them has no price.

    Parameters
    ----------
    corpus
        The recordings.
    by
        ``"model"`` and ``"importer"`` give a row each over all runs, ``"trace"`` a row per run, ``"agent"``
        and ``"role"`` a row per agent or role of each run. The row with a null name holds what nobody owns
        and what a recording states of the whole run alone, so that rows add up to those of the trace.
    prices
        Where an event records no price: ``"package"``, the list of `prices`; a CSV file or a frame with its
        columns; None prices nothing.
    batch
        All requests were sent as a batch.
    progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        The name (``model``, ``importer``; ``trace`` (UInt32) and ``trace_id``, with ``task_id``, ``agent`` or
        ``role``), ``events`` (UInt32, of the team, that record tokens or a price), tokens by kind (Int64),
        then ``cost_usd`` (Float64): recorded where an event records its price, else by the list. ``basis``
        says which: ``recorded``, ``priced``, ``priced_undated`` (by the prices on the day of the list, as no
        time is recorded), ``mixed`` for both in one sum; null where nothing is known.

        ``unpriced_share``: share of the tokens that neither has a price. ``floor`` (Boolean): tokens and
        dollars are at least these, since some have no price, or a recording lacks some (the finding
        ``usage.incomplete``). ``recorded_usd priced_usd unpriced_tokens`` are the parts. ``reason`` says why
        tokens have no price: ``price.absent`` (the list has no such model then, or no price of a kind of
        tokens), ``field.absent`` (no model, or tokens that are not split into input and output),
        ``result.range``; of several the first by name. By trace also ``stated_usd``: what the recording
        states of the whole run, to compare with.

    Raises
    ------
    ParameterError
        Unknown word for `by`, or `batch` is no flag.
    InputError, SchemaError
        The list of prices cannot be read.

    Notes
    -----
    Tokens are those of the team; what scorers spend is in ``scorer_cost_usd`` of `metrics`. Where a recording
    does not say what a cache gave, all input is priced as fresh, which is an upper bound. Fees of server
    tools are in no price. O(events).

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.read_traces("data/samples")
    >>> by_model = ot.costs.table(corpus)
    >>> by_model["tokens"].sum() == ot.costs.table(corpus, by="trace")["tokens"].sum()
    True
    """
    listed = list_of(prices)
    traces = corpus.traces.select(
        "trace", "trace_id", "task_id", importer=pl.col("importer").cast(pl.String)
    ).collect(engine="streaming")
    parts = [pl.DataFrame(schema={"trace": pl.UInt32, "name": pl.String, "events": pl.UInt32})]
    with reporting(progress, "pricing") as callback:
        pieces = list(corpus.pieces())
        for at, (_, load) in enumerate(pieces):
            parts.append(_of_piece(load(), by, listed, batch=batch))
            if callback is not None:
                callback(at + 1, len(pieces))
    sums = pl.concat(parts, how="diagonal_relaxed")
    stated = _stated(corpus)
    alone = stated.join(sums, on="trace", how="anti").filter(
        pl.any_horizontal(pl.col("tokens", "recorded_usd").is_not_null())
    )
    whole = alone.select(
        "trace",
        "tokens",
        "recorded_usd",
        name=pl.lit(None, pl.String),
        events=pl.lit(0, pl.UInt32),
        undated=pl.lit(False),
        unpriced_tokens=pl.when(pl.col("recorded_usd").is_null()).then("tokens").otherwise(0).fill_null(0),
        reason=pl.when(pl.col("recorded_usd").is_null()).then(pl.lit("field.absent")),
    )
    empty = {name: pl.Int64 for name in TOKENS} | {"priced_usd": pl.Float64}
    sums = pl.concat([sums, whole, pl.DataFrame(schema=empty)], how="diagonal_relaxed")
    lacking = corpus.findings.filter(pl.col("code").cast(pl.String) == "usage.incomplete").select("trace")
    lacks = pl.col("trace").is_in(lacking.collect(engine="streaming")["trace"].unique().to_list())
    sums = sums.with_columns(floor=(pl.col("unpriced_tokens") > 0) | lacks)
    return _named(sums, by, traces, stated)


def _of_piece(piece: Corpus, by: By, listed: pl.DataFrame, *, batch: bool) -> pl.DataFrame:
    rows = spent(piece, listed, batch=batch)
    if by in ("agent", "role"):
        name = "owner" if by == "agent" else "role"
        owned = pl.DataFrame(_core.ownership(store_of(piece)))
        names = owned.select("trace", "seq", name=pl.col(name).cast(pl.String))
        rows = rows.join(names, on=["trace", "seq"], how="left", maintain_order="left")
    else:
        rows = rows.with_columns(name=pl.col("model") if by == "model" else pl.lit(None, pl.String))
    return rows.group_by("trace", "name", maintain_order=True).agg(events=pl.len(), **totals())


def _stated(corpus: Corpus) -> pl.DataFrame:
    """What recordings state of whole runs: ``trace tokens recorded_usd``."""
    name = pl.col("name").cast(pl.String)
    return (
        corpus.measures.filter(pl.col("kind").cast(pl.String) == "cost", name.is_in(["tokens", "cost_usd"]))
        .group_by("trace")
        .agg(
            # a run that states 0 has not counted them
            tokens=pl.col("value")
            .filter(name == "tokens", pl.col("value") > 0)
            .first()
            .cast(pl.Int64, strict=False),
            recorded_usd=pl.col("value").filter(name == "cost_usd").first(),
        )
        .sort("trace")
        .collect(engine="streaming")
    )


def _named(sums: pl.DataFrame, by: By, traces: pl.DataFrame, stated: pl.DataFrame) -> pl.DataFrame:
    """Rows by name, in their order, with all columns."""
    if by in ("model", "importer"):
        if by == "importer":
            sums = sums.drop("name").join(
                traces.select("trace", name="importer"), on="trace", how="left", maintain_order="left"
            )
        whole = sums.group_by("name", maintain_order=True).agg(pl.col("events").sum(), **added())
        rows = (
            with_basis(whole)
            .rename({"name": by})
            .sort("tokens", by, descending=[True, False], nulls_last=True)
        )
        return rows.select(by, "events", *(pl.col(name).cast(kind) for name, kind in _SUMS.items()))
    keys = ["trace"] if by == "trace" else ["trace", "name"]
    whole = with_basis(sums.group_by(keys, maintain_order=True).agg(pl.col("events").sum(), **added()))
    if by == "trace":
        rows = traces.drop("importer").join(whole, on="trace", how="left", maintain_order="left")
        rows = rows.join(
            stated.select("trace", stated_usd="recorded_usd"), on="trace", how="left", maintain_order="left"
        )
        names = ["trace", "trace_id", "task_id"]
    else:
        rows = traces.select("trace", "trace_id").join(whole, on="trace", maintain_order="left_right")
        rows = rows.rename({"name": by})
        names = ["trace", "trace_id", by]
    rows = rows.with_columns(pl.col("events", "unpriced_tokens").fill_null(0))
    tail = ["stated_usd"] if by == "trace" else []
    return rows.select(*names, "events", *(pl.col(name).cast(kind) for name, kind in _SUMS.items()), *tail)
