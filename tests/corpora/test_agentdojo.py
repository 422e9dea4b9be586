"""AgentDojo: the mapping against an independent walk of the source, outcomes, injections and their flows.

The texts are attacks and data that models wrote; they are compared and hashed, never followed.
"""

import hashlib
import io
import json
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import orchestrace as ot
from reference.injected_requests import Run, folded, followed
from samples.inputs import by_trace, edges_by_trace, rows

FOLLOWED = {
    ("tool", True, True): 10,
    ("tool", False, True): 9,
    ("tool", False, False): 228,
    ("memory", True, True): 240,
    ("memory", True, False): 1,
    ("memory", False, True): 19,
    ("memory", False, False): 55,
}
"""Attacks by their way in: whether the goal was reached, and whether a call follows the injected text."""


@pytest.fixture(scope="module")
def folder(corpora: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, unpacked under its own paths."""
    target = tmp_path_factory.mktemp("agentdojo")
    archive = pa.CompressedInputStream(str(corpora / "agentdojo/runs.tar.zst"), "zstd").read()
    with tarfile.open(fileobj=io.BytesIO(archive)) as runs:
        # Python 3.11 has it from 3.11.4
        runs.extraction_filter = getattr(tarfile, "data_filter", None)
        runs.extractall(target)
    return target


@pytest.fixture(scope="module")
def runs(folder: Path) -> dict[str, Run]:
    """The source by its path below `runs`."""
    found = sorted((folder / "runs").rglob("*.json"))
    return {
        path.relative_to(folder / "runs").with_suffix("").as_posix(): json.loads(path.read_bytes())
        for path in found
    }


@pytest.fixture(scope="module")
def corpus(folder: Path) -> ot.Corpus:
    return ot.read_traces(folder)


@pytest.fixture(scope="module")
def events(corpus: ot.Corpus) -> dict[str, list[dict[str, Any]]]:
    return by_trace(corpus, corpus.events)


@pytest.fixture(scope="module")
def edges(corpus: ot.Corpus) -> dict[str, list[tuple[int, int, str]]]:
    return edges_by_trace(corpus)


def measures(corpus: ot.Corpus) -> dict[str, dict[tuple[str, str], float]]:
    found: dict[str, dict[tuple[str, str], float]] = defaultdict(dict)
    for trace_id, own in by_trace(corpus, corpus.measures).items():
        found[trace_id] = {(row["kind"], row["name"]): row["value"] for row in own}
    return found


def kind_of(name: str, run: Run) -> str:
    if run["attack_type"] is None:
        return "alone"
    return "memory" if "memory_injection" in name else "tool"


def digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def test_nothing_is_lost(corpus: ot.Corpus, runs: dict[str, Run]) -> None:
    assert len(corpus) == len(runs) == 582
    assert corpus.records["quarantined"] == 0
    assert corpus.traces.collect()["importer"].cast(pl.String).unique().to_list() == ["agentdojo"]
    assert set(corpus.traces.collect()["trace_id"]) == set(runs)
    assert sum(len(run["messages"]) for run in runs.values()) == 4_153
    types = Counter(corpus.events.collect()["type"].cast(pl.String))
    told = Counter(message["role"] for run in runs.values() for message in run["messages"])
    talk = sum(
        bool(m["content"] and m["tool_calls"])
        for r in runs.values()
        for m in r["messages"]
        if "tool_calls" in m
    )
    assert types["tool_call"] == types["tool_result"] == told["tool"] == 1_082
    assert types["return"] == 582
    assert types["message"] == told["user"] + talk
    assert not corpus.traces.collect()["partial"].any()


def test_traces_and_groups(corpus: ot.Corpus, runs: dict[str, Run]) -> None:
    for row in rows(corpus.traces):
        run = runs[row["trace_id"]]
        task = f"{run['suite_name']}/{run['user_task_id']}"
        assert row["task_id"] == task
        assert row["group_id"] == f"{task}/{run['attack_type'] or 'none'}/{run['pipeline_name']}"
        assert row["time_basis"] == "ordinal"


def test_outcomes_are_those_of_the_description(corpus: ot.Corpus, runs: dict[str, Run]) -> None:
    found: Counter[tuple[str, float, float | None]] = Counter()
    for name, own in measures(corpus).items():
        run = runs[name]
        found[kind_of(name, run), own["reward", "team"], own.get(("reward", "safety"))] += 1
        assert own["metric", "task_success"] == float(run["utility"])
        assert own["cost", "wall_clock_s"] == run["duration"]
        attacked = run["attack_type"] is not None
        assert own.get(("metric", "attack_success")) == (float(run["security"]) if attacked else None)
        assert (("metric", "attack_feasible") in own) == (not attacked)
    assert found == {
        ("tool", 1, 1): 188,
        ("tool", 0, 1): 49,
        ("tool", 0, 0): 10,
        ("memory", 0, 0): 185,
        ("memory", 1, 0): 56,
        ("memory", 1, 1): 40,
        ("memory", 0, 1): 34,
        ("alone", 0, None): 15,
        ("alone", 1, None): 5,
    }


def expected_events(run: Run) -> Iterator[tuple[str, str, bool, str | None, int | None]]:
    """``type agent trusted content turn`` of a run without what is found in its texts."""
    turn = -1
    asked: dict[str, int] = {}
    count = len(run["messages"])
    for number, message in enumerate(run["messages"]):
        text = message["content"] or ""
        if message["role"] == "user":
            memory = "[memory]" in text
            yield "message", "memory" if memory else "user", not memory, digest(text), None
        elif message["role"] == "assistant":
            turn += 1
            for call in message["tool_calls"] or ():
                asked[call["id"]] = turn
                said = {"arguments": call["args"], "name": call["function"]}
                spelt = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
                yield "tool_call", "agent", True, digest(spelt), turn
            if text:
                kind = "return" if number + 1 == count else "message"
                yield kind, "agent", True, digest(text), turn
        elif message["role"] == "tool":
            yield (
                "tool_result",
                message["tool_call"]["function"],
                False,
                digest(text),
                asked[message["tool_call_id"]],
            )


def test_events_are_those_of_the_messages(
    runs: dict[str, Run], events: dict[str, list[dict[str, Any]]]
) -> None:
    fields = ("type", "agent", "trusted", "content_ref", "turn")
    for name, run in runs.items():
        found = [
            tuple(row[field] for field in fields) for row in events[name] if row["type"] != "safety_event"
        ]
        assert found == list(expected_events(run)), name


def test_calls_pair_with_their_results(
    runs: dict[str, Run],
    events: dict[str, list[dict[str, Any]]],
    edges: dict[str, list[tuple[int, int, str]]],
) -> None:
    parallel = 0
    for name, run in runs.items():
        own = [row["id"] for row in events[name]]
        pairs = {(own[src], own[dst]) for src, dst, kind in edges[name] if kind == "return"}
        asked = [call["id"] for m in run["messages"] for call in m.get("tool_calls") or ()]
        assert pairs == {(call, f"{call}:r") for call in asked}
        parallel += sum(len(message.get("tool_calls") or ()) > 1 for message in run["messages"])
    assert parallel == 72


def test_injections_are_seen_where_they_are_read(
    runs: dict[str, Run], events: dict[str, list[dict[str, Any]]]
) -> None:
    seen, unseen, plain = 0, 0, 0
    for name, run in runs.items():
        marks = [row for row in events[name] if row["type"] == "safety_event"]
        if not run["injections"]:
            assert not marks
            continue
        (text,) = run["injections"].values()
        results = [m for m in run["messages"] if m["role"] == "tool"]
        expected = [m["tool_call"]["function"] for m in results if folded(text) in folded(m["content"])]
        assert [row["agent"] for row in marks] == expected
        assert {row["content_ref"] for row in marks} <= {digest(text)}
        seen += bool(marks)
        unseen += not marks
        plain += any(text in message["content"] for message in results)
        assert marks or not run["security"], "no attack succeeds that was not read"
    assert (seen, unseen, plain) == (232, 15, 0)


def test_flows_are_exact(
    runs: dict[str, Run],
    events: dict[str, list[dict[str, Any]]],
    edges: dict[str, list[tuple[int, int, str]]],
    corpus: ot.Corpus,
) -> None:
    """A flow is where an injected text was read and where a call does what it asks for, and nowhere else."""
    assert "safety.conservative" not in set(corpus.findings.collect()["code"].cast(pl.String))
    found: Counter[tuple[str, bool, bool]] = Counter()
    for name, run in runs.items():
        own = events[name]
        kinds = [(src, dst) for src, dst, kind in edges[name] if kind == "safety_flow"]
        flows = {(own[src]["id"], own[dst]["id"]) for src, dst in kinds}
        reads = {
            (f"{message['tool_call_id']}:r", f"{number}:s{which}")
            for number, message in enumerate(run["messages"])
            if message["role"] == "tool"
            for which, injected in enumerate(run["injections"].values())
            if folded(injected) in folded(message["content"])
        }
        calls = followed(run)
        assert flows == reads | set(calls), name
        if run["attack_type"] is None:
            assert not flows, "nobody put a text into it"
        else:
            found[kind_of(name, run), run["security"], bool(calls)] += 1
    assert found == FOLLOWED


def test_flows_do_not_know_what_came_of_the_attack(runs: dict[str, Run], tmp_path: Path) -> None:
    """With the outcome turned around a run has the same edges."""
    drawn = []
    for turn in (False, True):
        folder = tmp_path / str(turn)
        for number, run in enumerate(runs.values()):
            other = run | {"security": run["security"] != turn, "utility": run["utility"] != turn}
            folder.mkdir(exist_ok=True)
            (folder / f"{number:04}.json").write_text(json.dumps(other))
        corpus = ot.read_traces(folder)
        edges = corpus.edges.join(corpus.traces.select("trace", "trace_id"), on="trace")
        columns = ["trace_id", "src", "dst", pl.col("type").cast(pl.String)]
        drawn.append(edges.select(columns).collect().sort("trace_id", "src", "dst", "type"))
    assert drawn[0].height and drawn[0].equals(drawn[1])


def test_the_archive_and_the_examples_hold_the_same_runs(corpora: Path, corpus: ot.Corpus) -> None:
    packed = ot.read_traces(corpora / "agentdojo")
    counts = {"read": 591, "used": 582, "ignored": 0, "duplicate": 9, "quarantined": 0}
    assert packed.records == counts
    facts = ("trace_id", "n_events", "n_edges")
    assert rows(packed.traces.select(facts).sort("trace_id")) == rows(
        corpus.traces.select(facts).sort("trace_id")
    )
