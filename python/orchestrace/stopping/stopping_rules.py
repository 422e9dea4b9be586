"""Rules that say when to stop and hand over what there is: simple ones and learned ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..base.arrays import Floats, Ints
from ..statistics.influence import Bools
from .answers import Answers
from .censoring import Needs, seen
from .continuation import Continuation, Regress, by_epoch, by_history, by_iteration

CANDIDATES: Final = 50
"""Thresholds and budgets that are tried: quantiles of the fitting rows."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A rule after its fit: where it stops, and of learned rules what it takes going on to be worth."""

    stop: Callable[[Answers], Bools]
    worth: Callable[[Answers], Floats] | None = None
    #: Of learned rules the value to be expected at the next epoch, for the dual; that of `worth` without.
    expect: Callable[[Answers], Floats] | None = None
    constant: float | None = None


Fit = Callable[[Answers, Ints, Regress], Fitted]
"""All runs, those that are fitted on, and the regression; to a rule."""


@dataclass(frozen=True)
class Method:
    """One way to stop."""

    summary: str
    reference: str
    fit: Fit
    #: Whether it says what going on is worth, so that it gives an upper bound.
    learned: bool = False
    #: Whether it looks at what no rule could know.
    peeks: bool = False
    #: What of a run must be recorded for its payoff to be known.
    needs: Needs = "stop"


def _mean(runs: Answers, stop: Bools, needs: Needs) -> float:
    at = runs.stops(stop)
    times = seen(runs, stop, at, needs)
    return float(np.average(runs.g[at], weights=times)) if times.any() else -np.inf


def _best(
    runs: Answers,
    among: Ints,
    values: Floats,
    stop: Callable[[Answers, float], Bools],
    needs: Needs = "stop",
) -> Fitted:
    """The value with the greatest mean payoff among the fitting runs; ties go to the first."""
    tried = runs.take(among)
    means = [_mean(tried, stop(tried, float(value)), needs) for value in values]
    best = float(values[int(np.argmax(means))]) if len(values) else np.inf
    return Fitted(lambda given: stop(given, best), constant=best)


def _fixed(runs: Answers, among: Ints, _: Regress) -> Fitted:
    deepest = int(runs.length[among].max(initial=1))
    return _best(runs, among, np.arange(1.0, deepest + 1), lambda given, k: given.k >= k)


def _stale(runs: Answers) -> Ints:
    """How many epochs ago the greatest quality so far was reached first. O(rows)."""
    level = np.where(np.isnan(runs.q), runs.s, runs.q)
    found = np.zeros(len(runs.k), np.int64)
    best = np.full(len(runs), -np.inf)
    since = np.zeros(len(runs), np.int64)
    for k in range(1, int(runs.length.max(initial=0)) + 1):
        of = np.flatnonzero(runs.length >= k)
        rows = runs.start[of] + k - 1
        better = level[rows] > best[of]
        best[of] = np.where(better, level[rows], best[of])
        since[of] = np.where(better, 0, since[of] + 1)
        found[rows] = since[of]
    return found


def _patience(runs: Answers, among: Ints, _: Regress) -> Fitted:
    deepest = int(runs.length[among].max(initial=1))
    return _best(runs, among, np.arange(1.0, max(deepest, 2)), lambda given, m: _stale(given) >= m)


def _quantiles(values: Floats) -> Floats:
    known = values[~np.isnan(values)]
    if not known.size:
        return np.zeros(0)
    return np.unique(np.quantile(known, np.linspace(0.0, 1.0, CANDIDATES), method="inverted_cdf"))


def _threshold(runs: Answers, among: Ints, _: Regress) -> Fitted:
    def level(given: Answers) -> Floats:
        return np.where(np.isnan(given.q), given.s, given.q)

    inside = np.isin(runs.run, among)
    values = np.append(_quantiles(level(runs)[inside]), np.inf)
    return _best(runs, among, values, lambda given, least: level(given) >= least)


