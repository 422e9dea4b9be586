"""Every id of a joined run leads to it: rewards and arguments may name the session of any member."""

import json
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot

LEAD, CHILD = "01920000-0000-7000-8000-00000000000a", "01920000-0000-7000-8000-00000000000b"


def line(second: int, kind: str, **payload: object) -> dict[str, object]:
    return {"timestamp": f"2026-01-05T11:00:{second:02d}.000Z", "type": kind, "payload": payload}


def message(second: int, role: str, text: str) -> dict[str, object]:
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    return line(second, "response_item", type="message", role=role, content=[part])


@pytest.fixture
def family(tmp_path: Path) -> ot.Corpus:
    """A thread of Codex and one that it spawned."""
    spawned = {"subagent": {"thread_spawn": {"parent_thread_id": LEAD, "depth": 1}}}
    threads = {
        LEAD: [line(0, "session_meta", id=LEAD), message(1, "user", "go"), message(9, "assistant", "done")],
        CHILD: [line(2, "session_meta", id=CHILD, source=spawned), message(4, "assistant", "part")],
    }
    for name, lines in threads.items():
        path = tmp_path / f"rollout-2026-01-05T11-00-00-{name}.jsonl"
        path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return ot.read_traces(tmp_path)


def test_the_id_of_a_member_is_told(family: ot.Corpus) -> None:
    assert family.traces.select("trace_id").collect()["trace_id"].to_list() == [LEAD]
    told = family.findings.filter(pl.col("code") == "trace.joined").collect()
    assert told["message"].to_list() == [f"'{CHILD}' is part of this trace"]


@pytest.mark.parametrize("name", [LEAD, CHILD])
def test_a_reward_finds_the_run_by_any_id(family: ot.Corpus, name: str) -> None:
    paid = family.with_measures(pl.DataFrame({"trace_id": [name], "team": [0.5]}))
    rewards = paid.measures.filter(pl.col("kind") == "reward").select("trace", "value").collect()
    assert rewards.rows() == [(0, 0.5)]


def test_two_rewards_of_one_run_are_refused(family: ot.Corpus) -> None:
    with pytest.raises(ot.ParameterError, match="given twice"):
        family.with_measures(pl.DataFrame({"trace_id": [LEAD, CHILD], "team": [0.5, 1.0]}))


@pytest.mark.parametrize("name", [LEAD, CHILD])
def test_an_export_finds_the_run_by_any_id(family: ot.Corpus, name: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.mmd"
    ot.export(family, "mermaid", path, trace_id=name)
    assert path.stat().st_size


def test_an_id_of_nobody_is_refused(family: ot.Corpus) -> None:
    with pytest.raises(ot.ParameterError, match="unknown trace"):
        family.with_measures(pl.DataFrame({"trace_id": ["nobody"], "team": [0.5]}))
