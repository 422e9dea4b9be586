"""RAE: the reward of an agent, less what its role was paid in the rollouts before.

```text
A = r - b,   then   b ← decay b + (1 - decay) r     for each system and role; b begins at 0
```

r is what the agent was paid (`agent_rewards`), where any agent of the corpus was, else the reward of the run.
No group is needed: in self-play each rollout is a game of its own, and what the role that moves first gains
by that is in its baseline. Rollouts count in the order of ``train_step`` (those without one first) and of
their ids, agents of one rollout in that of their first events; never in that of files. The first rollouts,
some 1 / (1 - decay) of each role, keep much of their raw reward.
O(rows · log rows).
Reference: B. Liu et al., SPIRAL, arXiv 2506.24119, section 3; the code of prime-rl.
"""

from dataclasses import dataclass
from typing import Any

import polars as pl

from ...base.schema import CREDITS
from ...corpus.corpus import Corpus
from ...corpus.names import measure_of_traces
from ..parameters import Param
from ..registry import EventValues, credit_method
from .agent_rewards import owned_events, paid_agents, values_of_events, who


@dataclass(frozen=True)
class Baselines:
    """What is fitted: ``trace owner value`` of every agent that has a reward."""

    values: pl.DataFrame


def _fit(corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], _seed: int) -> Baselines:
    """Goes through the agents of all rollouts in order. Memory: some 100 bytes an agent."""
    agents = pl.concat([paid_agents(piece, owned_events(piece)) for piece in corpus.slices()])
    amounts = rewards.filter(pl.col("amount").is_not_null()).select("trace", "amount")
    traces = corpus.traces.select("trace", "trace_id", pl.col("system").cast(pl.String)).collect()
    steps = measure_of_traces(corpus, "metric", "train_step")
    rows = (
        agents.with_row_index("place")
        .join(amounts, on="trace")
        .join(traces, on="trace")
        .join(steps, on="trace", how="left")
        .with_columns(reward=pl.col("paid") if agents["paid"].count() else pl.col("amount"))
        .filter(pl.col("reward").is_not_null())
        .sort("train_step", "trace_id", "place", nulls_last=False)
    )
    keep = params["decay"]
    before = pl.col("reward").shift(1, fill_value=0.0)
    baseline = pl.lit(0.0) if keep == 1.0 else before.ewm_mean(alpha=1.0 - keep, adjust=False)
    rows = rows.with_columns(who=who(params["by"]))
    values = rows.with_columns(value=pl.col("reward") - baseline.over("system", "who"))
    return Baselines(values.select("trace", "owner", "value"))


@credit_method(
    "rae",
    summary="reward of an agent - what its role was paid in the rollouts before",
    quantity="advantage",
    params=[
        Param("decay", 0.95, "how much of the baseline stays when a rollout is added", low=0.0, high=1.0),
        Param(
            "by",
            "role",
            "what the agents of one baseline share: role, else name; or name (solver and solver#2 have one)",
            kind=("role", "name"),
        ),
    ],
    reference="arXiv 2506.24119, section 3",
    scope="corpus",
    fit=_fit,
)
def rae(
    corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int, model: Baselines
) -> EventValues:
    """Every event has the value of the agent that owns it."""
    values = model.values.with_columns(reason=pl.lit(None, pl.String))
    frame = values_of_events(corpus, owned_events(corpus), values, "field.absent")
    return EventValues(frame.with_columns(pl.col("reason").cast(CREDITS["reason"])))
