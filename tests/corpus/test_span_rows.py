"""Flat rows of spans under the names of several databases, and MLflow's traces."""

import io
import json
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

TRACE = "4b0b961d81a720593197cd65f829ad3f"
NAMES: dict[str, tuple[str, ...]] = {
    "strands": ("trace_id", "span_id", "parent_span_id", "name", "start_time", "end_time", "attributes"),
    "logfire": (
        "trace_id",
        "span_id",
        "parent_span_id",
        "span_name",
        "start_timestamp",
        "end_timestamp",
        "attributes",
    ),
    "camel": ("traceId", "spanId", "parentSpanId", "name", "startTime", "endTime", "attributes"),
    "clickhouse": (
        "TraceId",
        "SpanId",
        "ParentSpanId",
        "SpanName",
        "Timestamp",
        "Duration",
        "SpanAttributes",
    ),
}
SPANS: tuple[tuple[str, str | None, str, int, int, dict[str, Any]], ...] = (
    (
        "9f33d4c23de7ac87",
        None,
        "agent run",
        0,
        5,
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "gm"},
    ),
    (
        "6921771397163564",
        "9f33d4c23de7ac87",
        "chat m",
        1,
        4,
        {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "m",
            "gen_ai.usage.input_tokens": 19611,
            "gen_ai.usage.output_tokens": 118,
            "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "roll"}]}],
        },
    ),
)


def rows(dialect: str) -> list[dict[str, Any]]:
    def time(second: int) -> Any:
        if dialect == "strands":
            return (1_767_225_600 + second) * 10**9
        blank = (
            "2026-01-01 00:00:{:02d}.000000000" if dialect == "clickhouse" else "2026-01-01T00:00:{:02d}.000Z"
        )
        return blank.format(second)

    def row(span: tuple[str, str | None, str, int, int, dict[str, Any]]) -> dict[str, Any]:
        number, above, name, first, last, attributes = span
        end = (last - first) * 10**9 if dialect == "clickhouse" else time(last)
        words = json.dumps(attributes) if dialect == "logfire" else attributes
        return dict(zip(NAMES[dialect], (TRACE, number, above, name, time(first), end, words), strict=True))

    return [row(span) for span in SPANS]


def read(*lines: Any) -> ot.Corpus:
    return ot.read_traces(io.BytesIO("\n".join(json.dumps(line) for line in lines).encode()))


@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.parametrize("packed", ["lines", "array", "spans"])
def test_rows_are_spans(dialect: str, packed: str) -> None:
    spans = rows(dialect)
    corpus = {
        "lines": lambda: read(*spans),
        "array": lambda: read(spans),
        "spans": lambda: read({"session_id": "s", "span_count": 2, "spans": spans}),
    }[packed]()
    assert corpus.traces.collect().select("trace_id", pl.col("importer").cast(pl.String)).row(0) == (
        TRACE,
        "otel",
    )
    row = ot.metrics(corpus).row(0, named=True)
    assert (row["tokens"], row["model_time"]) == (19729, 3.0)
    agents = ot.metrics(corpus, by="agent")["agent"].cast(pl.String).to_list()
    assert agents == ["gm"]


