"""Rules of turns that are paid one by one: what an audit tries where a rollout has a row for each turn."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from .rules import Candidate, Codes, Flags, Floats, relative


class Turns:
    """One step of a trainer whose rows are turns.

    Parameters
    ----------
    rewards
        (rows,), what a turn earned; NaN counts as 0.
    codes, rollouts
        (rows,), the group and the rollout of each.
    ordinals
        (rows,), numbers that grow from turn to turn of a rollout.
    """

    def __init__(self, rewards: Floats, codes: Codes, rollouts: Codes, ordinals: Floats) -> None:
        self.rewards = np.nan_to_num(rewards)
        self.codes, self.rollouts = codes, rollouts
        self._order = np.lexsort((ordinals, rollouts))
        self.paid = np.bincount(rollouts, ~np.isnan(rewards))[rollouts] > 0

    @cached_property
    def _place(self) -> Codes:
        """The turn of a rollout that each row is, from 0 on."""
        sizes = np.bincount(self.rollouts)
        begins = np.repeat(np.cumsum(sizes) - sizes, sizes)
        place = np.empty(len(self.rewards), np.int64)
        place[self._order] = np.arange(len(place)) - begins
        return place

    @cached_property
    def _by_turn(self) -> Codes:
        """The turns of one place in one group."""
        n = int(self._place.max(initial=0)) + 1
        codes: Codes = np.unique(self.codes * n + self._place, return_inverse=True)[1].astype(np.int64)
        return codes

    def to_go(self, values: Floats) -> Floats:
        """The sum of values from each turn on."""
        ordered = values[self._order][::-1]
        sums = np.cumsum(ordered)
        lasts = np.flatnonzero(np.diff(self.rollouts[self._order][::-1], prepend=-1))
        sizes = np.diff(np.append(lasts, len(ordered)))
        before = np.repeat(sums[lasts] - ordered[lasts], sizes)
        out = np.empty_like(values)
        out[self._order] = (sums - before)[::-1]
        return out

    def rules(self) -> Iterator[Candidate]:
        """What rules of turns give, and rules of rollouts, whose value each turn has."""
        returns = self.to_go(self.rewards)
        largest = np.full(len(returns), 2.0**-20 * np.abs(returns).max(initial=0.0))
        yield Candidate("return_to_go", {"gamma": 1.0}, returns, largest)
        for candidate in relative(returns, self._by_turn):
            yield _named(candidate, {"dr_grpo": "magrpo", "rloo": "magrpo", "grpo": "at_grpo"}, of="returns")
        for candidate in relative(returns, self.codes):
            yield _named(candidate, dict.fromkeys(("dr_grpo", "rloo", "grpo"), "marshal"), of="returns")
        for candidate in relative(self.rewards, self._by_turn):
            yield _named(candidate, dict.fromkeys(("dr_grpo", "rloo", "grpo"), "at_grpo"), of="turns")
        n = int(self.rollouts.max(initial=-1)) + 1
        groups = np.empty(n, np.int64)
        groups[self.rollouts] = self.codes
        for candidate in relative(np.bincount(self.rollouts, self.rewards).astype(np.float64), groups):
            yield candidate._replace(
                values=candidate.values[self.rollouts], slack=candidate.slack[self.rollouts]
            )

    def excuses(self, _advantages: Floats) -> Iterator[tuple[str, Flags]]:
        """None is known of single groups of turns."""
        yield from ()

    def suspects(self, _advantages: Floats) -> Iterator[tuple[str, Candidate]]:
        """What each fault would give the turns."""
        for candidate in relative(self.rewards, self._by_turn):
            values, slack = self.to_go(candidate.values), self.to_go(candidate.slack)
            named = _named(candidate, dict.fromkeys(("dr_grpo", "rloo", "grpo"), "at_grpo"), of="turns")
            yield "turn.index", named._replace(values=values, slack=slack)
        for candidate in relative(self.rewards, self.codes):
            named = _named(candidate, dict.fromkeys(("dr_grpo", "rloo", "grpo"), "at_grpo"), of="turns")
            yield "fanout.counted", named
        for candidate in self.rules():
            yield "sign.flipped", candidate._replace(values=-candidate.values)


def _named(candidate: Candidate, names: dict[str, str], of: str) -> Candidate:
    """By the method of turns that the rule is; what it compares, and how, stand in its variant."""
    params = {"of": of, "as": candidate.rule, **candidate.params}
    return candidate._replace(rule=names[candidate.rule], params=params)
