"""Factory Droid: what an independent walk over the lines finds, every line accounted for."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot

FILE = "cli-sessions/droid/happy-path.jsonl"
SETTINGS = {"inputTokens": 100, "outputTokens": 20, "cacheCreationTokens": 5, "cacheReadTokens": 30}


def blocks(lines: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    content = [line["message"]["content"] for line in lines if line["type"] == "message"]
    return [block for blocks in content for block in blocks if block["type"] == kind]


def test_events_are_those_of_the_lines(corpora: Path) -> None:
    lines = [json.loads(line) for line in (corpora / FILE).read_text().splitlines()]
    corpus = ot.read_traces(corpora / FILE)
    traces = corpus.traces.collect()
    assert traces["importer"].cast(pl.String).to_list() == ["droid"]
    assert traces["trace_id"].to_list() == [lines[0]["id"]]
    assert traces["partial"].to_list() == [False]
    events = corpus.events.with_columns(pl.col("type").cast(pl.String)).collect()
    by_type = Counter(events["type"])
    results = blocks(lines, "tool_result")
    assert (by_type["tool_call"], by_type["tool_result"]) == (len(blocks(lines, "tool_use")), len(results))
    told = events.filter(pl.col("type") == "tool_result")["ok"].to_list()
    assert told == [not result["is_error"] for result in results]
    assert by_type["message"] + by_type["return"] == len(blocks(lines, "text"))
    assert events["tokens"].null_count() == events.height, "no usage is recorded"
    fates = corpus.record_counts.collect()
    assert fates["count"].sum() == len(lines)
    assert corpus.quarantine.collect().height == 0


def test_settings_beside_a_session_state_what_it_took(corpora: Path, tmp_path: Path) -> None:
    name = json.loads((corpora / FILE).read_text().splitlines()[0])["id"]
    shutil.copy(corpora / FILE, tmp_path / f"{name}.jsonl")
    settings = {"model": "m", "autonomyMode": "normal", "tokenUsage": SETTINGS}
    (tmp_path / f"{name}.settings.json").write_text(json.dumps(settings))
    corpus = ot.read_traces(tmp_path)
    measures = corpus.measures.filter(pl.col("name").cast(pl.String) == "tokens").collect()
    assert len(corpus) == 1
    assert measures["value"].to_list() == [sum(SETTINGS.values())]
