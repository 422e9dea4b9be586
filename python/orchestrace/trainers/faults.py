"""Faults of trainers, which give advantages in silence: each a recipe, tried by an audit as rules are."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from .advantages import grpo
from .rules import (
    Candidate,
    Channels,
    Codes,
    Flags,
    Floats,
    honest,
    leads,
    of_channels,
    of_groups,
    of_leads,
    relative,
)

FAULTS: Final = {
    "noise.equal": "rewards of a group are equal, and what rounding left of them was divided by itself",
    "lone.nan": "a group of one has no deviation, and its advantage is no number",
    "sign.flipped": "advantages have the opposite sign of the rule",
    "lead.unmasked": "the best of each group has its lead over the second, and the others kept their rewards",
    "lead.scaled": "the lead of the best of each group over the second was multiplied by a constant",
    "fanout.counted": "a rollout that is written as several rows counts once for each of them",
    "group.merged": "groups that differ in a column of the group were compared as one",
    "filtered.counted": "rollouts that were filtered out are still in the mean and in the deviation",
    "padding.counted": "groups were filled up to the largest with zeros, which are in the mean",
    "normalized.twice": "advantages were centered and divided once more",
    "length.weighted": "advantages were multiplied or divided by lengths",
    "group.split": "groups were cut where micro-batches end, and compared within the pieces",
    "turn.index": "rewards were normalized turn by turn, and added up as far as the rollout goes",
    "mask.unequal": "advantages stand on other tokens than those that the mask trains",
    "group.lost": "each row is a group of its own: nothing is compared",
}
"""What each fault is, the surest first."""
_EQUAL: Final = 1e-7
"""Rewards of a group that differ by less than this part of the largest are equal: 32 bits have no more."""
_NOISE: Final = 1.0
"""Rounding that was divided by itself is below this; what is larger was not made of rounding alone."""


class Dump(NamedTuple):
    """One step of a trainer: rows, and the rollouts that they are of.

    Parameters
    ----------
    rewards, codes, lengths, trained
        (rollouts,): the reward, the group, the trained tokens, and whether it was trained on.
    rollouts
        (rows,), which rollout a row is of.
    coarser
        (rollouts,) each, the groups by some of the columns that make a group.
    channels
        The rewards one by one, where several add up.
    row_lengths
        (rows,), the trained tokens of each.
    """

    rewards: Floats
    codes: Codes
    lengths: Floats | None
    trained: Flags | None
    rollouts: Codes
    coarser: tuple[Codes, ...] = ()
    channels: Channels | None = None
    row_lengths: Floats | None = None

    def on_rows(self, candidate: Candidate) -> Candidate:
        """What the rows of each rollout get."""
        values, slack = candidate.values[self.rollouts], candidate.slack[self.rollouts]
        return candidate._replace(values=values, slack=slack)

    def rules(self) -> Iterator[Candidate]:
        """Of each row what rules give: rollouts that were filtered out are in no group."""
        rewards = self.rewards if self.trained is None else np.where(self.trained, self.rewards, np.nan)
        yield from map(self.on_rows, honest(rewards, self.codes, self.lengths))
        if self.channels is not None:
            one_by_one = np.where(np.isnan(rewards), np.nan, self.channels.rewards)
            yield from map(self.on_rows, of_channels(self.channels._replace(rewards=one_by_one), self.codes))

    def excuses(self, advantages: Floats) -> Iterator[tuple[str, Flags]]:
        """Faults of single groups, and the rows that they would excuse: all others have to fit a rule."""
        rewards = self.rewards if self.trained is None else np.where(self.trained, self.rewards, np.nan)
        is_there = ~np.isnan(rewards)
        codes, n = self.codes, int(self.codes.max(initial=-1)) + 1
        sizes = np.bincount(codes[is_there], minlength=n)
        low, high = np.full(n, np.inf), np.full(n, -np.inf)
        np.minimum.at(low, codes[is_there], rewards[is_there])
        np.maximum.at(high, codes[is_there], rewards[is_there])
        agrees = (sizes > 1) & (high - low <= _EQUAL * np.maximum(np.abs(low), np.abs(high)))
        yield "noise.equal", agrees[codes][self.rollouts] & (np.abs(advantages) < _NOISE)
        yield "lone.nan", (sizes == 1)[codes][self.rollouts] & np.isnan(advantages)

    def suspects(self, advantages: Floats) -> Iterator[tuple[str, Candidate]]:
        """What each fault would give the rows, the surest first. Those of single groups are `excuses`,
        and an audit sees by itself which tokens have one."""
        for candidate in self.rules():
            yield "sign.flipped", candidate._replace(values=-candidate.values)
        rewards, codes, rollouts = self.rewards, self.codes, self.rollouts
        is_best = leads(rewards, codes)[1]
        for candidate in of_leads(rewards, codes):
            with_rewards = np.where(is_best, candidate.values, rewards)
            if not is_best.all():
                yield "lead.unmasked", self.on_rows(candidate._replace(values=with_rewards))
            factor = _factor(candidate.values[rollouts], advantages)
            if factor is not None:
                scaled = candidate._replace(values=factor * candidate.values, slack=factor * candidate.slack)
                yield "lead.scaled", self.on_rows(scaled)
        if len(rollouts) > len(rewards):
            for candidate in honest(rewards[rollouts], codes[rollouts], self.row_lengths):
                yield "fanout.counted", candidate
        if self.trained is not None and not self.trained.all():
            # their tokens may be out of a mean over tokens all the same
            trained = None if self.lengths is None else np.where(self.trained, self.lengths, 0.0)
            for lengths in (self.lengths, trained):
                for candidate in honest(rewards, codes, lengths):
                    yield "filtered.counted", self.on_rows(candidate)
        for merged in self.coarser:
            for candidate in honest(rewards, merged, self.lengths):
                yield "group.merged", self.on_rows(candidate)
        sizes = np.bincount(codes)
        if sizes.size and (sizes < sizes.max()).any():
            filling = np.repeat(np.arange(sizes.size), sizes.max() - sizes)
            filled = np.append(rewards, np.zeros(filling.size)), np.append(codes, filling)
            for candidate in relative(*filled):
                n = len(rewards)
                cut = candidate._replace(values=candidate.values[:n], slack=candidate.slack[:n])
                yield "padding.counted", self.on_rows(cut)
        for candidate in relative(rewards, codes):
            for again in (codes, np.zeros_like(codes)):
                for ddof in (1, 0):
                    values = of_groups(grpo, candidate.values, again, ddof=ddof)
                    yield "normalized.twice", self.on_rows(candidate._replace(values=values))
            if self.lengths is not None:
                for weights in (1 / self.lengths, self.lengths, self.lengths / self.lengths.mean()):
                    weighted = candidate._replace(
                        values=candidate.values * weights, slack=candidate.slack * weights
                    )
                    yield "length.weighted", self.on_rows(weighted)
        n = len(rewards)
        for size in (k for k in range(2, n // 2 + 1) if n % k == 0):
            pieces = np.unique(codes * n + np.arange(n) // size, return_inverse=True)[1]
            if pieces.max() > codes.max():
                for candidate in relative(rewards, pieces):
                    yield "group.split", self.on_rows(candidate)
        nothing = np.zeros(n)
        yield "group.lost", self.on_rows(Candidate("grpo", {}, nothing, nothing))
        yield "group.lost", self.on_rows(Candidate("grpo", {}, rewards / (1 + 1e-6), nothing))


def _factor(values: Floats, advantages: Floats) -> float | None:
    """By what the value that is furthest from 0 was multiplied; none if fewer than two are not 0, the sign
    differs, or nothing was."""
    sizes = np.abs(np.nan_to_num(values))
    if np.count_nonzero(sizes) < 2:
        return None  # one number is a multiple of any other
    at = int(sizes.argmax())
    if not np.isfinite(advantages[at]):
        return None
    factor = float(advantages[at] / values[at])
    return factor if factor > 0.0 and abs(factor - 1.0) > 1e-3 else None
