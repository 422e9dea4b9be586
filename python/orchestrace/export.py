"""One trace for other people's viewers: Chrome and Perfetto trace files, Mermaid flowcharts."""

import json
import os
from pathlib import Path
from typing import Any, Literal

import polars as pl

from . import _core
from .agreement import check_corpus, collected
from .corpus import Corpus
from .errors import InputError, ParameterError
from .schedule import Durations, schedule
from .schema import unknown_name

_MICROSECONDS = 1e6
_SAID = ("id", "slack", "critical", "source", "credit", "effect", "lower", "upper", "tier")
"""What is told of an event where it is known."""


def export(
    corpus: Corpus,
    format: Literal["perfetto", "mermaid"],
    path: str | os.PathLike[str],
    *,
    trace_id: str | None = None,
    credits: pl.DataFrame | pl.LazyFrame | None = None,
    effects: pl.DataFrame | pl.LazyFrame | None = None,
    durations: Durations = "auto",
    program_order: bool = False,
    max_bytes: int = 64 << 20,
) -> int:
    """Write one trace with its critical path as a trace file or a flowchart.

    Parameters
    ----------
    corpus
        The recordings.
    format
        ``perfetto``: JSON in the Trace Event Format, for ui.perfetto.dev and chrome://tracing. A row of the
        timeline is an agent, several where its events overlap; arrows are edges; the category ``critical``
        marks the critical path. ``mermaid``: a flowchart, the critical path in thick arrows and its own
        class.
    path
        The file, which is replaced.
    trace_id
        Which trace; None takes the only one.
    credits
        Rows of `credit` at unit ``event``, of one method: ``trace seq credit``. Shown with every event.
    effects
        Rows of `replay` for ``drop(each="event")``: ``trace unit_id effect lower upper tier``. Shown with
        every event, beside what they rest on.
    durations, program_order
        As in `schedule`, whose earliest times are drawn.
    max_bytes
        Nothing is written above this size; the error says how large the file would be.

    Returns
    -------
    int
        Bytes written.

    Raises
    ------
    ParameterError
        Unknown format or trace, a trace whose edges close a cycle, two credits or effects of one event, or a
        file that would be too large.
    InputError
        The file cannot be written.

    Notes
    -----
    Perfetto counts in microseconds; where a recording has steps, a step is drawn as a second and
    ``otherData`` says so. O(events + edges). Source: Trace Event Format, Google, 2016; Mermaid, syntax of
    flowcharts.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import orchestrace as ot
    >>> path = tempfile.mkdtemp() + "/trace.json"
    >>> corpus = ot.generate(traces=1, seed=0)
    >>> effects = ot.replay(corpus, ot.drop(each="event"))
    >>> written = ot.export(corpus, "perfetto", path, effects=effects)
    >>> sorted(json.loads(pathlib.Path(path).read_text()))
    ['displayTimeUnit', 'otherData', 'traceEvents']
    """
    check_corpus(corpus)
    if format not in ("perfetto", "mermaid"):
        raise ParameterError(unknown_name("format", str(format), ["perfetto", "mermaid"]))
    if not isinstance(path, str | os.PathLike):
        raise ParameterError(f"path is of type {type(path).__name__}, expected the name of a file")
    one = _only(corpus, trace_id)
    events = one.events.select(
        "trace", "seq", "id", pl.col("type", "agent", "tool").cast(pl.String)
    ).collect()
    times = schedule(one, durations=durations, program_order=program_order)
    if times["finish"].null_count():
        raise ParameterError(f"the trace has no schedule ({times['reason'][0]})")
    events = events.join(times.drop("reason"), on=["trace", "seq"], maintain_order="left")
    events = events.join(_credits(credits), on=["trace", "seq"], how="left", maintain_order="left")
    events = events.join(_effects(effects), on=["trace", "id"], how="left", maintain_order="left")
    edges = one.edges.select("src", "dst", pl.col("type").cast(pl.String)).collect()
    edges = edges.unique(["src", "dst"], maintain_order=True)
    text = _perfetto(events, edges) if format == "perfetto" else _mermaid(events, edges)
    data = text.encode()
    if len(data) > max_bytes:
        raise ParameterError(f"the file would have {len(data):,} bytes: pass max_bytes={len(data)}")
    try:
        return Path(path).write_bytes(data)
    except OSError as error:
        raise InputError(f"{os.fspath(path)}: {error.strerror or error}") from error


def _only(corpus: Corpus, trace_id: str | None) -> Corpus:
    """The trace that is asked for, in memory."""
    if trace_id is not None:
        corpus = named_trace(corpus, trace_id)
    elif (count := len(corpus)) != 1:
        raise ParameterError(f"the corpus has {count:,} traces, expected one: name its trace_id")
    return next(piece for _, load in corpus.pieces() if len(piece := load()))


def named_trace(corpus: Corpus, trace_id: str) -> Corpus:
    """The corpus of the one trace with this id.

    Raises
    ------
    ParameterError
        No trace has it, or several have.
    """
    if not isinstance(trace_id, str):
        raise ParameterError(f"trace_id is {trace_id!r}, expected the name of a trace")
    found = corpus.filter(pl.col("trace_id") == trace_id)
    if (count := len(found)) == 1:
        return found
    if count:
        raise ParameterError(f"trace_id '{trace_id}' has {count:,} traces, expected one")
    known = corpus.traces.select("trace_id").collect(engine="streaming")["trace_id"].to_list()
    nearest = _core.nearest(trace_id, known)
    hint = f"; did you mean '{nearest}'?" if nearest else ""
    raise ParameterError(f"no trace has the trace_id '{trace_id}'{hint} ({len(known):,} are known)")


