"""What is asked about one credit: its trace, those it was compared with, and the method's own rows."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from ...corpus.corpus import Corpus
from ...corpus.reward import Reward
from ...corpus.units import TraceEvents
from ..trace_graph import is_decision

_OF_TRACE: Final = (
    "broadcast",
    "grpo",
    "dr_grpo",
    "rloo",
    "pass_k",
    "reinforce_pp",
    "shape_normalised",
)
_OF_TURNS: Final = (
    "return_to_go",
    "gae",
    "sequential_gae",
    "eligibility",
    "dr_mas",
    "at_grpo",
    "magrpo",
    "marshal",
    "gigpo",
)


_OF_POLICY: Final = ("aristocrat", "coma")


@dataclass(frozen=True)
class Part:
    """A row of the method that the credit is made of."""

    seq: int
    other: str | None
    weight: float
    amount: float


@dataclass(frozen=True)
class Evidence:
    """One finding about a part."""

    kind: str
    rule: str
    weight: float | None
    amount: float | None
    seq: int | None = None
    other: str | None = None


Found = Iterator[Evidence]
Teller = Callable[[Part], Found]


@dataclass(frozen=True)
class Question:
    """The trace that is asked about, the traces it was compared with, and the method that ran.

    Many methods compare rewards only: `traces` makes those that it is asked for.
    """

    method: str
    params: dict[str, Any]
    corpus: Corpus
    reward: Reward
    number: int
    trace: TraceEvents
    traces: Mapping[int, TraceEvents]
    facts: dict[int, dict[str, Any]]
    values: list[float | None]
    fit: dict[str, Any]
    summary: str

    @property
    def amount(self) -> float:
        """Its reward."""
        return float(self.facts[self.number]["reward"])

    @cached_property
    def rollouts(self) -> dict[int, float]:
        """Rewards of the group's traces that have one, in corpus order."""
        return {n: float(fact["reward"]) for n, fact in self.facts.items() if fact["reward"] is not None}

    @property
    def by_events(self) -> bool:
        """Whether events are steps, where turns are by default."""
        return self.params.get("rows") == "events"

    def name(self, seq: int | None) -> str | None:
        """The id of an event of the trace."""
        return None if seq is None else self.trace.text("id", seq)

    def trace_id(self, number: int) -> str:
        """What another trace is called."""
        return str(self.facts[number]["trace_id"])

    def number_of(self, name: str, default: float) -> float:
        """A parameter that is a number."""
        value = self.params.get(name)
        return default if value is None else float(value)

    def label(self, row: Hashable) -> str | None:
        """What a row of the method is called, where that is not an event."""
        if self.method in _OF_TRACE:
            return self.trace_id(self.number)
        if self.method in _OF_TURNS and not self.by_events and isinstance(row, int):
            return self.trace.turns[row].unit_id
        if self.method == "sharp" and isinstance(row, str):
            return row
        if self.method == "spectrum" and isinstance(row, tuple):
            return ", ".join(str(word) for word in row if word is not None)
        return None


def own_rows(question: Question) -> list[Hashable | None]:
    """The row of the method that every event of the trace is in; None where it is in none."""
    trace, method = question.trace, question.method
    if method in _OF_TRACE:
        return [0] * len(trace)
    if method in _OF_TURNS and not question.by_events:
        return list(trace.turn_of)
    if method in _OF_POLICY:
        told = zip(trace.columns["action"], trace.columns["p_behavior"], strict=True)
        acts = [action is not None or p is not None for action, p in told]
        return [seq if acts[seq] and is_decision(trace, seq) else None for seq in range(len(trace))]
    if method == "sharp":
        return list(trace.owner)
    if method == "c3":
        return [seq if is_decision(trace, seq) else None for seq in range(len(trace))]
    if method == "spectrum":
        return classes_of(trace, question.params.get("by", "action"))
    return list(range(len(trace)))


def classes_of(trace: TraceEvents, by: str) -> list[Hashable | None]:
    """The class of every event that the spectrum counts."""
    kinds = trace.columns["type"]
    if by == "agent":
        return [None if owner is None else (owner,) for owner in trace.owner]
    if by == "message":
        sent = trace.units("message")
        text = [trace.text("content_hash", s) or trace.text("content_ref", s) for s in range(len(trace))]
        return [
            (text[s],) if sent[s] is not None and text[s] is not None else None for s in range(len(trace))
        ]
    return [
        None if owner is None else (kinds[seq], trace.text("tool", seq))
        for seq, owner in enumerate(trace.owner)
    ]
