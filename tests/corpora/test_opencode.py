"""opencode: sums by an independent walk over exports, stores and streams, every record accounted for."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

EXPORTS = "cli-sessions/opencode"
STORES = "agent-cli-fixtures/opencode"
STREAM = "cli-streams/opencode/event_stream.jsonl"
STATED = {"storage_v2": (2, 6, 2, 136), "storage_legacy": (1, 2, 1, None)}
"""Of a store: sessions, messages, calls, and tokens that count once."""

Json = dict[str, Any]


def sessions_of_a_store(folder: Path) -> dict[str, list[tuple[Json, list[Json]]]]:
    """Messages of each session with their parts: a part may only lie in the folder of its message."""
    parts: dict[str, list[Json]] = defaultdict(list)
    for path in sorted((folder / "part").rglob("*.json")):
        part = json.loads(path.read_text())
        parts[part.get("messageID") or path.parent.name].append(part)
    found: dict[str, list[tuple[Json, list[Json]]]] = defaultdict(list)
    for path in sorted((folder / "message").rglob("*.json")):
        message = json.loads(path.read_text())
        found[message["sessionID"]].append((message, parts[message["id"]]))
    return found


def spent(message: Json, parts: list[Json]) -> int:
    """Tokens of a message: those of its steps, if there are any."""
    steps = [part for part in parts if part["type"] == "step-finish" and part.get("tokens")]
    stated = [step["tokens"] for step in steps] or [message.get("tokens") or {}]
    return sum(
        tokens.get("input", 0) + tokens.get("output", 0) + tokens.get("reasoning", 0)
        + sum(tokens.get("cache", {}).values())
        for tokens in stated
    )  # fmt: skip


def tools(messages: list[tuple[Json, list[Json]]]) -> list[Json]:
    return [part for _, parts in messages for part in parts if part["type"] == "tool"]


def check(corpus: ot.Corpus, found: dict[str, list[tuple[Json, list[Json]]]]) -> None:
    """Holds traces to what their sessions have."""
    traces = corpus.traces.with_columns(pl.col("importer", "trace_id").cast(pl.String)).collect()
    assert set(traces["importer"]) == {"opencode"}
    numbers = dict(zip(traces["trace_id"], traces["trace"], strict=True))
    assert set(numbers) == set(found)
    every = corpus.events.with_columns(pl.col("type", "agent").cast(pl.String)).collect()
    for session, messages in found.items():
        events = every.filter(pl.col("trace") == numbers[session])
        tokens = sum(spent(message, parts) for message, parts in messages)
        assert events["tokens"].sum() == tokens, session
        calls = tools(messages)
        assert events.filter(pl.col("type") == "tool_call").height == len(calls)
        results = events.filter(pl.col("type") == "tool_result")
        ended = [part for part in calls if part["state"]["status"] in {"completed", "success", "error"}]
        assert sorted(results["ok"]) == sorted(part["state"]["status"] != "error" for part in ended)
        took = [part["state"]["time"]["end"] - part["state"]["time"]["start"] for part in ended]
        assert sorted(results["duration_s"]) == pytest.approx(sorted(ms / 1000 for ms in took))
        prompts = sum(message["role"] == "user" for message, _ in messages)
        assert events.filter(pl.col("agent") == "user").height == prompts
        answers = sum(message["role"] == "assistant" for message, _ in messages)
        steps = sum(
            max(1, sum(part["type"] == "step-finish" for part in parts))
            for message, parts in messages
            if message["role"] == "assistant"
        )
        assert answers <= len(set(events["turn"].drop_nulls())) == steps


@pytest.mark.parametrize("name", sorted(STATED))
def test_sums_are_those_of_a_store(corpora: Path, name: str) -> None:
    folder = corpora / STORES / name
    found = sessions_of_a_store(folder)
    corpus = ot.read_traces(folder)
    check(corpus, found)
    messages = [message for session in found.values() for message in session]
    tokens = sum(spent(*message) for message in messages)
    sums = (len(found), len(messages), len(tools(messages)), tokens or None)
    assert sums == STATED[name]
    costs = corpus.measures.filter(pl.col("name").cast(pl.String) == "tokens").collect()
    assert (costs["value"].sum() or None) == STATED[name][3]
    assert corpus.record_counts.collect()["count"].sum() == len(list(folder.rglob("*.json")))
    assert corpus.quarantine.collect().height == 0


def test_a_price_by_other_names_is_no_price(corpora: Path) -> None:
    corpus = ot.read_traces(corpora / STORES / "storage_v2")
    assert corpus.events.select("cost_usd").collect()["cost_usd"].drop_nulls().is_empty()
    findings = corpus.findings.with_columns(pl.col("code").cast(pl.String)).collect()
    told = findings.filter(pl.col("code") == "field.ignored")
    assert told["count"].to_list() == [2], "the prices, and a command that completed with an exit code of 1"
    assert "exit code other than 0: 1" in told["message"].item()


def test_sums_are_those_of_exports(corpora: Path) -> None:
    paths = sorted((corpora / EXPORTS).iterdir())
    assert len(paths) == 2
    for path in paths:
        document = json.loads(path.read_text())
        messages = [(one["info"], one["parts"]) for one in document["messages"]]
        corpus = ot.read_traces(path)
        check(corpus, {document["info"]["id"]: messages})
        records = 1 + sum(1 + len(parts) for _, parts in messages)
        assert corpus.record_counts.collect()["count"].sum() == records


def test_the_last_state_of_a_stream_counts(corpora: Path) -> None:
    path = corpora / STREAM
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    infos: dict[str, Json] = {}
    parts: dict[str, Json] = {}
    session: Json = {}
    for line in lines:
        properties = line["properties"]
        if line["type"] == "message.updated":
            infos[properties["info"]["id"]] = properties["info"]
        elif line["type"] == "message.part.updated":
            parts[properties["part"]["id"]] = properties["part"]
        elif line["type"] == "session.updated":
            session = properties["info"]
    messages = [
        (info, [part for part in parts.values() if part["messageID"] == id]) for id, info in infos.items()
    ]
    corpus = ot.read_traces(path)
    check(corpus, {session["id"]: messages})
    total = next(part["tokens"]["total"] for part in parts.values() if part["type"] == "step-finish")
    assert corpus.events.select("tokens").collect()["tokens"].sum() == total
    codes = corpus.findings.with_columns(pl.col("code").cast(pl.String)).collect()["code"].to_list()
    assert not any(code.startswith("usage") for code in codes), "the session states the same"
    fates = corpus.record_counts.with_columns(pl.col("status").cast(pl.String)).collect()
    counted = dict(fates.group_by("status").agg(pl.col("count").sum()).iter_rows())
    assert sum(counted.values()) == len(lines)
    reasoning = sum(part["type"] == "reasoning" for part in parts.values())
    assert counted["used"] == 1 + len(infos) + len(parts) - reasoning
