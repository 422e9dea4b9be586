"""Spans of kagent in the containers of other tools: the events are those of the original but for names.

The source's texts are data that models and users wrote; nothing of them is kept here.
"""

import base64
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import orchestrace as ot
from samples.inputs import documents, trace_ids

FILES = {"helm.json": 96, "helm_3.json": 125, "tempo_export_with_batches.json": 86}
"""Spans of each file."""

STATUSES = {1: False, 2: True, "STATUS_CODE_OK": False, "STATUS_CODE_ERROR": True}
"""Whether a span failed, by its status."""

NAMES = {"agent", "from", "to"}
"""Who worked: a container without resources does not say which service did."""


@dataclass
class Span:
    """A span in plain Python."""

    trace: str
    id: str
    parent: str | None
    name: str
    start: int
    end: int
    failed: bool | None
    attributes: dict[str, Any]
    events: list[tuple[str, int, dict[str, Any]]]


def value(typed: dict[str, Any]) -> Any:
    """What a typed value stands for."""
    ((kind, inner),) = typed.items()
    if kind == "arrayValue":
        return [value(element) for element in inner.get("values", [])]
    if kind == "kvlistValue":
        return {pair["key"]: value(pair["value"]) for pair in inner.get("values", [])}
    return int(inner) if kind == "intValue" else inner


def members(pairs: list[dict[str, Any]]) -> dict[str, Any]:
    """Attributes as an object."""
    return {pair["key"]: value(pair["value"]) for pair in pairs if pair["value"]}


def digits(text: str, length: int) -> str:
    """An id in hexadecimal digits, whichever way it is spelt."""
    return text if len(text) == length else base64.b64decode(text).hex()


def of_tempo(document: dict[str, Any]) -> list[Span]:
    """The spans of an answer of Tempo, which is OTLP."""
    return [
        Span(
            digits(span["traceId"], 32),
            digits(span["spanId"], 16),
            digits(span["parentSpanId"], 16) if span.get("parentSpanId") else None,
            span["name"],
            int(span["startTimeUnixNano"]),
            int(span["endTimeUnixNano"]),
            STATUSES.get(span.get("status", {}).get("code")),
            members(span.get("attributes", [])),
            [
                (event["name"], int(event["timeUnixNano"]), members(event.get("attributes", [])))
                for event in span.get("events", [])
            ],
        )
        for batch in document["batches"]
        for scope in batch.get("scopeSpans") or batch["instrumentationLibrarySpans"]
        for span in scope["spans"]
    ]


def of_jaeger(document: dict[str, Any]) -> list[Span]:
    """The spans of an answer of Jaeger."""

    def one(span: dict[str, Any]) -> Span:
        tags = {tag["key"]: tag["value"] for tag in span["tags"]}
        parents = [above["spanID"] for above in span["references"] if above["refType"] == "CHILD_OF"]
        failed = tags.pop("error", None) or tags.get("otel.status_code") == "ERROR"
        passed = tags.pop("otel.status_code", None) == "OK"
        logs = [
            ({field["key"]: field["value"] for field in log["fields"]}, log["timestamp"])
            for log in span["logs"]
        ]
        return Span(
            span["traceID"],
            span["spanID"],
            parents[0] if parents else None,
            span["operationName"],
            span["startTime"] * 1000,
            (span["startTime"] + span["duration"]) * 1000,
            True if failed else False if passed else None,
            tags,
            [(said.pop("event", ""), time * 1000, said) for said, time in logs],
        )

    return [one(span) for trace in document["data"] for span in trace["spans"]]


def spans(path: Path) -> list[Span]:
    """The spans of a file."""
    document = json.loads(path.read_bytes())
    return of_jaeger(document) if "data" in document else of_tempo(document)


def mlflow(source: list[Span]) -> list[Any]:
    """One document, ids in base64, every attribute as JSON in a text."""

    def packed(text: str) -> str:
        return base64.b64encode(bytes.fromhex(text)).decode()

    def one(span: Span) -> dict[str, Any]:
        named = {"mlflow.traceRequestId": f"tr-{span.trace}"} | span.attributes
        status = {None: "UNSET", False: "OK", True: "ERROR"}[span.failed]
        return {
            "trace_id": packed(span.trace),
            "span_id": packed(span.id),
            "parent_span_id": packed(span.parent) if span.parent else None,
            "name": span.name,
            "start_time_unix_nano": span.start,
            "end_time_unix_nano": span.end,
            "status": {"code": f"STATUS_CODE_{status}", "message": ""},
            "attributes": {key: json.dumps(said) for key, said in named.items()},
            "events": [
                {"name": name, "time_unix_nano": time, "attributes": said} for name, time, said in span.events
            ],
            "links": [],
        }

    sizes = json.dumps({"num_spans": len(source)})
    info = {
        "trace_id": f"tr-{source[0].trace}",
        "state": "OK",
        "trace_metadata": {"mlflow.trace.sizeStats": sizes},
    }
    return [{"info": info, "data": {"spans": [one(span) for span in source]}}]


