"""The price of each response: as recorded, else from a list (docs/reference/definitions.md, D33)."""

from dataclasses import dataclass
from typing import Final

import polars as pl

from ..base.ranges import in_range
from ..base.schema import CREDITS
from ..base.sums import ordered_total, total
from ..corpus.corpus import Corpus
from .model_names import listed_names
from .price_list import KINDS

TOKENS: Final = ("tokens", "tokens_fresh", "tokens_cached", "tokens_cache_write", "tokens_out")
"""Columns of tokens that tables of costs have."""

BASIS: Final = pl.Enum(["recorded", "priced", "priced_undated", "mixed"])
"""What a sum of dollars rests on."""

_READ: Final = ("tokens_in", "tokens_cache_write_1h", "cost_usd")
_MILLION: Final = 1_000_000


@dataclass(frozen=True)
class Runs:
    """What prices depend on beside events.

    Parameters
    ----------
    outside
        ``trace agent`` of all that are not of a team.
    clock
        ``trace started_at timed`` of all traces.
    """

    outside: pl.DataFrame
    clock: pl.DataFrame


def runs_of(corpus: Corpus) -> Runs:
    """The runs of a corpus, without their events."""
    outside = corpus.agents.filter(pl.col("kind").cast(pl.String) != "agent").select(
        "trace", pl.col("agent").cast(pl.String), outside=True
    )
    timed = pl.col("time_basis").cast(pl.String).is_in(["seconds", "partial"])
    clock = corpus.traces.select("trace", "started_at", timed=timed)
    return Runs(outside.collect(engine="streaming"), clock.collect(engine="streaming"))


def spent(events: pl.LazyFrame, runs: Runs, prices: pl.DataFrame, *, batch: bool) -> pl.DataFrame:
    """What each event of the team spent, a row per event that records tokens or a price.

    Parameters
    ----------
    events
        The table of events, or a part of it with all events of its traces; of it only the columns that say
        what was spent are read.
    runs
        Of the corpus that they are of.
    prices
        A list of prices; without rows nothing is priced.
    batch
        Whether all requests went as a batch.

    Returns
    -------
    DataFrame
        ``trace seq`` (UInt32), ``model`` (String), `TOKENS` (Int64), ``cost_usd`` (Float64, null where
        ``reason`` says why), ``is_recorded is_undated`` (Boolean), ``reason``.
    """
    team = _of_team(events, runs)
    rows = _listed_rows(team, prices)
    priced = team.join(rows, on=["trace", "seq"], how="left", maintain_order="left")
    amount, reason = _amount(batch)
    recorded = pl.col("cost_usd").is_not_null()
    return priced.select(
        "trace",
        "seq",
        "model",
        *TOKENS,
        cost_usd=pl.coalesce("cost_usd", amount),
        is_recorded=recorded,
        is_undated=~recorded & pl.col("day").is_null(),
        reason=pl.when(~recorded).then(reason).cast(CREDITS["reason"]),
    )


def _of_team(events: pl.LazyFrame, runs: Runs) -> pl.DataFrame:
    """Events that spent something on the team's work (D18), with the day on which they did."""
    some = pl.col("cost_usd").is_not_null() | (pl.max_horizontal("tokens", "tokens_in", "tokens_out") > 0)
    is_human = pl.col("type").cast(pl.String) == "human_intervention"
    columns = ("trace", "seq", "t", *TOKENS, *_READ)
    spending = (
        events.filter(some, ~is_human)
        .select(*columns, pl.col("agent", "model").cast(pl.String))
        .collect()
        .join(runs.outside, on=["trace", "agent"], how="left", maintain_order="left")
        .filter(pl.col("outside").is_null())
    )
    # a time that is no time of day, or lies beyond all calendars, moves nothing
    after = pl.when(pl.col("timed") & pl.col("t").is_between(0, 4e9)).then(pl.col("t")).otherwise(0.0)
    when = pl.col("started_at").cast(pl.Datetime("us", "UTC")) + pl.duration(
        microseconds=(after * 1e6).cast(pl.Int64)
    )
    return spending.join(runs.clock, on="trace", how="left", maintain_order="left").with_columns(
        day=when.dt.date()
    )