def _budget(runs: Answers, among: Ints, _: Regress) -> Fitted:
    def stop(given: Answers, most: float) -> Bools:
        # the last epoch within the budget: the next one would leave it
        leaves = np.zeros(len(given.k), bool)
        leaves[:-1] = given.c[1:] > most
        leaves[given.end] = False
        return leaves | (given.c > most)

    inside = np.isin(runs.run, among)
    return _best(runs, among, np.append(_quantiles(runs.c[inside]), np.inf), stop, "next")


def _one_step(runs: Answers, among: Ints, regress: Regress) -> Fitted:
    models: list[Callable[[Floats], Floats]] = []
    inside = np.isin(runs.run, among) & ~runs.last
    rows = np.flatnonzero(inside)
    if not len(rows):
        return Fitted(lambda given: np.zeros(len(given.k), bool))
    k = runs.k.astype(np.float64)[:, None]
    known = np.concatenate([k, runs.x], axis=1)[rows]
    models.append(regress(known, runs.g[rows + 1] - runs.g[rows], runs.weight[rows + 1]))

    def stop(given: Answers) -> Bools:
        with_k = np.concatenate([given.k.astype(np.float64)[:, None], given.x], axis=1)
        return models[0](with_k) <= 0.0

    return Fitted(stop)


def _learned(fitted: Continuation) -> Fitted:
    def worth(given: Answers) -> Floats:
        return fitted(given.x, given.k)

    return Fitted(lambda given: given.g >= worth(given), worth, lambda given: fitted.expect(given.x, given.k))


def _lsm(runs: Answers, among: Ints, regress: Regress) -> Fitted:
    return _learned(by_epoch(runs, among, regress, realized=True))


def _tvr(runs: Answers, among: Ints, regress: Regress) -> Fitted:
    return _learned(by_epoch(runs, among, regress, realized=False))


def _fqi(runs: Answers, among: Ints, regress: Regress) -> Fitted:
    return _learned(by_iteration(runs, among, regress))


def _tabular(runs: Answers, among: Ints, _: Regress) -> Fitted:
    worth = by_history(runs, among)
    return Fitted(lambda given: given.g >= worth(given), worth, worth)


def _oracle(runs: Answers, among: Ints, _: Regress) -> Fitted:
    def stop(given: Answers) -> Bools:
        most = np.maximum.reduceat(given.g, given.start) if len(given) else np.zeros(0)
        return given.g >= most[given.run]

    return Fitted(stop)


METHODS: Final = {
    "recorded": Method(
        "the recorded stop", "this recording", lambda *_: Fitted(lambda given: given.last), needs="nothing"
    ),
    "fixed": Method("the k with the greatest mean payoff", "baseline", _fixed),
    "patience": Method("m epochs without a new greatest quality", "early stopping, Prechelt 1998", _patience),
    "threshold": Method("quality (without one, score) of at least θ", "baseline", _threshold),
    "budget": Method("the last epoch within a cost", "baseline", _budget, needs="next"),
    "one_step": Method(
        "no expected gain of payoff in the next epoch", "one-step look-ahead, Chow & Robbins 1961", _one_step
    ),
    "tabular": Method("backward induction over histories of q and c", "Snell 1952", _tabular, learned=True),
    "lsm": Method(
        "regressions of the payoff that the rule gets later", "Longstaff & Schwartz 2001", _lsm, learned=True
    ),
    "tvr": Method(
        "regressions of the greater of payoff and value", "Tsitsiklis & Van Roy 2001", _tvr, learned=True
    ),
    "fqi": Method(
        "one regression for all epochs, repeated", "fitted Q iteration, Ernst et al. 2005", _fqi, learned=True
    ),
    "oracle": Method(
        "the best epoch in hindsight, which no rule can know", "prophet", _oracle, peeks=True, needs="end"
    ),
}
"""Every rule, in the order of results."""
