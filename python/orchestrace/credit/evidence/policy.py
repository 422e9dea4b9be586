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
    """Decisions of a group, as `aristocrat` and `coma` take them, and what their values are made of."""

    def __init__(self, corpus: Corpus, reward: Reward, method: str, params: dict[str, Any]) -> None:
        rewards = amounts(corpus, reward).select("trace", amount="reward")
        self._rows = decisions(corpus, rewards, params.get("context", "auto"))
        if params.get("critic") == "value":
            later = after(corpus, rewards)["after"].gather(self._rows["row"])
            self._rows = self._rows.with_columns(amount=later)
        self._table = method == "coma"

    def seqs(self, trace: int) -> set[int]:
        """Events of a trace that are rows."""
        return set(self._rows.filter(pl.col("trace") == trace)["seq"])

    @cached_property
    def _places(self) -> dict[str, list[_Decision]]:
        places: dict[str, list[_Decision]] = defaultdict(list)
        known = self._rows.drop_nulls(["place", "action", "p", "amount"])
        for row in known.select(_Decision._fields).iter_rows():
            made = _Decision(*row)
            places[made.place].append(made)
        return places

    @cached_property
    def _of_event(self) -> dict[tuple[int, int], _Decision]:
        return {(one.trace, one.seq): one for made in self._places.values() for one in made}

    def terms(self, trace: int, seq: int) -> Iterator[_Term]:
        """What the value of a decision is made of: ``other rule weight amount``."""
        own = self._of_event[trace, seq]
        bucket = self._places[own.place]
        made: dict[str, list[_Decision]] = defaultdict(list)
        for one in bucket:
            made[one.action].append(one)
        share = {action: math.fsum(one.p for one in rows) / len(rows) for action, rows in made.items()}
        whole = math.fsum(share.values())
        found = [one.amount for one in bucket]
        silent = len(made) > 1 and min(found) == max(found)
        return self._terms(own, made, {a: p / whole for a, p in share.items()}, silent)

    def _terms(
        self, own: _Decision, made: dict[str, list[_Decision]], share: dict[str, float], silent: bool
    ) -> Iterator[_Term]:
        rule = (
            "amount = Q of the action - mean of Q over the policy's actions"
            if self._table
            else "amount = own outcome - the policy's expected outcome, from what other rollouts did instead"
        )
        for action, rows in made.items():
            if self._table or action == own.action:
                weight = (action == own.action) - share[action]
                used = rows if self._table else [own]
            else:
                weight, used = -share[action], [one for one in rows if one.trace != own.trace]
            if not used:
                continue  # an action of no probability that nobody else took
            mean = math.fsum(one.amount for one in used) / len(used)
            told = f"{action}, p = {share[action]:.3g}, {len(used)} decisions"
            if action == own.action:
                told += ", this action"
            yield told, rule, 0.0 if silent else weight, mean
