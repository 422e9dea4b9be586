"""A decision against all that the policy could have done instead, each alternative by its probability.

    aristocrat:  AU = G - Σ_b p(b) G(b)     G(a) = G, its outcome; G(b) the mean of other rollouts that did b
    coma:        A = Q(a) - Σ_b p(b) Q(b)   Q(b) the mean of all rollouts that did b in this context

Both compare what rollouts of one group recorded in one context and role, as `c3` does, but by `p_behavior`
where that weighs by counts: the baseline is the policy's, not the sample's. An alternative that the policy
had and nobody took has no outcome here, so there the value is null (`support.absent`). The mean of either
over actions drawn by the policy is 0, and a policy with one action gives 0. O(decisions), and O(actions) for
each decision in a context that has several. References: D. Wolpert, K. Tumer, Advances in Complex Systems 4,
2001 (aristocrat utility); J. Foerster et al., arXiv 1705.08926, equation 4.
"""

from collections import defaultdict
from typing import Any, Final

import numpy as np
import polars as pl

from ..contexts import contexts, without_order
from ..corpus import Corpus
from ..errors import ParameterError
from ..parameters import Param
from ..registry import EventValues, credit_method
from .features import Floats

_ABSENT: Final = "field.absent"
_CYCLE: Final = "graph.cycle"
_NO_SUPPORT: Final = "support.absent"
_DEGENERATE: Final = "group.degenerate"
# Recorded probabilities are rounded; beyond this the rollouts had another policy, or not all was taken.
_ROUNDED: Final = 0.01
_LARGEST: Final = 1e100

CONTEXT = Param(
    "context",
    "auto",
    "what makes decisions comparable: prefix_key, the computed history, or the field where a trace has it",
    kind=("auto", "recorded", "computed"),
)


def decisions(corpus: Corpus, rewards: pl.DataFrame, context: str) -> pl.DataFrame:
    """Decisions with an `action` or `p_behavior`, and what is compared of them: ``row trace seq place action
    p options amount``.

    ``row`` is the place in `Corpus.events`, ``place`` names group, context and role (null without a context),
    ``options`` counts the actions with a probability, where all probabilities are recorded.
    """
    assert context in ("auto", "recorded", "computed")
    events = corpus.events.select("trace", "seq", "action", "p_behavior", "p_actions").collect()
    traces = corpus.traces.select(
        "trace", group=pl.coalesce(pl.col("group_id").cast(pl.String), pl.col("task_id").cast(pl.String))
    ).collect()
    found = contexts(corpus, context=context).select("trace", "seq", "context", "role")  # type: ignore[arg-type]
    own = (
        events.with_row_index("row")
        .filter(pl.col("action").is_not_null() | pl.col("p_behavior").is_not_null())
        .join(found, on=["trace", "seq"], how="inner", maintain_order="left")
        .join(traces, on="trace", how="left", maintain_order="left")
        .join(rewards, on="trace", how="left", maintain_order="left")
    )
    place = pl.format("{}\\0{}\\0{}", "group", "context", pl.col("role").fill_null(""))
    possible = pl.col("p_actions").list.eval(pl.element() > 0.0).list.sum()
    return own.select(
        "row",
        "trace",
        "seq",
        place=pl.when(pl.col("context").is_not_null()).then(place),
        action=pl.col("action").cast(pl.String),
        p="p_behavior",
        options=possible.cast(pl.Int64),
        amount="amount",
    )


class Context:
    """What rollouts did in one context, and what came of it: decision by decision, in corpus order."""

    def __init__(self, rows: list[tuple[Any, ...]]) -> None:
        self.trace = [row[0] for row in rows]
        self.action = [row[1] for row in rows]
        self.amount = [row[4] for row in rows]
        self.silent = min(self.amount) == max(self.amount)
        self._made: dict[str, list[int]] = defaultdict(list)
        for n, action in enumerate(self.action):
            self._made[action].append(n)
        self._mean: dict[str, float] = {
            a: sum(self.amount[n] for n in own) / len(own) for a, own in self._made.items()
        }
        # Few rollouts take two actions in one context; only their outcomes have to be left out.
        self._took = set(zip(self.trace, self.action, strict=True))
        share = {action: sum(rows[n][2] for n in own) / len(own) for action, own in self._made.items()}
        whole = sum(share.values())
        possible = [row[3] for row in rows if row[3] is not None]
        taken = sum(p > 0.0 for p in share.values())
        self.complete = abs(whole - 1.0) <= _ROUNDED and all(n <= taken for n in possible)
        self.share = {action: p / whole for action, p in share.items()} if whole > 0.0 else share

    def others(self, action: str, without: int) -> float | None:
        """Mean outcome of those who did this, one rollout left out; None if that leaves nobody."""
        if (without, action) not in self._took:
            return self._mean[action]
        rewards = [self.amount[n] for n in self._made[action] if self.trace[n] != without]
        return sum(rewards) / len(rewards) if rewards else None

    def aristocrat(self, n: int) -> float | None:
        """What decision `n` earned: its own outcome against what others got for the alternatives."""
        earned = 0.0
        for action, p in self.share.items():
            if action != self.action[n] and p > 0.0:
                other = self.others(action, without=self.trace[n])
                if other is None:
                    return None
                earned += p * (self.amount[n] - other)
        return earned

    def advantages(self) -> list[float]:
        """What each decision earned by the table of means."""
        q = self._mean
        # The differences, so that an action that is always taken earns exactly 0.
        earned = {
            action: sum(p * (q[action] - q[other]) for other, p in self.share.items())
            for action in self.share
        }
        return [earned[action] for action in self.action]


