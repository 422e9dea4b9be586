"""Records of agentpile: what its own readers make of published runs, and of messages, read as it stands."""

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import agentpile as ap
import polars as pl
import pytest
from agentpile.corpora.who_and_when import dataset as who_and_when

import orchestrace as ot

SUBSETS = {"algorithm_generated": "Algorithm-Generated", "hand_crafted": "Hand-Crafted"}


def records(corpora: Path, subset: str) -> list[dict[str, Any]]:
    """Runs of Who&When as the package converts them."""
    lines = gzip.decompress((corpora / f"who-and-when/{subset}.jsonl.gz").read_bytes()).splitlines()
    folder = SUBSETS[subset]
    made = []
    for line in lines:
        raw = json.loads(line)
        where = {"file": raw["_file"], "config": folder, "split": "train"}
        made.append(who_and_when.convert(raw["_file"].removesuffix(".json"), raw, where).to_dict())
    return made


def write(records: list[dict[str, Any]], path: Path) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.parametrize("subset", SUBSETS)
def test_runs_have_their_speakers_tasks_and_mistakes(corpora: Path, tmp_path: Path, subset: str) -> None:
    made = records(corpora, subset)
    corpus = ot.read_traces(write(made, tmp_path / "runs.jsonl"))
    assert len(corpus) == len(made)
    assert corpus.quarantine.collect().height == 0
    traces = corpus.traces.collect()
    assert set(traces["importer"].cast(pl.String)) == {"atif"}
    by_id = {record["session_id"]: record for record in made}
    texts = corpus.events.select("trace", "agent", "content_ref").collect()
    for trace, name, task in traces.select("trace", "trace_id", "task_id").rows():
        record = by_id[name]
        added = record["extra"]["agentpile"]
        assert task == added["task"]["id"]
        said: Counter[str] = Counter()
        for step in record["steps"]:
            actor = step["extra"]["agentpile"].get("actor")
            if step["source"] == "agent" and step["message"]:
                said[actor] += 1
        spoken = texts.filter((pl.col("trace") == trace) & (pl.col("agent").cast(pl.String) != "user"))
        heard = Counter(spoken.drop_nulls("content_ref")["agent"].cast(pl.String).to_list())
        if len(said) > 1:
            assert heard == said, name
        else:
            assert heard.total() == said.total(), name
    labels = corpus.labels.collect().with_columns(pl.col("annotator", "label").cast(pl.String))
    assert set(labels["annotator"]) == {"who_and_when"}
    steps = labels.filter(label="mistake_step")
    places = {name: event for name, event in steps.select("trace_id", "event_id").rows()}
    for name, record in by_id.items():
        mistakes = [
            label["target"]["address"]["step"]
            for label in record["extra"]["agentpile"]["labels"]
            if label["name"] == "mistake_step"
        ]
        for step in mistakes:
            is_there = 0 < step <= len(record["steps"]) and record["steps"][step - 1]["message"]
            assert places[name] == (f"{name}:{step}" if is_there else None), name
    rewards = corpus.measures.filter(pl.col("kind").cast(pl.String) == "reward").collect()["value"]
    assert set(rewards) == {0.0}, "all of these runs failed"
    assert len(rewards) == sum(
        record["extra"]["agentpile"]["outcome"]["success"] is not None for record in made
    )


def test_both_ways_into_the_engine_name_the_same_agent(corpora: Path, tmp_path: Path) -> None:
    made = records(corpora, "hand_crafted")
    corpus = ot.read_traces(write(made, tmp_path / "runs.jsonl"))
    straight = ot.read_traces(corpora / "who-and-when/hand_crafted.jsonl.gz")
    blamed = corpus.labels.filter(pl.col("label").cast(pl.String) == "mistake_agent").collect()
    here = dict(blamed.select("trace_id", pl.col("agent").str.to_lowercase()).rows())
    there = straight.labels.select("trace_id", pl.col("agent").str.to_lowercase()).collect()
    same = [here.get(name) == agent for name, agent in there.rows() if name in here]
    assert len(same) > 20
    assert sum(same) >= len(same) - 1


def test_messages_and_configurations(tmp_path: Path) -> None:
    messages = [
        {"role": "user", "content": "What does a.txt say?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"path": "a.txt"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "three"},
        {"role": "assistant", "content": "It says three."},
    ]
    path = tmp_path / "messages.json"
    path.write_text(json.dumps({"messages": messages}))
    (run,) = ap.load(path)
    run.to_json(tmp_path / "run.json")
    path.unlink()
    (tmp_path / "config.json").write_text(
        json.dumps({"schema": "agentpile-config/0", "source": {"format": "mcp"}, "tools": {}})
    )
    corpus = ot.read_traces(tmp_path)
    events = corpus.events.select(pl.col("type").cast(pl.String)).collect()["type"].to_list()
    assert events == ["message", "tool_call", "tool_result", "return"]
    fates = corpus.record_counts.select(pl.col("status", "kind").cast(pl.String), "count").collect()
    assert ("ignored", "atif.agentpile_config", 1) in fates.rows()


def test_each_record_is_a_run_whatever_it_is_called(tmp_path: Path) -> None:
    """All conversations without a name are `conversation-0`."""
    made = []
    for at, (question, answer) in enumerate([("2 + 2?", "4"), ("3 + 3?", "6")]):
        path = tmp_path / f"{at}.json"
        path.write_text(
            json.dumps([{"role": "user", "content": question}, {"role": "assistant", "content": answer}])
        )
        made += [run.to_dict() for run in ap.load(path)]
        path.unlink()
    assert len({record["session_id"] for record in made}) == 1
    made[0]["extra"]["agentpile"] |= {"task": {"id": "7"}, "outcome": {"success": True}}
    made[1]["extra"]["agentpile"] |= {"task": {"id": "7"}, "outcome": {"success": False}}
    made[0]["agent"]["model_name"], made[1]["agent"]["model_name"] = "m1", "m2"
    write(made, tmp_path / "runs.jsonl")
    write(made[:1], tmp_path / "copy.jsonl")
    corpus = ot.read_traces(tmp_path)
    assert len(corpus) == 2
    rewards = corpus.measures.filter(pl.col("name").cast(pl.String) == "team").collect()["value"]
    assert sorted(rewards) == [0.0, 1.0]
    traces = corpus.traces.collect()
    assert traces["group_id"].n_unique() == 2
    assert set(traces["task_id"]) == {"7"}
    assert corpus.records["duplicate"] == 2
