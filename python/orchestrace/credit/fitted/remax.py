"""ReMax: a rollout against the greedy one of its group, or against the best.

```text
A = R - R of the greedy rollout of the group          (baseline = "greedy")
A = R - max of R over the group                       (baseline = "max")
```

What the policy does at temperature 0 is one of few baselines that cost a single rollout. A recording says
which rollout that was by the metric ``greedy`` (1); of several in a group their mean counts. The second form
is that of multi-agent code that has no greedy rollout (MAReMax). Its baseline depends on the rollout that it
judges: nothing is ever better than the best, so that no advantage is above 0, and what did best is left as it
is while everything else is pushed down. O(rollouts).
Reference: Z. Li et al., arXiv 2310.10505, algorithm 2; for the maximum, the code of CoMLRL.
"""

from typing import Any

import numpy as np
import polars as pl

from ...base.arrays import alike
from ...base.schema import CREDITS
from ...corpus.corpus import Corpus
from ...corpus.names import measure_of_traces
from ..parameters import Param
from ..registry import EventValues, credit_method


@credit_method(
    "remax",
    summary="rollout - greedy rollout of its group, or the best one",
    quantity="advantage",
    params=[
        Param(
            "baseline",
            "greedy",
            "what is taken off: the reward of the runs with the metric greedy, or the largest of the group",
            kind=("greedy", "max"),
        ),
    ],
    reference="arXiv 2310.10505, algorithm 2",
    tier="observed",
    scope="group",
)
def remax(corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int) -> EventValues:
    """Every event has the value of its rollout.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=16, seed=0)
    >>> credits = ot.credit(corpus, method="remax", unit="team", baseline="max").drop_nulls("credit")
    >>> bool((credits["credit"] <= 0.0).all())
    True
    """
    groups = corpus.traces.select("trace", group="group_id").collect()
    greedy = measure_of_traces(corpus, "metric", "greedy").select("trace", is_greedy=pl.col("greedy") == 1.0)
    runs = groups.join(rewards.select("trace", "amount"), on="trace", how="left", maintain_order="left")
    runs = runs.join(greedy, on="trace", how="left", maintain_order="left")
    amount = pl.col("amount")
    base = amount.max() if params["baseline"] == "max" else amount.filter(pl.col("is_greedy")).mean()
    runs = runs.with_columns(base=base.over("group"))
    level, base_level = runs["amount"].to_numpy(), runs["base"].to_numpy()
    equal = alike(np.minimum(level, base_level), np.maximum(level, base_level))
    apart = np.where(equal, 0.0, level - base_level)
    runs = runs.with_columns(value=pl.Series(apart, dtype=pl.Float64).fill_nan(None))
    flat = (pl.col("value") == 0.0).fill_null(True).all().over("group")
    reason = (
        pl.when(pl.col("base").is_null())
        .then(pl.lit("siblings.absent"))
        .otherwise(pl.when(flat).then(pl.lit("group.degenerate")))
    )
    events = corpus.events.select("trace").collect()
    values = events.join(runs.select("trace", "value"), on="trace", how="left", maintain_order="left")
    traces = rewards.select("trace", "amount").join(
        runs.select("trace", remainder=pl.lit(0.0), reason=reason.cast(CREDITS["reason"])),
        on="trace",
        how="left",
        maintain_order="left",
    )
    return EventValues(values.select("value"), traces)
