"""Traces event by event, with owners, turns and units from the core.

For traces that somebody looks at: some 10 µs an event. Definitions: docs/reference/definitions.md, D4 to D6.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate
from typing import Any, Final

import polars as pl

from .. import _core
from .corpus import Corpus

# what units, turns and the rules of methods ask of an event
_COLUMNS: Final = (
    *("id", "t", "type", "agent", "to", "role", "tool", "turn", "tokens_out", "reward", "value", "score"),
    *("content_hash", "content_ref", "args_hash", "state_key", "prefix_key", "action", "p_behavior"),
)
_OWNED: Final = ("owner", "owner_role", "call", "turn_place", "is_outcome")


@dataclass(frozen=True)
class Turn:
    """One turn: its owner, its `unit_id` and its events in canonical order."""

    owner: str
    unit_id: str
    events: list[int]


@dataclass(frozen=True)
class TraceEvents:
    """Events of one trace by `seq`, edges, and what D1 and D4 to D6 define for them."""

    columns: dict[str, list[Any]]
    edges: list[tuple[int, int, str]]
    ids: Callable[[str], list[str | None]]

    @cached_property
    def order(self) -> list[int]:
        """Canonical order (D1)."""
        t = self.columns["t"]
        return sorted(range(len(t)), key=lambda seq: (t[seq], seq))

    @property
    def owner(self) -> list[str | None]:
        """The owner of every event."""
        return self.columns["owner"]

    @property
    def call(self) -> list[int | None]:
        """Of every tool result the call that it answers."""
        return self.columns["call"]

    @property
    def turn_of(self) -> list[int | None]:
        """The place in `turns` of every event's turn."""
        return self.columns["turn_place"]

    @cached_property
    def role(self) -> dict[str, str | None]:
        """The role of every owner."""
        roles = zip(self.owner, self.columns["owner_role"], strict=True)
        return {owner: role for owner, role in roles if owner is not None}

    @cached_property
    def outcome(self) -> int | None:
        """The event that the team is paid for; None where there is none, or where it is not known."""
        return next((seq for seq, is_it in enumerate(self.columns["is_outcome"]) if is_it), None)

    @cached_property
    def turns(self) -> list[Turn]:
        """Turns in order of their first event."""
        names, turns = self.units("turn"), dict[int, Turn]()
        for seq in self.order:
            place = self.turn_of[seq]
            if place is not None:
                turn = Turn(str(self.owner[seq]), str(names[seq]), [])
                turns.setdefault(place, turn).events.append(seq)
        return [turns[place] for place in sorted(turns)]

    def __len__(self) -> int:
        return len(self.columns["t"])

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
        return self.ids(unit)


class TracesByNumber(Mapping[int, TraceEvents]):
    """Traces of a corpus by number, each made when it is asked for, and kept.

    The first one asked for costs some 20 ns per value of the corpus, to make lists of all columns; so does
    the first question about a level of units.
    """

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._made: dict[int, TraceEvents] = {}
        self._levels: dict[str, list[str | None]] = {}

    @cached_property
    def _events(self) -> tuple[dict[str, list[Any]], dict[int, tuple[int, int]]]:
        ownership = self._run_kernel(_core.ownership).rename({"role": "owner_role", "turn": "turn_place"})
        events = self._corpus.events.select("trace", "seq", *_COLUMNS)
        events = events.join(ownership.lazy(), on=["trace", "seq"], how="left", maintain_order="left")
        return self._loaded(events, (*_COLUMNS, *_OWNED), ["trace", "seq"])

    def _run_kernel(self, kernel: Callable[..., Any], *options: str) -> pl.DataFrame:
        """The table that a kernel of the core computes from the events of all pieces."""
        return pl.concat(pl.DataFrame(kernel(load()._store, *options)) for _, load in self._corpus.pieces())

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
        bounds = dict(zip(map(int, runs.struct.field("value")), places, strict=True))
        return {name: frame[name].to_list() for name in names}, bounds

    def _ids(self, number: int, unit: str) -> list[str | None]:
        if unit not in self._levels:
            frame = self._run_kernel(_core.unit_ids, unit)
            self._levels[unit] = frame.sort("trace", "seq", maintain_order=True)["unit_id"].to_list()
        start, end = self._events[1][number]
        return self._levels[unit][start:end]

    def __getitem__(self, number: int) -> TraceEvents:
        if number not in self._made:
            columns, places = self._events
            start, end = places[number]
            sliced = {name: values[start:end] for name, values in columns.items()}
            ends, at = self._edges
            start, end = at.get(number, (0, 0))
            edges = list(zip(*(ends[name][start:end] for name in ("src", "dst", "type")), strict=True))
            self._made[number] = TraceEvents(sliced, edges, partial(self._ids, number))
        return self._made[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._events[1])

    def __len__(self) -> int:
        return len(self._events[1])
