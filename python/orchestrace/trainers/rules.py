"""Rules that make advantages of rewards, each with all its variants: what an audit tries.

The rules are those of `orchestrace.trainers.advantages`. Variants are those of released trainers: how a
standard deviation divides, what is added to it, and what a group of one gets.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .advantages import dr_grpo, grpo, rloo

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Flags = NDArray[np.bool_]

EPSILONS: Final = (1e-6, 1e-4, 1e-8, 0.0, 1e-5)
"""What trainers add to a deviation, the most usual first."""
_ROUNDING: Final = 16 * 2.0**-24
"""What a difference of two numbers of 32 bits may be wrong by, of the larger."""


class Candidate(NamedTuple):
    """What one variant of a rule gives.

    Parameters
    ----------
    rule
        Its name, as of `list_methods`.
    params
        Its variant.
    values
        (rollouts,), the advantages; NaN where the reward is.
    slack
        (rollouts,), what rounding in 32 bits may add.
    """

    rule: str
    params: dict[str, Any]
    values: Floats
    slack: Floats


class Channels(NamedTuple):
    """Rewards that add up, one by one.

    Parameters
    ----------
    rewards
        (rewards, rollouts), NaN where a rollout lacks one.
    weights
        Of each reward.
    """

    rewards: Floats
    weights: list[float]


def honest(rewards: Floats, codes: Codes, lengths: Floats | None) -> Iterator[Candidate]:
    """All variants of all rules that have a name, the simplest first.

    Parameters
    ----------
    rewards
        (rollouts,), NaN where there is none: such a rollout is in no group.
    codes
        (rollouts,), the group of each.
    lengths
        (rollouts,), trained tokens, for rules that weigh by them.
    """
    yield from relative(rewards, codes)
    rounding = _ROUNDING * _largest(rewards, codes)
    yield Candidate("broadcast", {}, rewards, rounding)
    if lengths is not None:
        weights = np.where(np.isnan(rewards), 0.0, lengths)
        with np.errstate(invalid="ignore"):
            baseline = np.bincount(codes, weights * np.nan_to_num(rewards)) / np.bincount(codes, weights)
        values = rewards - baseline[codes]
        yield Candidate("opo", {}, values, rounding)
        sizes = np.bincount(codes, weights > 0.0)
        yield Candidate("opo", {"compat": "verl"}, np.where(sizes[codes] == 1, rewards, values), rounding)
    yield from _by_mean(rewards, codes)
    yield from of_leads(rewards, codes)
    batch = np.zeros_like(codes)
    in_groups, in_batch = of_groups(dr_grpo, rewards, codes), of_groups(dr_grpo, rewards, batch)
    of_both = of_groups(dr_grpo, in_groups, batch)
    for ddof in (1, 0):
        divisor = _deviation(in_batch, rewards, batch, ddof)
        yield from _divided("reinforce_pp", {"ddof": ddof}, in_batch, divisor, rounding)
        params = {"baseline": True, "ddof": ddof}
        everywhere = np.full(len(rewards), np.fmin.reduce(divisor, initial=np.inf))  # the batch has one
        yield from _divided("reinforce_pp", params, in_groups, everywhere, rounding)
        divisor = _deviation(of_both, in_groups, batch, ddof)
        yield from _divided("reinforce_pp", {"whitened": "centered", **params}, of_both, divisor, rounding)
    if lengths is not None:
        yield from _over_tokens(rewards, codes, weights, rounding)


def _over_tokens(rewards: Floats, codes: Codes, tokens: Floats, rounding: Floats) -> Iterator[Candidate]:
    """`reinforce_pp` whitened over all trained tokens of the batch, so that long rollouts weigh more.

    Trainers add to the variance what others add to the deviation.
    """
    lone = of_groups(dr_grpo, rewards, codes, compat="verl")
    centered = of_groups(dr_grpo, rewards, codes)
    n = tokens.sum()
    for params, values in (
        ({}, rewards),
        ({"baseline": True}, centered),
        ({"baseline": True, "compat": "verl"}, lone),
    ):
        apart = values - (tokens * np.nan_to_num(values)).sum() / max(n, 1.0)
        square = (tokens * np.nan_to_num(apart) ** 2).sum()
        for ddof in (1, 0):
            variance = square / max(n - ddof, 1.0)
            for divisor in (np.sqrt(variance + 1e-8), *(np.sqrt(variance) + epsilon for epsilon in EPSILONS)):
                if divisor > 0.0:
                    variant = {**params, "over": "tokens", "ddof": ddof}
                    whitened = apart / divisor
                    yield Candidate(
                        "reinforce_pp", variant, whitened, rounding * (1 + np.abs(whitened)) / divisor
                    )


def of_channels(channels: Channels, codes: Codes) -> Iterator[Candidate]:
    """`gdpo`: rewards that are normalized one by one within groups, and their sum over the batch or not.

    Memory: one array of (rollouts,) a reward.
    """
    batch = np.zeros_like(codes)
    for ddof in (1, 0):
        of_reward = []
        for rewards in channels.rewards:
            centered = of_groups(dr_grpo, rewards, codes)
            deviation = _deviation(centered, rewards, codes, ddof)
            of_reward.append((centered, deviation, _ROUNDING * _largest(rewards, codes)))
        for epsilon in EPSILONS:
            total, slack = np.zeros(len(codes)), np.zeros(len(codes))
            is_there = ~np.isnan(channels.rewards).all(axis=0)
            for weight, (centered, deviation, rounding) in zip(channels.weights, of_reward, strict=True):
                values = centered / (deviation + epsilon)
                total += weight * np.nan_to_num(values)
                slack += abs(weight) * np.nan_to_num(rounding * (1 + np.abs(values)) / (deviation + epsilon))
            total = np.where(is_there, total, np.nan)
            params = {"ddof": ddof, "epsilon": epsilon}
            yield Candidate("gdpo", {**params, "batch": "none"}, total, slack)
            in_batch = of_groups(dr_grpo, total, batch)
            for batch_ddof in (1, 0):
                divisor = _deviation(in_batch, total, batch, batch_ddof)
                everywhere = np.full(len(codes), np.fmin.reduce(divisor, initial=np.inf)) + epsilon
                variant = {**params, "batch_ddof": batch_ddof}
                yield Candidate("gdpo", variant, in_batch / everywhere, (slack + _ROUNDING) / everywhere)


def _by_mean(rewards: Floats, codes: Codes) -> Iterator[Candidate]:
    """`maxrl`, where no reward is below 0; a trainer may add to the mean that it divides by, take rewards
    that are no verdicts, and leave a group of one its reward."""
    is_there = ~np.isnan(rewards)
    if (rewards[is_there] < 0.0).any():
        return
    rounding = _ROUNDING * _largest(rewards, codes)
    counts = np.bincount(codes[is_there], minlength=codes.max(initial=0) + 1)
    sums = np.bincount(codes[is_there], rewards[is_there], minlength=len(counts))
    mean, is_lone = (sums / np.maximum(counts, 1))[codes], (counts == 1)[codes]
    for compat in (None, "verl"):
        params = {} if compat is None else {"compat": compat}
        centered = of_groups(dr_grpo, rewards, codes, compat=compat)
        # what is not divided: a group of one, and what nothing changes
        divisor = np.where(is_lone, 1.0, np.where(centered == 0.0, np.inf, mean))
        for epsilon in (0.0, *(added for added in EPSILONS if added > 0.0)):
            added_to = np.where(is_lone, 1.0, divisor + epsilon)
            values = centered / added_to
            variant = params if epsilon == 0.0 else {**params, "epsilon": epsilon}
            yield Candidate("maxrl", variant, values, rounding * (1 + np.abs(values)) / added_to)


def of_leads(rewards: Floats, codes: Codes) -> Iterator[Candidate]:
    """`pass_k`: the best of a group gets what it is ahead of the second, all others get 0."""
    lead, is_best = leads(rewards, codes)
    values = np.where(is_best, lead, np.where(np.isnan(rewards), np.nan, 0.0))
    rounding = _ROUNDING * _largest(rewards, codes)
    yield Candidate("pass_k", {}, values, np.where(is_best, rounding * 2, 0.0))
    divisor = _deviation(of_groups(dr_grpo, rewards, codes), rewards, codes, 1)
    yield from _divided("pass_k", {"norm_std": True}, values, divisor, np.where(is_best, rounding * 2, 0.0))


def leads(rewards: Floats, codes: Codes) -> tuple[Floats, Flags]:
    """(rollouts,) each: what the best of a group is ahead of the second, and whether a rollout is the best.

    The lead is 0 where it is alone or they are equal; the best is the first of several.
    """
    lead, is_best = np.zeros(len(rewards)), np.zeros(len(rewards), bool)
    order = np.lexsort((np.arange(len(rewards)), -rewards, codes))
    order = order[~np.isnan(rewards[order])]
    first = np.flatnonzero(np.diff(codes[order], prepend=-1))
    size = np.diff(first, append=len(order))
    best, several = order[first], size > 1
    second = order[first[several] + 1]
    is_best[best] = True
    lead[best[several]] = rewards[best[several]] - rewards[second]
    return lead, is_best


def relative(rewards: Floats, codes: Codes) -> Iterator[Candidate]:
    """The rules that compare a rollout with its group."""
    rounding = _ROUNDING * _largest(rewards, codes)
    for compat in (None, "verl"):
        lone = {} if compat is None else {"compat": compat}
        centered = of_groups(dr_grpo, rewards, codes, compat=compat)
        yield Candidate("dr_grpo", lone, centered, rounding)
        yield Candidate("rloo", lone, of_groups(rloo, rewards, codes, compat=compat), rounding * 2)
        for ddof in (1, 0):
            divisor = _deviation(centered, rewards, codes, ddof, compat)
            yield from _divided("grpo", {"ddof": ddof, **lone}, centered, divisor, rounding)


def of_groups(rule: Callable[..., pl.Series], rewards: Floats, codes: Codes, **options: Any) -> Floats:
    """A rule of `orchestrace.trainers.advantages`, of the rewards that are there; NaN for the others."""
    values = np.full(len(rewards), np.nan)
    is_there = ~np.isnan(rewards)
    if is_there.any():
        values[is_there] = rule(rewards[is_there], codes[is_there], **options).to_numpy()
    return values


def _deviation(
    centered: Floats, rewards: Floats, codes: Codes, ddof: int, compat: str | None = None
) -> Floats:
    """What `grpo` divides a difference by; infinite where that is 0, which nothing changes."""
    divided = of_groups(grpo, rewards, codes, ddof=ddof, epsilon=0.0, compat=compat)
    with np.errstate(invalid="ignore", divide="ignore"):
        divisor: Floats = np.where((divided == 0.0) | (centered == 0.0), np.inf, centered / divided)
    return divisor


def _divided(
    rule: str,
    params: dict[str, Any],
    centered: Floats,
    deviation: Floats,
    rounding: Floats,
) -> Iterator[Candidate]:
    """Differences that a deviation divides, and their rounding with them, for all that is added to it."""
    for epsilon in EPSILONS:
        divisor = deviation + epsilon
        values = centered / divisor
        slack = rounding * (1 + np.abs(values)) / divisor
        yield Candidate(rule, {**params, "epsilon": epsilon}, values, slack)


def _largest(rewards: Floats, codes: Codes) -> Floats:
    """(rollouts,), the largest size of a reward of the group."""
    largest = np.zeros(int(codes.max(initial=-1)) + 1)
    np.maximum.at(largest, codes, np.abs(np.nan_to_num(rewards)))
    of_rollout: Floats = largest[codes]
    return of_rollout
