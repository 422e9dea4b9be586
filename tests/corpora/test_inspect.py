"""Inspect AI logs: token totals and scores as the logs state them, against a walk of their events.

The logs' texts are data that models and web pages wrote; nothing of them is kept here.
"""

import json
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples.inputs import documents

Log = dict[str, Any]
Document = dict[str, Any]

LETTERS = {"C": 1.0, "I": 0.0, "P": 0.5, "N": 0.0}

SILENT = {"log_message_deduplication.eval", "log_tool_call_error.json"}
"""Logs of which no event says what it used."""


def logs(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / "logs").rglob("*") if path.suffix in (".json", ".eval"))


def lists(folder: Path) -> list[Path]:
    return sorted((folder / "synthetic").rglob("*.json"))


def told(folder: Path) -> list[Path]:
    """Lists of events that have one."""
    return [path for path in lists(folder) if json.loads(path.read_bytes())["events"]]


def log_of(path: Path) -> Log:
    """A log with its samples, whatever it is packed in."""
    if path.suffix == ".json":
        return dict(json.loads(path.read_bytes()))
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.startswith("samples/")]
        return json.loads(archive.read("header.json")) | {
            "samples": [json.loads(archive.read(name)) for name in names]
        }


def key(log: Log, sample: Log) -> str:
    return "/".join(
        str(x) for x in (log["eval"]["run_id"], log["eval"]["task_id"], sample["id"], sample["epoch"])
    )


def usages(sample: Log) -> list[dict[str, int]]:
    models = [e for e in sample.get("events", []) if e["event"] == "model"]
    return [(e.get("output") or {}).get("usage") or {} for e in models]


@pytest.fixture(scope="module")
def folder(corpora: Path) -> Path:
    return corpora / "inspect-ai"


@pytest.fixture(scope="module")
def corpus(folder: Path) -> ot.Corpus:
    return ot.read_traces(logs(folder) + told(folder))


@pytest.fixture(scope="module")
def found(corpus: ot.Corpus) -> dict[str, Document]:
    return documents(corpus)


def test_samples_and_their_accounts(folder: Path, corpus: ot.Corpus) -> None:
    assert (len(logs(folder)), len(lists(folder))) == (11, 18)
    samples = sum(len(log_of(path)["samples"]) for path in logs(folder))
    counts = corpus.record_counts.collect()
    assert counts["importer"].unique().to_list() == ["inspect"]
    used = counts.filter(pl.col("status") == "used")["count"].sum()
    assert used == samples + len(lists(folder)) - 1 == corpus.traces.collect().height
    assert corpus.quarantine.collect().is_empty()
    ignored = counts.filter(pl.col("status") == "ignored").group_by("kind").agg(pl.col("count").sum())
    entries = {"inspect.header": 0, "inspect.journal": 0, "inspect.summaries": 0, "inspect.reductions": 0}
    for path in logs(folder):
        if path.suffix == ".eval":
            with zipfile.ZipFile(path) as archive:
                entries["inspect.header"] += 1
                entries["inspect.journal"] += 1
                for name in archive.namelist():
                    kind = "reductions" if name == "reductions.json" else "summaries"
                    if name == "reductions.json" or "summaries" in name:
                        entries[f"inspect.{kind}"] += len(json.loads(archive.read(name)))
    assert dict(ignored.rows()) == entries
    # Nothing tells a list without events from other documents.
    (empty,) = set(lists(folder)) - set(told(folder))
    counts = ot.read_traces(empty, format="inspect").record_counts.collect()
    assert counts.select("status", "kind", "count").rows() == [("ignored", "inspect.no_events", 1)]


def test_tokens_are_those_of_the_logs(folder: Path, found: dict[str, Document]) -> None:
    """Of the log without repeated messages and of the one without events no usage is known."""
    for path in logs(folder):
        log = log_of(path)
        reported = log["stats"]["model_usage"]
        tokens = sum(usage["total_tokens"] for usage in reported.values())
        traces = [found[key(log, sample)] for sample in log["samples"]]
        events = [event for trace in traces for event in trace["events"]]
        # what graders use is told beside what the team does
        costs = [trace["costs"] for trace in traces]
        total = sum(cost["tokens"] + cost.get("scorer_tokens", 0) for cost in costs)
        assert total == sum(e.get("tokens_in", 0) + e.get("tokens_out", 0) for e in events)
        if path.name in SILENT:
            assert total == 0
            assert all("tokens" in t["events"][0]["x_trace"]["unknown_costs"] for t in traces)
            continue
        assert total == tokens, path
        for field, name in (("tokens_in", "input_tokens"), ("tokens_out", "output_tokens")):
            assert sum(e.get(field, 0) for e in events) == sum(usage[name] for usage in reported.values())
        cached = sum(usage.get("input_tokens_cache_read") or 0 for usage in reported.values())
        assert sum(e.get("tokens_cached", 0) for e in events) == cached


