"""Evidence for failure as a ratio of densities, the basis of an e-process."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..base.arrays import Floats, Ints
from ..statistics.regression import logistic, sigmoid
from .designs import summed
from .runs import Runs

FEWEST: Final = 5
"""Runs of each class that a model of one epoch needs."""
CLIP: Final = 1e-6
"""Chances stay this far from 0 and 1."""


@dataclass(frozen=True, eq=False)
class StepModel:
    """A logistic regression on the standardized scores s_1..s_k of runs that reach epoch k."""

    mean: Floats
    spread: Floats
    weights: Floats

    @classmethod
    def fitted(cls, scores: Floats, y: Floats, penalty: float) -> "StepModel | None":
        """Of (runs, k) scores; None with fewer than `FEWEST` runs of a class."""
        if min(y.sum(), len(y) - y.sum()) < FEWEST:
            return None
        mean, spread = scores.mean(axis=0), scores.std(axis=0)
        spread = np.where(spread > 1e-12, spread, 1.0)
        return cls(mean, spread, logistic(_design((scores - mean) / spread), y, penalty))

    def chances(self, scores: Floats) -> Floats:
        """P(y = 1) of each run, clipped."""
        z = summed(((scores - self.mean) / self.spread).T, self.weights[1:], self.weights[0])
        return np.clip(sigmoid(z), CLIP, 1.0 - CLIP)


def _design(scores: Floats) -> Floats:
    return np.column_stack([np.ones(len(scores)), scores])


def _reaching(runs: Runs, k: int) -> tuple[Ints, Floats]:
    """Runs with an epoch k, and their scores up to it."""
    at = np.flatnonzero(runs.length >= k)
    return at, runs.s[runs.start[at, None] + np.arange(k)]


@dataclass(frozen=True, eq=False)
class Ratio:
    """M_k = [p(fail | s_1..s_k) / p(success | s_1..s_k)] [share of successes / share of failures].

    With `going`, the chance that a failed run goes on after epoch j, M_k is divided by their product over
    j < k. It is then the ratio for a failed run *that never ends*: under success still a supermartingale that
    starts at 1 at most, which takes from runs that end what it gives to those that go on.
    """

    prior: float  # log of the share of successes over that of failures
    steps: dict[int, StepModel]
    going: dict[int, StepModel]

    @classmethod
    def fitted(cls, runs: Runs, penalty: float, survival: bool) -> "Ratio":
        """Of runs with both outcomes."""
        failed = runs.failed
        steps, going = {}, {}
        for k in range(1, int(runs.length.max()) + 1):
            at, scores = _reaching(runs, k)
            if (model := StepModel.fitted(scores, failed[at].astype(np.float64), penalty)) is not None:
                steps[k] = model
            if survival:
                lost = failed[at]
                on = (runs.length[at][lost] > k).astype(np.float64)
                if (model := StepModel.fitted(scores[lost], on, penalty)) is not None:
                    going[k] = model
        prior = float(np.log(runs.success.sum() / failed.sum()))
        return cls(prior, steps, going)

    def of(self, runs: Runs) -> Floats:
        """ln M_k of every row; an epoch without a model keeps the value before it, ln M_0 = 0."""
        evidence = np.zeros(len(runs.k))
        last = np.zeros(len(runs))
        passed = np.zeros(len(runs))
        for k in range(1, int(runs.length.max(initial=0)) + 1):
            at, scores = _reaching(runs, k)
            if (model := self.steps.get(k)) is not None:
                p = model.chances(scores)
                last[at] = np.log(p / (1.0 - p)) + self.prior - passed[at]
            evidence[runs.start[at] + k - 1] = last[at]
            if (model := self.going.get(k)) is not None:
                passed[at] += np.log(model.chances(scores))
        return evidence


def enough(runs: Runs) -> bool:
    """Whether there are successes and failures enough for a model."""
    return bool(min(runs.success.sum(), runs.failed.sum()) >= FEWEST)
