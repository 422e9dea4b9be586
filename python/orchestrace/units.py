"""Which event belongs to which unit (ARCHITECTURE.md, D4 and D6), for what has to name the events of a unit.

The core divides millions of events by the same definitions; this is for traces that somebody looks at. Linear
in events and edges, some 10 µs each.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Final

import polars as pl

from .corpus import Corpus

# what units, turns and the rules of methods ask of an event
_COLUMNS: Final = (
    *("id", "t", "type", "agent", "to", "role", "tool", "turn", "tokens_out", "reward", "value", "score"),
    *("content_hash", "content_ref", "args_hash", "state_key", "prefix_key", "action", "p_behavior"),
)
_ORCHESTRATION = {"orchestrator_decision", "spawn", "despawn", "aggregate"}
_DELIVERED = {"message", "return", "spawn", "human_intervention"}


@dataclass(frozen=True)
class Turn:
    """One turn: its owner, its `unit_id` and its events in canonical order."""

    owner: str
    unit_id: str
    events: list[int]


@dataclass(frozen=True)
class TraceEvents:
    """Events of one trace by `seq`, edges, and what D1, D4 and D6 say of them."""

    columns: dict[str, list[object]]
    edges: list[tuple[int, int, str]]
    order: list[int]
    owner: list[str | None]
    call: list[int | None]

    @cached_property
    def role(self) -> dict[str, str | None]:
        """The role of every owner."""
        return _roles(self.columns, self.order, self.owner)

    @property
    def turns(self) -> list[Turn]:
        """Turns in order of their first event."""
        return self._divided[0]

    @property
    def turn_of(self) -> list[int | None]:
        """The place in `turns` of every event's turn."""
        return self._divided[1]

    @cached_property
    def _divided(self) -> tuple[list[Turn], list[int | None]]:
        return _turns(self.columns, self.order, self.owner, self.call)

    def __len__(self) -> int:
        return len(self.order)

    def text(self, name: str, seq: int) -> str | None:
        """A name or text of an event."""
        value = self.columns[name][seq]
        return None if value is None else str(value)

    def number(self, name: str, seq: int) -> float | None:
        """A number of an event."""
        value = self.columns[name][seq]
        return float(value) if isinstance(value, int | float) else None

    def units(self, unit: str) -> list[str | None]:
        """The `unit_id` of every event at a level."""
        ids = [self.text("id", seq) for seq in range(len(self))]
        if unit == "event":
            return ids
        if unit == "team":
            return ["team"] * len(self)
        if unit == "agent":
            return list(self.owner)
        if unit == "role":
            return [None if owner is None else self.role[owner] for owner in self.owner]
        if unit == "orchestrator":
            kinds = self.columns["type"]
            return [o if kind in _ORCHESTRATION else None for o, kind in zip(self.owner, kinds, strict=True)]
        if unit == "turn":
            return [None if turn is None else self.turns[turn].unit_id for turn in self.turn_of]
        if unit == "message":
            return [name if self._is_message(seq) else None for seq, name in enumerate(ids)]
        if unit == "token":
            return [
                name if (self.number("tokens_out", seq) or 0) > 0 else None for seq, name in enumerate(ids)
            ]
        return [self._tool(seq, ids) for seq in range(len(self))]

    def _is_message(self, seq: int) -> bool:
        owner, to = self.owner[seq], self.text("to", seq)
        kind = self.columns["type"][seq]
        return kind in ("message", "return") and owner is not None and to not in (None, owner, "user")

    def _tool(self, seq: int, ids: list[str | None]) -> str | None:
        kind = self.columns["type"][seq]
        if kind == "tool_call":
            return ids[seq]
        call = self.call[seq]
        return (ids[seq] if call is None else ids[call]) if kind == "tool_result" else None


def trace_events(columns: dict[str, list[object]], edges: list[tuple[int, int, str]]) -> TraceEvents:
    """Owners and calls of one trace, roles and turns when asked for.

    `columns` are in order of ``seq``, which begins at 0.
    """
    t = columns["t"]
    order = sorted(range(len(t)), key=lambda seq: (t[seq], seq))
    call = _calls(columns, edges, order)
    owner = _owners(columns, call)
    return TraceEvents(columns, edges, order, owner, call)


