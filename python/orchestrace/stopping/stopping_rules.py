"""Rules for stopping with the current answer: simple ones and learned ones."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ..base.arrays import Bools, Floats, Ints
from .answers import Answers
from .censoring import Needs
from .continuation import Continuation, Regress, by_epoch, by_history, by_iteration, with_k

CANDIDATES: Final = 50
"""Thresholds and budgets that are tried: quantiles of the fitting rows."""
BLOCK: Final = 2**22
"""Payoffs of runs and values that are added up at once."""
NEAR: Final = 2**17
"""Those, or rows, that are looked for at once."""


@dataclass(frozen=True, eq=False)
class Fitted:
    """A rule after its fit: where it stops, and of learned rules what it takes going on to be worth."""

    stop: Callable[[Answers], Bools]
    #: Of learned rules; they stop where the payoff is at least that.
    worth: Callable[[Answers], Floats] | None = None
    #: Of learned rules the value to be expected at the next epoch, for the dual, given what `worth` says.
    expect: Callable[[Answers, Floats], Floats] | None = None
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
    #: Which part of a run must be recorded for its payoff to be known.
    needs: Needs = "stop"


@dataclass(frozen=True)
class Level:
    """Rules that stop where a number of the row reaches a value, or with `strict` where it is above it.

    `needs` says which part of a run must be recorded for its payoff to be known.
    """

    of: Callable[[Answers], Floats]
    strict: bool = False
    needs: Needs = "stop"

    def stop(self, runs: Answers, value: float) -> Bools:
        """Whether the rule with this value stops at each row."""
        numbers = self.of(runs)
        return numbers > value if self.strict else numbers >= value


def _best(runs: Answers, among: Ints, values: Floats, level: Level) -> Fitted:
    """The value with the greatest mean payoff among the fitting runs; ties go to the first.

    `values` rise. O(rows · log(values) + runs · values).
    """
    best = np.inf
    if len(values):
        best = float(values[int(np.argmax(_payoffs(runs, among, values, level)))])
    return Fitted(lambda judged: level.stop(judged, best), constant=best)


def _payoffs(runs: Answers, among: Ints, values: Floats, level: Level) -> Floats:
    """The mean payoff of each value, (values,) float64; minus infinity where no run shows it.

    Sums go over blocks of runs; each is laid out a few runs at a time, which stay near the processor.
    """
    n, deepest = len(values), int(runs.length[among].max(initial=1))
    alike = not runs.cut.any() and bool((runs.weight == 1.0).all())
    paid, counted = np.zeros(n), np.zeros(n)
    many, few = max(1, BLOCK // n), max(1, NEAR // max(n, deepest))
    for first in range(0, len(among), many):
        block = among[first : first + many]
        gained, times = np.empty((len(block), n)), np.empty((0 if alike else len(block), n))
        for at in range(0, len(block), few):
            of = slice(at, at + few)
            part = runs.take(block[of], with_features=False)
            rows, stopping = _stops_of(part, values, level)
            gained[of] = part.g[rows]
            if not alike:
                times[of] = _times(part, rows, stopping, level.needs)
                gained[of] *= times[of]
        paid += gained.sum(axis=0)
        counted += float(len(block)) if alike else times.sum(axis=0)
    return np.where(counted > 0.0, paid / np.maximum(counted, np.finfo(float).tiny), -np.inf)


def _stops_of(runs: Answers, values: Floats, level: Level) -> tuple[Ints, Ints]:
    """The row at which each value stops each run, (runs, values); how many of them do so by a row.

    A larger value stops later. Each run is therefore a list of rows that begin to stop some values, in order.
    """
    numbers = level.of(runs)
    n = len(values)
    reached = np.searchsorted(values, numbers, side="left" if level.strict else "right")
    reached[np.isnan(numbers)] = 0
    apart = runs.run * (n + 1)
    reached = np.maximum.accumulate(reached + apart) - apart
    stopping = reached[runs.end]  # the others stop where the run ends anyway
    reached[runs.end] = n
    begins = np.diff(reached, prepend=0)
    begins[runs.start] = reached[runs.start]
    return np.repeat(np.arange(len(runs.k)), begins).reshape(-1, n), stopping


def _times(runs: Answers, rows: Ints, stopping: Ints, needs: Needs) -> Floats:
    """How many runs each one stands for when a value stops it, (runs, values) float64; 0 where none shows."""
    end = runs.end[:, None]
    if needs == "next":  # it stops because of what the next epoch costs
        unknown, at = rows == end, np.minimum(rows + 1, end)
    else:
        unknown, at = np.arange(rows.shape[1])[None, :] >= stopping[:, None], rows
    return np.where(runs.cut[:, None] & unknown, 0.0, runs.weight[at])


def _fixed(runs: Answers, among: Ints, _: Regress) -> Fitted:
    deepest = int(runs.length[among].max(initial=1))
    return _best(runs, among, np.arange(1.0, deepest + 1), Level(lambda judged: judged.k.astype(np.float64)))


def _stale(runs: Answers) -> Ints:
    """How many epochs ago the greatest quality so far was reached first. O(rows)."""
    level = np.where(np.isnan(runs.q), runs.s, runs.q)
    stale = np.zeros(len(runs.k), np.int64)
    best = np.full(len(runs), -np.inf)
    since = np.zeros(len(runs), np.int64)
    for k in range(1, int(runs.length.max(initial=0)) + 1):
        of = np.flatnonzero(runs.length >= k)
        rows = runs.start[of] + k - 1
        better = level[rows] > best[of]
        best[of] = np.where(better, level[rows], best[of])
        since[of] = np.where(better, 0, since[of] + 1)
        stale[rows] = since[of]
    return stale


def _patience(runs: Answers, among: Ints, _: Regress) -> Fitted:
    deepest = int(runs.length[among].max(initial=1))
    waits = np.arange(1.0, max(deepest, 2))
    return _best(runs, among, waits, Level(lambda judged: _stale(judged).astype(np.float64)))


def _quantiles(values: Floats) -> Floats:
    recorded = values[~np.isnan(values)]
    if not recorded.size:
        return np.zeros(0)
    return np.unique(np.quantile(recorded, np.linspace(0.0, 1.0, CANDIDATES), method="inverted_cdf"))


def _quality(runs: Answers) -> Floats:
    """Quality of each row; its score where quality is not known."""
    return np.where(np.isnan(runs.q), runs.s, runs.q)


def _threshold(runs: Answers, among: Ints, _: Regress) -> Fitted:
    inside = runs.rows_of(among)
    return _best(runs, among, np.append(_quantiles(_quality(runs)[inside]), np.inf), Level(_quality))


def _loss(runs: Answers) -> Floats:
    """How much quality each epoch lost on the one before; minus infinity at the first. O(rows)."""
    level = _quality(runs)
    loss = np.append(-np.inf, level[:-1] - level[1:])[: len(level)]
    loss[runs.start] = -np.inf
    return loss


def _plateau(runs: Answers, among: Ints, _: Regress) -> Fitted:
    inside = runs.rows_of(among)
    losses = _loss(runs)[inside[runs.k[inside] > 1]]
    best = _best(runs, among, np.append(_quantiles(losses), np.inf), Level(_loss))
    return replace(best, constant=-float(best.constant or 0.0))


def _budget(runs: Answers, among: Ints, _: Regress) -> Fitted:
    def soon(judged: Answers) -> Floats:
        # the last epoch within the budget: the next one would leave it
        after = np.append(judged.c[1:], np.inf)
        after[judged.end] = judged.c[judged.end]
        costs: Floats = np.maximum(judged.c, after)
        return costs

    inside = runs.rows_of(among)
    return _best(
        runs, among, np.append(_quantiles(runs.c[inside]), np.inf), Level(soon, strict=True, needs="next")
    )


def _one_step(runs: Answers, among: Ints, regress: Regress) -> Fitted:
    rows = runs.rows_of(among)
    rows = rows[~runs.last[rows]]
    if not len(rows):
        return Fitted(lambda judged: np.zeros(len(judged.k), bool))
    solve = regress(with_k(runs.features, runs.k)[rows], runs.weight[rows + 1])
    gain = solve(runs.g[rows + 1] - runs.g[rows]).predict
    return Fitted(lambda judged: gain(with_k(judged.features, judged.k)) <= 0.0)


def _learned(fitted: Continuation) -> Fitted:
    return Fitted(lambda judged: judged.g >= fitted(judged), fitted, fitted.expect)


def _lsm(runs: Answers, among: Ints, regress: Regress) -> Fitted:
    return _learned(by_epoch(runs, among, regress, realized=True))


def _tvr(runs: Answers, among: Ints, regress: Regress) -> Fitted:
    return _learned(by_epoch(runs, among, regress, realized=False))


def _fqi(runs: Answers, among: Ints, regress: Regress) -> Fitted:
    return _learned(by_iteration(runs, among, regress))


def _tabular(runs: Answers, among: Ints, _: Regress) -> Fitted:
    worth = by_history(runs, among)
    return Fitted(lambda judged: judged.g >= worth(judged), worth, lambda _, valued: valued)


def _oracle(runs: Answers, among: Ints, _: Regress) -> Fitted:
    def stop(judged: Answers) -> Bools:
        most = np.maximum.reduceat(judged.g, judged.start) if len(judged) else np.zeros(0)
        return judged.g >= most[judged.run]

    return Fitted(stop)


METHODS: Final = {
    "recorded": Method(
        "the recorded stop", "this recording", lambda *_: Fitted(lambda judged: judged.last), needs="nothing"
    ),
    "fixed": Method("the k with the greatest mean payoff", "baseline", _fixed),
    "patience": Method("m epochs without a new greatest quality", "early stopping, Prechelt 1998", _patience),
    "plateau": Method(
        "an epoch that gained at most δ of quality (without one, score)",
        "early stopping, min_delta",
        _plateau,
    ),
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
