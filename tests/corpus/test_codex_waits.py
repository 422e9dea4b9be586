"""Calls of Codex that wait for agents: waiting is no work of a tool, and the answer leads on."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

ROOT, KID = "01900000-0000-7000-8000-0000000000aa", "01900000-0000-7000-8000-0000000000bb"
Line = dict[str, Any]


def at(second: float, kind: str, payload: Line) -> Line:
    return {"timestamp": f"2026-01-01T00:{int(second) // 60:02}:{second % 60:06.3f}Z", "type": kind} | {
        "payload": payload
    }


def item(second: float, kind: str, **more: Any) -> Line:
    return at(second, "response_item", {"type": kind} | more)


def event(second: float, kind: str, **more: Any) -> Line:
    return at(second, "event_msg", {"type": kind} | more)


def says(second: float, text: str) -> Line:
    return item(second, "message", role="assistant", content=[{"type": "output_text", "text": text}])


def asks(second: float, text: str) -> Line:
    return item(second, "message", role="user", content=[{"type": "input_text", "text": text}])


def calls(second: float, call: str, tool: str, arguments: Line) -> Line:
    return item(second, "function_call", call_id=call, name=tool, arguments=json.dumps(arguments))


def gives(second: float, call: str, output: Line) -> Line:
    return item(second, "function_call_output", call_id=call, output=json.dumps(output))


def meta(second: float, thread: str, **more: Any) -> Line:
    known = {"id": thread, "timestamp": "2026-01-01T00:00:00Z", "source": "cli"}
    return at(second, "session_meta", known | more)


def starts(second: float, turn: str) -> list[Line]:
    context = at(second, "turn_context", {"turn_id": turn, "model": "m"})
    return [event(second, "task_started", turn_id=turn), context]


def ends(second: float, turn: str, text: str) -> Line:
    return event(second, "task_complete", turn_id=turn, last_agent_message=text)


def write(folder: Path, **threads: list[Line]) -> ot.Corpus:
    for name, lines in threads.items():
        path = folder / f"rollout-2026-01-01T00-00-00-{ROOT if name == 'root' else KID}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ot.read_traces(folder)


def family(tool: str, status: Any) -> dict[str, list[Line]]:
    """A root that asks at 4, and waits from 6 to 41 for a child that works from 5 to 40."""
    root = [
        meta(0, ROOT),
        *starts(0, "t1"),
        asks(0, "go"),
        calls(4, "s1", "spawn_agent", {"message": "dig"}),
        gives(4, "s1", {"agent_id": KID, "nickname": "Ada"}),
        calls(6, "w1", tool, {"ids": [KID]}),
        gives(41, "w1", {"status": status, "timed_out": not status}),
        says(45, "fine"),
        ends(45, "t1", "fine"),
    ]
    spawn = {"parent_thread_id": ROOT, "depth": 1, "agent_nickname": "Ada", "agent_role": "x"}
    kid = [
        meta(5, KID, source={"subagent": {"thread_spawn": spawn}}),
        *starts(5, "k1"),
        asks(5, "dig"),
        says(40, "dug"),
        ends(40, "k1", "dug"),
    ]
    return {"root": root, "kid": kid}


@pytest.mark.parametrize("tool", ["wait", "wait_agent"])
def test_waiting_for_an_agent_is_no_work(tmp_path: Path, tool: str) -> None:
    corpus = write(tmp_path, **family(tool, {KID: {"completed": "dug"}}))
    row = ot.metrics(corpus).row(0, named=True)
    # 4 and 2 of the root until it waits, 4 of its answer, 35 of the child
    assert (row["tool_time"], row["model_time"], row["elapsed"]) == (0, 45, 45)
    path = ot.schedules.critical_path(corpus, by="agent")
    assert dict(path.select(pl.col("agent").cast(pl.String), "critical").iter_rows()).get("Ada") == 35
    events = corpus.events.collect()
    names = [f"{kind}" for kind in events["type"].cast(pl.String)]
    answered, result = names.index("return"), len(names) - 2
    assert names[result] == "tool_result"
    found = corpus.edges.collect().select("src", "dst", pl.col("type").cast(pl.String)).rows()
    assert (answered, result, "return") in found
    # Of a child whose thread is not at hand the answer is what the wait brought.
    (tmp_path / "alone").mkdir()
    alone = write(tmp_path / "alone", root=family(tool, {KID: {"completed": "dug"}})["root"])
    assert ot.metrics(alone)["tool_time"].item() == 0
    assert "time.reversed" not in alone.findings.collect()["code"].cast(pl.String).to_list()


def test_a_wait_that_brings_nothing_is_a_wait(tmp_path: Path) -> None:
    files = family("wait_agent", {})
    row = ot.metrics(write(tmp_path, **files)).row(0, named=True)
    # 1 until the child began, 35 of the wait: nothing says that its answer came of it
    assert (row["tool_time"], row["queue_time"]) == (0, 36)
