"""Where the time of a session went: hand-worked values, and that the columns add up to the clock."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples.claude_lines import asks, calls, gives, launches, notifies, read, says
from samples.spans import chat, read as read_spans

COLUMNS = (
    *("model_time", "tool_time", "queue_time", "permission_wait"),
    *("human_wait", "scorer_time", "idle_time", "unaccounted"),
)


def times(corpus: ot.Corpus, **options: Any) -> dict[str, float]:
    """The columns of time that are not 0, and that their sum is the elapsed time."""
    row = ot.metrics(corpus, groups=["span", "time", "scale"], **options).row(0, named=True)
    found = {name: row[name] for name in COLUMNS if row[name]}
    assert sum(found.values()) == pytest.approx(row["elapsed"])
    return found


def test_a_duration_in_seconds_is_one(tmp_path: Path) -> None:
    lines = [
        asks(0, "go"),
        calls(5, "m1", "t1", "WebSearch", {}),
        gives(3290, "t1", "found", {"durationSeconds": 15.0}),
        says(3295, "m2", "done"),
    ]
    assert times(read(tmp_path, lines)) == {"model_time": 10, "tool_time": 15, "queue_time": 3270}


def test_a_human_who_goes_on_after_a_result(tmp_path: Path) -> None:
    lines = [
        asks(0, "go"),
        calls(5, "m1", "t1", "Edit", {}),
        gives(6, "t1", "ok"),
        asks(15_006, "continue"),
        says(15_011, "m2", "done"),
    ]
    corpus = read(tmp_path, lines)
    assert times(corpus, max_gap=None) == {"model_time": 10, "tool_time": 1, "human_wait": 15_000}
    assert times(corpus) == {"model_time": 10, "tool_time": 1, "idle_time": 15_000}


def test_a_human_who_speaks_while_a_call_is_open(tmp_path: Path) -> None:
    # Of two calls one is answered: the agent waits for the other.
    call = {"type": "tool_use", "id": "t2", "name": "Bash", "input": {}}
    first = calls(5, "m1", "t1", "Edit", {})
    first["message"]["content"].append(call)
    more = [asks(10, "hurry"), gives(20, "t2", "ok"), says(25, "m2", "done")]
    lines = [asks(0, "go"), first, gives(6, "t1", "ok"), *more]
    row = ot.metrics(read(tmp_path, lines), groups=["time"]).row(0, named=True)
    assert (row["model_time"], row["tool_time"], row["human_wait"]) == (10, 16, 0)


@pytest.mark.parametrize("tool", ["AskUserQuestion", "ExitPlanMode"])
def test_what_a_human_answered_or_approved(tmp_path: Path, tool: str) -> None:
    lines = [
        asks(0, "go"),
        calls(5, "m1", "t1", tool, {}),
        gives(1105, "t1", "yes"),
        says(1110, "m2", "done"),
    ]
    assert times(read(tmp_path, lines)) == {"model_time": 10, "permission_wait": 1100}
    (tmp_path / "refused").mkdir()
    lines[2] = gives(
        1105, "t1", "The user doesn't want to proceed with this tool use.", "User rejected tool use"
    )
    assert times(read(tmp_path / "refused", lines)) == {"model_time": 10, "permission_wait": 1100}
    # What failed before anybody saw it is the tool's.
    (tmp_path / "failed").mkdir()
    lines[2] = gives(6, "t1", "InputValidationError")
    lines[2]["message"]["content"][0]["is_error"] = True
    lines[3] = says(11, "m2", "done")
    assert times(read(tmp_path / "failed", lines)) == {"model_time": 10, "tool_time": 1}


def test_a_run_lasts_from_the_beginning_of_its_first_work(tmp_path: Path) -> None:
    # One answer that took 10 s: its end is the only time, but the run has lasted as long as it.
    assert times(read_spans(tmp_path, chat(1, 0, (0, 10)))) == {"model_time": 10}


def test_a_result_whose_call_is_lost_has_no_known_duration(tmp_path: Path) -> None:
    lines = [
        asks(0, "go"),
        says(5, "m1", "I look"),
        calls(600, "m2", "t1", "Bash", {}),
        gives(900, "t1", "found"),
        says(910, "m3", "done"),
    ]
    corpus = read(tmp_path, lines)
    assert times(corpus) == {"model_time": 610, "tool_time": 300}
    path = next(tmp_path.glob("*.jsonl"))
    torn = path.read_text().splitlines()
    torn[2] = torn[2][:80]
    path.write_text("\n".join(torn) + "\n")
    corpus = ot.read_traces(tmp_path)
    row = ot.metrics(corpus, groups=["time"]).row(0, named=True)
    assert (row["tool_time"], row["reason"]["tool_time"]) == (None, "field.absent")
    # 5 to the first word, 10 from the result to the last; nothing says what was in between
    assert times(corpus) == {"model_time": 15, "unaccounted": 895}


@pytest.mark.parametrize(
    ("tool", "input"), [("TaskOutput", {"task_id": "aa"}), ("AgentOutputTool", {"agentId": "aa"})]
)
def test_waiting_for_an_agent_in_the_background(tmp_path: Path, tool: str, input: dict[str, str]) -> None:
    done = "<retrieval_status>success</retrieval_status><task_id>aa</task_id><status>completed</status>dug"
    running = "<retrieval_status>timeout</retrieval_status><task_id>aa</task_id><status>running</status>"
    agent = {"subagent_type": "x", "prompt": "dig", "run_in_background": True}
    main = [
        asks(0, "go"),
        calls(4, "m1", "t1", "Agent", agent),
        launches(4, "t1", "aa"),
        calls(6, "m2", "t2", tool, input),
        gives(41, "t2", done),
        says(45, "m3", "fine"),
    ]
    corpus = read(tmp_path, main, aa=[asks(4, "dig"), says(40, "k1", "dug")])
    row = ot.metrics(corpus).row(0, named=True)
    # 36 of the agent; 4, 2 and 4 of the main one
    assert (row["tool_time"], row["model_time"], row["elapsed"]) == (0, 46, 45)
    by = ot.schedules.critical_path(corpus, by="agent").select(pl.col("agent").cast(pl.String), "critical")
    assert dict(by.iter_rows())["x"] == 36
    main[4:] = [gives(36, "t2", running), says(37, "m3", "later"), notifies(41, "aa", "dug", "t1")]
    (tmp_path / "asked").mkdir()
    corpus = read(tmp_path / "asked", main, aa=[asks(4, "dig"), says(40, "k1", "dug")])
    row = ot.metrics(corpus).row(0, named=True)
    assert (row["tool_time"], row["queue_time"]) == (0, 30)


def test_agents_without_their_main_agent(tmp_path: Path) -> None:
    agents = {f"a{n}": [asks(2000 * n, "part"), says(2000 * n + 4, f"m{n}", "text")] for n in range(3)}
    corpus = read(tmp_path, [], **agents)
    assert times(corpus) == {"model_time": 12, "unaccounted": 3992}


def test_idle_time_counts_once(tmp_path: Path) -> None:
    main = [asks(0, "go"), says(3, "m1", "hello")]
    agents = {name: [asks(86_000, "Warmup"), says(86_002, name, "ready")] for name in ("aa", "bb")}
    corpus = read(tmp_path, main, **agents)
    assert times(corpus, max_gap=3600) == {"model_time": 3, "idle_time": 85_999}


def test_the_columns_cover_the_clock(corpora: Path) -> None:
    corpus = ot.read_traces(corpora / "claude-code")
    for max_gap in (None, 60, 3600):
        table = ot.metrics(corpus, groups=["span", "time", "scale"], max_gap=max_gap)
        total = sum((pl.col(name).fill_null(0) for name in COLUMNS), pl.lit(0.0))
        rows = table.filter(pl.col("elapsed").is_not_null()).select(
            total=total, elapsed="elapsed", idle="idle_time"
        )
        assert rows.height > 20
        assert (rows["total"] >= rows["elapsed"] * (1 - 1e-9) - 1e-6).all()
        assert (rows["idle"] <= rows["elapsed"] * (1 + 1e-9)).all()


REASONS = ("trace.partial", "time.harness")
"""Findings that say why time is not accounted for: what is not recorded has no place."""


def test_time_that_is_not_accounted_for_has_a_reason(corpora: Path) -> None:
    timed = 0
    for folder in sorted(path for path in corpora.iterdir() if path.is_dir()):
        try:
            corpus = ot.read_traces(folder)
        except ot.InputError:
            continue  # no recordings of runs
        table = ot.metrics(corpus, groups=["time", "scale"])
        codes = corpus.findings.filter(pl.col("code").cast(pl.String).is_in(REASONS)).collect()
        # How long something took is not known either where the call is not recorded.
        results = corpus.events.filter(pl.col("type").cast(pl.String) == "tool_result")
        untimed = results.filter(pl.col("duration_s").is_null())
        alone = untimed.filter(pl.col("extras").str.contains('"x_partial"')).collect()["trace"]
        scored = corpus.agents.filter(pl.col("kind").cast(pl.String) == "scorer").collect()["trace"]
        for row in table.iter_rows(named=True):
            if row["clock_unit"] != "seconds" or not row["elapsed"]:
                continue
            timed += 1
            # Durations of its results, or of its scorers, are not known.
            unknown = (
                row["tool_time"] is None
                or row["trace"] in alone
                or (row["scorer_time"] is None and row["trace"] in scored)
            )
            if row["trace"] not in codes["trace"] and not unknown:
                assert row["unaccounted"] <= 0.01 * row["elapsed"], (folder.name, row["trace"])
    assert timed > 190


def test_what_closes_a_run_follows_the_last_result() -> None:
    """A grader's sample: 2 s to the call, 1 s of queue, 3 s of the tool, 1 s until the sample ends."""
    golden = Path(__file__).resolve().parents[2] / "data/importers/inspect/input.json"
    corpus = ot.read_traces(golden).filter(pl.col("trace") == 1)
    assert times(corpus) == {"model_time": 3, "tool_time": 3, "queue_time": 1}


