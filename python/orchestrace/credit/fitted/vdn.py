"""Value decomposition from recordings: `R = c + Σ_i q(x_i) + ε`.

An agent's credit is `q(x_i)` less the mean q.

`q` is linear in features of one agent's events (counts by type, tool and action, tokens, score, role),
shared by all agents and fitted by ridge regression on their sum over the team. O(agents · p² + folds · p³).
Every run is scored by a model that did not see its task. The remainder holds c, the means and the residual,
so that everything sums to R. Reference: P. Sunehag et al., arXiv 1706.05296. Axiom: efficiency.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from ...base.arrays import Floats, Ints
from ...corpus.corpus import Corpus
from ...statistics.folds import REASON, Folds, check_size, fit_quality, folds_of
from ..parameters import Param
from ..registry import EventValues, credit_method
from .features import AgentTable, Vocabulary, agents, event_table
from .ridge import Linear, Moments, cross_fitted


@dataclass(frozen=True)
class Teams:
    """All agents of the rewarded traces of a corpus: features (agents, p), their trace as a place among the
    rewarded ones, their role as a column of the vocabulary; reward and fold of these traces."""

    features: Floats
    trace: Ints
    role: Ints
    reward: Floats
    fold: Ints

    def sums(self) -> Floats:
        """Features of each trace, summed over its agents."""
        out = np.zeros((len(self.reward), self.features.shape[1]))
        np.add.at(out, self.trace, self.features)
        return out


@dataclass(frozen=True)
class Utility:
    """One model: the credit of an agent from its features and role."""

    linear: Linear
    role_weights: Floats
    centers: Floats

    def of(self, features: Floats, role: Ints) -> Floats:
        """Weighted `q` of agents, not centered; a role that the model did not see counts as the mean."""
        return self.role_weights[role] * (features @ self.linear.weights)

    def credit(self, features: Floats, role: Ints) -> Floats:
        """Credit of agents."""
        return np.where(np.isnan(self.centers[role]), 0.0, self.of(features, role) - self.centers[role])


@dataclass(frozen=True)
class Decomposition:
    """What is fitted: a model per fold."""

    vocabulary: Vocabulary
    folds: Folds
    utilities: list[Utility]
    fit: dict[str, object]


def gather(corpus: Corpus, folds: Folds, vocabulary: Vocabulary) -> Teams:
    """The agents of all pieces of a corpus. Memory: 8 bytes · agents · p."""
    features, traces, roles, numbers = [], [], [], []
    place = 0
    for piece in corpus.slices():
        here = piece.traces.select("trace").collect()["trace"]
        fold = folds.of(here)
        rewarded = np.cumsum(fold >= 0) - 1 + place
        for table in event_table(piece, vocabulary).blocks():
            members = agents(table)
            rewarded_members = fold[table.here][members.trace] >= 0
            features.append(members.features[rewarded_members])
            traces.append(rewarded[table.here][members.trace[rewarded_members]])
            roles.append(members.role[rewarded_members])
        numbers.append(here.filter(pl.Series(fold >= 0)))
        place += int((fold >= 0).sum())
    joined = pl.concat(numbers).to_frame().join(folds.traces, on="trace", how="left", maintain_order="left")
    return Teams(
        features=np.concatenate(features),
        trace=np.concatenate(traces),
        role=np.concatenate(roles),
        reward=joined["amount"].to_numpy(),
        fold=joined["fold"].to_numpy(),
    )


def centers(utility: Floats, role: Ints, roles: int, by: str) -> Floats:
    """The mean utility that a role's credit is measured from; NaN for roles without an agent here."""
    n = np.bincount(role, minlength=roles)
    of_role = np.full(roles, np.nan)
    seen = n > 0
    sums = np.bincount(role, weights=utility, minlength=roles)
    if seen.any():
        of_role[seen] = sums[seen] / n[seen] if by == "role" else utility.mean()
    return of_role


