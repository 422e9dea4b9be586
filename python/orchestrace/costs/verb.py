"""The verb `costs.table`: tokens and dollars by model, run, agent or role."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Literal

import polars as pl

from .. import _core
from ..base.progress import Progress, reporting
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.parts import divisions, store_of
from .price_list import Prices, list_of
from .pricing import BASIS, TOKENS, Runs, added, runs_of, spent, totals, with_basis

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

_NAMES: Final[dict[By, pl.Expr]] = {
    "model": pl.col("model"),
    "trace": pl.lit(None, pl.String),
    "agent": pl.col("owner"),
    "role": pl.col("role"),
    "importer": pl.lit(None, pl.String),
}
"""The name of each row of a trace, which sums are grouped by."""

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
    (rows,) = tables(corpus, (by,), prices=prices, batch=batch, progress=progress)
    return rows


def tables(
    corpus: Corpus,
    bys: Sequence[By],
    *,
    prices: Prices = "package",
    batch: bool = False,
    progress: Progress = None,
) -> list[pl.DataFrame]:
    """`table` by several names, for which each event is priced once."""
    listed = list_of(prices)
    traces = corpus.traces.select(
        "trace", "trace_id", "task_id", importer=pl.col("importer").cast(pl.String)
    ).collect(engine="streaming")
    empty = {"trace": pl.UInt32, "name": pl.String, "events": pl.UInt32, **dict.fromkeys(TOKENS, pl.Int64)}
    parts = [[pl.DataFrame(schema={**empty, "priced_usd": pl.Float64})] for _ in bys]
    stated = _stated(corpus)
    lacking = corpus.findings.filter(pl.col("code").cast(pl.String) == "usage.incomplete").select("trace")
    lacks = pl.col("trace").is_in(lacking.collect(engine="streaming")["trace"].unique().to_list())
    with reporting(progress, "pricing") as callback:
        works = _spent(corpus, bys, runs_of(corpus), listed, batch)
        for at, work in enumerate(works):
            rows = work()
            for by, sums in zip(bys, parts, strict=True):
                grouped = rows.group_by("trace", _NAMES[by].alias("name"), maintain_order=True)
                sums.append(grouped.agg(events=pl.len(), **totals()))
            if callback is not None:
                callback(at + 1, len(works))
    return [
        _named(_with_stated(sums, stated, lacks), by, traces, stated)
        for by, sums in zip(bys, parts, strict=True)
    ]


def _spent(
    corpus: Corpus, bys: Sequence[By], runs: Runs, listed: pl.DataFrame, batch: bool
) -> list[Callable[[], pl.DataFrame]]:
    """What gives the events of each part of a corpus with what they spent.

    Who owns an event says the core, from all that is recorded of its trace; else a few columns are enough.
    """
    if not {"agent", "role"}.intersection(bys):
        parts = divisions(corpus, "events")
        return [partial(spent, events, runs, listed, batch=batch) for events in parts]

    def owned(load: Callable[[], Corpus]) -> pl.DataFrame:
        piece = load()
        owners = pl.DataFrame(_core.ownership(store_of(piece))).select(
            "trace", "seq", pl.col("owner", "role").cast(pl.String)
        )
        rows = spent(piece.events, runs, listed, batch=batch)
        return rows.join(owners, on=["trace", "seq"], how="left", maintain_order="left")

    return [partial(owned, load) for _, load in corpus.pieces()]


def _with_stated(parts: list[pl.DataFrame], stated: pl.DataFrame, lacks: pl.Expr) -> pl.DataFrame:
    """Sums of events, and of traces without any what their recordings state; with ``floor``."""
    sums = pl.concat(parts, how="diagonal_relaxed")
    alone = stated.join(sums, on="trace", how="anti").filter(
        pl.any_horizontal(pl.col("tokens", "recorded_usd").is_not_null())
    )
    as_stated = alone.select(
        "trace",
        "tokens",
        "recorded_usd",
        name=pl.lit(None, pl.String),
        events=pl.lit(0, pl.UInt32),
        undated=pl.lit(False),
        unpriced_tokens=pl.when(pl.col("recorded_usd").is_null()).then("tokens").otherwise(0).fill_null(0),
        reason=pl.when(pl.col("recorded_usd").is_null()).then(pl.lit("field.absent")),
    )
    sums = pl.concat([sums, as_stated], how="diagonal_relaxed")
    return sums.with_columns(floor=(pl.col("unpriced_tokens") > 0) | lacks)


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
        sums_by_name = sums.group_by("name", maintain_order=True).agg(pl.col("events").sum(), **added())
        rows = (
            with_basis(sums_by_name)
            .rename({"name": by})
            .sort("tokens", by, descending=[True, False], nulls_last=True)
        )
        return rows.select(by, "events", *(pl.col(name).cast(kind) for name, kind in _SUMS.items()))
    keys = ["trace"] if by == "trace" else ["trace", "name"]
    sums_by_name = with_basis(sums.group_by(keys, maintain_order=True).agg(pl.col("events").sum(), **added()))
    if by == "trace":
        rows = traces.drop("importer").join(sums_by_name, on="trace", how="left", maintain_order="left")
        rows = rows.join(
            stated.select("trace", stated_usd="recorded_usd"), on="trace", how="left", maintain_order="left"
        )
        names = ["trace", "trace_id", "task_id"]
    else:
        rows = traces.select("trace", "trace_id").join(sums_by_name, on="trace", maintain_order="left_right")
        rows = rows.rename({"name": by})
        names = ["trace", "trace_id", by]
    rows = rows.with_columns(pl.col("events", "unpriced_tokens").fill_null(0))
    tail = ["stated_usd"] if by == "trace" else []
    return rows.select(*names, "events", *(pl.col(name).cast(kind) for name, kind in _SUMS.items()), *tail)
