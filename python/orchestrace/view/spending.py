"""Where tokens and dollars went, by agent: what a bar at the top of a page shows."""

from typing import Final

import polars as pl

from ..base.sums import ordered_total, total
from ..corpus.corpus import Corpus

SHOWN: Final = 7
"""Agents that have a part of their own; the others share one."""
_HEX: Final = r"^[0-9a-f-]{7,}$"


def spending(corpus: Corpus, costs: pl.DataFrame) -> pl.DataFrame:
    """Sums over all runs, the most tokens first: ``agent tokens cost_usd listed_usd``.

    `costs` is what `costs.table` says by agent.
    Dollars are as recorded, or by the list of prices, whose part is ``listed_usd``.
    An agent whose name is a hexadecimal id goes by its role, where it has one. After `SHOWN` agents the rest
    is one row, whose ``agent`` is null and whose ``n_agents`` says how many these are. Events of nobody are
    in no row.
    """
    members = costs.filter(pl.col("agent").is_not_null())
    roles = corpus.agents.select("trace", pl.col("agent", "role").cast(pl.String)).collect(engine="streaming")
    name = pl.col("agent").cast(pl.String)
    spent = members.select("trace", name, "tokens", "cost_usd", listed_usd="priced_usd").join(
        roles, on=["trace", "agent"], how="left", maintain_order="left"
    )
    hidden = name.str.contains(_HEX) & pl.col("role").is_not_null()
    sums = (
        spent.with_columns(agent=pl.when(hidden).then("role").otherwise("agent"))
        .filter(pl.col("tokens").is_not_null() | pl.col("cost_usd").is_not_null())
        .group_by("agent")
        .agg(**_sums())
        .sort(["tokens", "cost_usd", "agent"], descending=[True, True, False], nulls_last=True)
        .with_columns(n_agents=pl.lit(1, pl.UInt32))
    )
    if sums.height <= SHOWN + 1:
        return sums
    rest = sums[SHOWN:].select(
        pl.lit(None, pl.String).alias("agent"),
        **_sums(),
        n_agents=pl.len().cast(pl.UInt32),
    )
    return pl.concat([sums[:SHOWN], rest])


def _sums() -> dict[str, pl.Expr]:
    dollars = {name: ordered_total(pl.col(name)) for name in ("cost_usd", "listed_usd")}
    return {"tokens": total(pl.col("tokens")), **dollars}
