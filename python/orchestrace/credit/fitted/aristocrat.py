"""Decisions against the alternatives of the policy, each weighted by its probability.

    aristocrat:  AU = G - Σ_b p(b) G(b)     G(a) = G, its outcome; G(b) the mean of other rollouts that did b
    coma:        A = Q(a) - Σ_b p(b) Q(b)   Q(b) the mean of all rollouts that did b in this context

Both compare what rollouts of one group recorded in one context and role, as `c3` does, but by `p_behavior`
where that weighs by counts: the baseline is the policy's, not the sample's. An alternative that the policy
had and nobody took has no outcome here, so there the value is null (`support.absent`). The mean of either
over actions drawn by the policy is 0, and a policy with one action gives 0. O(n log n) in decisions; for a
rollout that took several actions in one context, their number squared. References: D. Wolpert, K. Tumer,
Advances in Complex Systems 4, 2001 (aristocrat utility); J. Foerster et al., arXiv 1705.08926, equation 4.
"""

from typing import Any, Final

import numpy as np
import polars as pl

from ...base.arrays import Floats, Ints, alike
from ...base.errors import ParameterError
from ...corpus.corpus import Corpus
from ..parameters import Param
from ..policy_rows import after, decisions
from ..registry import EventValues, credit_method

_ABSENT: Final = "field.absent"
_CYCLE: Final = "graph.cycle"
_NO_SUPPORT: Final = "support.absent"
_DEGENERATE: Final = "group.degenerate"
# Recorded probabilities are rounded; beyond this the rollouts had another policy, or not all was taken.
_ROUNDED: Final = 0.01 + 1e-9  # with room for rounding of the limit itself
_LARGEST: Final = 1e100

CONTEXT = Param(
    "context",
    "auto",
    "what makes decisions comparable: prefix_key, the computed history, or the field where a trace has it",
    kind=("auto", "recorded", "computed"),
)


def _policy(decided: pl.DataFrame) -> pl.DataFrame:
    """The values of decisions in their contexts, a row for each of `decided`: by either rule, with parts.

    Columns ``table`` and ``own`` (the two values, NaN where an alternative has no outcome), ``complete``
    (every action of the policy was taken) and ``silent`` (all outcomes of the context are alike, and there
    are alternatives). Sums are those of `numpy.bincount`, in the order of rows.
    """
    place = decided["place"].rank("dense").to_numpy().astype(np.int64) - 1
    n_places = int(place.max(initial=-1)) + 1
    act = (
        decided.select(pl.struct("place", "action").rank("dense")).to_series().to_numpy().astype(np.int64) - 1
    )
    n_acts = int(act.max(initial=-1)) + 1
    amount, p = decided["amount"].to_numpy(), decided["p"].to_numpy()
    count: Floats = np.bincount(act, minlength=n_acts).astype(np.float64)
    total: Floats = np.bincount(act, weights=amount, minlength=n_acts).astype(np.float64)
    share = np.bincount(act, weights=p, minlength=n_acts) / count
    mean = total / count
    where = np.zeros(n_acts, dtype=np.int64)
    where[act] = place
    share_sum = np.bincount(where, weights=share, minlength=n_places)
    taken = np.bincount(where, weights=share > 0.0, minlength=n_places)
    n_actions = np.bincount(where, minlength=n_places)
    options = np.zeros(n_places)
    np.maximum.at(options, place, decided["options"].fill_null(0).to_numpy())
    share = share / np.where(share_sum > 0.0, share_sum, 1.0)[where]
    certain = np.bincount(where, weights=share, minlength=n_places)
    expected = np.bincount(where, weights=share * mean, minlength=n_places)
    least, most = np.full(n_places, np.inf), np.full(n_places, -np.inf)
    np.minimum.at(least, place, amount)
    np.maximum.at(most, place, amount)
    # an action of the share 1 leaves exactly nothing of either
    others = expected[place] - share[act] * mean[act]
    utility = amount * (certain[place] - share[act]) - others
    utility += _of_one_run(decided["trace"].to_numpy(), place, act, amount, share, total, count)
    return pl.DataFrame(
        {
            "table": mean[act] * certain[place] - expected[place],
            "own": utility,
            "complete": (np.abs(share_sum - 1.0) <= _ROUNDED)[place] & (options <= taken)[place],
            "silent": alike(least, most)[place] & (n_actions > 1)[place],
        }
    )


