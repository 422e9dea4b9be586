"""Job folders of Harbor: a run counts once, however often it is recorded, and has what its result says."""

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot

FIRST, SECOND = "6cd458de-4900-4c62-882b-e5083346d405", "375374cb-ec16-4f6f-83a0-fc4819daef44"


def session(name: str, responses: int) -> str:
    def line(at: int, kind: str, message: dict[str, Any]) -> str:
        record = {
            "parentUuid": f"u{at - 1}" if at else None,
            "sessionId": name,
            "type": kind,
            "uuid": f"u{at}",
            "timestamp": f"2026-09-14T09:00:{at:02d}.000Z",
            "message": {"role": kind} | message,
        }
        return json.dumps(record | ({"requestId": f"req_{name}_{at}"} if kind == "assistant" else {}))

    lines = [line(0, "user", {"content": "Go."})]
    for at in range(1, responses + 1):
        body = {"id": f"msg_{name}_{at}", "model": "m", "content": [{"type": "text", "text": f"t{at}"}]}
        lines.append(line(at, "assistant", body | {"usage": {"input_tokens": 100, "output_tokens": 5}}))
    return "\n".join(lines) + "\n"


def atif(name: str, responses: int) -> dict[str, Any]:
    metrics = {"prompt_tokens": 100, "completion_tokens": 5}
    steps = [{"step_id": 1, "source": "user", "message": "Go."}]
    steps += [
        {"step_id": at + 1, "source": "agent", "message": f"t{at}", "metrics": metrics}
        for at in range(1, responses + 1)
    ]
    agent = {"name": "claude-code", "version": "2"}
    return {"schema_version": "ATIF-v1.7", "session_id": name, "agent": agent, "steps": steps}


def result(trial: str, tokens: tuple[int, int], **more: Any) -> dict[str, Any]:
    read, written = tokens
    return {
        "task_name": "fix-flag",
        "trial_name": trial,
        "agent_info": {"name": "claude-code"},
        "agent_result": {"n_input_tokens": read, "n_output_tokens": written, "cost_usd": None},
        "verifier_result": {"rewards": {"reward": 0.0}},
        "exception_info": None,
    } | more


def put(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1))


def trial(folder: Path, name: str, responses: int, **more: Any) -> None:
    put(folder / "agent/sessions/projects/-app" / f"{name}.jsonl", session(name, responses))
    put(folder / "agent/trajectory.json", atif(name, responses))
    put(folder / "result.json", result(folder.name, (100 * responses, 5 * responses), **more))
    put(
        folder / "config.json", {"task": {"path": "t"}, "trial_name": folder.name, "job_id": "j", "agent": {}}
    )
    tests = {"tool": {"name": "pytest"}, "summary": {"tests": 1}, "tests": []}
    put(folder / "verifier/ctrf.json", {"results": tests})


@pytest.fixture
def job(tmp_path: Path) -> Path:
    put(tmp_path / "config.json", {"job_name": "j", "jobs_dir": "jobs", "n_attempts": 2, "agents": []})
    put(tmp_path / "result.json", {"id": "j", "n_total_trials": 2, "stats": {}})
    paid = {"agent_result": {"n_input_tokens": 300, "n_output_tokens": 15, "cost_usd": 0.0532}}
    trial(tmp_path / "a", FIRST, 3, verifier_result={"rewards": {"reward": 1.0}}, **paid)
    stopped = {"exception_type": "AgentTimeoutError", "exception_message": "timed out"}
    trial(tmp_path / "b", SECOND, 2, exception_info=stopped)
    return tmp_path


def measures(corpus: ot.Corpus, name: str) -> dict[str, float]:
    rows = corpus.measures.filter(pl.col("name").cast(pl.String) == name).join(corpus.traces, on="trace")
    return dict(rows.select("trace_id", "value").collect().rows())


def messages(corpus: ot.Corpus, code: str) -> list[str]:
    return corpus.findings.filter(pl.col("code").cast(pl.String) == code).collect()["message"].to_list()


