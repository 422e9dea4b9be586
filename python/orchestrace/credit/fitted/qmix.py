"""Monotone value decomposition: `R = c + Σ_i w(role_i) q(x_i) + ε` with all w ≥ 0.

R never falls in a q.

`q` is that of `vdn`; the mixing weights, one per role, are the non-negative least squares solution on the
team's summed q by role. It is the monotone mix of QMIX with one layer and without a state: what a
hypernetwork would learn from a simulator, a few thousand recordings do not show. Credit is `w q(x_i)` less
its mean. O(agents · p² + folds · (agents · p + traces · roles² + p³)).
Reference: T. Rashid et al., arXiv 1803.11485, equation 5.
Axiom: efficiency.
"""

from typing import Any

import numpy as np
import polars as pl

from ...base.arrays import Floats
from ...corpus.corpus import Corpus
from ...statistics.folds import check_size, fit_quality, folds_of
from ...statistics.learners import one_thread
from ..registry import EventValues, credit_method
from .features import Vocabulary
from .ridge import Linear, Moments, all_but_one, cross_fitted, grouped, ridge
from .vdn import ALPHA, CENTRE, FOLDS, Decomposition, Teams, Utility, centers, decomposed, gather, moments_of


def _fit(corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int) -> Decomposition:
    vocabulary = Vocabulary.of(corpus)
    folds = folds_of(corpus, rewards, params["folds"], seed)
    check_size(folds)
    if folds.n == 0:
        quality = fit_quality(folds.traces["amount"].to_numpy(), np.zeros(0), np.zeros(0), 0)
        return Decomposition(vocabulary, folds, [], quality)
    teams = gather(corpus, folds, vocabulary)
    parts = moments_of(teams, folds.n)
    roles = len(vocabulary.names["role"]) + 1
    utilities = []
    unseen = np.zeros(len(teams.reward))
    *others, (model, alpha) = cross_fitted(parts, params["alpha"])
    for number, (linear, chosen) in enumerate(others):
        held_out = teams.fold == number
        mixed, predicted = _mix(teams, parts, linear, chosen, number, roles, params["center"])
        utilities.append(mixed)
        unseen[held_out] = predicted[held_out]
    of_all, seen = _mix(teams, parts, model, alpha, folds.n, roles, params["center"])
    names = [*vocabulary.names["role"], "*"]
    present = ~np.isnan(of_all.centers)
    weights = {
        f"weight {name}": float(weight)
        for name, weight, is_present in zip(names, of_all.role_weights, present, strict=True)
        if is_present
    }
    quality = fit_quality(teams.reward, seen, unseen, folds.n, {"alpha": alpha, **weights})
    return Decomposition(vocabulary, folds, utilities, quality)


def _mix(
    teams: Teams, parts: list[Moments], linear: Linear, alpha: float, left_out: int, roles: int, by: str
) -> tuple[Utility, Floats]:
    """Weights of the roles by the traces outside of a fold; predictions for all traces."""
    from scipy.optimize import nnls

    training = teams.fold != left_out
    by_role = _by_role(teams, _unseen(teams, parts, linear, alpha, left_out), roles)
    center, level = by_role[training].mean(axis=0), teams.reward[training].mean()
    with one_thread("blas"):  # that of SciPy, which is loaded only now
        weights, _ = nnls(by_role[training] - center, teams.reward[training] - level)
    q = teams.features @ linear.weights
    taught = training[teams.trace]
    role = teams.role[taught]
    mixed = Utility(linear, weights, centers(weights[role] * q[taught], role, roles, by))
    summed = _by_role(teams, q, roles)
    return mixed, (summed - summed[training].mean(axis=0)) @ weights + level


def _unseen(teams: Teams, parts: list[Moments], linear: Linear, alpha: float, left_out: int) -> Floats:
    """q of the agents of each fold by a model of the other folds, so that weights are not fitted to a q that
    has seen the rewards (stacking: Wolpert 1992, Breiman 1996). With two folds there is no other; more than
    five are joined to five, as for the penalty."""
    q = teams.features @ linear.weights
    columns = len(linear.weights)
    training = np.array([number for number in range(len(parts)) if number != left_out])
    groups = grouped([parts[number] for number in training], columns)
    if len(groups) < 2:
        return q
    group = np.full(len(parts), -1)
    group[training] = np.arange(len(training)) % len(groups)
    of_agent = group[teams.fold[teams.trace]]
    for number, others in enumerate(all_but_one(groups, columns)):
        held_out = of_agent == number
        q[held_out] = teams.features[held_out] @ ridge(others, alpha).weights
    return q


def _by_role(teams: Teams, q: Floats, roles: int) -> Floats:
    """(traces, roles), summed over the agents of a role."""
    out = np.zeros((len(teams.reward), roles))
    np.add.at(out, (teams.trace, teams.role), q)
    return out


@credit_method(
    "qmix",
    summary="as vdn, with a weight per role that is never negative",
    quantity="share",
    axioms=("efficiency",),
    params=(ALPHA, CENTRE, FOLDS),
    reference="arXiv 1803.11485, equation 5",
    tier="surrogate",
    scope="corpus",
    fit=_fit,
)
def qmix(
    corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int, model: Decomposition
) -> EventValues:
    """Credit of a piece by the fitted monotone mix.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=30, seed=0)
    >>> credits = ot.credit(corpus, method="qmix", unit="agent")
    >>> '"weight ' in credits["params"][0]
    True
    """
    return decomposed(corpus, rewards, model)
