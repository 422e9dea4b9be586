"""CCPO: an agent is paid for what its team does better than the same team without it, on the same task.

```text
D_k = R - mean of R over the runs of the task whose agents are all but k
r_k = R + bonus D_k                        (form = "bonus")
r_k = tanh(slope (D_k - m_k) / (s_k + epsilon))      (form = "standardized")
A_k = (r_k - mean of r_k over the group) / (deviation + epsilon),  or without the division (scale = "none")
```

Runs without an agent are recorded, not imagined: ablations of a team in the corpus, found by the names of who
acted. m and s are mean and deviation of D of the agents of a name in the corpus, where the published code
averages them over training; so the second form says who helped more than usual, and an agent that helps alike
in every run gets 0. The first keeps the outcome. An agent without such runs has no credit.
O(agents · log agents).
Reference: arXiv 2603.21563 and its code, `leave_one_out_rema.py`; the bonus is that of its later form.
"""

from typing import Any, Final

import numpy as np
import polars as pl

from ...base.arrays import Floats, Ints
from ...base.schema import CREDITS
from ...base.sums import ordered_mean
from ...corpus.corpus import Corpus
from ...statistics.within_groups import centered
from ..parameters import Param
from ..registry import EventValues, credit_method
from .agent_rewards import owned_events, values_of_events

_SUMS: Final = ("first_sum", "second_sum")
"""Of hashes of the names of a team, 64 bits each, which wrap around."""


@credit_method(
    "ccpo",
    summary="what the team does better than the recorded team without the agent, within the group",
    quantity="advantage",
    params=[
        Param(
            "form",
            "bonus",
            "what an agent is paid: the outcome and a bonus, or the difference alone, standardized",
            kind=("bonus", "standardized"),
        ),
        Param("bonus", 1.0, "weight of the difference beside the outcome", low=0.0),
        Param("slope", 1.0, "of the tangent that a standardized difference goes through", low=0.0),
        Param("scale", "deviation", "what divides within the group", kind=("deviation", "none")),
        Param("epsilon", 1e-6, "added to every deviation", low=0.0),
    ],
    reference="arXiv 2603.21563",
    tier="observed",
    scope="corpus",
    fit=lambda corpus, rewards, _params, _seed: differences(corpus, rewards),
)
def ccpo(
    corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int, model: pl.DataFrame
) -> EventValues:
    """Every event has the value of the agent that owns it."""
    rows = model.drop_nulls("difference")
    if params["form"] == "standardized":
        names = rows["owner"].rank("dense").to_numpy().astype(np.int64) - 1
        apart = _around(rows["difference"].to_numpy(), names, params["epsilon"])
        rows = rows.with_columns(paid=pl.Series(np.tanh(params["slope"] * apart)))
    else:
        rows = rows.with_columns(paid=pl.col("amount") + params["bonus"] * pl.col("difference"))
    peers = rows.select(pl.struct("group", "owner").rank("dense")).to_series().to_numpy().astype(np.int64) - 1
    n = int(peers.max(initial=-1)) + 1
    if params["scale"] == "none":
        values = centered(rows["paid"].to_numpy(), peers, n)
    else:
        values = _around(rows["paid"].to_numpy(), peers, params["epsilon"])
    flat = np.bincount(peers, values != 0.0, n)[peers] == 0
    silent = pl.when(pl.Series(flat)).then(pl.lit("group.degenerate"))
    of_agents = rows.select("trace", "owner", value=pl.Series(values), reason=silent)
    frame = values_of_events(corpus, owned_events(corpus), of_agents, "siblings.absent")
    return EventValues(frame.with_columns(pl.col("reason").cast(CREDITS["reason"])))


def differences(corpus: Corpus, rewards: pl.DataFrame) -> pl.DataFrame:
    """``trace owner group amount difference`` of every agent of every rewarded run.

    The last is null without runs of the task whose agents are all others and nobody else.
    """
    agents = pl.concat([owned_events(piece).select("trace", "owner") for piece in corpus.slices()]).unique(
        maintain_order=True
    )
    task = pl.coalesce(pl.col("task_id").cast(pl.String), pl.col("trace_id").cast(pl.String))
    group = pl.col("group_id").rank("dense")
    name = pl.col("trace_id").cast(pl.String)
    runs = corpus.traces.select("trace", task=task, group=group, name=name).collect()
    paid = rewards.select("trace", "amount").drop_nulls("amount")
    # a team is known by sums over its agents: those of the others follow, without a list for each agent
    agents = agents.sort("trace", "owner").with_columns(
        pl.col("owner").hash(seed).alias(sum_of) for seed, sum_of in enumerate(_SUMS)
    )
    team = agents.group_by("trace", maintain_order=True).agg(pl.col(_SUMS).sum(), size=pl.len())
    # sums of outcomes go by outcomes and names of runs, whatever the order of recordings
    teams = paid.join(runs, on="trace").join(team, on="trace").sort("amount", "name")
    same_team = ["task", "size", *_SUMS]
    alone = teams.group_by(same_team, maintain_order=True).agg(without=ordered_mean(pl.col("amount")))
    members = teams.join(agents, on="trace", how="left", suffix="_of_agent", maintain_order="left_right")
    others = members.with_columns(
        pl.col("size") - 1, *(pl.col(sum_of) - pl.col(f"{sum_of}_of_agent") for sum_of in _SUMS)
    )
    compared = others.join(alone, on=same_team, how="left", maintain_order="left")
    return compared.select(
        "trace", "owner", "group", "amount", difference=pl.col("amount") - pl.col("without")
    )


def _around(values: Floats, keys: Ints, epsilon: float) -> Floats:
    """Values less the mean of their key, by their deviation (n - 1)."""
    n = int(keys.max(initial=-1)) + 1
    apart = centered(values, keys, n)
    counts = np.bincount(keys, minlength=n)
    deviation = np.sqrt(np.bincount(keys, apart**2, n) / np.maximum(counts - 1, 1))
    around: Floats = np.where(apart == 0.0, 0.0, apart / (deviation[keys] + epsilon))
    return around
