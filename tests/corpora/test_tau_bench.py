"""tau-bench: the mapping against an independent walk of the source, groups and their outcomes."""

import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples.inputs import by_trace

Run = dict[str, Any]
FILES = {
    "tau-bench/gpt-4o-airline.json.gz": (100, 2_526, 49),
    "agentrx/tau_retail_failed.json.gz": (15, 586, 0),
}


@pytest.fixture(scope="module", params=FILES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def runs(corpora: Path, name: str) -> dict[str, Run]:
    stem = name.split("/")[1].removesuffix(".json.gz")
    found = json.loads(gzip.decompress((corpora / name).read_bytes()))
    return {f"{stem}/{run['task_id']}/{run['trial']}": run for run in found}


@pytest.fixture(scope="module")
def corpus(corpora: Path, name: str) -> ot.Corpus:
    return ot.read_traces(corpora / name)


@pytest.fixture(scope="module")
def events(corpus: ot.Corpus) -> dict[str, list[dict[str, Any]]]:
    return by_trace(corpus, corpus.events)


def digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def test_nothing_is_lost(corpus: ot.Corpus, name: str, runs: dict[str, Run]) -> None:
    n_traces, n_messages, n_successes = FILES[name]
    assert len(corpus) == len(runs) == n_traces
    assert corpus.records["quarantined"] == 0
    assert corpus.traces.collect()["trace_id"].to_list() == list(runs)
    assert corpus.traces.collect()["importer"].cast(pl.String).unique().to_list() == ["tau_bench"]
    # Every message but the prompts of the system is a turn or the result of one.
    turns = corpus.events.filter(pl.col("type") != "tool_result").select("trace", "turn").unique().collect()
    results = corpus.events.filter(pl.col("type") == "tool_result").collect()
    prompts = sum(message["role"] == "system" for run in runs.values() for message in run["traj"])
    assert turns.height + results.height + prompts == n_messages
    rewards = corpus.measures.filter((pl.col("kind") == "reward") & (pl.col("name") == "team")).collect()
    assert (rewards.height, rewards["value"].sum()) == (n_traces, n_successes)


def expected_events(run: Run, ends: bool) -> Iterator[tuple[str, str, str | None, int, str, bool]]:
    """``type agent to turn content trusted``."""
    asked: dict[str, int] = {}
    spoken = [
        turn
        for turn, message in enumerate(run["traj"])
        if message["role"] == "assistant"
        and (
            message["content"]
            or any(c["function"]["name"].startswith("transfer") for c in message.get("tool_calls") or ())
        )
    ]
    for turn, message in enumerate(run["traj"]):
        text = message["content"]
        if message["role"] == "user":
            yield "message", "user_simulator", "assistant", turn, digest(text), True
        elif message["role"] == "tool":
            tool = message["name"]
            yield "tool_result", tool, None, asked[message["tool_call_id"]], digest(text), False
        elif message["role"] == "assistant":
            for call in message.get("tool_calls") or ():
                asked[call["id"]] = turn
                function = call["function"]
                said = {"arguments": json.loads(function["arguments"]), "name": function["name"]}
                spelt = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
                yield "tool_call", "assistant", None, turn, digest(spelt), True
            if turn in spoken:
                kind = "return" if ends and turn == spoken[-1] else "message"
                yield kind, "assistant", "user_simulator", turn, digest(text or spelt), True


def test_events_are_those_of_the_messages(
    runs: dict[str, Run], events: dict[str, list[dict[str, Any]]], corpus: ot.Corpus
) -> None:
    fields = ("type", "agent", "to", "turn", "content_ref", "trusted")
    partial = dict(corpus.traces.select("trace_id", "partial").collect().rows())
    for trace_id, run in runs.items():
        judged = run["info"]["reward_info"] is not None
        assert partial[trace_id] == (not judged)
        found = [tuple(row[field] for field in fields) for row in events[trace_id]]
        assert found == list(expected_events(run, judged)), trace_id


def test_every_result_answers_the_latest_call_of_its_id(corpus: ot.Corpus) -> None:
    types = corpus.events.select("trace", "seq", "turn", pl.col("type").cast(pl.String))
    returns = (
        corpus.edges.filter(pl.col("type") == "return")
        .join(types, left_on=["trace", "src"], right_on=["trace", "seq"], suffix="_src")
        .join(types, left_on=["trace", "dst"], right_on=["trace", "seq"], suffix="_dst")
        .collect()
    )
    results = corpus.events.filter(pl.col("type") == "tool_result").collect().height
    assert returns.height == results
    assert returns.select("trace", "dst").is_unique().all()
    assert (returns["turn"] == returns["turn_dst"]).all()


def test_metrics(corpus: ot.Corpus, runs: dict[str, Run]) -> None:
    found = by_trace(corpus, corpus.measures.filter(pl.col("kind") == "metric"))
    for trace_id, run in runs.items():
        own = {row["name"]: row["value"] for row in found[trace_id]}
        info = run["info"]
        verdict = (info["reward_info"] or {}).get("info") or {}
        assert own.get("user_cost") == info["user_cost"]
        for key in ("r_actions", "r_outputs"):
            assert own.get(key) == (float(verdict[key]) if key in verdict else None)
        wanted = [
            (action["name"], json.dumps(action["kwargs"], sort_keys=True))
            for action in info["task"]["actions"]
        ]
        made = [
            (call["function"]["name"], json.dumps(json.loads(call["function"]["arguments"]), sort_keys=True))
            for message in run["traj"]
            for call in message.get("tool_calls") or ()
        ]
        assert own["expected_actions"] == len(wanted)
        assert own["expected_actions_made"] == sum((Counter(wanted) & Counter(made)).values())


def test_groups_are_tasks(corpora: Path) -> None:
    corpus = ot.read_traces(corpora / "tau-bench/gpt-4o-airline.json.gz")
    rewards = corpus.measures.filter((pl.col("kind") == "reward") & (pl.col("name") == "team"))
    groups = (
        corpus.traces.join(rewards.select("trace", "value"), on="trace")
        .group_by("group_id")
        .agg(pl.len(), pl.col("value").sum())
        .collect()
    )
    assert groups["len"].to_list() == [4] * 25
    succeeded = Counter(groups["value"].to_list())
    assert (succeeded[4.0], succeeded[0.0]) == (8, 8)
    advantages = ot.credit(corpus, method="grpo", unit="team")["credit"]
    assert (advantages != 0).sum() == 4 * 9, "only groups with both outcomes have something to compare"
