"""One trace as rows of a picture: an agent each, under the agent that spawned it, with times of events."""

from dataclasses import dataclass
from typing import Final

import polars as pl

from ..base.arguments import TraceName
from ..corpus.corpus import Corpus
from ..corpus.frames import one_trace
from ..corpus.owners import owners
from ..schedules.scheduling import MaxGap, simulate
from .canvas import duration, shown_names, time_scale
from .palette import KINDS

MOST_ROWS: Final = 40
"""Agents that have a row of their own."""
CARRIED: Final = ("message", "return", "aggregate")
"""Edges along which one agent informs another."""


@dataclass(frozen=True)
class TraceRows:
    """The rows, events and edges of a trace that a picture along time shows."""

    trace_id: str
    unit: str
    """``seconds`` or ``steps``."""
    scale: float
    """The divisor of the times of `events`."""
    axis: str
    """The name of that unit."""
    rows: list[str]
    """Names of the rows as they are shown, from the top."""
    owners: list[str | None]
    """Who each row is of; the last may be None: all others."""
    events: pl.DataFrame
    """``seq id type kind owner row tool tokens start finish critical``, times from 0, in order of start."""
    edges: pl.DataFrame
    """``src dst type`` as `seq`."""
    reason: str | None
    """Why there is no critical path."""
    n_agents: int
    parents: dict[str, tuple[str | None, str | None]]
    """Who spawned each owner, and the role of the owner; parents come first."""
    messages: dict[str, int]
    """How many messages and returns went between each owner and the one that spawned it."""
    across: int
    """How many went between other agents."""
    bystanders: frozenset[str]
    """Users and tools, which nobody spawned and which spawned nobody."""

    @property
    def span(self) -> float:
        """From the first begin to the last end, in seconds or steps."""
        last = self.events["finish"].max()
        return float(last) * self.scale if isinstance(last, float) else 0.0

    def text_of(self, time: float) -> str:
        """A time of the events as text for people."""
        return duration(time * self.scale, self.unit)


def trace_rows(corpus: Corpus, trace: TraceName, max_gap: MaxGap = "auto") -> TraceRows:
    """The rows of a trace, with recorded times and the critical path of what its events wait for."""
    (part,) = one_trace(corpus, trace).slices()
    trace_id = part.traces.select("trace_id").collect().item()
    texts = pl.col("type", "agent", "tool").cast(pl.String)
    events = part.events.select("trace", "seq", "id", "t", "t_end", "duration_s", "tokens", texts).collect()
    key = ["trace", "seq"]
    times = simulate(part, release="recorded", max_gap=max_gap).select(
        *key, "start", "finish", "unit", "reason"
    )
    path = simulate(part, max_gap=max_gap).select(*key, "critical")
    events = events.join(times, on=key, how="left", maintain_order="left")
    events = events.join(path, on=key, how="left", maintain_order="left")
    owned = owners(part).select(*key, pl.col("owner").cast(pl.String))
    events = events.join(owned, on=key, how="left", maintain_order="left")
    reason = None
    unit = "seconds"
    if events.height and events["unit"].null_count() < events.height:
        unit = str(events["unit"].drop_nulls()[0])
    if events["finish"].null_count():  # a cycle: the times that were recorded, and no path
        reason = str(events["reason"].drop_nulls()[0])
        start = pl.col("t") - pl.col("t").min()
        lasts = pl.coalesce("duration_s", pl.col("t_end") - pl.col("t"), 0.0).clip(lower_bound=0.0)
        events = events.with_columns(start=start, finish=start + lasts, critical=pl.lit(False))
    last = events["finish"].max()
    scale, axis = time_scale(float(last) if isinstance(last, float) else 0.0, unit)
    kinds = {kind: shown for kind, (shown, _) in KINDS.items()}
    events = events.with_columns(
        pl.col("start", "finish") / scale,
        owner=pl.coalesce("owner", "agent"),
        kind=pl.col("type").replace_strict(kinds, return_dtype=pl.String),
        critical=pl.col("critical").fill_null(False),
    )
    ordered, parents, bystanders = _ordered(part, events.sort("start", "seq"))
    shown, whose, row_of = _rows(ordered, events)
    events = events.with_columns(
        row=pl.col("owner").replace_strict(row_of, default=shown[-1] if shown else "", return_dtype=pl.String)
    )
    columns = ["seq", "id", "type", "kind", "owner", "row", "tool", "tokens", "start", "finish", "critical"]
    edges = (
        part.edges.select("src", "dst", pl.col("type").cast(pl.String)).collect().unique(maintain_order=True)
    )
    messages, across = _messages(edges, events, parents, bystanders)
    return TraceRows(
        trace_id,
        unit,
        scale,
        axis,
        shown,
        whose,
        events.select(columns).sort("start", "seq"),
        edges,
        reason,
        len(ordered),
        parents,
        messages,
        across,
        bystanders,
    )


