"""Kimi Code: sums by an independent walk over the JSON, sub-agents joined, every record accounted for."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

FOLDER = "agent-cli-fixtures/kimi"
STATED = {
    "assistant_tools": (200, 22, (28_763, 620_544, 4_578), (30_174, 661_504, 5_515), 19, 19),
    "subagent_agent-0": (28, 3, (12_905, 28_416, 330), (12_905, 28_416, 330), 2, 2),
    "small": (36, 0, (0, 0, 0), (0, 0, 0), 0, 0),
}
"""Lines, ends of steps, usage of these and of the records (other, from a cache, written), calls, results."""


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def loop_events(path: Path, kind: str) -> list[dict[str, Any]]:
    events = [line["event"] for line in lines(path) if line["type"] == "context.append_loop_event"]
    return [event for event in events if event["type"] == kind]


def usage(records: list[dict[str, Any]]) -> tuple[int, int, int]:
    total: Counter[str] = Counter()
    for record in records:
        total.update(record["usage"])
    assert total["inputCacheCreation"] == 0
    return total["inputOther"], total["inputCacheRead"], total["output"]


def spent(corpus: ot.Corpus) -> tuple[int, int, int]:
    events = corpus.events.collect()
    names = ("tokens_fresh", "tokens_cached", "tokens_out")
    fresh, cached, written = (int(events[name].sum()) for name in names)
    assert events["tokens_in"].sum() == fresh + cached
    return fresh, cached, written


@pytest.mark.parametrize("name", STATED)
def test_sums_are_those_of_a_file(corpora: Path, name: str) -> None:
    path = corpora / FOLDER / f"{name}.jsonl"
    records = [line for line in lines(path) if line["type"] == "usage.record"]
    ends, calls = loop_events(path, "step.end"), loop_events(path, "tool.call")
    results = loop_events(path, "tool.result")
    found = (len(lines(path)), len(ends), usage(ends), usage(records), len(calls), len(results))
    assert found == STATED[name]

    corpus = ot.read_traces(path)
    assert corpus.traces.collect()["importer"].cast(pl.String).to_list() == ["kimi"]
    assert spent(corpus) == usage(records), "usage of a record counts, and that of the ends is the same again"
    events = corpus.events.with_columns(pl.col("type", "tool", "agent").cast(pl.String)).collect()
    asked = {call["toolCallId"] for call in calls if call["name"] == "Agent"}
    by_type = Counter(events["type"])
    assert by_type["tool_call"] == len(calls) - len(asked)
    assert by_type["tool_result"] == len(results)
    told = events.filter(pl.col("type") == "tool_result")["ok"].to_list()
    assert Counter(told) == Counter(not result["result"].get("isError", False) for result in results)
    approved = [line for line in lines(path) if line["type"] == "permission.record_approval_result"]
    steered = [line for line in lines(path) if line["type"] == "turn.steer"]
    assert by_type["human_intervention"] == len(approved) + len(steered)
    prompts = [line for line in lines(path) if line["type"] == "turn.prompt"]
    by_user = [line for line in prompts if line["origin"]["kind"] == "user"]
    said = events.filter((pl.col("type") == "message") & (pl.col("agent") == "user"))
    assert said.height == len(by_user)
    paid = events.filter(pl.col("tokens_in").is_not_null())
    assert paid.height == len(records)
    fates = corpus.record_counts.collect()
    assert fates["count"].sum() == len(lines(path))
    assert corpus.quarantine.collect().height == 0


def test_requests_that_nobody_answered_take_no_tokens(corpora: Path) -> None:
    path = corpora / FOLDER / "small.jsonl"
    requests = [line for line in lines(path) if line["type"] == "llm.request"]
    steps = loop_events(path, "step.begin")
    assert (len(requests), len(steps)) == (13, 2)
    corpus = ot.read_traces(path)
    events = corpus.events.with_columns(pl.col("type").cast(pl.String)).collect()
    failed = events.filter(pl.col("ok").not_())
    assert failed.height == len(steps)
    assert failed["tokens_in"].null_count() == len(steps)
    retries = [json.loads(extras)["x_retries"] for extras in failed["extras"]]
    assert sum(retries) + len(steps) == len(requests)


def lay_out(corpora: Path, home: Path) -> Path:
    """The files of a session as the program lays them out."""
    state = json.loads((corpora / FOLDER / "assistant_tools.state.json").read_text())
    session = home / Path(state["agents"]["main"]["homedir"]).parents[1].name
    for agent, name in (("main", "assistant_tools"), ("agent-0", "subagent_agent-0")):
        (session / "agents" / agent).mkdir(parents=True)
        shutil.copy(corpora / FOLDER / f"{name}.jsonl", session / "agents" / agent / "wire.jsonl")
    shutil.copy(corpora / FOLDER / "assistant_tools.state.json", session / "state.json")
    return session


def test_a_sub_agent_is_joined_with_who_asked_it(corpora: Path, tmp_path: Path) -> None:
    session = lay_out(corpora, tmp_path)
    corpus = ot.read_traces(tmp_path)
    assert corpus.traces.collect()["trace_id"].to_list() == [session.name]
    files = [corpora / FOLDER / f"{name}.jsonl" for name in ("assistant_tools", "subagent_agent-0")]
    records = [line for path in files for line in lines(path) if line["type"] == "usage.record"]
    assert spent(corpus) == usage(records)
    events = corpus.events.with_columns(pl.col("type", "agent", "to").cast(pl.String)).collect()
    spawned = events.filter(pl.col("type") == "spawn")
    assert spawned.select("agent", "to").rows() == [("kimi", "explore")]
    answers = events.filter((pl.col("type") == "return") & (pl.col("agent") == "explore"))
    assert answers["to"].to_list() == ["kimi"]
    calls = [call for path in files for call in loop_events(path, "tool.call")]
    assert (events["type"] == "tool_call").sum() == len(calls) - 1
    assert events["id"].n_unique() == events.height
    fates = corpus.record_counts.collect()
    assert fates["count"].sum() == sum(len(lines(path)) for path in files) + 1
    assert corpus.quarantine.collect().height == 0


def test_a_session_without_one_of_its_files_says_so(corpora: Path, tmp_path: Path) -> None:
    session = lay_out(corpora, tmp_path)
    shutil.rmtree(session / "agents" / "agent-0")
    corpus = ot.read_traces(tmp_path)
    assert corpus.traces.collect()["partial"].to_list() == [True]
    codes = set(corpus.findings.collect()["code"].cast(pl.String))
    assert {"source.incomplete", "trace.partial"} <= codes
