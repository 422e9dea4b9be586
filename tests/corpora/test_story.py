"""Five recordings that were read by hand: what the story says of them, figure by figure.

Events, answers and who had untrusted content were counted by eye along the lines of each file; the numbers
stand below. Sums of tokens and of times are counted again here, from the lines themselves, without our
importers: times of models run from what an agent was given last to the last thing that it then wrote, times
of tools from calls to results.
"""

import gzip
import json
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import orchestrace as ot

Line = dict[str, Any]
CLAUDE = Path("claude-code") / "real"


def lines(path: Path) -> list[Line]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def clock(stamp: str) -> float:
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def claude_tokens(rows: Iterable[Line]) -> dict[str, int]:
    """Of each message the usage of its last line: earlier lines repeat what was known until then."""
    usage = {
        row["message"]["id"]: row["message"]["usage"] for row in rows if "usage" in row.get("message", {})
    }
    names = {
        "fresh": "input_tokens",
        "cached": "cache_read_input_tokens",
        "cache_write": "cache_creation_input_tokens",
        "out": "output_tokens",
    }
    return {kind: sum(one.get(name, 0) for one in usage.values()) for kind, name in names.items()}


def claude_times(rows: list[Line], given: float) -> tuple[float, float]:
    """Seconds of the model and of tools of an agent, who was given something at `given` before its rows."""
    model = tool = 0.0
    calls: dict[str, float] = {}
    wrote: float | None = None
    for row in rows:
        content = row.get("message", {}).get("content")
        if row["type"] == "assistant":
            wrote = clock(row["timestamp"])
            calls |= {part["id"]: wrote for part in content if part["type"] == "tool_use"}
        elif row["type"] == "user" and isinstance(content, list):
            tool += sum(clock(row["timestamp"]) - calls[part["tool_use_id"]] for part in content)
            model += wrote - given if wrote is not None else 0.0
            given, wrote = clock(row["timestamp"]), None
        elif row["type"] == "user" and calls:
            model += wrote - given if wrote is not None else 0.0
            given, wrote = clock(row["timestamp"]), None
    return model + (wrote - given if wrote is not None else 0.0), tool


def test_a_session_in_which_a_person_came_back(corpora: Path) -> None:
    path = corpora / CLAUDE / "-Users-dain-workspace-claude-code-log-sample"
    path /= "937c6e6b-27e7-4edd-86f1-ad28f9731841.jsonl.gz"
    rows = lines(path)
    story = ot.summary(ot.read_traces(path))
    # 99 lines: 5 of what the program said of itself, 20 of the system, 74 that something happened in
    assert story.records == {"read": 99, "used": 74, "ignored": 25, "duplicate": 0, "quarantined": 0}
    assert (story.n_traces, story.n_partial, story.n_events, story.n_agents) == (1, 0, 74, 1)
    assert story.answered_by == {"main": 1}
    assert {kind: story.tokens[kind] for kind in ("fresh", "cached", "cache_write", "out")} == {
        "fresh": 119,
        "cached": 836_558,
        "cache_write": 40_058,
        "out": 1_873,
    }
    assert claude_tokens(rows) == {"fresh": 119, "cached": 836_558, "cache_write": 40_058, "out": 1_873}
    assert (story.tokens["total"], story.cost_usd) == (878_608, None)
    # the person asked in line 6 and, 210.429 s after the last word of line 42, in line 43
    human = clock(rows[42]["timestamp"]) - clock(rows[41]["timestamp"])
    model, tool = claude_times(rows[6:], clock(rows[5]["timestamp"]))
    assert story.seconds["human"] == pytest.approx(human) == pytest.approx(210.429)
    assert story.seconds["tool"] == pytest.approx(tool) == pytest.approx(7.95)
    assert story.seconds["model"] == pytest.approx(model) == pytest.approx(218.883)
    assert story.critical["agent"].to_list()[0] == "main"
    assert story.critical["critical"].sum() == pytest.approx(218.883 + 7.95)
    assert story.unreached.height == 0
    assert (
        story.exposed is not None and story.exposed.height == 0
    )  # no spawn, no call that is marked privileged