def test_where_logs_contradict_themselves(folder: Path) -> None:
    by_name = {path.name: log_of(path) for path in logs(folder)}
    # The sample says that nothing was used; its one event and the log say 68.
    formats = by_name["log_formats.eval"]
    assert formats["samples"][0]["model_usage"] == {}
    assert sum(usage["total_tokens"] for usage in usages(formats["samples"][0])) == 68
    # Four samples by the results, of which one is there, without events or usage.
    error = by_name["log_tool_call_error.json"]
    assert (error["results"]["total_samples"], len(error["samples"])) == (4, 1)


def test_scores_are_rewards(folder: Path, found: dict[str, Document]) -> None:
    n = 0
    for path in logs(folder):
        log = log_of(path)
        team = []
        for sample in log["samples"]:
            trace = found[key(log, sample)]
            scores = sample.get("scores") or {}
            value = {name: LETTERS.get(score["value"], score["value"]) for name, score in scores.items()}
            assert {name: trace.get("metrics", {}).get(name) for name in value} == value
            assert trace["rewards"] == ({"team": next(iter(value.values()))} if value else {})
            team += trace["rewards"].values()
            n += len(value)
        if team:
            accuracy = log["results"]["scores"][0]["metrics"]["accuracy"]["value"]
            assert sum(team) / len(team) == pytest.approx(accuracy, abs=1e-12), path
    assert n == 21


def test_generations_and_tools_are_those_of_the_events(folder: Path, found: dict[str, Document]) -> None:
    for path in logs(folder):
        log = log_of(path)
        for sample in log["samples"]:
            if events := sample.get("events"):
                trace = found[key(log, sample)]
                generations = {e["x_gen"] for e in trace["events"] if "x_gen" in e}
                assert len(generations) == sum(e["event"] == "model" for e in events)
                results = {e["id"] for e in trace["events"] if e["type"] == "tool_result"}
                assert results == {f"{e['id']}:r" for e in events if e["event"] == "tool"}
                assert not trace["events"][0]["x_trace"].get("partial", False)


def test_lists_of_events_have_the_agents_that_inspect_finds(folder: Path) -> None:
    for path in told(folder):
        listed = json.loads(path.read_bytes())
        expected = listed["expected"]
        for trace in documents(ot.read_traces(path)).values():
            generations = {e["x_gen"] for e in trace["events"] if "x_gen" in e}
            assert len(generations) == sum(e["event"] == "model" for e in listed["events"])
            spawned = {e["to"] for e in trace["events"] if e["type"] == "spawn"}
            if "agent" in expected:
                # Helpers that one recognizes by their prompts are no spans of the log.
                spans = {e["name"] for e in listed["events"] if e["event"] == "span_begin"}
                assert spawned == {c["name"] for c in expected["agent"]["children"] if c["name"] in spans}


def test_packing_changes_no_trace(folder: Path, found: dict[str, Document], tmp_path: Path) -> None:
    for path in logs(folder):
        log = log_of(path)
        log["samples"].reverse()
        other = tmp_path / f"{path.stem}.json"
        other.write_text(json.dumps(log, indent=1))
        for name, trace in documents(ot.read_traces(other)).items():
            assert trace == found[name]


def test_a_log_that_was_killed_is_read_from_its_journal(
    folder: Path, found: dict[str, Document], tmp_path: Path
) -> None:
    path = next(path for path in logs(folder) if path.name.endswith("mj7khqpMM4GBCfVQozKgzB.eval"))
    killed = tmp_path / "killed.eval"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(killed, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            if name.startswith(("_journal/", "samples/")):
                target.writestr(name, source.read(name))
    traces = documents(ot.read_traces(killed))
    assert len(traces) == 10
    assert all(found[name] == trace for name, trace in traces.items())


def test_prefixes_of_events_tell_the_same(folder: Path, found: dict[str, Document], tmp_path: Path) -> None:
    """What later events change: roles, whether a call was answered, and what the last text of an agent is."""
    later = {"role", "x_partial", "x_trace", "type", "to", "x_reported_tokens"}
    for path in logs(folder):
        log = log_of(path)
        for sample in log["samples"]:
            events = sample.get("events") or []
            whole = {e["id"]: e for e in found[key(log, sample)]["events"]}
            for cut in range(0, len(events), max(1, len(events) // 9)):
                after = ("output", "messages", "scores", "model_usage")
                part = {k: v for k, v in sample.items() if k not in after}
                target = tmp_path / "cut.json"
                target.write_text(json.dumps({**log, "samples": [part | {"events": events[:cut]}]}))
                corpus = ot.read_traces(target)
                assert corpus.quarantine.collect().is_empty()
                for trace in documents(corpus).values():
                    for event in trace["events"]:
                        same = whole[event["id"]]
                        for field in event.keys() - later:
                            assert event[field] == same[field], (path, cut, event["id"], field)
