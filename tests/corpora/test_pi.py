"""Pi: the sums of the source, every line accounted for.

The source's texts are data that models and tools wrote; nothing of them is kept here.
"""

import gzip
import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples.inputs import documents

NAMES = ("before-compaction", "session")
SUMS: dict[str, dict[str, Any]] = {
    "before-compaction": {
        "lines": 1_003,
        "roles": {"assistant": 484, "toolResult": 448, "user": 55, "bashExecution": 3},
        "calls": 454,
        "failed": 12,
        "unanswered": 6,
        "tokens_in": 56_382_684,
        "tokens_out": 187_895,
        "fresh": 3_689,
        "cached": 54_693_675,
        "cache_write": 1_685_320,
        "cost_usd": 42.5959075,
        "stopped": {"aborted": 18, "error": 1},
        "zero": 13,
        "ignored": {"pi.model_change": 5, "pi.thinking_level_change": 5},
        "began": "2025-12-08T22:41:05.306Z",
    },
    "session": {
        "lines": 463,
        "roles": {"assistant": 219, "toolResult": 189, "user": 43, "bashExecution": 1},
        "calls": 189,
        "failed": 12,
        "unanswered": 0,
        "tokens_in": 26_084_684,
        "tokens_out": 46_964,
        "fresh": 1_560,
        "cached": 25_101_148,
        "cache_write": 981_976,
        "cost_usd": 19.869824,
        "stopped": {"aborted": 6},
        "zero": 6,
        "ignored": {"pi.thinking_level_change": 8},
        "began": "2025-12-17T19:39:17.548Z",
    },
}
"""As the source states them. It leaves out a line of `session` that is no JSON; see `SHARED`."""

SHARED = 440
"""The line of `session` that two processes wrote: an answer and a message of the user. Both count."""


@pytest.fixture(scope="module")
def folder(corpora: Path) -> Path:
    return corpora / "pi"


@pytest.fixture(scope="module")
def corpus(folder: Path) -> ot.Corpus:
    return ot.read_traces(folder)


def lines(folder: Path, name: str) -> list[str]:
    return gzip.decompress((folder / f"{name}.jsonl.gz").read_bytes()).decode().splitlines()


def records(folder: Path, name: str) -> list[dict[str, Any]]:
    """All records, in one line or in two; the place is the line."""
    out = []
    for line in lines(folder, name):
        while line:
            record, end = json.JSONDecoder().raw_decode(line)
            out.append(record)
            line = line[end:]
    return out


def shared(folder: Path, name: str) -> list[dict[str, Any]]:
    """What stands in the line that the source's sums leave out."""
    if name != "session":
        return []
    text = lines(folder, name)[SHARED - 1]
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    first, end = json.JSONDecoder().raw_decode(text)
    return [first, json.loads(text[end:])]


def events_of(corpus: ot.Corpus, folder: Path, name: str) -> pl.DataFrame:
    head = json.loads(lines(folder, name)[0])
    of = corpus.traces.filter(pl.col("trace_id") == head["id"]).select("trace")
    return corpus.events.join(of, on="trace").with_columns(pl.col("type").cast(pl.String)).collect()


@pytest.mark.parametrize("name", NAMES)
def test_sums_are_those_of_the_source(corpus: ot.Corpus, folder: Path, name: str) -> None:
    events, sums = events_of(corpus, folder, name), SUMS[name]
    more = [record["message"] for record in shared(folder, name)]
    answers = [message for message in more if message["role"] == "assistant"]
    of_usage = lambda key: sum(message["usage"][key] for message in answers)  # noqa: E731
    cached, written = of_usage("cacheRead"), of_usage("cacheWrite")
    assert len(lines(folder, name)) == sums["lines"]
    assert events["tokens_in"].sum() == sums["tokens_in"] + of_usage("input") + cached + written
    assert events["tokens_out"].sum() == sums["tokens_out"] + of_usage("output")
    assert events["tokens_cached"].sum() == sums["cached"] + cached
    assert events["tokens_cache_write"].sum() == sums["cache_write"] + written
    assert sums["fresh"] + sums["cached"] + sums["cache_write"] == sums["tokens_in"]
    cost = sums["cost_usd"] + sum(message["usage"]["cost"]["total"] for message in answers)
    assert events["cost_usd"].sum() == pytest.approx(cost, abs=1e-9)
    # A response has its usage once, on its first event; one that states nothing has none.
    assert events["tokens_in"].is_not_null().sum() == sums["roles"]["assistant"] - sums["zero"] + len(answers)


