"""One trace for drawing: events with schedule, credits and effects, and edges."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl

from ..base.errors import ParameterError
from ..base.text import plain
from ..corpus.corpus import Corpus
from ..corpus.frames import collected
from ..schedules.scheduling import simulate
from .format import Request

CREDIT = ("trace", "seq", "credit")
EFFECT = ("trace", "unit_id", "effect", "lower", "upper", "tier")


@dataclass(frozen=True)
class Drawing:
    """A trace as a viewer shows it."""

    trace_id: str
    unit: str
    """``seconds`` or ``steps``."""
    events: list[dict[str, Any]]
    """In order of `seq`: what `simulate` says, ``id type agent tool``, and ``credit effect lower upper tier``
    where they are known."""
    edges: list[tuple[int, int, str]]
    """Ends as places in `events`; of several between the same ends the first."""
    reason: str | None = None
    """Why there is nothing to draw."""


class Annotations:
    """Credits and effects of single events, checked once and asked for trace by trace."""

    def __init__(self, request: Request) -> None:
        self._credits = event_credits(request.credits)
        self._effects = _effects(request.effects)

    def joined(self, events: pl.DataFrame) -> pl.DataFrame:
        """The events with their credits and effects."""
        events = events.join(self._credits, on=["trace", "seq"], how="left", maintain_order="left")
        return events.join(self._effects, on=["trace", "id"], how="left", maintain_order="left")


def drawings(
    corpus: Corpus, request: Request, expect: Callable[[int, int], None] | None = None
) -> Iterator[Drawing]:
    """The traces of a corpus in memory one by one, cut to the window that is asked for.

    `expect` hears how many events and edges a drawing will have, before it is made.
    """
    notes = Annotations(request)
    times = simulate(
        corpus,
        durations=request.durations,
        program_order=request.program_order,
        threads=request.threads,
    )
    texts = pl.col("type", "agent", "tool").cast(pl.String)
    events = corpus.events.select("trace", "seq", "id", texts).collect()
    events = notes.joined(events.join(times, on=["trace", "seq"], maintain_order="left"))
    edges = corpus.edges.select("trace", "src", "dst", pl.col("type").cast(pl.String)).collect()
    edges = edges.unique(["trace", "src", "dst"], maintain_order=True)
    events_of = {int(number): rows for (number,), rows in events.partition_by("trace", as_dict=True).items()}
    ends = {int(number): rows for (number,), rows in edges.partition_by("trace", as_dict=True).items()}
    traces = corpus.traces.select("trace", "trace_id").collect()
    for number, trace_id in traces.iter_rows():
        yield _drawing(
            trace_id, events_of.pop(number), ends.pop(number, edges.clear()), request.window, expect
        )


def _drawing(
    trace_id: str,
    events: pl.DataFrame,
    edges: pl.DataFrame,
    window: tuple[float, float] | None,
    expect: Callable[[int, int], None] | None,
) -> Drawing:
    if events["finish"].null_count():
        return Drawing(trace_id, "seconds", [], [], str(events["reason"][0]))
    unit = str(events["unit"][0])
    if window is not None:
        low, high = window
        events = events.filter(pl.col("finish") >= low, pl.col("start") <= high)
        edges = edges.join(events, left_on="src", right_on="seq", how="semi", maintain_order="left")
        edges = edges.join(events, left_on="dst", right_on="seq", how="semi", maintain_order="left")
    if expect is not None:
        expect(events.height, edges.height)
    place = {seq: at for at, seq in enumerate(events["seq"])}
    links = [
        (place[src], place[dst], kind) for src, dst, kind in edges.select("src", "dst", "type").iter_rows()
    ]
    return Drawing(trace_id, unit, events.drop("reason").to_dicts(), links)


def only(corpus: Corpus, request: Request, expect: Callable[[int, int], None] | None = None) -> Drawing:
    """The drawing of the one trace that a corpus has.

    Raises
    ------
    ParameterError
        Its edges close a cycle, so that it has no schedule, or nothing of it is in the window.
    """
    (drawing,) = drawings(corpus, request, expect)
    if drawing.reason is not None:
        raise ParameterError(f"the trace has no schedule ({drawing.reason})")
    if not drawing.events and request.window is not None:
        low, high = request.window
        raise ParameterError(f"no event of the trace is between {low:g} and {high:g} {drawing.unit}")
    return drawing


def named(event: dict[str, Any]) -> str:
    """The type of an event, with its tool."""
    return str(event["type"]) + (f" {event['tool']}" if event["tool"] is not None else "")


def label(event: dict[str, Any], unit: str) -> list[str]:
    """The lines that a node of a chart shows."""
    short = "s" if unit == "seconds" else "steps"
    lines = [f"{event['agent']}: {named(event)}", f"{event['duration']:g} {short}"]
    if event["credit"] is not None:
        lines.append(f"credit {event['credit']:.3g}")
    if event["effect"] is not None:
        lines.append(f"without it {event['effect']:+.3g}, {event['tier']}")
    return [plain(line) for line in lines]


def is_tight(drawing: Drawing, src: int, dst: int) -> bool:
    """Whether an edge is one of the critical path: its end begins when its source ends."""
    u, v = drawing.events[src], drawing.events[dst]
    return bool(u["critical"] and v["critical"] and u["finish"] == v["start"])


def event_credits(credits: pl.DataFrame | pl.LazyFrame | None) -> pl.DataFrame:
    """Credits of single events: ``trace seq credit``, an event once.

    Raises
    ------
    ParameterError
        A column is absent, or an event has two.
    """
    if credits is None:
        return pl.DataFrame(schema={"trace": pl.UInt32, "seq": pl.UInt32, "credit": pl.Float64})
    rows = collected(credits, "credits", CREDIT).select(CREDIT).drop_nulls("seq")
    if rows.select("trace", "seq").is_duplicated().any():
        raise ParameterError("an event has two credits: give the rows of one method at unit='event'")
    return rows


def _effects(effects: pl.DataFrame | pl.LazyFrame | None) -> pl.DataFrame:
    if effects is None:
        types = (pl.UInt32, pl.String, pl.Float64, pl.Float64, pl.Float64, pl.String)
        rows = pl.DataFrame(schema=dict(zip(EFFECT, types, strict=True)))
    else:
        rows = collected(effects, "effects", EFFECT).select(EFFECT).drop_nulls("unit_id")
    if rows.select("trace", "unit_id").is_duplicated().any():
        raise ParameterError("an event has two effects: give the rows of one replay of drop(each='event')")
    return rows.rename({"unit_id": "id"}).with_columns(pl.col("tier").cast(pl.String))