@pytest.mark.parametrize("first", [*NAMES, "otlp"])
def test_a_span_in_several_serializations_counts_once(first: str) -> None:
    def otlp() -> list[dict[str, Any]]:
        def value(said: Any) -> dict[str, Any]:
            words = said if isinstance(said, str) else json.dumps(said)
            return {"intValue": said} if isinstance(said, int) else {"stringValue": words}

        spans = [
            {
                "traceId": TRACE,
                "spanId": number,
                "parentSpanId": above or "",
                "name": name,
                "startTimeUnixNano": str((1_767_225_600 + start) * 10**9),
                "endTimeUnixNano": str((1_767_225_600 + end) * 10**9),
                "attributes": [{"key": key, "value": value(said)} for key, said in attributes.items()],
            }
            for number, above, name, start, end, attributes in SPANS
        ]
        return [{"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}]

    given = {dialect: rows(dialect) for dialect in NAMES} | {"otlp": otlp()}
    files = [given.pop(first), *given.values()]
    corpus = read(*(line for lines in files for line in lines))
    assert corpus.records["used"] == 2 and corpus.records["duplicate"] == 2 * (len(NAMES) + 1) - 2
    row = ot.metrics(corpus).row(0, named=True)
    assert (len(corpus), row["tokens"], row["model_time"]) == (1, 19729, 3.0)


def test_spans_of_one_id_and_other_times_are_two() -> None:
    one = rows("strands")
    other = {**one[1], "start_time": one[1]["start_time"] + 1, "end_time": one[1]["end_time"] + 1}
    corpus = read(*one, other)
    assert ot.metrics(corpus)["tokens"].to_list() == [2 * 19729]


def mlflow(**info: Any) -> ot.Corpus:
    def span(number: str, above: str | None, name: str, kind: str, **more: Any) -> dict[str, Any]:
        words = {"mlflow.spanType": json.dumps(kind)} | {
            key: json.dumps(value) for key, value in more.items()
        }
        return {
            "trace_id": "GhVt4oZr2zYV1vZ6yPq0bQ==",
            "span_id": number,
            "parent_span_id": above,
            "name": name,
            "start_time_unix_nano": 1_790_000_000_000_000_000,
            "end_time_unix_nano": 1_790_000_005_000_000_000,
            "events": [],
            "status": {"code": "STATUS_CODE_OK", "message": ""},
            "attributes": words,
        }

    usage = info.pop("usage", {"input_tokens": 27, "output_tokens": 641, "total_tokens": 668})
    whole = {"input_tokens": 27, "output_tokens": 641, "total_tokens": 668}
    more = {"mlflow.chat.tokenUsage": usage} if usage else {}
    price = {"mlflow.llm.cost": {"input_cost": 0.25, "output_cost": 0.5, "total_cost": 0.75}} if usage else {}
    spans = [
        span("AAAAAAAAAAE=", None, "predict", "AGENT", **more),
        span(
            "AAAAAAAAAAI=",
            "AAAAAAAAAAE=",
            "Completions",
            "CHAT_MODEL",
            **more,
            **price,
            **{"mlflow.llm.model": "m"},
        ),
        span(
            "AAAAAAAAAAM=",
            "AAAAAAAAAAE=",
            "look",
            "TOOL",
            **{"mlflow.spanInputs": {"q": 1}, "mlflow.spanOutputs": "x"},
        ),
    ]
    said = {"mlflow.trace_schema.version": "3", "mlflow.trace.tokenUsage": json.dumps(whole)}
    head = {
        "trace_id": "tr-1a15",
        "request_time": "2026-01-01T00:00:00Z",
        "state": "OK",
        "trace_metadata": said,
    }
    return read({"info": head | info, "data": {"spans": spans}})


def test_mlflow() -> None:
    corpus = mlflow()
    row = ot.metrics(corpus).row(0, named=True)
    assert (row["tokens"], row["cost_usd"], row["n_tool_calls"]) == (668, 0.75, 1)
    events = corpus.events.with_columns(pl.col("agent", "tool", "model").cast(pl.String)).collect()
    assert events.filter(pl.col("tokens").is_not_null()).select("agent", "model").rows() == [("predict", "m")]
    assert "look" in events["tool"].to_list()


def test_usage_that_only_an_mlflow_trace_states() -> None:
    assert ot.metrics(mlflow(usage=None)).row(0, named=True)["tokens"] == 668


def test_a_trace_id_alone_makes_no_native_trace() -> None:
    odd = {"trace_id": "a", "span_id": "b", "what": 1}
    with pytest.warns(UserWarning, match="nothing could be used") as caught:
        read(odd)
    assert "format.unknown" in str(caught[0].message)
    assert "a trace has no key 'span_id'" not in str(caught[0].message)
