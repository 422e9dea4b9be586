"""What `claude -p --output-format stream-json` prints: a session, unless its own files are read, too."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

SESSION = "6cd458de-4900-4c62-882b-e5083346d405"


def line(kind: str, number: int, **more: Any) -> dict[str, Any]:
    common = {"type": kind, "session_id": SESSION, "uuid": f"p{number}", "parent_tool_use_id": None}
    return common | more


def response(number: int, written: int, *content: dict[str, Any], of: str | None = None) -> dict[str, Any]:
    usage = {"input_tokens": 100, "output_tokens": written}
    message = {"id": f"msg_{number}", "role": "assistant", "model": "m", "content": content, "usage": usage}
    return line("assistant", number, message=message, request_id=f"req_{number}", parent_tool_use_id=of)


def user(number: int, *content: dict[str, Any], of: str | None = None) -> dict[str, Any]:
    return line("user", number, message={"role": "user", "content": content}, parent_tool_use_id=of)


def call(name: str, tool: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": tool, "input": arguments}


def result(of: str, text: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": of, "content": text}


def said(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def printed(written: int = 9) -> list[dict[str, Any]]:
    asks = call("c1", "Agent", subagent_type="Explore", description="d", prompt="Count.")
    usage = {"input_tokens": 200, "output_tokens": written}
    return [
        line("system", 0, subtype="init"),
        response(1, 4, asks),
        user(2, said("Count."), of="c1"),
        response(3, 7, call("c2", "Bash", command="ls"), of="c1"),
        user(4, result("c2", "3"), of="c1"),
        user(5, result("c1", "Three.")),
        response(6, 5, said("There are three.")),
        line("result", 7, subtype="success", num_turns=2, total_cost_usd=0.25, usage=usage, result="x"),
    ]


def read(folder: Path, lines: list[dict[str, Any]]) -> ot.Corpus:
    (folder / "out.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    return ot.read_traces(folder)


def codes(corpus: ot.Corpus) -> set[str]:
    return set(corpus.findings.collect()["code"].cast(pl.String))


def test_what_is_printed_is_a_session(tmp_path: Path) -> None:
    corpus = read(tmp_path, printed())
    assert corpus.traces.collect()["trace_id"].to_list() == [SESSION]
    events = corpus.events.with_columns(pl.col("type", "agent").cast(pl.String)).collect()
    tokens = events.filter(pl.col("tokens").is_not_null()).group_by("agent").agg(pl.col("tokens").sum())
    assert dict(tokens.rows()) == {"main": 209, "Explore": 107}
    costs = corpus.measures.filter(pl.col("name").cast(pl.String) == "cost_usd").collect()
    assert costs["value"].to_list() == [0.25]
    assert "usage.conflict" not in codes(corpus), "the result says what the lines say"
    assert "usage.conflict" in codes(read(tmp_path, printed(written=300)))


def test_the_session_itself_is_used_where_it_is_read_too(tmp_path: Path) -> None:
    asked = {"role": "user", "content": "Go."}
    usage = {"input_tokens": 100, "output_tokens": 40}
    answer = {"id": "msg_1", "model": "m", "content": [said("Done.")], "usage": usage}
    lines = [
        {"type": "user", "uuid": "u0", "message": asked},
        {"type": "assistant", "uuid": "u1", "parentUuid": "u0", "message": answer, "requestId": "req_1"},
    ]
    common = {"sessionId": SESSION, "timestamp": "2026-09-14T09:00:00.000Z"}
    rows = [json.dumps(common | row) for row in lines]
    (tmp_path / f"{SESSION}.jsonl").write_text("\n".join(rows) + "\n")
    corpus = read(tmp_path, [response(1, 4, said("Done.")), line("result", 2, num_turns=1, total_cost_usd=1)])
    assert ot.metrics(corpus)["tokens"].to_list() == [140]
    assert "trace.set_aside" in codes(corpus)
    counts = corpus.record_counts.group_by("status").agg(pl.col("count").sum()).collect()
    assert dict(counts.rows()) == {"used": 2, "duplicate": 2}


@pytest.mark.parametrize(
    ("first", "second", "price"),
    [
        # each call states its own: what both read is what the lines sum to
        ((0.5, 100), (0.2, 100), 0.7),
        ((0.5, 100), (0.7, 100), 1.2),
        # one program that answers twice states what it took so far
        ((0.5, 100), (0.7, 200), 0.7),
        # nothing says what was read: a price that falls is no sum so far
        ((0.5, None), (0.2, None), 0.7),
        ((0.5, None), (0.7, None), 0.7),
    ],
)
def test_several_results_of_a_session(
    tmp_path: Path, first: tuple[float, int | None], second: tuple[float, int | None], price: float
) -> None:
    lines = [response(1, 4, said("one")), response(2, 4, said("two"))]
    for at, (cost, told) in enumerate((first, second)):
        usage = {} if told is None else {"usage": {"input_tokens": told, "output_tokens": 4 * (told // 100)}}
        lines.insert(
            2 * at + 1, line("result", 10 + at, subtype="success", total_cost_usd=cost, num_turns=1, **usage)
        )
    corpus = read(tmp_path, lines)
    (total,) = corpus.measures.filter(name="cost_usd").collect()["value"]
    assert total == pytest.approx(price)
    assert ot.metrics(corpus)["tokens"].to_list() == [208]
    assert not corpus.findings.filter(pl.col("code").cast(pl.String) == "usage.conflict").collect().height


@pytest.mark.parametrize("reverse", [False, True])
def test_what_another_session_repeats_is_paid_once(tmp_path: Path, reverse: bool) -> None:
    """A stream, and the file of a session that was forked from it and has its responses again."""
    stream = [response(1, 4, said("one")), response(2, 4, said("two"))]
    fork = [
        {"type": "assistant", "uuid": f"f{at}", "sessionId": "fork", "requestId": line_["request_id"]}
        | {"timestamp": f"2026-01-01T00:00:0{at}Z", "message": line_["message"]}
        for at, line_ in enumerate([*stream, response(3, 4, said("three"))])
    ]
    files = []
    for name, lines in (("stream", stream), ("fork", fork)):
        files.append(tmp_path / f"{name}.jsonl")
        files[-1].write_text("".join(json.dumps(row) + "\n" for row in lines))
    corpus = ot.read_traces(files[::-1] if reverse else files)
    assert ot.metrics(corpus)["tokens"].fill_null(0).sum() == 3 * 104
    inherited = corpus.measures.filter(name="tokens_inherited").collect()["value"]
    assert inherited.to_list() == [208]