def _fit(corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int) -> Decomposition:
    vocabulary = Vocabulary.of(corpus)
    folds = folds_of(corpus, rewards, params["folds"], seed)
    check_size(folds)
    if folds.n == 0:
        quality = fit_quality(folds.traces["amount"].to_numpy(), np.zeros(0), np.zeros(0), 0)
        return Decomposition(vocabulary, folds, [], quality)
    teams = gather(corpus, folds, vocabulary)
    sums = teams.sums()
    *others, (model, alpha) = cross_fitted(moments_of(teams, folds.n), params["alpha"])
    roles = len(vocabulary.names["role"]) + 1
    utilities = []
    unseen = np.zeros(len(sums))
    for number, (linear, _) in enumerate(others):
        taught = teams.fold[teams.trace] != number
        q, role = teams.features[taught] @ linear.weights, teams.role[taught]
        utilities.append(Utility(linear, np.ones(roles), centers(q, role, roles, params["center"])))
        held_out = teams.fold == number
        unseen[held_out] = linear(sums[held_out])
    quality = fit_quality(teams.reward, model(sums), unseen, folds.n, {"alpha": alpha})
    return Decomposition(vocabulary, folds, utilities, quality)


def moments_of(teams: Teams, folds: int) -> list[Moments]:
    """The moments of each fold for the regression of rewards on teams."""
    sums = teams.sums()
    members = (teams.fold == number for number in range(folds))
    return [Moments.of(sums[fold], teams.reward[fold]) for fold in members]


def decomposed(corpus: Corpus, rewards: pl.DataFrame, model: Decomposition) -> EventValues:
    """Credit of agents, divided evenly among the events that each owns; the remainder closes the sum."""
    fold = model.folds.of(rewards["trace"]) if model.folds.n else np.full(rewards.height, -1)
    events = event_table(corpus, model.vocabulary)
    values, held = np.zeros(len(events.row)), np.zeros(rewards.height)
    for table in events.blocks():
        members = agents(table)
        credit = _credit(members, fold[table.here], model.utilities)
        values[table.row] = np.append(credit / np.maximum(members.n_events, 1), 0.0)[members.of_event]
        held[table.here] = np.bincount(members.trace, weights=credit, minlength=len(held[table.here]))
    traces = rewards.select(
        "trace",
        "amount",
        remainder=pl.col("amount") - pl.Series(held),
        reason=pl.lit(None if model.folds.n else REASON, pl.String),
    )
    return EventValues(pl.DataFrame({"value": values}), traces, model.fit)


def _credit(members: AgentTable, fold: Ints, utilities: list[Utility]) -> Floats:
    credit = np.zeros(len(members.trace))
    for number, utility in enumerate(utilities):
        here = fold[members.trace] == number
        credit[here] = utility.credit(members.features[here], members.role[here])
    return credit


ALPHA = Param(
    "alpha",
    None,
    "penalty on squared weights of standardized features; null: the one that predicts other tasks best",
    kind=float,
    low=0.0,
    high=1e12,
)
FOLDS = Param("folds", 5, "folds over tasks; over runs where there is one task", low=2, high=50)
CENTRE = Param(
    "center",
    "corpus",
    "whose mean utility is subtracted: of all agents, or of those of the same role",
    kind=("corpus", "role"),
)


@credit_method(
    "vdn",
    summary="utility of an agent - mean utility; the sum over agents is fitted to the reward",
    quantity="share",
    axioms=("efficiency",),
    params=(ALPHA, CENTRE, FOLDS),
    reference="arXiv 1706.05296",
    tier="surrogate",
    scope="corpus",
    fit=_fit,
)
def vdn(
    corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int, model: Decomposition
) -> EventValues:
    """Credit of a piece by the fitted decomposition.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=30, seed=0)
    >>> credits = ot.credit(corpus, method="vdn", unit="agent")
    >>> '"r2_cv":' in credits["params"][0]
    True
    """
    return decomposed(corpus, rewards, model)
