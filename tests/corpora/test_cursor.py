"""Cursor: what an independent walk over the lines finds, every line accounted for."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot

FOLDER = "cli-sessions/cursor"


def lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Messages of a file, and how many of its lines are broken."""
    found, broken = [], 0
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            broken += 1
    return found, broken


def blocks(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    content = message["message"]["content"]
    return [] if isinstance(content, str) else [block for block in content if block["type"] == kind]


def test_events_are_those_of_the_lines(corpora: Path) -> None:
    paths = sorted((corpora / FOLDER).iterdir())
    assert len(paths) == 2
    for path in paths:
        found, broken = lines(path)
        corpus = ot.read_traces(path)
        assert corpus.traces.collect()["importer"].cast(pl.String).to_list() == ["cursor"]
        events = corpus.events.with_columns(pl.col("type", "agent").cast(pl.String)).collect()
        calls = [block for message in found for block in blocks(message, "tool_use")]
        results = [block for message in found for block in blocks(message, "tool_result")]
        by_type = Counter(events["type"])
        assert (by_type["tool_call"], by_type["tool_result"]) == (len(calls), len(results)), path
        told = events.filter(pl.col("type") == "tool_result")["ok"].to_list()
        assert told == [not result["is_error"] for result in results]
        answers = [message for message in found if message["role"] == "assistant"]
        assert events["turn"].n_unique() - (events["turn"].null_count() > 0) == len(answers)
        assert events["tokens"].null_count() == events.height, "no usage is recorded"
        prompts = [one for one in found if one["role"] == "user" and not blocks(one, "tool_result")]
        assert (events["agent"] == "user").sum() == len(prompts)
        assert corpus.traces.collect()["time_basis"].cast(pl.String).to_list() == ["ordinal"]
        fates = corpus.record_counts.collect()
        assert fates["count"].sum() == len(found) + broken
        assert corpus.quarantine.collect().height == broken