def _ordered(
    corpus: Corpus, events: pl.DataFrame
) -> tuple[list[tuple[str, int]], dict[str, tuple[str | None, str | None]], frozenset[str]]:
    """Owners with their depth, each below the one that spawned it, else in order of the first event; the
    parent and role of each; and who of them is a user or a tool."""
    agents = corpus.agents.select(pl.col("agent", "parent", "role", "kind").cast(pl.String)).collect()
    relations = {name: (parent, role) for name, parent, role, _ in agents.iter_rows()}
    first = events["owner"].drop_nulls().unique(maintain_order=True).to_list()
    names = set(first)
    below: dict[str | None, list[str]] = {}
    for name in first:
        parent, _ = relations.get(name, (None, None))
        below.setdefault(parent if parent in names and parent != name else None, []).append(name)
    ordered: list[tuple[str, int]] = []
    parents: dict[str, tuple[str | None, str | None]] = {}

    def walk(root: str) -> None:
        stack: list[tuple[str, int, str | None]] = [(root, 0, None)]
        while stack:
            name, depth, parent = stack.pop()
            if name in parents:
                continue
            parents[name] = (parent, relations.get(name, (None, None))[1])
            ordered.append((name, depth))
            stack.extend((child, depth + 1, name) for child in reversed(below.get(name, [])))

    for name in below.get(None, []):
        walk(name)
    for name in first:  # agents that spawned each other in a circle have no root above them
        if name not in parents:
            walk(name)
    kin = {name for name, (parent, _) in parents.items() if parent is not None or below.get(name)}
    served = agents.filter(pl.col("kind").is_in(["user", "tool"]))["agent"]
    return ordered, parents, frozenset(served) - kin


def _messages(
    edges: pl.DataFrame,
    events: pl.DataFrame,
    parents: dict[str, tuple[str | None, str | None]],
    bystanders: frozenset[str],
) -> tuple[dict[str, int], int]:
    """Messages, returns and inputs of aggregates: of each owner and its parent, and between other agents."""
    owners_ = events.select("seq", "owner")
    between = (
        edges.filter(pl.col("type").is_in(CARRIED))
        .join(owners_, left_on="src", right_on="seq", maintain_order="left")
        .join(owners_, left_on="dst", right_on="seq", suffix="_to", maintain_order="left")
        .drop_nulls(["owner", "owner_to"])
        .filter(pl.col("owner") != pl.col("owner_to"))
    )
    messages: dict[str, int] = {}
    across = 0
    for source, target, number in between.group_by("owner", "owner_to").len().iter_rows():
        if parents[source][0] == target:
            messages[source] = messages.get(source, 0) + number
        elif parents[target][0] == source:
            messages[target] = messages.get(target, 0) + number
        elif not {source, target} & bystanders:
            across += number
    return messages, across


def _rows(
    ordered: list[tuple[str, int]], events: pl.DataFrame
) -> tuple[list[str], list[str | None], dict[str, str]]:
    """Names of rows, the owner of each row, and the row of each owner.

    Where there are too many owners, those with most time on the critical path, then most time, keep theirs.
    """
    many = len(ordered) > MOST_ROWS
    shown_owners = ordered
    if many:
        lasts = pl.col("finish") - pl.col("start")
        busy = events.group_by("owner", maintain_order=True).agg(
            critical=lasts.filter("critical").sum(), busy=lasts.sum()
        )
        busy = busy.drop_nulls("owner").sort("critical", "busy", descending=True, maintain_order=True)
        busiest = {ordered[0][0], *busy["owner"].head(MOST_ROWS - 2)}
        shown_owners = [entry for entry in ordered if entry[0] in busiest]
    names = shown_names([name for name, _ in shown_owners])
    shown = [nested(name, depth) for name, (_, depth) in zip(names, shown_owners, strict=True)]
    row_of = {name: row for (name, _), row in zip(shown_owners, shown, strict=True)}
    whose: list[str | None] = [name for name, _ in shown_owners]
    if many:
        rest = f"{len(ordered) - len(shown_owners):,} more agents"
        while rest in shown:  # an agent of this very name
            rest = f"({rest})"
        shown.append(rest)
        whose.append(None)
    return shown, whose, row_of


def nested(name: str, depth: int) -> str:
    """A name at a depth of a tree; leading blanks would not be shown."""
    return f"└{'─' * (min(depth, 6) - 1)} {name}" if depth else name