def test_a_trial_is_one_trace_with_its_result(job: Path) -> None:
    corpus = ot.read_traces(job)
    traces = corpus.traces.collect()
    assert dict(traces.select("trace_id", "partial").rows()) == {FIRST: False, SECOND: True}
    assert set(traces["task_id"]) == {"fix-flag"}
    assert set(traces["importer"].cast(pl.String)) == {"claude_code"}
    assert dict(ot.metrics(corpus).select("trace_id", "tokens").rows()) == {FIRST: 315, SECOND: 210}
    assert measures(corpus, "team") == {FIRST: 1.0, SECOND: 0.0}
    assert measures(corpus, "cost_usd") == {FIRST: 0.0532}
    assert "the run was stopped by AgentTimeoutError" in messages(corpus, "trace.partial")
    for told in messages(corpus, "trace.set_aside"):
        kept, aside = told.split("; set aside")
        assert "the session's own record (claude_code, " in kept
        assert "a document made of the run (atif, " in aside
        assert aside.endswith("trajectory.json')")
    assert messages(corpus, "usage.repeated") == []
    counts = corpus.record_counts.group_by("status").agg(pl.col("count").sum()).collect()
    # 4 + 3 lines of sessions, as many steps, and 8 small files.
    assert dict(counts.rows()) == {"used": 7, "duplicate": 7, "ignored": 8}


def test_atif_alone_has_the_result_too(job: Path) -> None:
    for path in job.rglob("*.jsonl"):
        path.unlink()
    corpus = ot.read_traces(job)
    assert set(corpus.traces.collect()["importer"].cast(pl.String)) == {"atif"}
    assert measures(corpus, "team") == {FIRST: 1.0, SECOND: 0.0}
    assert measures(corpus, "tokens") == {FIRST: 315, SECOND: 210}
    assert messages(corpus, "trace.set_aside") == []


def test_a_total_that_differs_is_said(job: Path) -> None:
    put(job / "a" / "result.json", result("a", (400, 15)))
    said = messages(ot.read_traces(job), "usage.repeated")
    assert said == ["the run's result says 415 tokens, but its responses sum to 315"]


def test_the_result_of_several_runs_is_of_none(job: Path) -> None:
    other = "99999999-ec16-4f6f-83a0-fc4819daef44"
    put(job / "a/agent/sessions/projects/-app" / f"{other}.jsonl", session(other, 1))
    corpus = ot.read_traces(job)
    assert measures(corpus, "team") == {SECOND: 0.0}
    assert (
        messages(corpus, "field.ignored")
        == ["several runs are recorded in the folder of one result; it is not used"] * 2
    )


def test_atif_that_holds_more_sessions_than_one_is_kept(job: Path) -> None:
    """It is set aside only where every session of it is recorded better."""
    both = atif(FIRST, 3)
    step = {"step_id": 9, "source": "agent", "message": "s", "tool_calls": [], "observation": {}}
    step["observation"] = {
        "results": [{"content": "x", "subagent_trajectory_ref": [{"session_id": "other"}]}]
    }
    both["steps"].append(step)
    put(job / "a/agent/trajectory.json", both)
    importers = ot.read_traces(job).traces.collect()["importer"].cast(pl.String).to_list()
    assert sorted(importers) == ["atif", "claude_code", "claude_code"]


def test_trials_that_call_their_run_the_same_have_no_result(job: Path) -> None:
    """Recordings of one session are one run, and two trials say different things of it."""
    for folder, reward in (("c", 1.0), ("d", 0.0)):
        put(job / folder / "agent/trajectory.json", atif("constant", 2 + int(reward)))
        put(
            job / folder / "result.json",
            result(folder, (200, 10), verifier_result={"rewards": {"reward": reward}}),
        )
    corpus = ot.read_traces(job)
    assert measures(corpus, "team") == {FIRST: 1.0, SECOND: 0.0}
    [told] = messages(corpus, "trace.conflict")
    assert "c' and" not in told and "c', " in told and "d' differ" in told
    assert told.endswith("call the run the same, so that they are one; no result is used")
    # A copy of a trial says the same of it.
    shutil.copytree(job / "a", job / "e")
    assert measures(ot.read_traces(job), "team") == {FIRST: 1.0, SECOND: 0.0}