def test_time_of_tools_alone(tmp_path: Path) -> None:
    """SWE-agent records how long commands took, and nothing of the model's time."""
    commands = [("ls", 10.0), ("submit", 30.0)]
    steps = [
        {"action": action, "observation": "x", "response": f"```\n{action}\n```", "thought": "t"}
        | {"execution_time": seconds, "state": {}}
        for action, seconds in commands
    ]
    info = {"exit_status": "submitted", "submission": "diff"}
    path = tmp_path / "one.traj"
    path.write_text(json.dumps({"environment": "main", "trajectory": steps, "history": [], "info": info}))
    row = ot.metrics(ot.read_traces(path), groups=["time", "scale"]).row(0, named=True)
    assert (row["elapsed"], row["model_time"], row["tool_time"]) == (40, 0, 40)


def test_a_word_of_the_environment_that_nothing_leads_to(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = [
        {"id": "a", "t": 0.0, "type": "message", "agent": "user", "to": "main"},
        {"id": "b", "t": 4.0, "type": "message", "agent": "main"},
        {"id": "c", "t": 100.0, "type": "message", "agent": "env", "role": "environment", "to": "main"},
        {"id": "d", "t": 110.0, "type": "return", "agent": "main", "to": "user"},
    ]
    edges = [{"src": one, "dst": two, "type": "message"} for one, two in (("a", "b"), ("b", "d"), ("c", "d"))]
    run = {"trace_id": "r", "task_id": "t", "events": events, "edges": edges, "rewards": {}}
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(run | {"costs": {"tokens": 0, "wall_clock_s": 110}}))
    row = ot.metrics(ot.read_traces(path, time_basis="seconds"), groups=["time"]).row(0, named=True)
    assert (row["model_time"], row["tool_time"], row["unaccounted"]) == (14, None, 96)


