"""Claude Code transcripts: sums as the sources state them, against an independent walk of the lines.

The source's texts are data that people and models wrote; nothing of them is kept here.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples.inputs import content, documents, rows

Line = dict[str, Any]

SUMS = {"real": (496, 461, 126_105, 267_274), "spotter": (490, 395, 88_418, 89_956)}
"""Blocks of calls and of results, responses, their tokens out, and the same if every line is added."""


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if ".json" in path.name and path.is_file())


def lines(folder: Path) -> list[tuple[Path, Line]]:
    found = []
    for path in files(folder):
        if ".meta.json" not in path.name:
            for line in content(path).split(b"\n"):
                if line.strip():
                    value = json.loads(line)
                    found.append((path, value if isinstance(value, dict) else {}))
    return found


def blocks(line: Line, kind: str) -> list[dict[str, Any]]:
    message = line.get("message")
    found = message.get("content") if isinstance(message, dict) else None
    if not isinstance(found, list):
        return []
    return [b for b in found if isinstance(b, dict) and b.get("type") == kind]


def written(folder: Path, *, internal: bool) -> dict[tuple[str, str], list[int]]:
    """Tokens out on each line of each response; those of compaction, or all others."""
    found: dict[tuple[str, str], list[int]] = defaultdict(list)
    for _, line in lines(folder):
        if line.get("type") == "assistant" and str(line.get("agentId")).startswith("acompact-") == internal:
            message = line["message"]
            found[message["id"], line["requestId"]].append(message["usage"]["output_tokens"])
    return found


def unfinished(folder: Path) -> set[str]:
    """Messages of which every line has the place for why they ended, and none says it."""
    ends: dict[str, list[Any]] = defaultdict(list)
    for _, line in lines(folder):
        if line.get("type") == "assistant" and not str(line.get("agentId")).startswith("acompact-"):
            message = line["message"]
            if message["model"] != "<synthetic>" and not line.get("isApiErrorMessage"):
                ends[message["id"]].append(message.get("stop_reason", "nowhere"))
    return {id for id, reasons in ends.items() if None in reasons and set(reasons) <= {None, "nowhere"}}


@pytest.fixture(scope="module")
def folder(corpora: Path) -> Path:
    return corpora / "claude-code"


@pytest.fixture(scope="module")
def read(folder: Path) -> dict[str, ot.Corpus]:
    return {part: ot.read_traces(files(folder / part)) for part in (*SUMS, "synthetic")}


@pytest.mark.parametrize("part", SUMS)
def test_sums_are_those_of_the_source(folder: Path, read: dict[str, ot.Corpus], part: str) -> None:
    n_blocks, n_responses, tokens, added = SUMS[part]
    events = read[part].events.select("type", "tokens_out", "extras").collect()
    told = written(folder / part, internal=False)
    internal = written(folder / part, internal=True)
    assert len(told) + len(internal) == n_responses
    assert sum(map(max, (told | internal).values())) == tokens
    assert sum(map(sum, (told | internal).values())) == added
    assert events["tokens_out"].sum() == tokens - sum(map(max, internal.values()))
    generations = events["extras"].str.json_path_match("$.x_gen").drop_nulls().unique()
    assert len(generations) == n_responses - len(internal)
    # A call is a tool call, the beginning of an agent, or a message; messages that were sent have no result.
    count = dict(events["type"].value_counts().rows())
    sent = sum(
        b["name"] == "SendMessage" for _, line in lines(folder / part) for b in blocks(line, "tool_use")
    )
    made_up = events.filter(
        pl.col("type") == "spawn", pl.col("extras").str.json_path_match("$.x_partial") == "true"
    )
    assert count["tool_call"] + count["spawn"] - len(made_up) + sent == n_blocks
    assert count["tool_result"] + sent == n_blocks


@pytest.mark.parametrize("part", ["real", "spotter", "synthetic"])
def test_every_line_is_accounted_for(folder: Path, read: dict[str, ot.Corpus], part: str) -> None:
    counts = read[part].record_counts.collect()
    total = len(lines(folder / part)) + sum(".meta.json" in path.name for path in files(folder / part))
    assert counts["count"].sum() == total
    quarantined = counts.filter(pl.col("status") == "quarantined")["count"].sum()
    assert quarantined == read[part].quarantine.collect().height == (5 if part == "synthetic" else 0)
    assert counts["importer"].unique().to_list() == ["claude_code"]
    assert counts.filter((pl.col("status") == "ignored") != pl.col("kind").is_not_null()).is_empty()


def test_every_file_is_recognized(folder: Path, corpora: Path) -> None:
    for path in files(folder) + files(corpora / "agent-cli-fixtures" / "claude"):
        counts = ot.read_traces(path).record_counts.collect()
        assert counts["importer"].unique().to_list() == ["claude_code"], path
    fixtures = ot.read_traces(files(corpora / "agent-cli-fixtures" / "claude"))
    assert fixtures.quarantine.collect().is_empty()
    for other in ("codex", "copilot", "gemini", "kimi", "qwen"):
        for path in files(corpora / "agent-cli-fixtures" / other):
            found = ot.read_traces(path).record_counts.collect()["importer"].to_list()
            assert "claude_code" not in found, path


def test_a_run_ends_with_its_outcome_unless_it_is_partial(read: dict[str, ot.Corpus]) -> None:
    for part in SUMS:
        for name, document in documents(read[part]).items():
            ends = [
                e for e in document["events"] if e["agent"] == "main" and e["type"] in ("return", "aggregate")
            ]
            partial = document["events"][0]["x_trace"].get("partial", False)
            assert bool(ends) != partial, name
            if ends:
                assert ends[-1] == [e for e in document["events"] if e["agent"] == "main"][-1]


def test_totals_of_sub_agents(folder: Path, read: dict[str, ot.Corpus]) -> None:
    """A result tells the size of the last context: more than the last line if that was written early."""
    low = {}
    for part in SUMS:
        told = {}
        for _, line in lines(folder / part):
            result = line.get("toolUseResult")
            if isinstance(result, dict) and "totalTokens" in result:
                told[result["agentId"]] = result["totalTokens"], result["totalToolUseCount"]
        found: dict[str, tuple[int, int]] = {}
        last_of: dict[str, str] = {}
        for document in documents(read[part]).values():
            ids = {e["to"]: e["x_agent_id"] for e in document["events"] if e["type"] == "spawn"}
            for agent, identity in ids.items():
                own = [e for e in document["events"] if e["agent"] == agent]
                last = [e for e in own if "tokens_out" in e][-1]
                last_of[identity] = last["x_gen"]
                calls = sum(e["type"] in ("tool_call", "spawn") for e in own)
                found[identity] = last["tokens_in"] + last["tokens_out"], calls
        assert {agent: n for agent, (_, n) in told.items()} == {agent: found[agent][1] for agent in told}
        low |= {agent: t - found[agent][0] for agent, (t, _) in told.items() if t != found[agent][0]}
        findings = rows(read[part].findings)
        assert "usage.repeated" not in {f["code"] for f in findings}
        floor = sum(f["count"] for f in findings if f["code"] == "usage.incomplete")
        assert floor == len(unfinished(folder / part) | {last_of[agent] for agent in told if agent in low})
    assert low == {"a36efb2a1231c41e2": 359, "c8d9b115": 2418, "a881341": 996, "aac57f5": 937}


def test_a_lead_and_its_six_sub_agents(read: dict[str, ot.Corpus]) -> None:
    document = next(d for name, d in documents(read["real"]).items() if name.startswith("ef958aa1"))
    kinds = {e["id"]: e for e in document["events"]}
    spawned = [e["to"] for e in document["events"] if e["type"] == "spawn"]
    assert spawned == ["alice", "bob", "carol", "alice2", "bob2", "carol2"]
    returned = [e["agent"] for e in document["events"] if e["type"] == "return" and e["to"] == "main"]
    assert returned == ["carol", "bob", "alice", "bob2", "carol2", "alice2"]
    gathered = defaultdict(set)
    for edge in document["edges"]:
        if edge["type"] == "aggregate":
            gathered[edge["dst"]].add(kinds[edge["src"]]["agent"])
        assert kinds[edge["src"]]["t"] <= kinds[edge["dst"]]["t"], "their clocks agree"
    assert list(gathered.values()) == [{"alice", "bob", "carol"}, {"alice2", "bob2", "carol2"}]
