"""Terms of methods that weigh the alternatives in a context by the policy's probabilities."""

import math
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

import polars as pl

from ...corpus.corpus import Corpus
from ...corpus.reward import Reward, amounts
from ..policy_rows import after, decisions

POLICY: Final = ("aristocrat", "coma")

_Term = tuple[str, str, float, float]


class _Decision(NamedTuple):
    trace: int
    seq: int
    place: str
    action: str
    p: float
    amount: float


class PolicyRows:
    """Decisions of a group, as `aristocrat` and `coma` take them, and the terms of their values."""

    def __init__(self, corpus: Corpus, reward: Reward, method: str, params: dict[str, Any]) -> None:
        rewards = amounts(corpus, reward).select("trace", amount="reward")
        self._rows = decisions(corpus, rewards, params.get("context", "auto"))
        if params.get("critic") == "value":
            later = after(corpus, rewards)["after"].gather(self._rows["row"])
            self._rows = self._rows.with_columns(amount=later)
        self._table = method == "coma"

    def seqs(self, trace: int) -> set[int]:
        """Places of the events of a trace that are decisions."""
        return set(self._rows.filter(pl.col("trace") == trace)["seq"])

    @cached_property
    def _places(self) -> dict[str, list[_Decision]]:
        places: dict[str, list[_Decision]] = defaultdict(list)
        complete = self._rows.drop_nulls(["place", "action", "p", "amount"])
        for row in complete.select(_Decision._fields).iter_rows():
            decision = _Decision(*row)
            places[decision.place].append(decision)
        return places

    @cached_property
    def _of_event(self) -> dict[tuple[int, int], _Decision]:
        return {
            (decision.trace, decision.seq): decision
            for bucket in self._places.values()
            for decision in bucket
        }

    def terms(self, trace: int, seq: int) -> Iterator[_Term]:
        """The terms of the value of a decision: ``other rule weight amount``."""
        chosen = self._of_event[trace, seq]
        bucket = self._places[chosen.place]
        by_action: dict[str, list[_Decision]] = defaultdict(list)
        for decision in bucket:
            by_action[decision.action].append(decision)
        share = {
            action: math.fsum(decision.p for decision in rows) / len(rows)
            for action, rows in by_action.items()
        }
        total = math.fsum(share.values())
        outcomes = [decision.amount for decision in bucket]
        silent = len(by_action) > 1 and min(outcomes) == max(outcomes)
        return self._terms(chosen, by_action, {a: p / total for a, p in share.items()}, silent)

    def _terms(
        self, chosen: _Decision, by_action: dict[str, list[_Decision]], share: dict[str, float], silent: bool
    ) -> Iterator[_Term]:
        rule = (
            "amount = Q of the action - mean of Q over the policy's actions"
            if self._table
            else "amount = own outcome - the policy's expected outcome, from what other rollouts did instead"
        )
        for action, rows in by_action.items():
            if self._table or action == chosen.action:
                weight = (action == chosen.action) - share[action]
                used = rows if self._table else [chosen]
            else:
                weight, used = (
                    -share[action],
                    [decision for decision in rows if decision.trace != chosen.trace],
                )
            if not used:
                continue  # no other rollout took this action, which has the probability 0
            mean = math.fsum(decision.amount for decision in used) / len(used)
            label = f"{action}, p = {share[action]:.3g}, {len(used)} decisions"
            if action == chosen.action:
                label += ", this action"
            yield label, rule, 0.0 if silent else weight, mean
