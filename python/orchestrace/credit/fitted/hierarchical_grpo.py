"""Hierarchical GRPO: each agent against others of its name, in its own rollout where these share a problem.

```text
A = r - mean of r     over the agents of a name in the group, or in the rollout
```

A proposer writes a problem, and several solvers try it: solvers of other rollouts had other problems, easier
or harder, and say nothing of this one; proposers have peers in the other rollouts alone. So agents of a name
are compared within their rollout if any rollout of the group has several of them, and over the group
otherwise (`peers`). ``solver`` and ``solver#2``, as importers name the second, have one name.

r is what the agent was paid (`agent_rewards`), and the reward of the run where no agent of the group was. A
comparison of one, or of equal rewards, gives exactly 0.
O(agents · log agents).
Reference: the algorithm `hierarchical_grpo` of prime-rl, whose ``episode_agents`` lists by hand what `peers`
sees; Z. Liu et al., arXiv 2503.20783, for the mean without a deviation.
"""

from typing import Any, Final

import numpy as np
import polars as pl

from ...base.schema import CREDITS
from ...corpus.corpus import Corpus
from ...statistics.within_groups import centered
from ..parameters import Param
from ..registry import EventValues, credit_method
from .agent_rewards import owned_events, paid_agents, values_of_events, who

PEERS: Final = Param(
    "peers",
    "auto",
    "who is compared: agents of a name over the group, or in their rollout; auto: in it where it has several",
    kind=("auto", "group", "rollout"),
)

BY: Final = Param(
    "by",
    "name",
    "what the agents that are compared share: their name (solver and solver#2 have one), or their role",
    kind=("name", "role"),
)


@credit_method(
    "hierarchical_grpo",
    summary="reward of an agent - mean of its name, in its own rollout where that has several",
    quantity="advantage",
    params=[PEERS, BY],
    reference="prime-rl, hierarchical_grpo",
    tier="observed",
    scope="group",
)
def hierarchical_grpo(
    corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int
) -> EventValues:
    """Every event has the value of the agent that owns it.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=16, seed=0)
    >>> credits = ot.credit(corpus, method="hierarchical_grpo", unit="agent").drop_nulls("credit")
    >>> credits.height > 0
    True
    """
    groups = corpus.traces.select("trace", pl.col("group_id").cast(pl.String)).collect()
    amounts = rewards.filter(pl.col("amount").is_not_null()).select("trace", "amount")
    is_paid = pl.col("paid").is_not_null().any().over("group_id")
    owned = owned_events(corpus)
    agents = (
        paid_agents(corpus, owned)
        .join(amounts, on="trace", maintain_order="left")
        .join(groups, on="trace", maintain_order="left")
        .with_columns(who=who(params["by"]), r=pl.when(is_paid).then("paid").otherwise("amount"))
        .drop_nulls("r")
    )
    several = (pl.len().over("trace", "who") > 1).max().over("group_id", "who")
    within = {"auto": several, "group": pl.lit(False), "rollout": pl.lit(True)}[params["peers"]]
    agents = agents.with_columns(within=within).with_columns(
        peers=pl.struct("group_id", "who", pl.when("within").then("trace")).rank("dense").cast(pl.Int64) - 1
    )
    peers = agents["peers"].to_numpy()
    n = int(peers.max(initial=-1)) + 1
    values = centered(agents["r"].to_numpy(), peers, n)
    flat = np.bincount(peers, values != 0.0, n)[peers] == 0
    silent = pl.when(pl.Series(flat)).then(pl.lit("group.degenerate"))
    of_agents = agents.select("trace", "owner", value=pl.Series(values), reason=silent)
    frame = values_of_events(corpus, owned, of_agents, "field.absent")
    return EventValues(frame.with_columns(pl.col("reason").cast(CREDITS["reason"])))
