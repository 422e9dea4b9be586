"""Estimators of the value of a policy from logged decisions: importance weights, a model, and both.

A log of one decision per run is one of sequences of length 1. There the estimators of sequences are those of
bandits: IS is IPS, WIS is SNIPS, and per-decision IS is IPS, too.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from ..base.arrays import Bools, Floats, Ints
from .logged_decisions import Log


class Terms(NamedTuple):
    """An estimate as a ratio of sums over runs: what each adds above and below the line, (runs,)."""

    above: Floats
    below: Floats

    @property
    def value(self) -> float:
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return float(self.above.mean() / self.below.mean())


@dataclass(frozen=True, eq=False)
class Weights:
    """How much likelier the policy makes a run than the log did.

    ``step`` is of every row, for the run up to it, ``before`` the same without the row itself, and ``run`` of
    all of the run. ``plain`` is ``run`` before any clipping; ``clipped_share`` that of rows which it changed.
    """

    step: Floats
    before: Floats
    run: Floats
    plain: Floats
    clipped_share: float

    @classmethod
    def of(cls, log: Log, chosen: Floats, clip: float | None) -> "Weights":
        """From the probability that the policy gives the logged action of every row."""
        with np.errstate(divide="ignore", over="ignore"):
            along = np.exp(_along(log, np.log(chosen) - np.log(log.p)))
        step = along if clip is None else np.minimum(along, clip)
        before = np.where(log.place == 0, 1.0, np.roll(step, 1))
        end = log.start + log.length - 1
        return cls(step, before, step[end], along[end], float((along > step).mean()) if len(step) else 0.0)

    @property
    def ess(self) -> float:
        """Kish's effective number of runs: the squared sum of the weights over the sum of their squares."""
        largest = self.run.max(initial=0.0)
        if not 0.0 < largest < np.inf:
            return 0.0
        scaled = self.run / largest
        return float(np.square(scaled.sum()) / np.square(scaled).sum())

    @property
    def max_share(self) -> float | None:
        """The share that one run has in the sum of the weights."""
        largest = self.run.max(initial=0.0)
        return float(1.0 / (self.run / largest).sum()) if 0.0 < largest < np.inf else None


def _along(log: Log, logs: Floats) -> Floats:
    """The sum of the values of each run up to every row."""
    if len(log) == len(logs):
        return logs
    frame = pl.DataFrame({"run": log.run, "log": logs})
    return frame.select(pl.col("log").cum_sum().over("run")).to_series().to_numpy()


def returns(log: Log, discount: float) -> tuple[Floats, Floats]:
    """What the reward of every row counts, and the discounted sum of rewards of each run."""
    factor = np.power(discount, log.place.astype(np.float64))
    return factor, log.summed(factor * log.reward)


def terms_of(
    log: Log,
    weights: Weights,
    target: Floats,
    q: Floats,
    discount: float,
    tau: float | None,
    followed: Floats | None,
) -> dict[str, Terms]:
    """Every estimator that uses weights, in the words of sequences.

    `target` and `q` are (rows, actions): the probabilities of the policy, the expected return of each action.
    ``switch`` is given with a `tau`, ``mrdr`` with `followed` (rows,): the return of what the policy does.
    """
    factor, total = returns(log, discount)
    ones = np.ones(len(log))
    expected, of_action = (target * q).sum(axis=1), q[np.arange(len(q)), log.action]
    with np.errstate(over="ignore", invalid="ignore"):
        residual = weights.step * (log.reward - of_action)
        terms = {
            "is": Terms(weights.run * total, ones),
            "wis": Terms(weights.run * total, weights.run),
            "pdis": Terms(log.summed(factor * weights.step * log.reward), ones),
            "dr": Terms(log.summed(factor * (weights.before * expected + residual)), ones),
        }
        if tau is not None:
            corrected = np.where(weights.step <= tau, residual, 0.0)
            terms["switch"] = Terms(log.summed(expected + corrected), ones)
        if followed is not None:
            terms["mrdr"] = Terms(log.summed(followed + weights.step * (log.reward - followed)), ones)
    return terms


def direct_terms(log: Log, target: Floats, q: Floats) -> Terms:
    """What the model expects at the first decision of every run."""
    return Terms((target * q).sum(axis=1)[log.start], np.ones(len(log)))


def bound_terms(log: Log, chosen: Floats, discount: float, low: float, high: float) -> tuple[Floats, Floats]:
    """What every run adds to the bounds: its return as far as the policy repeats it, else the worst or best.

    Means of these are the lower and the upper bound.
    """
    with np.errstate(divide="ignore"):
        along = np.exp(_along(log, np.log(chosen)))[log.start + log.length - 1]
    _, total = returns(log, discount)
    return along * total + (1.0 - along) * low, along * total + (1.0 - along) * high


def unsupported(log: Log, target: Floats, bucket: Ints) -> float:
    """Mean probability that the policy gives to actions never logged in the bucket of the state."""
    n_actions = target.shape[1]
    n_buckets = int(bucket.max(initial=0)) + 1
    counts = np.bincount(bucket * n_actions + log.action, minlength=n_buckets * n_actions)
    seen: Bools = counts.reshape(n_buckets, n_actions) > 0
    return float(np.where(seen[bucket], 0.0, target).sum(axis=1).mean())