def test_a_human_who_goes_on_after_a_refusal_beside_an_agent(tmp_path: Path) -> None:
    """That the agent answered leaves no call open."""
    events: list[dict[str, Any]] = [
        {"id": "u", "t": 0.0, "type": "message", "agent": "user", "to": "main"},
        {"id": "s", "t": 4.0, "type": "spawn", "agent": "main", "to": "x"},
        {"id": "r", "t": 20.0, "type": "return", "agent": "x", "to": "main"},
        {"id": "sr", "t": 20.0, "type": "tool_result", "agent": "Agent", "tool": "Agent"},
        {"id": "c", "t": 24.0, "type": "tool_call", "agent": "main", "tool": "Bash"},
        {"id": "cr", "t": 25.0, "type": "tool_result", "agent": "Bash", "tool": "Bash"},
        {"id": "v", "t": 45.0, "type": "message", "agent": "user", "to": "main"},
        {"id": "e", "t": 55.0, "type": "return", "agent": "main", "to": "user"},
    ]
    told = [("u", "s"), ("s", "r"), ("r", "sr"), ("sr", "c"), ("c", "cr"), ("cr", "e"), ("v", "e")]
    kinds = {("s", "r"): "spawn", ("r", "sr"): "return", ("c", "cr"): "return", ("v", "e"): "message"}
    edges = [{"src": a, "dst": b, "type": kinds.get((a, b), "causal")} for a, b in told]
    run = {"trace_id": "r", "task_id": "t", "events": events, "edges": edges, "rewards": {}}
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(run | {"costs": {"tokens": 0, "wall_clock_s": 55}}))
    row = ot.metrics(ot.read_traces(path, time_basis="seconds"), groups=["time"]).row(0, named=True)
    assert (row["human_wait"], row["unaccounted"]) == (20, 0)