def opik(source: list[Span]) -> list[Any]:
    """One export, attributes in the metadata; the trace states how many spans it has, and no usage."""

    def time(nanos: int) -> str:
        return f"{np.datetime64(nanos, 'ns')}Z"

    def one(span: Span) -> dict[str, Any]:
        raised = [said for name, _, said in span.events if name == "exception"]
        error = {"exception_type": raised[0]["exception.type"] if raised else "", "traceback": ""}
        return {
            "id": span.id,
            "trace_id": span.trace,
            "parent_span_id": span.parent,
            "name": span.name,
            "type": "general",
            "start_time": time(span.start),
            "end_time": time(span.end),
            "input": None,
            "output": None,
            "metadata": span.attributes,
            "usage": None,
            "error_info": error if span.failed else None,
        }

    trace = {
        "id": source[0].trace,
        "name": "kagent",
        "start_time": time(min(span.start for span in source)),
        "end_time": time(max(span.end for span in source)),
        "span_count": len(source),
    }
    return [{"trace": trace, "spans": [one(span) for span in source], "project_name": "p"}]


def phoenix(source: list[Span]) -> list[Any]:
    """A row per span, attributes as members of their own."""

    def one(span: Span) -> dict[str, Any]:
        return {
            "name": span.name,
            "span_kind": "UNKNOWN",
            "parent_id": span.parent,
            "start_time": f"{np.datetime64(span.start, 'ns')}Z",
            "end_time": f"{np.datetime64(span.end, 'ns')}Z",
            "status_code": {None: "UNSET", False: "OK", True: "ERROR"}[span.failed],
            "status_message": "",
            "events": [{"name": name, "attributes": said} for name, _, said in span.events],
            "context.span_id": span.id,
            "context.trace_id": span.trace,
            **{f"attributes.{key}": said for key, said in span.attributes.items()},
        }

    return [one(span) for span in source]


def weave(source: list[Span]) -> list[Any]:
    """A call per span, which keeps the span that it was."""

    def one(span: Span) -> dict[str, Any]:
        raised = [said for name, _, said in span.events if name == "exception"]
        error = {"type": raised[0]["exception.type"] if raised else "", "message": ""}
        return {
            "id": span.id,
            "project_id": "team/kagent",
            "op_name": f"weave:///team/kagent/op/{span.name}:v0",
            "trace_id": span.trace,
            "parent_id": span.parent,
            "started_at": f"{np.datetime64(span.start, 'ns')}Z",
            "ended_at": f"{np.datetime64(span.end, 'ns')}Z",
            "attributes": {},
            "inputs": {},
            "output": None,
            "summary": {},
            "exception": json.dumps(error) if span.failed else None,
            "otel_dump": {"name": span.name, "attributes": span.attributes},
        }

    return [one(span) for span in source]


CONTAINERS: dict[str, tuple[Callable[[list[Span]], list[Any]], str]] = {
    "mlflow": (mlflow, "otel"),
    "opik": (opik, "opik"),
    "phoenix": (phoenix, "otel"),
    "weave": (weave, "weave"),
}
"""By the name of the tool, its lines and the format that reads them."""


def events(corpus: ot.Corpus) -> list[dict[str, Any]]:
    """Events without the names of those who worked."""
    (document,) = documents(corpus).values()
    return [
        {key: said for key, said in event.items() if key not in NAMES and key != "x_trace"}
        for event in document["events"]
    ]


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("tool", CONTAINERS)
def test_a_container_changes_nothing_but_names(corpora: Path, tool: str, file: str) -> None:
    path = corpora / "otel-kagent" / file
    source = spans(path)
    assert len(source) == FILES[file]
    pack, name = CONTAINERS[tool]
    lines = pack(source)
    corpus = ot.read_traces(io.BytesIO("\n".join(json.dumps(line) for line in lines).encode()))
    original = ot.read_traces(path)
    assert corpus.traces.collect()["importer"].cast(str).to_list() == [name]
    assert trace_ids(corpus) == trace_ids(original)
    assert events(corpus) == events(original)
    (costs,), (expected,) = (
        [document["costs"] for document in documents(read).values()] for read in (corpus, original)
    )
    assert costs == expected
    assert corpus.quarantine.collect().height == 0
