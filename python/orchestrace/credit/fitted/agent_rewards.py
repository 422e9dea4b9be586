"""What each agent of a rollout was paid: the sum of the field ``reward`` over the events that it owns.

Recordings of verifiers say it otherwise: they keep all rewards of an agent, each with its weight, in the
field `x_agent_rewards` of its first answer. They are no rewards of events, since a return would count them
beside the channels that they add up to.
"""

import json
from typing import Final

import polars as pl

from ...corpus.corpus import Corpus
from ...corpus.owners import owners

STATED: Final = "x_agent_rewards"
_NUMBER: Final = r"#\d+$"


def owned_events(piece: Corpus) -> pl.DataFrame:
    """``trace seq owner role reward`` of the events that an agent owns."""
    paid = piece.events.select("trace", "seq", "reward").collect()
    owned = owners(piece).with_columns(pl.col("owner", "role").cast(pl.String))
    return owned.join(paid, on=["trace", "seq"], how="left", maintain_order="left").filter(
        pl.col("owner").is_not_null()
    )


def paid_agents(piece: Corpus, owned: pl.DataFrame) -> pl.DataFrame:
    """``trace owner role paid`` of every agent, in the order of their first events; null if nothing was paid.

    `owned` are `owned_events` of the piece.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.credit.fitted.agent_rewards import owned_events, paid_agents
    >>> corpus = ot.generate(traces=2, seed=0)
    >>> paid_agents(corpus, owned_events(corpus)).columns
    ['trace', 'owner', 'role', 'paid']
    """
    owned = owned.join(_stated(piece), on=["trace", "seq"], how="left", maintain_order="left")
    agents = owned.group_by("trace", "owner", maintain_order=True)
    summed = pl.when(pl.col("reward").count() > 0).then(pl.col("reward").sum())
    return agents.agg(
        pl.col("role").drop_nulls().first(), paid=pl.coalesce(summed, pl.col("stated").drop_nulls().first())
    )


def who(by: str) -> pl.Expr:
    """What agents that are compared share, of rows of `paid_agents`: their name less its number, or their
    role and, without one, that name. Importers call the second ``solver`` of a run ``solver#2``.
    """
    name = pl.col("owner").str.replace(_NUMBER, "")
    return pl.coalesce("role", name) if by == "role" else name


def _stated(piece: Corpus) -> pl.DataFrame:
    """``trace seq stated`` of the events that say what their agent was paid in all."""
    says = pl.col("extras").str.contains(f'"{STATED}":', literal=True)
    rewards = pl.col("extras").str.json_path_match(f"$.{STATED}")
    rows = piece.events.filter(says).select("trace", "seq", rewards=rewards).collect()
    totals = [_total(text) for text in rows["rewards"].to_list()]
    return rows.select("trace", "seq", stated=pl.Series(totals, dtype=pl.Float64))


def _total(text: str | None) -> float | None:
    """The sum of score times weight; none where a reward is without a score."""
    rewards = json.loads(text) if text else None
    if not isinstance(rewards, dict) or not rewards:
        return None
    total = 0.0
    for reward in rewards.values():
        weighted = reward if isinstance(reward, dict) else {"score": reward}
        part = [weighted.get("score"), weighted.get("weight", 1.0)]
        numbers = [float(x) for x in part if isinstance(x, int | float) and not isinstance(x, bool)]
        if len(numbers) < len(part):
            return None
        total += numbers[0] * numbers[1]
    return total


def values_of_events(piece: Corpus, owned: pl.DataFrame, agents: pl.DataFrame, absent: str) -> pl.DataFrame:
    """``value reason`` of every event: those of the agent that owns it, of ``trace owner value reason``.

    `owned` are `owned_events` of the piece. An owned event whose agent has no value has the reason of the
    agent, else `absent`.
    """
    events = piece.events.select("trace", "seq").collect()
    names = owned.select("trace", "seq", "owner")
    rows = events.join(names, on=["trace", "seq"], how="left", maintain_order="left")
    rows = rows.join(agents, on=["trace", "owner"], how="left", maintain_order="left")
    silent = pl.col("owner").is_not_null() & pl.col("value").is_null() & pl.col("reason").is_null()
    reason = pl.when(silent).then(pl.lit(absent)).otherwise("reason")
    return rows.select("value", reason=reason)
