"""Letta Code: what an independent walk over the lines finds, every line accounted for."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot

FOLDER = "cli-sessions/letta-code"


def lines(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Records of a file, and how many of its lines are broken."""
    found, broken = [], 0
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            broken += 1
    return found, broken


def test_events_are_those_of_the_lines(corpora: Path) -> None:
    paths = sorted((corpora / FOLDER).iterdir())
    assert len(paths) == 2
    for path in paths:
        found, broken = lines(path)
        corpus = ot.read_traces(path)
        assert corpus.traces.collect()["importer"].cast(pl.String).to_list() == ["letta_code"]
        events = corpus.events.with_columns(pl.col("type", "agent").cast(pl.String)).collect()
        by_kind, by_type = Counter(line["kind"] for line in found), Counter(events["type"])
        ended = [line for line in found if "resultOk" in line]
        assert (by_type["tool_call"], by_type["tool_result"]) == (by_kind["tool_call"], len(ended))
        told = events.filter(pl.col("type") == "tool_result")["ok"].to_list()
        assert told == [line["resultOk"] for line in ended]
        assert (events["agent"] == "user").sum() == by_kind["user"]
        said = events.filter(pl.col("type").is_in(["message", "return"]) & (pl.col("agent") != "user"))
        assert said.height == by_kind["assistant"]
        assert events["tokens"].null_count() == events.height, "no usage is recorded"
        fates = corpus.record_counts.collect()
        assert fates["count"].sum() == len(found) + broken
        assert corpus.quarantine.collect().height == broken
