"""Hindsight credit, return-conditional: `A(x,a) = E_Z[(1 - π(a|x) / h(a|x,Z)) Z | x, a]`.

h is the probability of the action, given how the run ended; an action that the outcome says nothing about has
h = π and earns nothing. x is the field `state_key`, else (owner's role, type, ⌊log2(1 + position)⌋); π is
`p_behavior`; the expectation is over the recorded decisions with the same x and a. With the true h this is Q
- V, provided that h(a|x,z) > 0 for every z that is possible from x. Where a return was seen from x but never
with a, it is biased, and the value is null. O(decisions log decisions). Reference: A. Harutyunyan et al.,
arXiv 1912.02503, theorem 2.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import polars as pl

from ...base.arrays import Floats, Ints
from ...corpus.corpus import Corpus
from ...corpus.owners import owners
from ...statistics.folds import REASON, Folds, folds_of
from ...statistics.learners import learner, one_thread
from ..parameters import Param
from ..registry import EventValues, credit_method
from .vdn import FOLDS

_NO_SUPPORT: Final = "support.absent"
_KEY: Final = ("state", "action")


@dataclass(frozen=True)
class Hindsight:
    """What is fitted: per state and action ``state action q ratio supported``, and where returns are cut.

    ``q`` is the mean return after the action, ``ratio`` the mean of Z / h(a|x,Z): A = q - π · ratio.
    """

    folds: Folds
    table: pl.DataFrame
    fit: Mapping[str, object]


class Conditional(Protocol):
    """A probability of actions in each of several contexts."""

    def of(self, context: Ints, action: Ints) -> Floats:
        """P(action | context), row by row."""
        ...

    def square(self, context: Ints) -> Floats:
        """Σ_a P(a | context)², row by row."""
        ...


class Shares:
    """P(action | context) by counting, `smoothing` added to every count of an action that its state has
    seen.
    """

    def __init__(
        self, context: Ints, action: Ints, actions: Ints | None = None, smoothing: float = 0.0
    ) -> None:
        self._n = int(action.max(initial=0)) + 1
        self._pairs, counts = np.unique(context * self._n + action, return_counts=True)
        self._contexts, at = np.unique(self._pairs // self._n, return_inverse=True)
        totals = np.bincount(at, weights=counts, minlength=len(self._contexts))
        possible = np.bincount(at) if actions is None else actions[self._contexts]
        weight = totals + smoothing * possible
        self._share = (counts + smoothing) / weight[at]
        self._unseen = smoothing / weight if len(weight) else weight
        seen = np.bincount(at, minlength=len(self._contexts))
        self._square = np.bincount(at, weights=self._share**2, minlength=len(self._contexts))
        self._square += (possible - seen) * self._unseen**2

    def knows(self, context: Ints) -> Any:
        """Whether each context has been seen."""
        return self._place(self._contexts, context)[1]

    def of(self, context: Ints, action: Ints) -> Floats:
        """P(action | context); 0 in a context that was not seen."""
        at, exists = self._place(self._contexts, context)
        pair, seen = self._place(self._pairs, context * self._n + np.minimum(action, self._n))
        seen &= action < self._n
        share = np.append(self._share, 0.0)[np.where(seen, pair, -1)]
        return np.where(seen, share, np.append(self._unseen, 0.0)[np.where(exists, at, -1)])

    def square(self, context: Ints) -> Floats:
        """Σ_a P(a | context)²; 0 in a context that was not seen."""
        at, exists = self._place(self._contexts, context)
        return np.append(self._square, 0.0)[np.where(exists, at, -1)]

    @staticmethod
    def _place(keys: Ints, wanted: Ints) -> tuple[Ints, Any]:
        at = np.searchsorted(keys, wanted)
        exists = np.append(keys, -1)[at] == wanted
        return at, exists


class Logistic:
    """P(action | state, return) by multinomial logistic regression on indicators of both."""

    def __init__(self, state: Ints, outcome: Ints, action: Ints, n: tuple[int, int], penalty: float) -> None:
        self._n_states, self._n_outcomes = n
        triples, counts = np.unique(np.stack([state, outcome, action]), axis=1, return_counts=True)
        self._classes = np.unique(action)
        self._model = None
        if len(self._classes) > 1:
            regression = learner("linear_model", "LogisticRegression", "fit='logistic'")
            # One path for every size, to an optimum that does not show where it stopped.
            self._model = regression(C=1.0 / penalty, solver="lbfgs", tol=1e-8, max_iter=10_000)
            with one_thread():
                self._model.fit(self._indicators(triples[0], triples[1]), triples[2], sample_weight=counts)

    def of(self, context: Ints, action: Ints) -> Floats:
        """P(action | state, return); a context is state · returns + return."""
        at = np.searchsorted(self._classes, action)
        seen = np.append(self._classes, -1)[at] == action
        contexts, row = np.unique(context, return_inverse=True)
        table = self._probabilities(contexts)
        return np.where(seen, table[row, np.where(seen, at, 0)], 0.0)

    def square(self, context: Ints) -> Floats:
        """Σ_a P(a | state, return)²."""
        contexts, row = np.unique(context, return_inverse=True)
        squares: Floats = np.square(self._probabilities(contexts)).sum(axis=1)
        return squares[row]

    def _probabilities(self, contexts: Ints) -> Floats:
        if self._model is None:
            return np.ones((len(contexts), 1))
        state, outcome = np.divmod(contexts, self._n_outcomes)
        probabilities: Floats = self._model.predict_proba(self._indicators(state, outcome))
        return probabilities

    def _indicators(self, state: Ints, outcome: Ints) -> Any:
        from scipy.sparse import csr_matrix

        rows = np.arange(len(state)).repeat(2)
        columns = np.stack([state, self._n_states + outcome], axis=1).ravel()
        return csr_matrix(
            (np.ones(len(rows)), (rows, columns)), shape=(len(state), self._n_states + self._n_outcomes)
        )


def decisions(corpus: Corpus, by_task: bool) -> pl.DataFrame:
    """Every event of a piece, in corpus order: ``trace state action p``; null ``state`` where it is no
    decision, that is where it has neither `action` nor `p_behavior`.
    """
    events = corpus.events.select("trace", "seq", "t", "type", "action", "p_behavior", "state_key").collect()
    ordered = events.sort("trace", "t", "seq").with_columns(position=pl.int_range(pl.len()).over("trace"))
    events = events.join(
        ordered.select("trace", "seq", "position"), on=["trace", "seq"], how="left", maintain_order="left"
    ).hstack(owners(corpus).select("role"))
    bucket = (pl.col("position") + 1).log(2).floor().cast(pl.Int64)
    coarse = pl.format(
        "{}\\0{}\\0{}", pl.col("role").cast(pl.String).fill_null(""), pl.col("type").cast(pl.String), bucket
    )
    state = pl.coalesce(pl.format("k{}", "state_key"), pl.format("c{}", coarse))
    if by_task:
        tasks = corpus.traces.select("trace", "task_id").collect()
        events = events.join(tasks, on="trace", how="left", maintain_order="left")
        state = pl.format("{}\\0{}", "task_id", state)
    decides = pl.col("action").is_not_null() | pl.col("p_behavior").is_not_null()
    return events.select(
        "trace",
        state=pl.when(decides).then(state),
        action=pl.col("action").cast(pl.String),
        p="p_behavior",
    )


def buckets(amounts: Floats, bins: int) -> Floats:
    """Upper ends of all buckets but the last: one for each distinct return, or by quantiles if they are more
    than `bins`."""
    distinct = np.unique(amounts)
    if len(distinct) <= bins:
        return distinct[:-1]
    return np.unique(np.quantile(amounts, np.arange(1, bins) / bins, method="inverted_cdf"))


def _fit(corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int) -> Hindsight:
    folds = folds_of(corpus, rewards, params["folds"], seed)
    cuts = buckets(folds.traces["amount"].to_numpy(), params["bins"]) if folds.n else np.zeros(0)
    parts = []
    for piece in corpus.slices():
        decided = decisions(piece, params["by_task"]).drop_nulls()
        parts.append(decided.join(folds.traces, on="trace", how="inner", maintain_order="left"))
    empty = pl.DataFrame(
        schema={"state": pl.String, "action": pl.String, "q": pl.Float64, "ratio": pl.Float64}
    )
    empty = empty.with_columns(supported=pl.lit(True))
    rows = pl.concat(parts) if parts else None
    if folds.n == 0 or rows is None or rows.height == 0:
        quality: dict[str, object] = {
            "r2": None,
            "r2_cv": None,
            "n": 0 if rows is None else rows.height,
            "folds": folds.n,
        }
        return Hindsight(folds, empty, quality)
    names, x = np.unique(rows["state"].to_numpy(), return_inverse=True)
    actions, a = np.unique(rows["action"].to_numpy(), return_inverse=True)
    returns = rows["amount"].to_numpy()
    z = np.searchsorted(cuts, returns)
    n = (len(names), len(cuts) + 1)
    pairs, of_pair = np.unique(x * len(actions) + a, return_inverse=True)
    state_of = pairs // len(actions)
    h = _hindsight(x, z, a, n, params).of(x * n[1] + z, a)
    count = np.bincount(of_pair)
    # Returns that were seen from x, and those of them that were seen with a.
    possible = np.bincount(np.unique(x * n[1] + z) // n[1], minlength=len(names))
    reached = np.bincount(np.unique(of_pair * n[1] + z) // n[1], minlength=len(pairs))
    table = pl.DataFrame(
        {
            "state": names[state_of],
            "action": actions[pairs % len(actions)],
            "q": np.bincount(of_pair, weights=returns) / count,
            "ratio": np.bincount(of_pair, weights=returns / h) / count,
            "supported": reached == possible[state_of],
        },
        schema_overrides={"state": pl.String, "action": pl.String},
    )
    quality = _quality(x, z, a, n, rows["fold"].to_numpy(), folds.n, params)
    quality["supported"] = float(table["supported"].to_numpy()[of_pair].mean())
    return Hindsight(folds, table, quality)


def _hindsight(x: Ints, z: Ints, a: Ints, n: tuple[int, int], params: dict[str, Any]) -> Conditional:
    if params["fit"] == "logistic":
        return Logistic(x, z, a, n, params["penalty"])
    seen = np.unique(x * (int(a.max(initial=0)) + 1) + a) // (int(a.max(initial=0)) + 1)
    actions = np.bincount(seen, minlength=n[0]).repeat(n[1])
    return Shares(x * n[1] + z, a, actions, params["smoothing"])


def _quality(
    x: Ints, z: Ints, a: Ints, n: tuple[int, int], fold: Ints, folds: int, params: dict[str, Any]
) -> dict[str, object]:
    """How much better h predicts the action than π(a|x), by squared error: 0 if returns say nothing."""

    def error(rule: Conditional, context: Ints, action: Ints) -> Floats:
        return 1.0 - 2.0 * rule.of(context, action) + rule.square(context)

    def errors(learn: Any, judge: Any) -> tuple[float, float]:
        prior = Shares(x[learn], a[learn])
        h = _hindsight(x[learn], z[learn], a[learn], n, params)
        context = x * n[1] + z
        base = error(prior, x[judge], a[judge])
        hindsight = error(h, context[judge], a[judge])
        # Where the other folds have not seen this return, h is π.
        unknown = ~Shares(context[learn], a[learn]).knows(context[judge])
        return float(np.where(unknown, base, hindsight).sum()), float(base.sum())

    everyone = np.ones(len(x), dtype=bool)
    hindsight, base = errors(everyone, everyone)
    held = [errors(fold != number, fold == number) for number in range(folds) if (fold != number).any()]
    hindsight_cv, base_cv = sum(part for part, _ in held), sum(part for _, part in held)
    return {
        "r2": 1.0 - hindsight / base if base > 0.0 else None,
        "r2_cv": 1.0 - hindsight_cv / base_cv if base_cv > 0.0 else None,
        "n": len(x),
        "folds": folds,
    }


@credit_method(
    "hca",
    summary="how much likelier the return makes the action than the policy did",
    quantity="advantage",
    params=(
        Param("bins", 8, "buckets of the return; distinct values where they are no more", low=2, high=1000),
        Param("by_task", False, "distinguish states of different tasks"),
        Param(
            "fit",
            "count",
            "how h is fitted; logistic needs the extra fit",
            kind=("count", "logistic"),
        ),
        FOLDS,
        Param("penalty", 1.0, "of fit='logistic', on squared weights", low=1e-9, high=1e9),
        Param("smoothing", 0.0, "of fit='count', added to each count", low=0.0, high=1e6),
    ),
    reference="arXiv 1912.02503, theorem 2",
    tier="surrogate",
    scope="corpus",
    fit=_fit,
)
def hca(
    corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int, model: Hindsight
) -> EventValues:
    """Hindsight credit of a piece by the fitted h.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=2, seed=0)
    >>> ot.credit(corpus, method="hca", unit="team")["reason"].cast(pl.String).to_list()
    ['field.absent', 'field.absent']
    """
    decided = decisions(corpus, params["by_task"])
    joined = decided.join(model.table, on=list(_KEY), how="left", maintain_order="left")
    complete = pl.col("state").is_not_null() & pl.col("action").is_not_null() & pl.col("p").is_not_null()
    value: pl.Expr = pl.when(pl.col("supported")).then(pl.col("q") - pl.col("p") * pl.col("ratio"))
    if model.folds.n == 0:
        value = pl.lit(0.0)
    reason = (
        pl.when(pl.col("state").is_null())
        .then(None)
        .when(~complete)
        .then(pl.lit("field.absent"))
        .when(value.is_null())
        .then(pl.lit(_NO_SUPPORT))
    )
    values = joined.select("trace", value=pl.when(complete).then(value), reason=reason, known=complete)
    served = values.group_by("trace").agg(pl.col("known").any())
    none = pl.when(~pl.col("known")).then(pl.lit("field.absent"))
    traces = rewards.join(served, on="trace", how="left", maintain_order="left").select(
        "trace",
        "amount",
        remainder=pl.lit(0.0),
        reason=none if model.folds.n else none.otherwise(pl.lit(REASON)),
    )
    return EventValues(values.select("value", "reason"), traces, model.fit)
