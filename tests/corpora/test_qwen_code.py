"""Qwen Code: sums by an independent walk over the JSON, every record accounted for."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl

import orchestrace as ot

FOLDER = "agent-cli-fixtures/qwen"


def records(path: Path) -> list[dict[str, Any]]:
    """All objects of a file: a line may have several."""
    decoder = json.JSONDecoder()
    found = []
    for line in path.read_text().splitlines():
        at = 0
        while at < len(line):
            record, at = decoder.raw_decode(line, at)
            found.append(record)
    return found


def kinds(corpus: ot.Corpus) -> Counter[str]:
    events = corpus.events.select(pl.col("type").cast(pl.String)).collect()
    return Counter(events["type"])


def test_sums_are_those_of_the_files(corpora: Path) -> None:
    paths = sorted((corpora / FOLDER).iterdir())
    assert len(paths) == 6
    for path in paths:
        found = records(path)
        corpus = ot.read_traces(path)
        traces = corpus.traces.select(pl.col("importer", "trace_id").cast(pl.String)).collect()
        session = found[0]["sessionId"].replace("-", "")
        assert [row[0] for row in traces.rows()] == ["qwen_code"], path
        assert traces["trace_id"][0].replace("-", "") == session
        fates = corpus.record_counts.collect()
        assert fates["count"].sum() == len(found), path
        assert corpus.quarantine.collect().height == 0
        events = corpus.events.collect()
        answers = {record["uuid"] for record in found if record["type"] == "assistant"}
        assert events["turn"].drop_nulls().n_unique() == len(answers)
        usage: Counter[str] = Counter()
        for record in found:
            usage.update(record.get("usageMetadata", {}))
        assert events["tokens_in"].sum() == usage["promptTokenCount"]
        assert events["tokens_out"].sum() == usage["candidatesTokenCount"]
        parts = [part for record in found for part in record.get("message", {}).get("parts", [])]
        assert kinds(corpus)["tool_call"] == sum("functionCall" in part for part in parts)
        assert kinds(corpus)["tool_result"] == sum("functionResponse" in part for part in parts)
        users = sum(record["type"] == "user" and "subtype" not in record for record in found)
        assert events.filter(pl.col("agent").cast(pl.String) == "user").height >= users


def test_a_rewind_and_the_halves_of_an_answer(corpora: Path) -> None:
    path = corpora / FOLDER / "019f0000-0000-7000-8000-000000000004.jsonl"
    events = ot.read_traces(path).events.collect()
    extras = events["extras"].fill_null("{}").to_list()
    given_up = [json.loads(extra).get("x_abandoned", False) for extra in extras]
    models = events["model"].cast(pl.String).to_list()
    assert [model for model, gone in zip(models, given_up, strict=True) if gone] == ["synthetic-dead-model"]
    assert "synthetic-active-model" in models
    assert (events["tokens_in"].sum(), events["tokens_out"].sum()) == (12, 4)


def test_a_folder_is_read_as_its_files_are(corpora: Path) -> None:
    corpus = ot.read_traces(corpora / FOLDER)
    alone = [ot.read_traces(path) for path in sorted((corpora / FOLDER).iterdir())]
    assert len(corpus) == len(alone)
    assert kinds(corpus) == sum((kinds(one) for one in alone), Counter())
