"""Turn credit: a rollout against its group, and its turns by the progress that they prepared.

```text
d_t = s_t - s of the last turn before it that has a score,  0 at the first;   Σ d = last score - first
c_u = Σ_{t ≥ u} d_t g^(t-u) / (1 + g + ... + g^(t-1)),  g = gamma;             Σ c = Σ d
A   = (R + Σ d) - mean of the group + beta (c_u - mean of c over the tokens of the rollout)
```

A score says how good the state of the world is after a turn, which is easier to judge than what the turn did.
A turn is paid for changing it: standing still earns nothing, and a rise that is lost again nothing in sum. It
was prepared by the turns before it, over which its progress is spread. A turn without a score hands its
progress on to the next that has one. The second part sums to 0 over the tokens of a rollout. A rollout
without scores has the first alone; a group without any has no credit, which `dr_grpo` would give it.

Turns are in canonical order, all agents together, or of each agent by itself (`chain`). The score of a turn
is the last that one of its events has. Turns weigh as their ``tokens_out``, and alike
in a rollout in which a turn has none. O(turns · log turns).
Reference: the algorithm `turn_credit` of prime-rl, pull request 3282, without its penalty on length.
"""

from typing import Any, Final

import numpy as np
import polars as pl

from ...base.arrays import Floats, Ints
from ...base.schema import CREDITS
from ...corpus.corpus import Corpus
from ...statistics.within_groups import centered
from ..parameters import Param
from ..registry import EventValues, credit_method
from .scored_turns import places, progress_of, scored_turns, to_go

PARAMS: Final = (
    Param("gamma", 0.9, "what a turn gets of progress, of what the turn after it gets", low=0.0, high=1.0),
    Param("beta", 1.0, "weight of the part within the rollout", low=0.0),
    Param("score", "score", "the field that says how good the state is", kind=("score", "draft_score")),
    Param(
        "chain",
        "run",
        "whose turns follow each other: all of the run, or those of each agent",
        kind=("run", "agent"),
    ),
)


@credit_method(
    "turn_credit",
    summary="rollout - mean of its group, and the progress that each turn prepared",
    quantity="advantage",
    params=PARAMS,
    reference="prime-rl, turn_credit",
    tier="observed",
    scope="group",
)
def turn_credit(corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int) -> EventValues:
    """Every event has the value of its turn.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=16, seed=0)
    >>> credits = ot.credit(corpus, method="turn_credit", unit="turn").drop_nulls("credit")
    >>> credits.height > 0
    True
    """
    events, turns = scored_turns(corpus, params["score"])
    links = ["trace"] if params["chain"] == "run" else ["trace", "owner"]
    turns = turns.with_columns(chain=pl.struct(links).rank("dense").cast(pl.Int64)).sort("chain", "place")
    chain = turns["chain"].to_numpy()
    progress = progress_of(turns["score"].to_numpy(), chain)
    turns = turns.with_columns(
        progress=pl.Series(progress), credit=pl.Series(spread(progress, chain, params["gamma"]))
    ).sort("trace", "place")
    trace, run = np.unique(turns["trace"].to_numpy(), return_inverse=True)
    level = _levels(corpus, rewards, turns, trace, run)
    credit, weight = turns["credit"].to_numpy(), turns["weight"].to_numpy()
    middle = np.bincount(run, credit * weight) / np.bincount(run, weight) if len(run) else credit
    turns = turns.with_columns(within=pl.Series(params["beta"] * (credit - middle[run])))
    valued = turns.join(level, on="trace", how="left", maintain_order="left")
    valued = valued.select("trace", "unit", value=pl.col("level") + pl.col("within"))
    values = events.join(valued, on=["trace", "unit"], how="left", maintain_order="left").select("value")
    has_credit = pl.col("trace").is_in(valued.drop_nulls("value")["trace"].implode())
    reason = pl.when(~has_credit).then(pl.lit("field.absent")).cast(CREDITS["reason"])
    return EventValues(values, rewards.select("trace", "amount", remainder=pl.lit(0.0), reason=reason))


def _levels(
    corpus: Corpus, rewards: pl.DataFrame, turns: pl.DataFrame, trace: Ints, run: Ints
) -> pl.DataFrame:
    """``trace level`` of each rewarded run: its reward and progress less the mean of its group.

    Null in a group of which no run has a score. `trace` has each run of turns, `run` is that of each turn.
    """
    progress = {
        "trace": pl.Series(trace).cast(pl.UInt32),
        "net": np.bincount(run, turns["progress"].to_numpy(), len(trace)),
        "scored": np.bincount(run, turns["score"].is_not_null().to_numpy(), len(trace)) > 0.0,
    }
    groups = corpus.traces.select("trace", group=pl.col("group_id").rank("dense").cast(pl.Int64) - 1)
    runs = rewards.select("trace", "amount").drop_nulls("amount")
    runs = runs.join(groups.collect(), on="trace", maintain_order="left")
    runs = runs.join(pl.DataFrame(progress), on="trace", how="left", maintain_order="left")
    returns, group = (runs["amount"] + runs["net"].fill_null(0.0)).to_numpy(), runs["group"].to_numpy()
    level = centered(returns, group, int(group.max(initial=-1)) + 1)
    is_scored = pl.col("scored").fill_null(False).any().over("group")
    return runs.select("trace", level=pl.when(is_scored).then(pl.Series(level)))


def spread(progress: Floats, chain: Ints, gamma: float) -> Floats:
    """The progress of each turn divided over it and the turns before it in its chain, by gamma^distance.

    Parameters
    ----------
    progress, chain
        As in `progress_of`.
    gamma
        0 leaves each turn its own, 1 divides evenly.

    Returns
    -------
    ndarray
        (turns,) float64, which adds up to the progress of each chain. O(turns), a step for each place in
        the longest chain.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.credit.fitted.turn_credit import spread
    >>> spread(np.array([0.0, 0.0, 0.75]), np.zeros(3, np.int64), 1.0).tolist()
    [0.25, 0.25, 0.25]
    """
    place = places(chain) + 1.0
    # 1 - g^t as expm1 says it: the difference itself loses its digits where gamma is close to 1
    log = np.log(gamma) if gamma > 0.0 else -np.inf
    shares = place if gamma == 1.0 else -np.expm1(place * log) / (1.0 - gamma)
    return to_go(progress / shares, chain, gamma)
