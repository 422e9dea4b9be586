"""What each agent of a rollout was paid: the sum of the field ``reward`` over the events that it owns."""

import polars as pl

from ...corpus.corpus import Corpus
from ...corpus.owners import owners


def owned_events(piece: Corpus) -> pl.DataFrame:
    """``trace seq owner role reward`` of the events that an agent owns."""
    paid = piece.events.select("trace", "seq", "reward").collect()
    owned = owners(piece).with_columns(pl.col("owner", "role").cast(pl.String))
    return owned.join(paid, on=["trace", "seq"], how="left", maintain_order="left").filter(
        pl.col("owner").is_not_null()
    )


def paid_agents(piece: Corpus) -> pl.DataFrame:
    """``trace owner role paid`` of every agent, in the order of their first events; null if nothing was paid.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.credit.fitted.agent_rewards import paid_agents
    >>> paid_agents(ot.generate(traces=2, seed=0)).columns
    ['trace', 'owner', 'role', 'paid']
    """
    return (
        owned_events(piece)
        .group_by("trace", "owner", maintain_order=True)
        .agg(
            pl.col("role").drop_nulls().first(),
            paid=pl.when(pl.col("reward").count() > 0).then(pl.col("reward").sum()),
        )
    )


def values_of_events(piece: Corpus, agents: pl.DataFrame, absent: str) -> pl.DataFrame:
    """``value reason`` of every event: those of the agent that owns it, of ``trace owner value reason``.

    An owned event whose agent has no value has the reason of the agent, else `absent`.
    """
    events = piece.events.select("trace", "seq").collect()
    owned = owned_events(piece).select("trace", "seq", "owner")
    rows = events.join(owned, on=["trace", "seq"], how="left", maintain_order="left")
    rows = rows.join(agents, on=["trace", "owner"], how="left", maintain_order="left")
    silent = pl.col("owner").is_not_null() & pl.col("value").is_null() & pl.col("reason").is_null()
    reason = pl.when(silent).then(pl.lit(absent)).otherwise("reason")
    return rows.select("value", reason=reason)