def test_time_of_an_agent_that_is_asked_again_is_its_own(tmp_path: Path) -> None:
    """What it answered first is a message: the result that brings it took no time beside it."""
    events: list[dict[str, Any]] = [
        {"id": "u", "t": 0.0, "type": "message", "agent": "user", "to": "main"},
        {"id": "s", "t": 4.0, "type": "spawn", "agent": "main", "to": "x"},
        {"id": "m", "t": 20.0, "type": "message", "agent": "x", "to": "main"},
        {"id": "mr", "t": 20.0, "type": "tool_result", "agent": "Agent", "tool": "Agent", "duration_s": 16.0},
        {"id": "e", "t": 24.0, "type": "return", "agent": "main", "to": "user"},
    ]
    kinds = {("u", "s"): "message", ("s", "m"): "spawn", ("m", "mr"): "message", ("mr", "e"): "causal"}
    edges = [{"src": a, "dst": b, "type": kind} for (a, b), kind in kinds.items()]
    run = {"trace_id": "r", "task_id": "t", "events": events, "edges": edges, "rewards": {}}
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(run | {"costs": {"tokens": 0, "wall_clock_s": 24}}))
    row = ot.metrics(ot.read_traces(path, time_basis="seconds"), groups=["time"]).row(0, named=True)
    assert (row["model_time"], row["tool_time"], row["unaccounted"]) == (24, 0, 0)


def test_time_of_an_adviser_is_a_model_s(tmp_path: Path) -> None:
    """4 s to the call, 20 s of the other model, 6 s to the text: what it said is no work of a tool."""
    usage = {
        **{"input_tokens": 30, "output_tokens": 25},
        "iterations": [{"type": "advisor_message", "model": "big", "input_tokens": 100, "output_tokens": 50}],
    }
    call = {"type": "server_tool_use", "id": "sv", "name": "advisor", "input": {}}
    advice = {"type": "advisor_result", "text": "use it"}
    back = {"type": "advisor_tool_result", "tool_use_id": "sv", "content": advice}
    lines = [asks(0, "go")]
    for at, block in ((4, call), (24, back), (30, {"type": "text", "text": "done"})):
        line = says(at, "m1", "")
        line["message"] |= {"content": [block], "usage": usage}
        lines.append(line)
    assert times(read(tmp_path, lines)) == {"model_time": 30}
