"""Traces as a file in the Trace Event Format, for ui.perfetto.dev and chrome://tracing.

A trace is a process, an agent a row of it (several where its events overlap), an edge an arrow. Times are
microseconds; where a recording counts steps, a step is a second and ``otherData`` says so. Of several traces,
one whose edges close a cycle is a process without events whose label says why.

Source: Trace Event Format, Google, 2016.
"""

import json
from collections.abc import Iterator
from heapq import heappop, heappush
from typing import Any, Final

from ...corpus.corpus import Corpus
from ..drawing import Drawing, drawings, named, only
from ..format import VIEWER_BYTES, Export, Request, Sink

_MICROSECONDS: Final = 1e6
_DETAILS: Final = ("id", "slack", "critical", "source", "credit", "effect", "lower", "upper", "tier")
"""The details of an event, where known."""
# bytes of a record with names and numbers of one letter each; an edge has two records
_LEAST_OF_EVENT: Final = len('{"ph":"X","name":"a","cat":"a","ts":0.0,"dur":0.0,"pid":1,"tid":1,"args":{}},')
_LEAST_OF_EDGE: Final = 2 * len('{"name":"a","cat":"edge","id":0,"pid":1,"ph":"s","ts":0.0,"tid":1},')


def _write(corpus: Corpus, sink: Sink, request: Request) -> None:
    total = len(corpus)
    units: set[str] = set()
    process, flow, done = 0, 0, 0
    room = sink.room_for(_LEAST_OF_EVENT, _LEAST_OF_EDGE)
    sink.write(b'{"traceEvents":[')
    first = True
    for piece in corpus.slices():
        # a single trace has something to show, or is an error
        if total > 1:
            shown = drawings(piece, request, room)
        else:
            shown = iter([only(piece, request, room)] if len(piece) else [])
        for drawing in shown:
            process += 1
            # a trace without a schedule has no times in either unit
            units |= {drawing.unit} if drawing.events else set()
            for entry in _entries(drawing, process, flow):
                sink.write(("" if first else ",").encode() + _json(entry))
                first = False
            flow += len(drawing.edges)
        done += len(piece)
        request.report(done, total)
    time = {"seconds": "seconds", "steps": "one second is one step"}
    unit_names = " or ".join(time[unit] for unit in sorted(units)) or "seconds"
    sink.write(b'],"displayTimeUnit":"ms","otherData":' + _json({"time": unit_names}) + b"}")


def _json(value: object) -> bytes:
    # a file that somebody pastes into a page must not end its script
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c").encode()


def _entries(drawing: Drawing, process: int, flow: int) -> Iterator[dict[str, Any]]:
    """Records of one trace, which is a process whose threads are agents."""
    lanes = _lanes(drawing.events)
    numbers = {lane: n for n, lane in enumerate(sorted(set(lanes)), start=1)}
    yield _metadata(process, "process_name", {"name": drawing.trace_id})
    if drawing.reason is not None:
        yield _metadata(process, "process_labels", {"labels": f"no schedule: {drawing.reason}"})
    for (agent, row), number in numbers.items():
        yield _metadata(
            process, "thread_name", {"name": agent if not row else f"{agent} ({row + 1})"}, number
        )
    for event, lane in zip(drawing.events, lanes, strict=True):
        details = {name: event[name] for name in _DETAILS}
        yield {
            "ph": "X",
            "name": named(event),
            "cat": str(event["type"]) + (",critical" if event["critical"] else ""),
            "ts": event["start"] * _MICROSECONDS,
            "dur": (event["finish"] - event["start"]) * _MICROSECONDS,
            "pid": process,
            "tid": numbers[lane],
            "args": {name: value for name, value in details.items() if value is not None},
        }
    for number, (src, dst, kind) in enumerate(drawing.edges, start=flow):
        same = {"name": kind, "cat": "edge", "id": number, "pid": process}
        for phase, at in (("s", src), ("f", dst)):
            begin = {"ts": drawing.events[at]["start"] * _MICROSECONDS, "tid": numbers[lanes[at]]}
            yield {**same, "ph": phase, **({"bp": "e"} if phase == "f" else {}), **begin}


def _metadata(process: int, name: str, args: dict[str, str], thread: int | None = None) -> dict[str, Any]:
    place = {} if thread is None else {"tid": thread}
    return {"ph": "M", "name": name, "pid": process, **place, "args": args}


def _lanes(events: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """The agent of each event, and a lane of that agent in which nothing overlaps."""
    busy: dict[str, list[tuple[float, int]]] = {}
    idle: dict[str, list[int]] = {}
    lanes: list[tuple[str, int]] = [("", 0)] * len(events)
    for row in sorted(range(len(events)), key=lambda at: (events[at]["start"], events[at]["finish"], at)):
        agent, start, finish = (events[row][name] for name in ("agent", "start", "finish"))
        until, free = busy.setdefault(agent, []), idle.setdefault(agent, [])
        # starts ascend: a lane that is free once stays so until it is taken, and the first free one is
        while until and until[0][0] <= start:
            heappush(free, heappop(until)[1])
        lane = heappop(free) if free else len(until)
        heappush(until, (finish, lane))
        lanes[row] = (agent, lane)
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
