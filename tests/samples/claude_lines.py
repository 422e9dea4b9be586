"""Sessions of Claude Code, line by line: seconds of one morning, one model, made-up texts."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orchestrace as ot

Line = dict[str, Any]
SESSION = "11111111-2222-4333-8444-555555555555"


def line(second: float, kind: str, **more: Any) -> Line:
    time = f"2026-01-01T{int(second) // 3600:02}:{int(second) // 60 % 60:02}:{second % 60:06.3f}Z"
    identity = f"{more.get('agentId', 'main')}-{kind}-{second}-{len(str(more))}"
    return {
        "type": kind,
        "uuid": identity,
        "timestamp": time,
        "sessionId": SESSION,
        "isSidechain": False,
    } | more


def asks(second: float, text: str, **more: Any) -> Line:
    return line(second, "user", message={"role": "user", "content": text}, **more)


def answers(second: float, id: str, *blocks: Line, ends: str | None = "end_turn", **more: Any) -> Line:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 6,
        "cache_creation_input_tokens": 4,
        "output_tokens": 2,
    }
    message = {"id": id, "role": "assistant", "model": "m-1", "content": list(blocks), "stop_reason": ends}
    message["usage"] = usage | more.pop("usage", {})
    return line(second, "assistant", requestId="q", message=message, **more)


def says(second: float, id: str, text: str, **more: Any) -> Line:
    return answers(second, id, {"type": "text", "text": text}, **more)


def calls(second: float, id: str, call: str, tool: str, arguments: Mapping[str, Any], **more: Any) -> Line:
    block = {"type": "tool_use", "id": call, "name": tool, "input": dict(arguments)}
    return answers(second, id, block, ends="tool_use", **more)


def gives(second: float, call: str, text: str, kept: Any = None, **more: Any) -> Line:
    block = {"type": "tool_result", "tool_use_id": call, "content": text}
    more |= {} if kept is None else {"toolUseResult": kept}
    return line(second, "user", message={"role": "user", "content": [block]}, **more)


def launches(second: float, call: str, agent: str) -> Line:
    kept = {"status": "async_launched", "agentId": agent}
    return gives(second, call, "Async agent launched successfully.", kept)


def notifies(
    second: float, task: str, result: str, call: str = "", more: str = "", status: str = "completed"
) -> Line:
    inside = f"<task-id>{task}</task-id>\n<tool-use-id>{call}</tool-use-id>\n<status>{status}</status>\n"
    return asks(second, f"<task-notification>\n{inside}<result>{result}</result>\n{more}</task-notification>")


def by(agent: str, lines: list[Line]) -> list[Line]:
    side = {"agentId": agent, "isSidechain": True}
    return [entry | side | {"uuid": f"{agent}-{entry['uuid']}"} for entry in lines]


def read(folder: Path, main: list[Line], **agents: list[Line]) -> ot.Corpus:
    """The main stream, and the file of each agent; `run__agent` works in the run of a workflow."""
    files = {f"{SESSION}.jsonl": main}
    for agent, lines in agents.items():
        run, _, name = agent.rpartition("__")
        place = f"workflows/{run}/" if run else ""
        file = "journal" if name == "journal" else f"agent-{name}"
        files[f"{SESSION}/subagents/{place}{file}.jsonl"] = lines if name == "journal" else by(name, lines)
    for name, lines in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(entry) + "\n" for entry in lines))
    return ot.read_traces(folder)


def spoken(corpus: ot.Corpus) -> list[tuple[float, str, str, str | None]]:
    """What agents said and whom it was for: time, type, who, to whom."""
    events = corpus.events.select("t", "type", "agent", "to").collect()
    kinds = ("message", "return", "aggregate")
    rows = ((t, str(kind), agent, to) for t, kind, agent, to in events.iter_rows())
    return [row for row in rows if row[1] in kinds and row[2] != "user"]


def edges(corpus: ot.Corpus, kind: str) -> set[tuple[float, float]]:
    """Times at which edges of a kind begin and end."""
    times = corpus.events.select("t").collect()["t"].to_list()
    found = corpus.edges.select("src", "dst", "type").collect()
    return {(times[src], times[dst]) for src, dst, what in found.iter_rows() if what == kind}


def codes(corpus: ot.Corpus) -> dict[str, int]:
    return dict(corpus.findings.select("code", "count").collect().iter_rows())


def is_partial(corpus: ot.Corpus) -> bool:
    return bool(corpus.traces.select("partial").collect().item())