def compared(
    corpus: Corpus, rewards: pl.DataFrame, rows: pl.DataFrame, context: str, *, table: bool
) -> EventValues:
    """Values of all events: those of decisions by context, null without a reason elsewhere."""
    known = rows.drop_nulls(["place", "action", "p", "amount"])
    huge = known.filter(pl.col("amount").abs() > _LARGEST)
    if huge.height:
        raise ParameterError(
            f"the outcome of trace {huge['trace'][0]} is {huge['amount'][0]:.3g}, too large for sums:"
            f" expected at most {_LARGEST:.0e} in size; give it a weight, as in reward={{'team': 1e-300}}"
        )
    n_events = corpus.events.select(pl.len()).collect().item()
    values: Floats = np.full(n_events, np.nan)
    reasons: list[str | None] = [None] * n_events
    unplaced = rows["place"].null_count() > 0
    cyclic = without_order(corpus, context if unplaced else "recorded")
    for row, in_cycle in rows.select("row", pl.col("trace").is_in(cyclic.implode())).iter_rows():
        reasons[row] = _CYCLE if in_cycle else _ABSENT
    fields = ["trace", "action", "p", "options", "amount"]
    # Most contexts are a single decision: all that its policy had, or not known.
    alone = known.filter(pl.len().over("place") == 1).select(
        "row", certain=(pl.col("p") >= 1.0 - _ROUNDED) & (pl.col("options").fill_null(1) <= 1)
    )
    for row, certain in alone.iter_rows():
        reasons[row] = None if certain else _NO_SUPPORT
        values[row] = 0.0 if certain else np.nan
    several = known.filter(pl.len().over("place") > 1)
    for _, own in several.group_by("place", maintain_order=True):
        made, places = Context(own.select(fields).rows()), own["row"].to_list()
        advantages = made.advantages() if table else None
        for n, row in enumerate(places):
            value = advantages[n] if advantages is not None else made.aristocrat(n)
            reasons[row] = None
            if not made.complete or value is None:
                reasons[row] = _NO_SUPPORT
            elif made.silent and len(made.share) > 1:
                values[row], reasons[row] = 0.0, _DEGENERATE
            else:
                values[row] = value
    served = known["trace"].unique()
    traces = rewards.select(
        "trace",
        "amount",
        remainder=pl.lit(0.0),
        reason=pl.when(pl.col("trace").is_in(cyclic.implode()))
        .then(pl.lit(_CYCLE))
        .when(~pl.col("trace").is_in(served.implode()))
        .then(pl.lit(_ABSENT)),
    )
    frame = pl.DataFrame({"value": values, "reason": pl.Series(reasons, dtype=pl.String)})
    return EventValues(frame.with_columns(pl.col("value").fill_nan(None)), traces)


@credit_method(
    "aristocrat",
    summary="the outcome less what the policy could expect here, by what other rollouts did instead",
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
    >>> corpus, truth = ot.generate_planted(traces=64, actions=2, seed=1)
    >>> credits = ot.credit(corpus, method="aristocrat", unit="event")
    >>> 0 < credits["credit"].count() < credits.height
    True
    """
    rows = decisions(corpus, rewards, params["context"])
    return compared(corpus, rewards, rows, params["context"], table=False)


@credit_method(
    "coma",
    summary="value of the action taken less the mean over the policy's actions, in one context",
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
    >>> corpus, truth = ot.generate_planted(traces=64, actions=2, seed=1)
    >>> credits = ot.credit(corpus, method="coma", unit="event", critic="value")
    >>> 0 < credits["credit"].count() < credits.height
    True
    """
    rows = decisions(corpus, rewards, params["context"])
    if params["critic"] == "value":
        rows = rows.with_columns(amount=after(corpus, rewards)["after"].gather(rows["row"]))
    return compared(corpus, rewards, rows, params["context"], table=True)


def after(corpus: Corpus, rewards: pl.DataFrame) -> pl.DataFrame:
    """What a critic expects once an event is past: ``after``, in the order of `Corpus.events`.

    That is the event's `reward` (absent = 0) and the `value` of the next event in canonical order; behind the
    last one the reward of the trace. Null where the next `value` is not recorded.
    """
    events = corpus.events.select("trace", "seq", "t", "value", "reward").collect().with_row_index("row")
    ordered = events.sort("trace", "t", "seq").join(rewards, on="trace", how="left", maintain_order="left")
    last = pl.col("trace").shift(-1).ne_missing(pl.col("trace"))
    follows = pl.when(last).then("amount").otherwise(pl.col("value").shift(-1))
    return ordered.select("row", after=pl.col("reward").fill_null(0.0) + follows).sort("row")