@pytest.mark.parametrize("name", NAMES)
def test_events_are_the_messages_of_the_source(corpus: ot.Corpus, folder: Path, name: str) -> None:
    events, sums = events_of(corpus, folder, name), SUMS[name]
    roles = Counter(sums["roles"]) + Counter(record["message"]["role"] for record in shared(folder, name))
    assert events["turn"].max() + 1 == roles["assistant"]
    calls = events.filter(pl.col("type") == "tool_call")
    results = events.filter(pl.col("type") == "tool_result")
    assert (calls.height, results.height) == (sums["calls"], roles["toolResult"])
    assert (results["ok"] == False).sum() == sums["failed"]  # noqa: E712
    of_user = events.filter((pl.col("agent") == "user") & (pl.col("type") != "tool_result"))
    assert of_user.height == roles["user"] + roles["bashExecution"]
    by_hand = of_user.filter(pl.col("type") == "human_intervention")
    assert by_hand.height >= roles["bashExecution"]
    stopped = events.filter((pl.col("ok") == False) & (pl.col("type") != "tool_result"))  # noqa: E712
    assert stopped.height == sum(sums["stopped"].values())
    assert set(events["model"].drop_nulls().cast(pl.String)) == {"claude-opus-4-5"}


@pytest.mark.parametrize("name", NAMES)
def test_calls_without_results_and_times(corpus: ot.Corpus, folder: Path, name: str) -> None:
    head = json.loads(lines(folder, name)[0])
    trace = documents(corpus)[head["id"]]
    answered = {edge["src"] for edge in trace["edges"] if edge["type"] == "return"}
    calls = [event["id"] for event in trace["events"] if event["type"] == "tool_call"]
    assert len(set(calls) - answered) == SUMS[name]["unanswered"]
    row = corpus.traces.filter(pl.col("trace_id") == head["id"]).collect()
    assert row["time_basis"].cast(pl.String).to_list() == ["seconds"]
    assert min(record["timestamp"] for record in records(folder, name)) == SUMS[name]["began"]
    # The provider began to answer a few milliseconds before the question was written.
    messages = [record["message"] for record in records(folder, name) if record["type"] == "message"]
    began = min(message["timestamp"] for message in messages if message["role"] == "assistant")
    first = min(began, round(datetime.fromisoformat(SUMS[name]["began"]).timestamp() * 1000))
    assert row["started_at"].dt.epoch("ms").to_list() == [first]
    took = [
        event["duration_s"]
        for event in trace["events"]
        if "duration_s" in event and event["type"] != "tool_result"
    ]
    roles = Counter(record.get("message", {}).get("role") for record in records(folder, name))
    assert len(took) == roles["assistant"]
    assert min(took) >= 0


def test_every_line_is_accounted_for(corpus: ot.Corpus, folder: Path) -> None:
    rows = corpus.record_counts.collect().iter_rows(named=True)
    fates: Counter[str] = Counter()
    for row in rows:
        fates[row["kind"] or row["status"]] += row["count"]
    expected = Counter[str]()
    for sums in SUMS.values():
        expected += Counter(sums["ignored"])
    assert sum(fates.values()) == sum(len(records(folder, name)) for name in NAMES)
    assert {kind: n for kind, n in fates.items() if kind != "used"} == expected
    assert corpus.quarantine.collect().height == 0


def test_sessions_of_relatives_are_read(corpora: Path) -> None:
    """Oh My Pi and OpenClaw write the same lines; what they add is counted by kind."""
    for tool, (tokens_in, tokens_out) in {"pi": (560, 130), "omp": (560, 130), "openclaw": (300, 65)}.items():
        corpus = ot.read_traces(corpora / "cli-sessions" / tool)
        traces = corpus.traces.collect()
        assert traces["importer"].cast(pl.String).unique().to_list() == ["pi"]
        events = corpus.events.collect()
        assert (events["tokens_in"].sum(), events["tokens_out"].sum()) == (tokens_in, tokens_out), tool
