"""Hermes: what an independent walk over the messages finds, every message accounted for."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot

FOLDER = "cli-sessions/hermes"


def calls(message: dict[str, Any]) -> list[Any]:
    found = message.get("tool_calls") or []
    return list(json.loads(found)) if isinstance(found, str) else list(found)


def test_events_are_those_of_the_messages(corpora: Path) -> None:
    paths = sorted((corpora / FOLDER).iterdir())
    assert len(paths) == 2
    for path in paths:
        document = json.loads(path.read_text())
        found = document if isinstance(document, list) else document["messages"]
        corpus = ot.read_traces(path)
        traces = corpus.traces.collect()
        assert traces["importer"].cast(pl.String).to_list() == ["hermes"], path
        assert traces["trace_id"].to_list() == [found[0]["session_id"]]
        events = corpus.events.with_columns(pl.col("type", "agent").cast(pl.String)).collect()
        by_role = Counter(message["role"] for message in found)
        by_type = Counter(events["type"])
        assert by_type["tool_call"] == sum(len(calls(message)) for message in found)
        assert by_type["tool_result"] == by_role["tool"]
        assert (events["agent"] == "user").sum() == by_role["user"]
        numbers = [json.loads(extras).get("x_gen") for extras in events["extras"].drop_nulls()]
        answers = [str(message["id"]) for message in found if message["role"] == "assistant"]
        assert set(numbers) - {None} == set(answers)
        abandoned = events["extras"].fill_null("").str.contains("x_abandoned").sum()
        assert abandoned == sum(message["active"] == 0 for message in found)
        assert events["tokens"].null_count() == events.height, "no usage is recorded"
        first = min(message["timestamp"] for message in found)
        began = document["session"]["started_at"] if isinstance(document, dict) else first
        last = max(message["timestamp"] for message in found)
        assert events["t"].max() == last - began
        fates = corpus.record_counts.collect()
        assert fates["count"].sum() == len(found) + isinstance(document, dict)
        assert corpus.quarantine.collect().height == 0
