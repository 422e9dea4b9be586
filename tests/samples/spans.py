"""Spans of OTLP by hand, for tests of what becomes of them."""

import json
from pathlib import Path
from typing import Any

import orchestrace as ot

START = 1_790_000_000


def span(
    number: int,
    above: int,
    name: str,
    seconds: tuple[float, float],
    attributes: dict[str, Any],
    **members: Any,
) -> dict[str, Any]:
    """A span with plain values as attributes; 0 is above roots."""
    kinds = {bool: "boolValue", int: "intValue", float: "doubleValue", str: "stringValue"}
    first, last = (int((START + second) * 10**9) for second in seconds)
    return {
        "traceId": "4d".rjust(32, "0"),
        "spanId": f"{number:016x}",
        "parentSpanId": f"{above:016x}" if above else "",
        "name": name,
        "startTimeUnixNano": str(first),
        "endTimeUnixNano": str(last),
        "attributes": [
            {"key": key, "value": {kinds[type(value)]: value}} for key, value in attributes.items()
        ],
        "status": {},
    } | members


def usage(read: int, written: int, **more: Any) -> dict[str, Any]:
    return {"gen_ai.usage.input_tokens": read, "gen_ai.usage.output_tokens": written} | more


def agent(number: int, above: int, name: str, seconds: tuple[float, float], **more: Any) -> dict[str, Any]:
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
    return span(number, above, f"invoke_agent {name}", seconds, attributes | more)


def chat(number: int, above: int, seconds: tuple[float, float], **more: Any) -> dict[str, Any]:
    text = [{"role": "assistant", "parts": [{"type": "text", "content": f"answer {number}"}]}]
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.output.messages": json.dumps(text),
    }
    return span(number, above, "chat m", seconds, attributes | more)


def tool(number: int, above: int, name: str, seconds: tuple[float, float], **more: Any) -> dict[str, Any]:
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    return span(number, above, f"execute_tool {name}", seconds, attributes | more)


def read(folder: Path, *spans: dict[str, Any], **options: Any) -> ot.Corpus:
    request = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": list(spans)}]}]}
    path = folder / "spans.json"
    path.write_text(json.dumps(request))
    return ot.read_traces(path, **options)


def tokens_by_agent(corpus: ot.Corpus) -> dict[str, int | None]:
    rows = ot.metrics(corpus, by="agent").drop_nulls("agent")
    return dict(zip(rows["agent"].cast(str), rows["tokens"], strict=True))


def findings(corpus: ot.Corpus) -> dict[str, str]:
    rows = corpus.findings.collect()
    return dict(zip(rows["code"].cast(str), rows["message"], strict=True))
