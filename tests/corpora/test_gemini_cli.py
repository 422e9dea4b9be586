"""Gemini CLI: sums by an independent walk over the JSON, every record accounted for."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

FOLDERS = ("agent-cli-fixtures/gemini", "cli-sessions/gemini-cli")
STATED = {"jsonl_v040": (2, 23_924, 11_502, 228, 1), "large": (4, 100, 0, 10, 2)}
"""As the source has them: responses, tokens read, of these from a cache, tokens written, calls."""

SILENT = {"info", "error", "telemetry"}


def files(corpora: Path) -> list[Path]:
    return sorted(path for folder in FOLDERS for path in (corpora / folder).iterdir())


def messages(path: Path) -> tuple[int, list[dict[str, Any]]]:
    """How many records a file has, and its messages."""
    text = path.read_text()
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in text.splitlines()]
        return len(lines), [line for line in lines if "type" in line]
    document = json.loads(text)
    found = document.get("messages") or document["history"]
    return 1 + len(found), found


def kind(message: dict[str, Any]) -> str:
    return str(message.get("type") or message["role"])


def test_sums_are_those_of_the_files(corpora: Path) -> None:
    paths = files(corpora)
    assert len(paths) == 6
    for path in paths:
        corpus = ot.read_traces(path)
        assert corpus.traces.collect()["importer"].cast(pl.String).to_list() == ["gemini_cli"], path
        events = corpus.events.with_columns(pl.col("type").cast(pl.String)).collect()
        records, found = messages(path)
        answers = [message for message in found if kind(message) in {"gemini", "model"}]
        tokens: Counter[str] = Counter()
        for message in answers:
            tokens.update(message.get("tokens", {}))
        calls = [call for message in answers for call in message.get("toolCalls", [])]
        read, written = tokens["input"] + tokens["tool"], tokens["output"] + tokens["thoughts"]
        got = (
            len(set(events["turn"].drop_nulls())),
            events["tokens_in"].sum(),
            events["tokens_cached"].sum(),
            events["tokens_out"].sum(),
            (events["type"] == "tool_call").sum(),
        )
        assert got == (len(answers), read, tokens["cached"], written, len(calls)), path
        assert got == STATED.get(path.stem, got)
        assert read + written == tokens["total"]
        results = events.filter(pl.col("type") == "tool_result")
        assert results["ok"].to_list() == [call["status"] == "success" for call in calls]
        prompts = events.filter(pl.col("agent").cast(pl.String) == "user")
        assert prompts.height == sum(kind(message) == "user" for message in found)
        fates = corpus.record_counts.collect()
        assert fates["count"].sum() == records
        ignored = fates.filter(pl.col("status").cast(pl.String) == "ignored")["count"].sum()
        silent = sum(kind(message) in SILENT for message in found)
        assert ignored == silent + (path.suffix == ".jsonl"), "and one line that sets the header"
        assert corpus.quarantine.collect().height == 0


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_is_read_as_its_files_are(corpora: Path, folder: str) -> None:
    corpus = ot.read_traces(corpora / folder)
    alone = [ot.read_traces(path) for path in sorted((corpora / folder).iterdir())]
    assert len(corpus) == len(alone)
    for name in ("tokens_in", "tokens_out", "tokens_cached"):
        total = corpus.events.select(name).collect()[name].sum()
        assert total == sum(one.events.select(name).collect()[name].sum() for one in alone)
