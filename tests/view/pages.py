"""Pages in tests: hostile recordings, and what a page holds, read back without its script."""

import json
import re
from pathlib import Path
from typing import Any

import orchestrace as ot
from samples.claude_lines import asks, calls, gives, says

DATA = re.compile(r'<script type="application/json" id="([^"]+)">(.*?)</script>', re.DOTALL)

HOSTILE = {
    "script": "<script>window.stolen = 1; alert(1)</script>",
    "end of script": "</script><img src=x onerror=alert(2)>",
    "comment": "<!--<script>",
    "quotes": "\"' onmouseover='alert(3)' x=\"",
    "template": "${alert(4)} {{7*7}} $policy $data",
    "link": "javascript:alert(5)",
    "entities": "&lt;b&gt; &amp;#60;",
    "control": "a\u0007b\u001b[31mc\u0000d\r\ne",
    "bidirectional": "abc\u202egnp.exe\u2066x\u2069",
    "separators": "a\u2028b\u2029c",
    "long": "n" * 100_000,
    "emoji": "\U0001f9d1\u200d\U0001f680 你好",
}
"""Names that a page must show as text."""


def hostile_run(name: str, number: int = 0) -> dict[str, Any]:
    """A run in which everything that has a name is called so."""
    event = {"agent": name, "role": name, "to": f"{name} 2", "tool": name, "turn": 0}
    return {
        "trace_id": f"{name} {number}",
        "task_id": name,
        "system": name,
        "events": [
            {"id": f"{name} a", "t": 0, "type": "orchestrator_decision", **event},
            {"id": f"{name} b", "t": 1, "type": "tool_call", **event},
            {"id": f"{name} c", "t": 3, "type": "tool_result", **event, "trusted": False, "score": 0.5},
            {"id": f"{name} d", "t": 4, "type": "return", **event, "score": 0.5},
        ],
        "edges": [
            {"src": f"{name} a", "dst": f"{name} b", "type": "causal"},
            {"src": f"{name} b", "dst": f"{name} c", "type": "tool_dependency"},
            {"src": f"{name} c", "dst": f"{name} d", "type": "return"},
        ],
        "rewards": {"team": 1},
        "costs": {"tokens": 1, "wall_clock_s": 4},
    }


def session(number: int) -> str:
    """A session of Claude Code, with a title but for the last; its model answered twice and called a tool."""
    own = {"sessionId": f"{number:08}-2222-4333-8444-555555555555"}
    start = 100.0 * number
    usage = {"input_tokens": 3 + number, "cache_creation_input_tokens": 40 * number + 7}
    lines = [
        asks(start, f"do task {number}"),
        calls(start + 2, f"m{number}", f"t{number}", "Read", {"file_path": "a"}, usage=usage),
        gives(start + 3, f"t{number}", "text"),
        says(start + 5 + number, f"n{number}", "done", usage=usage | {"output_tokens": 11 * number + 5}),
    ]
    for entry in lines:
        if entry["type"] == "assistant":
            entry["message"]["model"] = "claude-opus-4-7"
    if number < 2:
        lines.append({"type": "custom-title", "customTitle": f"Fix the parser {number}"})
        lines.append({"type": "ai-title", "aiTitle": "Parser"})
    return "".join(json.dumps(entry | own) + "\n" for entry in lines)


def hostile_corpus(folder: Path) -> ot.Corpus:
    """One run of each kind of hostile name, from a file that is kept."""
    path = folder / "hostile.jsonl"
    path.write_text("".join(json.dumps(hostile_run(name)) + "\n" for name in HOSTILE.values()))
    return ot.read_traces(path)


def data_of(page: Path) -> dict[str, Any]:
    """The data blocks of a page, by their ids."""
    return {name: json.loads(text) for name, text in DATA.findall(page.read_text(encoding="utf-8"))}


def columns(frame: dict[str, Any]) -> dict[str, list[Any]]:
    """The columns of a packed frame."""
    return {
        name: column
        if isinstance(column, list)
        else [None if at < 0 else column["names"][at] for at in column["at"]]
        for name, column in frame["columns"].items()
    }


def rows(frame: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a packed frame."""
    found = columns(frame)
    return [{name: column[at] for name, column in found.items()} for at in range(frame["height"])]
