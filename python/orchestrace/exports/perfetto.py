"""Traces as a file in the Trace Event Format, for ui.perfetto.dev and chrome://tracing.

Source: Trace Event Format, Google, 2016.
"""

import json
from collections.abc import Iterator
from typing import Any, Final

from ..corpus import Corpus
from .drawing import Drawing, drawings, named, only
from .format import VIEWER_BYTES, Export, Request, Sink

_MICROSECONDS: Final = 1e6
_SAID: Final = ("id", "slack", "critical", "source", "credit", "effect", "lower", "upper", "tier")
"""What is told of an event where it is known."""


def _write(corpus: Corpus, sink: Sink, request: Request) -> None:
    total = len(corpus)
    units: set[str] = set()
    process, flow, done = 0, 0, 0
    sink.write(b'{"traceEvents":[')
    first = True
    for piece in corpus.slices():
        # of a single trace there is something to show, or an error
        shown = drawings(piece, request) if total > 1 else [only(piece, request)] if len(piece) else []
        for drawing in shown:
            process += 1
            # what has no schedule has no times in either
            units |= {drawing.unit} if drawing.events else set()
            for entry in _entries(drawing, process, flow):
                sink.write(("" if first else ",").encode() + _json(entry))
                first = False
            flow += len(drawing.edges)
        done += len(piece)
        request.told(done, total)
    time = {"seconds": "seconds", "steps": "one second is one step"}
    said = " or ".join(time[unit] for unit in sorted(units)) or "seconds"
    sink.write(b'],"displayTimeUnit":"ms","otherData":' + _json({"time": said}) + b"}")


def _json(value: object) -> bytes:
    # a file that somebody pastes into a page must not end its script
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c").encode()


def _entries(drawing: Drawing, process: int, flow: int) -> Iterator[dict[str, Any]]:
    """Records of one trace, which is a process whose threads are agents."""
    lanes = _lanes(drawing.events)
    numbers = {lane: n for n, lane in enumerate(sorted(set(lanes)), start=1)}
    yield _told(process, "process_name", {"name": drawing.trace_id})
    if drawing.reason is not None:
        yield _told(process, "process_labels", {"labels": f"no schedule: {drawing.reason}"})
    for (agent, row), number in numbers.items():
        yield _told(process, "thread_name", {"name": agent if not row else f"{agent} ({row + 1})"}, number)
    for event, lane in zip(drawing.events, lanes, strict=True):
        said = {name: event[name] for name in _SAID}
        yield {
            "ph": "X",
            "name": named(event),
            "cat": str(event["type"]) + (",critical" if event["critical"] else ""),
            "ts": event["start"] * _MICROSECONDS,
            "dur": (event["finish"] - event["start"]) * _MICROSECONDS,
            "pid": process,
            "tid": numbers[lane],
            "args": {name: value for name, value in said.items() if value is not None},
        }
    for number, (src, dst, kind) in enumerate(drawing.edges, start=flow):
        same = {"name": kind, "cat": "edge", "id": number, "pid": process}
        for phase, at in (("s", src), ("f", dst)):
            begin = {"ts": drawing.events[at]["start"] * _MICROSECONDS, "tid": numbers[lanes[at]]}
            yield {**same, "ph": phase, **({"bp": "e"} if phase == "f" else {}), **begin}


def _told(process: int, name: str, args: dict[str, str], thread: int | None = None) -> dict[str, Any]:
    own = {} if thread is None else {"tid": thread}
    return {"ph": "M", "name": name, "pid": process, **own, "args": args}


def _lanes(events: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Of each event its agent, and a lane of it in which nothing overlaps."""
    busy: dict[str, list[float]] = {}
    lanes: list[tuple[str, int]] = [("", 0)] * len(events)
    for row in sorted(range(len(events)), key=lambda at: (events[at]["start"], events[at]["finish"], at)):
        agent, start, finish = (events[row][name] for name in ("agent", "start", "finish"))
        until = busy.setdefault(agent, [])
        free = next((lane for lane, end in enumerate(until) if end <= start), len(until))
        until[free : free + 1] = [finish]
        lanes[row] = (agent, free)
    return lanes


PERFETTO: Final = Export(
    "perfetto",
    "Trace Event Format: traces with their critical paths on a timeline",
    "ui.perfetto.dev, chrome://tracing",
    ".json",
    "traces",
    ("trace_id", "window", "credits", "effects", "durations", "program_order"),
    _write,
    max_bytes=VIEWER_BYTES,
)