def _listed_rows(events: pl.DataFrame, prices: pl.DataFrame) -> pl.DataFrame:
    """The row of the list that holds for each event: of its model, on its day, for its tokens of input."""
    models = events["model"].unique().drop_nulls()
    listed = prices.rename({"model": "listed"}).join(
        listed_names(sorted(models), prices), on=["listed", "provider"], nulls_equal=True
    )
    day = pl.coalesce("day", pl.lit(prices["retrieved"].max(), pl.Date))
    holds = (pl.col("valid_from").is_null() | (pl.col("valid_from") <= day)) & (
        pl.col("valid_to").is_null() | (day < pl.col("valid_to"))
    )
    if prices["retrieved"].null_count() == prices.height:
        # a list without a day of its own: its newest row
        holds = pl.when(day.is_null()).then(pl.col("valid_to").is_null()).otherwise(holds)
    fits = pl.col("context_above").is_null() | (pl.col("tokens_in") > pl.col("context_above"))
    return (
        events.select("trace", "seq", "model", "tokens_in", "day")
        .join(listed, on="model")
        .filter(holds, fits)
        .sort("trace", "seq", "context_above", "valid_from", nulls_last=False)
        .unique(["trace", "seq"], keep="last", maintain_order=True)
        .select("trace", "seq", *KINDS, "batch", "batch_cache")
    )


def _amount(batch: bool) -> tuple[pl.Expr, pl.Expr]:
    """The dollars of an event, and why they are null."""
    hour = pl.col("tokens_cache_write_1h").fill_null(0)
    written = pl.col("tokens_cache_write").fill_null(0)
    tokens = {
        "input": pl.col("tokens_fresh"),
        "cache_read": pl.col("tokens_cached").fill_null(0),
        "cache_write": written - hour,
        "cache_write_1h": hour,
        "output": pl.col("tokens_out"),
    }
    of_cache = ("cache_read", "cache_write", "cache_write_1h")
    factors = {kind: pl.col("batch_cache" if kind in of_cache else "batch") for kind in KINDS}
    parts = []
    for kind in KINDS:
        price = pl.col(kind) * factors[kind] if batch else pl.col(kind)
        # what was not used needs no price
        parts.append(pl.when(tokens[kind] == 0).then(0.0).otherwise(tokens[kind] * price))
    amount = pl.sum_horizontal(parts, ignore_nulls=False) / _MILLION
    unsplit = pl.any_horizontal(pl.col("model", "tokens_fresh", "tokens_out").is_null())
    unsplit |= pl.col("tokens_cache_write").is_null() & (hour > 0)
    reason = (
        pl.when(unsplit)
        .then(pl.lit("field.absent"))
        .when(hour > written)
        .then(pl.lit("result.range"))
        .when(amount.is_null())
        .then(pl.lit("price.absent"))
        .when(~amount.is_finite())
        .then(pl.lit("result.range"))
    )
    return pl.when(reason.is_null()).then(amount), reason


def totals() -> dict[str, pl.Expr]:
    """Sums over rows of `spent`: tokens, dollars with their basis, and what has no price."""
    cost = pl.col("cost_usd")
    recorded = pl.col("is_recorded") & cost.is_not_null()
    priced = ~pl.col("is_recorded") & cost.is_not_null()
    return {
        **{name: total(pl.col(name)) for name in TOKENS},
        "recorded_usd": ordered_total(cost.filter(recorded)),
        "priced_usd": ordered_total(cost.filter(priced)),
        "undated": (priced & pl.col("is_undated")).any(),
        "unpriced_tokens": total(pl.col("tokens").filter(cost.is_null())).fill_null(0),
        "reason": pl.col("reason").drop_nulls().cast(pl.String).sort().first(),
    }


def added() -> dict[str, pl.Expr]:
    """Sums over sums of `totals`."""
    return {
        **{name: total(pl.col(name)) for name in TOKENS},
        "recorded_usd": ordered_total(pl.col("recorded_usd")),
        "priced_usd": ordered_total(pl.col("priced_usd")),
        "undated": pl.col("undated").any(),
        "unpriced_tokens": total(pl.col("unpriced_tokens")).fill_null(0),
        "floor": pl.col("floor").any(),
        "reason": pl.col("reason").drop_nulls().sort().first(),
    }


def with_basis(sums: pl.DataFrame) -> pl.DataFrame:
    """Sums of `totals` with their dollars, what these rest on, and the share of tokens without a price."""
    recorded, priced = pl.col("recorded_usd"), pl.col("priced_usd")
    of_list = pl.when("undated").then(pl.lit("priced_undated")).otherwise(pl.lit("priced"))
    basis = (
        pl.when(recorded.is_not_null() & priced.is_not_null())
        .then(pl.lit("mixed"))
        .when(recorded.is_not_null())
        .then(pl.lit("recorded"))
        .when(priced.is_not_null())
        .then(of_list)
    )
    both = recorded.is_not_null() | priced.is_not_null()
    dollars = pl.when(both).then(recorded.fill_null(0.0) + priced.fill_null(0.0))
    summed = sums.with_columns(
        cost_usd=dollars,
        basis=pl.when(dollars.is_finite()).then(basis).cast(BASIS),
        unpriced_share=pl.when(pl.col("tokens") > 0).then(pl.col("unpriced_tokens") / pl.col("tokens")),
    )
    return in_range(summed, ["cost_usd", "recorded_usd", "priced_usd"])
