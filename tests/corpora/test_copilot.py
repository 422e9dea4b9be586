"""GitHub Copilot CLI: sums by an independent walk over the lines, every line accounted for."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

FOLDERS = ("agent-cli-fixtures/copilot", "cli-sessions/copilot-cli")
STATED = {
    "copilot_stage0_small": (5, 15, 120),
    "copilot_stage0_large": (4, 0, None),
    "copilot_stage0_drift": (2, 0, 1050),
    "aaaabbbb-1111-2222-3333-ccccddddeeee": (2, 26, 26),
    "copilot-session-1": (1, 0, None),
    "copilot-session-cleanup": (1, 0, None),
}
"""By session: messages of the model, what they wrote, and all tokens that are known."""

SAYING = {
    "session.start", "session.resume", "session.model_change", "session.shutdown", "session.truncation",
    "user.message", "assistant.message", "tool.execution_start", "tool.execution_complete",
    "subagent.started", "subagent.completed",
}  # fmt: skip
"""Kinds of events that are used, of those that the corpora have."""


def files(corpora: Path) -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (corpora / folder).rglob("*.jsonl"))


def lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """The events of a file, and how many lines are none."""
    events, broken = [], 0
    for line in path.read_text().splitlines():
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            broken += 1
    return events, broken


def stated_tokens(events: list[dict[str, Any]]) -> int | None:
    """What the end of a session states: by kind, where the cache stands beside the input, else by model."""
    total = None
    for event in events:
        if event["type"] == "session.shutdown":
            kinds = event["data"].get("tokenDetails", {}).values()
            models = [model.get("usage", {}) for model in event["data"].get("modelMetrics", {}).values()]
            by_model = sum(usage.get("inputTokens", 0) + usage.get("outputTokens", 0) for usage in models)
            total = (total or 0) + (sum(kind["tokenCount"] for kind in kinds) or by_model)
    return total


def test_sums_are_those_of_the_lines(corpora: Path) -> None:
    paths = files(corpora)
    assert len(paths) == 6
    for path in paths:
        found, broken = lines(path)
        corpus = ot.read_traces(path)
        traces = corpus.traces.with_columns(pl.col("importer", "trace_id").cast(pl.String)).collect()
        assert traces["importer"].to_list() == ["copilot"], path
        session = traces["trace_id"].item()
        answers = [event["data"] for event in found if event["type"] == "assistant.message"]
        written = sum(answer.get("outputTokens", 0) for answer in answers)
        events = corpus.events.with_columns(pl.col("type", "agent").cast(pl.String)).collect()
        assert len(set(events["turn"].drop_nulls())) == len(answers), path
        assert events["tokens_out"].sum() == written
        costs = corpus.measures.with_columns(pl.col("name").cast(pl.String)).collect()
        tokens = dict(zip(costs["name"], costs["value"], strict=True)).get("tokens")
        known = stated_tokens(found)
        assert tokens == (written or None if known is None else known), path
        assert (len(answers), written, tokens) == STATED[session]
        called = {call["toolCallId"] for answer in answers for call in answer["toolRequests"]}
        alone = [
            event for event in found
            if event["type"] == "tool.execution_start" and event["data"]["toolCallId"] not in called
        ]  # fmt: skip
        asked = sum(len(answer["toolRequests"]) for answer in answers)
        assert (events["type"] == "tool_call").sum() == asked + len(alone), path
        results = [event["data"]["success"] for event in found if event["type"] == "tool.execution_complete"]
        told = events.filter(pl.col("type") == "tool_result")["ok"].to_list()
        assert sorted(told) == sorted(results), path
        fates = corpus.record_counts.with_columns(pl.col("status").cast(pl.String)).collect()
        counted = dict(fates.group_by("status").agg(pl.col("count").sum()).iter_rows())
        prompts = [
            event for event in found
            if event["type"] == "hook.start" and event["data"].get("hookType") == "userPromptSubmitted"
        ]  # fmt: skip
        used = sum(event["type"] in SAYING for event in found) + len(prompts)
        assert counted["used"] == used, path
        assert counted.get("quarantined", 0) == broken
        assert sum(counted.values()) == len(found) + broken


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_is_read_as_its_files_are(corpora: Path, folder: str) -> None:
    corpus = ot.read_traces(corpora / folder)
    alone = [ot.read_traces(path) for path in sorted((corpora / folder).rglob("*.jsonl"))]
    assert len(corpus) == len(alone)
    events = [one.events.select("id", "tokens_out").collect() for one in alone]
    together = corpus.events.select("id", "tokens_out").collect()
    assert together.height == sum(one.height for one in events)
    assert together["tokens_out"].sum() == sum(one["tokens_out"].sum() for one in events)