def test_a_session_with_a_sub_agent(corpora: Path) -> None:
    folder = corpora / CLAUDE / "-src-experiments-claude_p"
    main = lines(folder / "29ccd257-68b1-427f-ae5f-6524b7cb6f20.jsonl")
    explore = lines(folder / "29ccd257-68b1-427f-ae5f-6524b7cb6f20" / "subagents" / "agent-a2271d1.jsonl.gz")
    story = ot.summary(ot.read_traces(folder))
    # 4 lines of the main agent, its call being a decision and a spawn; 58 of the other beside its prompt
    assert story.records["read"] == len(main) + len(explore) == 65
    assert (story.n_traces, story.n_events, story.n_agents) == (1, 5 + 58, 2)
    assert story.answered_by == {"main": 1}
    assert claude_tokens(main + explore) == {
        "fresh": 4468,
        "cached": 272_977,
        "cache_write": 50_764,
        "out": 20,
    }
    assert {kind: story.tokens[kind] for kind in ("fresh", "cached", "cache_write", "out")} == {
        "fresh": 4468,
        "cached": 272_977,
        "cache_write": 50_764,
        "out": 20,
    }
    assert story.tokens["total"] == 328_229
    prompt, call, answer, last = (clock(main[at]["timestamp"]) for at in (2, 3, 4, 5))
    model, tool = claude_times(explore[1:], call)
    # the call of the sub-agent is the sub-agent's time, but for what is left after its last word
    left = answer - clock(explore[-1]["timestamp"])
    assert story.seconds["model"] == pytest.approx((call - prompt) + model + (last - answer))
    assert story.seconds["tool"] == pytest.approx(tool + left)
    assert story.seconds["human"] in (None, 0.0)
    (held, first), (rest, second), (handed, nobody) = story.critical.select("critical", "agent").rows()
    assert (first, second, nobody) == ("Explore", "main", None)
    assert rest == pytest.approx((call - prompt) + (last - answer))
    assert handed == pytest.approx(left, abs=1e-6)  # the result that hands the answer over is nobody's work
    assert held + rest + handed == pytest.approx(last - prompt)
    assert story.unreached.height == 0


def test_a_session_of_codex(corpora: Path) -> None:
    path = corpora / "codex" / "real-redacted"
    path /= "rollout-2026-02-23T12-47-42-019c8a53-a0dd-7130-bcd7-95445d84846a.jsonl.gz"
    rows = [(clock(row["timestamp"]), row["type"], row.get("payload") or {}) for row in lines(path)]
    story = ot.summary(ot.read_traces(path))
    assert story.records["read"] == len(rows) == 837
    # 7 questions, 52 words of the agent, 134 + 10 calls, 133 + 10 results
    assert (story.n_traces, story.n_partial, story.n_events, story.n_agents) == (1, 1, 346, 1)
    assert story.answered_by == {}  # it ends with a question that nobody answered
    usage = [part["info"]["total_token_usage"] for _, _, part in rows if part.get("info")][-1]
    assert (usage["input_tokens"], usage["cached_input_tokens"]) == (6_740_973, 6_337_024)
    assert story.tokens == {
        "fresh": 6_740_973 - 6_337_024,
        "cached": 6_337_024,
        "cache_write": None,
        "out": 36_950,
        "reasoning": 17_085,
        "total": 6_777_923,
    }
    calls = {part["call_id"]: at for at, _, part in rows if part.get("type", "").endswith("_call")}
    tool = sum(
        at - calls[part["call_id"]] for at, _, part in rows if part.get("type", "").endswith("_output")
    )
    assert story.seconds["tool"] == pytest.approx(tool, abs=1e-3) == pytest.approx(421.951, abs=1e-3)
    # five times the agent was done and a person came back; the last one came while a call ran
    waits = [168.171, 1055.001, 732.918, 24.835, 47.703]
    assert story.seconds["human"] == pytest.approx(sum(waits), abs=1e-3)
    model, given, wrote = 0.0, 0.0, None
    for at, kind, part in rows:
        what = part.get("type", "")
        if what == "user_message" or what.endswith("_output"):
            model, given, wrote = model + (wrote - given if wrote else 0.0), at, None
        elif what == "agent_message" or (kind == "response_item" and what.endswith("_call")):
            wrote = at
    model += wrote - given if wrote else 0.0
    assert story.seconds["model"] is not None and story.seconds["queue"] is not None
    assert story.seconds["model"] + story.seconds["queue"] == pytest.approx(model, abs=0.1)
    assert story.unreached.height == 0