def _of_one_run(
    trace: Ints, place: Ints, act: Ints, amount: Floats, share: Floats, total: Floats, count: Floats
) -> Floats:
    """The correction of the aristocrat utility where the rollout itself took an alternative.

    The outcome of a rollout is no control for itself: the mean of that action is over all other rollouts, NaN
    if there are none.
    """
    rows = pl.DataFrame({"trace": trace, "place": place, "act": act, "amount": amount}).with_row_index("row")
    several = rows.filter(pl.col("act").n_unique().over("trace", "place") > 1)
    taken = several.group_by("trace", "place", "act", maintain_order=True).agg(
        pl.col("amount").sum(), pl.len().cast(pl.Int64)
    )
    pairs = several.select("row", "trace", "place", own="act").join(
        taken, on=["trace", "place"], maintain_order="left_right"
    )
    pairs = pairs.filter(pl.col("own") != pl.col("act"))
    at, other = pairs["row"].to_numpy(), pairs["act"].to_numpy()
    mine, times = pairs["amount"].to_numpy(), pairs["len"].to_numpy()
    left = count[other] - times
    without = np.where(left > 0, (total[other] - mine) / np.maximum(left, 1), np.nan)
    moved = np.where(share[other] > 0.0, share[other] * (total[other] / count[other] - without), 0.0)
    return np.bincount(at, weights=moved, minlength=len(trace)).astype(np.float64)


def compared(
    corpus: Corpus, rewards: pl.DataFrame, rows: pl.DataFrame, context: str, *, table: bool
) -> EventValues:
    """Values of all events: those of decisions by context, null without a reason elsewhere."""
    decided = rows.drop_nulls(["place", "action", "p", "amount"])
    huge = decided.filter(pl.col("amount").abs() > _LARGEST)
    if huge.height:
        raise ParameterError(
            f"the outcome of trace {huge['trace'][0]} is {huge['amount'][0]:.3g}, too large for sums:"
            f" expected at most {_LARGEST:.0e} in size; give it a weight, as in reward={{'team': 1e-300}}"
        )
    policy = _policy(decided)
    value = pl.col("table" if table else "own")
    valued = policy.with_columns(value=value.fill_nan(None)).select(
        row=decided["row"],
        reason=pl.when(~pl.col("complete") | pl.col("value").is_null())
        .then(pl.lit(_NO_SUPPORT))
        .when(pl.col("silent"))
        .then(pl.lit(_DEGENERATE)),
        value=pl.when(pl.col("complete")).then(
            pl.when(pl.col("silent") & pl.col("value").is_not_null()).then(0.0).otherwise("value")
        ),
    )
    absent = rows.join(decided.select("row"), on="row", how="anti").select(
        "row",
        reason=pl.coalesce("reason", pl.lit(_ABSENT)),
        value=pl.lit(None, pl.Float64),
    )
    every = corpus.events.select("trace").collect().with_row_index("row").select("row")
    frame = every.join(pl.concat([valued, absent]), on="row", how="left", maintain_order="left")
    served = decided["trace"].unique()
    cyclic = rows.filter(pl.col("reason") == _CYCLE)["trace"].unique()
    traces = rewards.select(
        "trace",
        "amount",
        remainder=pl.lit(0.0),
        reason=pl.when(pl.col("trace").is_in(cyclic.implode()))
        .then(pl.lit(_CYCLE))
        .when(~pl.col("trace").is_in(served.implode()))
        .then(pl.lit(_ABSENT)),
    )
    return EventValues(frame.select("value", "reason"), traces)


@credit_method(
    "aristocrat",
    summary="outcome - the policy's expected outcome here, from what other rollouts did instead",
    quantity="advantage",
    axioms=(),
    params=(CONTEXT,),
    reference="Wolpert and Tumer 2001, aristocrat utility",
    tier="observed",
    scope="group",
)
def aristocrat(corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int) -> EventValues:
    """The aristocrat utility of every decision.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus, truth = ot.synthetic.planted(traces=64, actions=2, seed=1)
    >>> credits = ot.credit(corpus, method="aristocrat", unit="event")
    >>> 0 < credits["credit"].count() < credits.height
    True
    """
    rows = decisions(corpus, rewards, params["context"])
    return compared(corpus, rewards, rows, params["context"], table=False)


@credit_method(
    "coma",
    summary="value of the action taken - mean over the policy's actions, in one context",
    quantity="advantage",
    axioms=(),
    params=(
        CONTEXT,
        Param(
            "critic",
            "outcome",
            "what Q is the mean of: outcomes of rollouts, or `value` right after the decision",
            kind=("outcome", "value"),
        ),
    ),
    reference="arXiv 1705.08926, equation 4",
    tier="observed",
    scope="group",
)
def coma(corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int) -> EventValues:
    """The counterfactual multi-agent advantage of every decision.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus, truth = ot.synthetic.planted(traces=64, actions=2, seed=1)
    >>> credits = ot.credit(corpus, method="coma", unit="event", critic="value")
    >>> 0 < credits["credit"].count() < credits.height
    True
    """
    rows = decisions(corpus, rewards, params["context"])
    if params["critic"] == "value":
        rows = rows.with_columns(amount=after(corpus, rewards)["after"].gather(rows["row"]))
    return compared(corpus, rewards, rows, params["context"], table=True)