class TracesByNumber(Mapping[int, TraceEvents]):
    """Traces of a corpus by number, each made when it is asked for, and kept.

    The first one asked for costs some 20 ns per value of the corpus, to make lists of all columns.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._made: dict[int, TraceEvents] = {}

    @cached_property
    def _events(self) -> tuple[dict[str, list[Any]], dict[int, tuple[int, int]]]:
        return self._loaded(self._corpus.events, _COLUMNS, ["trace", "seq"])

    @cached_property
    def _edges(self) -> tuple[dict[str, list[Any]], dict[int, tuple[int, int]]]:
        return self._loaded(self._corpus.edges, ("src", "dst", "type"), ["trace"])

    @staticmethod
    def _loaded(
        table: pl.LazyFrame, names: tuple[str, ...], by: list[str]
    ) -> tuple[dict[str, list[Any]], dict[int, tuple[int, int]]]:
        """Columns as lists, and where the rows of each trace begin and end in them."""
        rows = table.select("trace", *(n for n in by if n not in names and n != "trace"), *names)
        frame = rows.collect(engine="streaming").sort(by, maintain_order=True)
        runs = frame["trace"].rle()
        ends = list(accumulate(runs.struct.field("len")))
        places = zip([0, *ends], ends, strict=False)
        own = dict(zip(map(int, runs.struct.field("value")), places, strict=True))
        return {name: frame[name].to_list() for name in names}, own

    def __getitem__(self, number: int) -> TraceEvents:
        if number not in self._made:
            columns, places = self._events
            start, end = places[number]
            own = {name: values[start:end] for name, values in columns.items()}
            ends, at = self._edges
            start, end = at.get(number, (0, 0))
            edges = list(zip(*(ends[name][start:end] for name in ("src", "dst", "type")), strict=True))
            self._made[number] = trace_events(own, edges)
        return self._made[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._events[1])

    def __len__(self) -> int:
        return len(self._events[1])


def _calls(
    columns: dict[str, list[object]], edges: list[tuple[int, int, str]], order: list[int]
) -> list[int | None]:
    kinds, tools = columns["type"], columns["tool"]
    place = {seq: at for at, seq in enumerate(order)}
    call: list[int | None] = [None] * len(order)
    for s, d, _ in edges:
        if kinds[s] == "tool_call" and kinds[d] == "tool_result":
            known = call[d]
            if known is None or place[known] < place[s]:
                call[d] = s
    latest: dict[object, int] = {}
    for seq in order:
        tool = tools[seq]
        if tool is None:
            continue
        if kinds[seq] == "tool_call":
            latest[tool] = seq
        elif kinds[seq] == "tool_result" and call[seq] is None:
            call[seq] = latest.get(tool)
    return call


def _owners(columns: dict[str, list[object]], call: list[int | None]) -> list[str | None]:
    agents, kinds = columns["agent"], columns["type"]
    acts = {agent for agent, kind in zip(agents, kinds, strict=True) if kind != "tool_result"}
    owner: list[str | None] = []
    for seq, (agent, kind) in enumerate(zip(agents, kinds, strict=True)):
        if kind == "human_intervention" or agent == "user":
            owner.append(None)
        elif kind == "tool_result" and agent not in acts:
            at = call[seq]
            owner.append(None if at is None or agents[at] == "user" else str(agents[at]))
        else:
            owner.append(str(agent))
    return owner


def _roles(
    columns: dict[str, list[object]], order: list[int], owner: list[str | None]
) -> dict[str, str | None]:
    own: dict[str, str | None] = {name: None for name in owner if name is not None}
    spawned = dict(own)
    for seq in order:
        kind, role = columns["type"][seq], columns["role"][seq]
        if role is None or kind == "despawn":
            continue
        name = columns["to"][seq] if kind == "spawn" else owner[seq]
        table = spawned if kind == "spawn" else own
        if (kind == "spawn" or owner[seq] == columns["agent"][seq]) and table.get(str(name), "") is None:
            table[str(name)] = str(role)
    return {name: role or spawned[name] for name, role in own.items()}


def _turns(
    columns: dict[str, list[object]], order: list[int], owner: list[str | None], call: list[int | None]
) -> tuple[list[Turn], list[int | None]]:
    kinds, addressed, recorded = columns["type"], columns["to"], columns["turn"]
    turns: list[Turn] = []
    turn_of: list[int | None] = [None] * len(order)
    opened: dict[str, int] = {}
    counts: dict[str, int] = {}
    numbered: dict[tuple[str, object], int] = {}
    received: set[str] = set()
    for seq in order:
        me, to = owner[seq], addressed[seq]
        if kinds[seq] in _DELIVERED and to is not None and to != me:
            received.add(str(to))
        if me is None:
            continue
        is_result = kinds[seq] == "tool_result"
        number, asked = recorded[seq], call[seq]
        if number is None and is_result and asked is not None and owner[asked] == me:
            number = recorded[asked]
        at = opened.get(me) if number is None else numbered.get((me, number))
        if at is None or (number is None and me in received and not is_result):
            at = len(turns)
            counts[me] = counts.get(me, 0) + 1
            label = f"+{counts[me]}" if number is None else str(number)
            turns.append(Turn(me, f"{me}/{label}", []))
            if number is not None:
                numbered[me, number] = at
        turns[at].events.append(seq)
        turn_of[seq] = at
        opened[me] = at
        # a result is received, whatever was received before it is still unanswered; the rest is the answer
        if is_result:
            received.add(me)
        else:
            received.discard(me)
    return turns, turn_of