def _credits(credits: pl.DataFrame | pl.LazyFrame | None) -> pl.DataFrame:
    if credits is None:
        return pl.DataFrame(schema={"trace": pl.UInt32, "seq": pl.UInt32, "credit": pl.Float64})
    rows = collected(credits, "credits", ("trace", "seq", "credit")).select("trace", "seq", "credit")
    rows = rows.drop_nulls("seq")
    if rows.select("trace", "seq").is_duplicated().any():
        raise ParameterError("an event has two credits: give the rows of one method at unit='event'")
    return rows


def _effects(effects: pl.DataFrame | pl.LazyFrame | None) -> pl.DataFrame:
    names = ("trace", "unit_id", "effect", "lower", "upper", "tier")
    if effects is None:
        types = (pl.UInt32, pl.String, pl.Float64, pl.Float64, pl.Float64, pl.String)
        rows = pl.DataFrame(schema=dict(zip(names, types, strict=True)))
    else:
        rows = collected(effects, "effects", names).select(names).drop_nulls("unit_id")
    if rows.select("trace", "unit_id").is_duplicated().any():
        raise ParameterError("an event has two effects: give the rows of one replay of drop(each='event')")
    return rows.rename({"unit_id": "id"}).with_columns(pl.col("tier").cast(pl.String))


def _lanes(events: pl.DataFrame) -> list[tuple[str, int]]:
    """Of each event its agent, and a lane of it in which nothing overlaps."""
    busy: dict[str, list[float]] = {}
    lanes: list[tuple[str, int]] = [("", 0)] * events.height
    order = events.with_row_index("row").sort("start", "finish", "row")
    for row, agent, start, finish in order.select("row", "agent", "start", "finish").iter_rows():
        until = busy.setdefault(agent, [])
        free = next((lane for lane, end in enumerate(until) if end <= start), len(until))
        until[free : free + 1] = [finish]
        lanes[row] = (agent, free)
    return lanes


def _name(event: dict[str, Any]) -> str:
    return str(event["type"]) + (f" {event['tool']}" if event["tool"] is not None else "")


def _perfetto(events: pl.DataFrame, edges: pl.DataFrame) -> str:
    lanes = _lanes(events)
    numbers = {lane: n for n, lane in enumerate(sorted(set(lanes)), start=1)}
    out: list[dict[str, Any]] = [
        {
            "ph": "M",
            "name": "thread_name",
            "pid": 1,
            "tid": number,
            "args": {"name": agent if not lane else f"{agent} ({lane + 1})"},
        }
        for (agent, lane), number in numbers.items()
    ]
    rows = events.to_dicts()
    for event, lane in zip(rows, lanes, strict=True):
        said = {name: event[name] for name in _SAID}
        out.append(
            {
                "ph": "X",
                "name": _name(event),
                "cat": str(event["type"]) + (",critical" if event["critical"] else ""),
                "ts": event["start"] * _MICROSECONDS,
                "dur": (event["finish"] - event["start"]) * _MICROSECONDS,
                "pid": 1,
                "tid": numbers[lane],
                "args": {name: value for name, value in said.items() if value is not None},
            }
        )
    for number, (src, dst, kind) in enumerate(edges.iter_rows()):
        flow = {"name": kind, "cat": "edge", "id": number, "pid": 1}
        end = {**flow, "ph": "f", "bp": "e", "ts": rows[dst]["start"] * _MICROSECONDS}
        out.append({**flow, "ph": "s", "ts": rows[src]["start"] * _MICROSECONDS, "tid": numbers[lanes[src]]})
        out.append({**end, "tid": numbers[lanes[dst]]})
    unit = "one second is one step" if events["unit"][0] == "steps" else "seconds"
    document = {"traceEvents": out, "displayTimeUnit": "ms", "otherData": {"time": unit}}
    return json.dumps(document, separators=(",", ":"))


def _escaped(text: str) -> str:
    """Text of a label: whatever could mean something to Mermaid or to HTML as the number of its character."""
    return "".join(c if c.isalnum() or c in " _-." else f"#{ord(c)};" for c in text)


def _mermaid(events: pl.DataFrame, edges: pl.DataFrame) -> str:
    unit = "s" if events["unit"][0] == "seconds" else "steps"
    lines = ["flowchart LR"]
    rows = events.to_dicts()
    for event in rows:
        parts = [f"{event['agent']}: {_name(event)}", f"{event['duration']:g} {unit}"]
        if event["credit"] is not None:
            parts.append(f"credit {event['credit']:.3g}")
        if event["effect"] is not None:
            parts.append(f"without it {event['effect']:+.3g}, {event['tier']}")
        label = "<br/>".join(_escaped(part) for part in parts)
        mark = ":::critical" if event["critical"] else ""
        lines.append(f'  n{event["seq"]}["{label}"]{mark}')
    for src, dst, _ in edges.iter_rows():
        u, v = rows[src], rows[dst]
        tight = u["critical"] and v["critical"] and u["finish"] == v["start"]
        lines.append(f"  n{src} {'==>' if tight else '-->'} n{dst}")
    lines.append("  classDef critical stroke:#d55e00,stroke-width:3px")
    return "\n".join(lines) + "\n"