def test_a_log_of_inspect(corpora: Path) -> None:
    path = (
        corpora / "inspect-ai" / "logs" / "analysis" / "test_logs" / "2025-05-12T20-27-36-04-00_browser.json"
    )
    (sample,) = json.loads(path.read_text(encoding="utf-8"))["samples"]
    usage = sample["model_usage"]["openai/gpt-4o-mini"]
    story = ot.summary(ot.read_traces(path))
    # a question, four calls with their results, an answer
    assert (story.n_traces, story.n_events, story.n_agents) == (1, 10, 1)
    assert story.answered_by == {"main": 1}
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] == 15_516
    assert (story.tokens["fresh"], story.tokens["cached"], story.tokens["out"]) == (
        15_235 - 9_088,
        9_088,
        281,
    )
    assert story.tokens["total"] == 15_516
    took = {"model": 0.0, "tool": 0.0}
    for event in sample["events"]:
        if event["event"] in took:
            took[event["event"]] += clock(event["completed"]) - clock(event["timestamp"])
    assert story.seconds["model"] == pytest.approx(took["model"], abs=1e-3) == pytest.approx(8.28, abs=0.01)
    assert story.seconds["tool"] == pytest.approx(took["tool"], abs=1e-3) == pytest.approx(9.861, abs=0.01)
    assert story.seconds["human"] in (None, 0.0)
    assert story.critical["agent"].to_list()[0] == "main"
    assert (story.cost_usd, story.unreached.height) == (None, 0)


def test_an_export_of_langfuse(corpora: Path) -> None:
    path = corpora / "langfuse" / "pydantic-ai-tools-2025-12-04.trace.json"
    seen = json.loads(path.read_text(encoding="utf-8"))["observations"]
    story = ot.summary(ot.read_traces(path))
    # three agents below the one that asks and answers; three calls, their results, a call of the last agent
    assert story.records == {"read": 13, "used": 11, "ignored": 2, "duplicate": 0, "quarantined": 0}
    assert (story.n_traces, story.n_events, story.n_agents) == (1, 14, 4)
    assert story.answered_by == {"joke-generator": 1}
    generations = [one for one in seen if one["type"] == "GENERATION"]
    usage = [one["usageDetails"] for one in generations]
    assert story.tokens["total"] == sum(one["total"] for one in usage) == 338 + 470 + 516 + 200
    assert story.tokens["fresh"] == sum(one["input"] for one in usage) == 265 + 417 + 502 + 131
    assert story.tokens["out"] == sum(one["output"] for one in usage) == 73 + 53 + 14 + 69
    assert story.cost_usd == pytest.approx(sum(one["costDetails"]["total"] for one in generations))
    assert story.cost_usd == pytest.approx(0.00032265, abs=1e-8)

    def took(kind: str) -> float:
        return sum(clock(one["endTime"]) - clock(one["startTime"]) for one in seen if one["type"] == kind)

    # what agents do between their calls of models takes some milliseconds
    assert (
        story.seconds["model"]
        == pytest.approx(took("GENERATION"), abs=0.01)
        == pytest.approx(7.402, abs=0.01)
    )
    assert story.seconds["tool"] == pytest.approx(took("TOOL"), abs=1e-3) == pytest.approx(0.016, abs=1e-3)
    assert story.unreached.height == 0
    assert story.exposed is not None
    # jokes of tools, which nobody vouches for, come before the next agent is asked
    assert story.exposed.select("action", "event").rows() == [("spawn", "49ae06cbfa06611f:s")]
