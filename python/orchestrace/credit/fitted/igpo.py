"""IGPO: a turn is paid for the information that it gained, the last one for the outcome.

```text
r_t = s_t - s of the last turn before it that has a score,   r_T = R
G_t = Σ_{k ≥ t} g^(k-t) r_k,  g = gamma
A_t = G_t - mean of G_t over the rollouts of the group that reach turn t          (center = "returns")
A_t = Σ_{k ≥ t} g^(k-t) (r_k - mean of r_k over the rollouts that reach turn k)   (center = "rewards")
```

The score of a turn says how likely the right answer is after it: in the paper the geometric mean of the
probabilities that the policy gives the tokens of the answer. The published code has the second form. Its
baseline has as many terms as the rollout has turns, which the policy itself decides, so that it takes from
going on what later turns are expected to bring (docs/credit-length-bias.md). The first takes off one mean.

Turns are in canonical order, all agents together. The score of a turn is the last that one of its events has;
a turn without one gains nothing itself. A group without any score has no credit. O(turns · log turns).
Reference: arXiv 2510.14967; its code, which subtracts the mean and divides by nothing.
"""

from typing import Any, Final

import numpy as np
import polars as pl

from ...base.schema import CREDITS
from ...corpus.corpus import Corpus
from ...statistics.within_groups import centered
from ..parameters import Param
from ..registry import EventValues, credit_method
from .scored_turns import places, progress_of, scored_turns, to_go

SCORES: Final = ("score", "draft_score")


@credit_method(
    "igpo",
    summary="information that a turn gained, and the outcome, relative to the rollouts that reach the turn",
    quantity="advantage",
    params=[
        Param("gamma", 1.0, "what a turn gets of what the turn after it gets", low=0.0, high=1.0),
        Param(
            "center",
            "returns",
            "what the mean is taken off: returns, or rewards before they are added up, as published",
            kind=("returns", "rewards"),
        ),
        Param("score", "score", "the field that says how likely the answer is", kind=SCORES),
    ],
    reference="arXiv 2510.14967",
    tier="observed",
    scope="group",
)
def igpo(corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int) -> EventValues:
    """Every event has the value of its turn.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=16, seed=0)
    >>> credits = ot.credit(corpus, method="igpo", unit="turn").drop_nulls("credit")
    >>> credits.height > 0
    True
    """
    events, turns = scored_turns(corpus, params["score"])
    groups = corpus.traces.select("trace", group=pl.col("group_id").rank("dense").cast(pl.Int64)).collect()
    paid = rewards.select("trace", "amount").drop_nulls("amount")
    turns = (
        turns.join(paid, on="trace").join(groups, on="trace", maintain_order="left").sort("trace", "place")
    )
    run = np.unique(turns["trace"].to_numpy(), return_inverse=True)[1].astype(np.int64)
    gains = progress_of(turns["score"].to_numpy(), run)
    is_last = np.diff(run, append=-1) != 0
    gains = np.where(is_last, turns["amount"].to_numpy(), gains)
    peers = turns.select(pl.struct("group", place=pl.Series(places(run))).rank("dense").cast(pl.Int64) - 1)
    keys = peers.to_series().to_numpy()
    n = int(keys.max(initial=-1)) + 1
    if params["center"] == "rewards":
        values = to_go(centered(gains, keys, n), run, params["gamma"])
    else:
        values = centered(to_go(gains, run, params["gamma"]), keys, n)
    # a turn that the rollouts reach with equal returns, or one alone, says nothing
    flat = np.bincount(keys, values != 0.0, n)[keys] == 0
    is_scored = pl.col("score").is_not_null().any().over("group")
    says_nothing = pl.Series(flat) if params["center"] == "returns" else pl.lit(False)
    silent = pl.coalesce(
        pl.when(~is_scored).then(pl.lit("field.absent")),
        pl.when(says_nothing).then(pl.lit("group.degenerate")),
    )
    value = pl.when(is_scored).then(pl.Series(values))
    valued = turns.select("trace", "unit", value=value, reason=silent)
    frame = events.join(valued, on=["trace", "unit"], how="left", maintain_order="left")
    return EventValues(frame.select("value", pl.col("reason").cast(CREDITS["reason"])))
