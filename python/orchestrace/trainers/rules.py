"""Rules that make advantages of rewards, each with all its variants: what an audit tries.

Variants are those of released trainers: how a standard deviation divides, what is added to it, and what a
group of one gets. Everything is computed in 64 bits.
"""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Flags = NDArray[np.bool_]

EPSILONS: Final = (1e-6, 1e-4, 1e-8, 0.0, 1e-5)
"""What trainers add to a deviation, the most usual first."""
EQUAL: Final = 1e-7
"""Rewards of a group that differ by less than this part of the largest are equal, as 32 bits have no more."""


class Candidate(NamedTuple):
    """What one variant of a rule gives.

    Parameters
    ----------
    rule
        Its name, as of `list_methods`.
    params
        Its variant.
    values
        (rollouts,), the advantages; null where the reward is.
    slack
        (rollouts,), what rounding in 32 bits may add.
    """

    rule: str
    params: dict[str, Any]
    values: Floats
    slack: Floats


class Groups:
    """Means and deviations of rewards by group. A reward that is NaN is of no group."""

    def __init__(self, rewards: Floats, codes: Codes, sizes: Codes | None = None) -> None:
        n = int(codes.max(initial=-1)) + 1
        is_there = ~np.isnan(rewards)
        self.codes, self.rewards = codes, rewards
        self.count = np.bincount(codes[is_there], minlength=n) if sizes is None else sizes
        with np.errstate(invalid="ignore", divide="ignore"):
            self.mean = np.bincount(codes[is_there], rewards[is_there], n) / self.count
        low, high = np.full(n, np.inf), np.full(n, -np.inf)
        np.minimum.at(low, codes[is_there], rewards[is_there])
        np.maximum.at(high, codes[is_there], rewards[is_there])
        largest = np.maximum(np.abs(low), np.abs(high))
        self.is_equal = high - low <= EQUAL * largest
        self.centered = rewards - self.mean[codes]
        self.squares: NDArray[Any] = np.bincount(codes[is_there], self.centered[is_there] ** 2, n)
        if sizes is not None:  # zeros that fill a group up are in it
            filling = sizes - np.bincount(codes[is_there], minlength=n)
            self.squares = self.squares + filling * self.mean**2
        else:
            agrees = self.is_equal[codes] & is_there
            self.centered[agrees] = 0.0
        self.largest = largest

    def deviation(self, ddof: int) -> Floats:
        """(rollouts,), the standard deviation of the group of each."""
        deviation: Floats = np.sqrt(self.squares / np.maximum(self.count - ddof, 1))[self.codes]
        return deviation

    def rounding(self) -> Floats:
        """(rollouts,), what a difference of rewards may be wrong by in 32 bits."""
        rounding: Floats = 16 * 2.0**-24 * self.largest[self.codes]
        return rounding


def honest(rewards: Floats, codes: Codes, lengths: Floats | None) -> Iterator[Candidate]:
    """All variants of all rules that have a name, the simplest first.

    Parameters
    ----------
    rewards
        (rollouts,), NaN where there is none.
    codes
        (rollouts,), the group of each.
    lengths
        (rollouts,), trained tokens, for rules that weigh by them.
    """
    groups = Groups(rewards, codes)
    batch = Groups(rewards, np.zeros_like(codes))
    rounding = groups.rounding()
    yield from relative(groups)
    yield Candidate("broadcast", {}, rewards, rounding)
    if lengths is not None:
        weights = np.where(np.isnan(rewards), 0.0, lengths)
        baseline = np.bincount(codes, weights * np.nan_to_num(rewards)) / np.bincount(codes, weights)
        yield Candidate("opo", {}, rewards - baseline[codes], rounding)
    for ddof in (1, 0):
        for epsilon in EPSILONS:
            params = {"ddof": ddof, "epsilon": epsilon}
            scale = batch.deviation(ddof) + epsilon
            yield scaled("reinforce_pp", params, batch.centered, scale, rounding)
            yield scaled("reinforce_pp", {"baseline": True, **params}, groups.centered, scale, rounding)
            both = Groups(groups.centered, np.zeros_like(codes))
            centered = {"baseline": True, "whitened": "centered", **params}
            scale = both.deviation(ddof) + epsilon
            yield scaled("reinforce_pp", centered, both.centered, scale, rounding)


def relative(groups: Groups) -> Iterator[Candidate]:
    """The rules that compare a rollout with its group."""
    rounding = groups.rounding()
    is_alone = (groups.count == 1)[groups.codes]
    as_released = np.where(is_alone, groups.rewards, groups.centered)
    with np.errstate(invalid="ignore", divide="ignore"):
        others = (groups.count / np.maximum(groups.count - 1, 1))[groups.codes]
    for lone, centered in (({}, groups.centered), ({"compat": "verl"}, as_released)):
        yield Candidate("dr_grpo", lone, centered, rounding)
        yield Candidate("rloo", lone, np.where(is_alone, centered, centered * others), rounding * 2)
        for ddof in (1, 0):
            for epsilon in EPSILONS:
                # what is alone has the deviation 1 in the released code
                scale = np.where(is_alone, 1.0, groups.deviation(ddof)) + epsilon
                params = {"ddof": ddof, "epsilon": epsilon, **lone}
                yield scaled("grpo", params, centered, scale, rounding)


def scaled(rule: str, params: dict[str, Any], centered: Floats, scale: Floats, rounding: Floats) -> Candidate:
    """A difference that a deviation divides; one that is 0 stays 0, whatever divides it."""
    with np.errstate(invalid="ignore", divide="ignore"):
        values = np.where(centered == 0.0, 0.0, centered / scale)
        slack = np.where(centered == 0.0, 0.0, rounding * (1 + np.abs(values)) / scale)
    return Candidate(rule, params, values, slack)
