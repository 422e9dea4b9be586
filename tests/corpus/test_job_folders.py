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


def phase(seconds: int) -> dict[str, str]:
    return {
        "started_at": "2026-09-14T09:00:00",
        "finished_at": f"2026-09-14T09:{seconds // 60:02d}:{seconds % 60:02d}Z",
    }


def test_phases_and_tests_are_metrics_and_only_work_is_work(job: Path) -> None:
    phases = {"environment_setup": phase(30), "agent_setup": phase(20), "agent_execution": phase(90)}
    put(job / "a/result.json", result("a", (300, 15), **phases))
    tests = [
        {"name": str(at), "status": status}
        for at, status in enumerate(["passed"] * 3 + ["failed", "skipped"])
    ]
    put(job / "a/verifier/ctrf.json", {"results": {"tool": {"name": "t"}, "summary": {}, "tests": tests}})
    put(
        job / "a/steps/one/verifier/ctrf.json",
        {"results": {"tool": {"name": "u"}, "summary": {}, "tests": tests[3:]}},
    )
    corpus = ot.read_traces(job)
    wall = dict(ot.metrics(corpus).select("trace_id", "wall_clock_s").rows())
    assert wall == {FIRST: 90.0, SECOND: 2.0}
    expected = {
        "phase_environment_setup_s": 30.0,
        "phase_agent_setup_s": 20.0,
        "tests_passed": 3.0,
        "tests_total": 5.0,
        "test_share": 0.75,
    }
    for name, value in expected.items():
        assert measures(corpus, name) == {FIRST: value}, name
    assert measures(corpus, "phase_verifier_s") == {}


@pytest.mark.parametrize(
    ("exception", "is_outcome"),
    [
        ("AgentTimeoutError", True),
        ("ContextWindowExceededError", True),
        ("NonZeroAgentExitCodeError", True),
        ("SandboxBuildFailedError", False),
        ("ApiOverloadedError", False),
        ("VerifierTimeoutError", False),
        ("CancelledError", False),
    ],
)
def test_infrastructure_that_fails_is_no_failure_of_the_agent(
    job: Path, exception: str, is_outcome: bool
) -> None:
    broken = result("b", (200, 10), exception_info={"exception_type": exception})
    put(job / "b/result.json", broken)
    corpus = ot.read_traces(job)
    assert measures(corpus, "team") == {FIRST: 1.0} | ({SECOND: 0.0} if is_outcome else {})
    assert measures(corpus, "reward_unreliable") == ({} if is_outcome else {SECOND: 0.0})
    assert len(messages(corpus, "reward.unreliable")) == (not is_outcome)
    assert f"the run was stopped by {exception}" in messages(corpus, "trace.partial")


def groups(job: Path) -> list[str]:
    return ot.read_traces(job).traces.sort("trace_id").collect()["group_id"].to_list()


def test_attempts_of_one_agent_with_the_same_settings_are_a_group(job: Path) -> None:
    agent = {"name": "claude-code", "version": "2", "model_info": {"name": "m/1"}}
    config = {"trials_dir": "/x", "agent": {"kwargs": {"a": 1, "b": 2}}}

    def write(name: str, **more: Any) -> None:
        own = {"trial_name": name, "job_id": name}
        document = result(name, (300, 15), agent_info=agent, task_checksum="c1", config=config | own)
        document["config"] |= more.pop("config", {})
        put(job / name / "result.json", document | more)

    write("a")
    write("b", config={"agent": {"kwargs": {"b": 2, "a": 1}}, "trials_dir": "/y"})
    first, second = groups(job)
    assert first == second
    assert first.startswith("fix-flag/harness=claude-code/version=2/model=m%2F1/setup=")
    assert len(groups(job)) == 2
    others: list[dict[str, Any]] = [
        {"agent_info": agent | {"name": "other"}},
        {"agent_info": agent | {"version": "3"}},
        {"agent_info": agent | {"model_info": {"name": "m/2"}}},
        {"task_checksum": "c2"},
        {"config": {"agent": {"kwargs": {"a": 2, "b": 1}}}},
    ]
    for other in others:
        write("b", **other)
        first, second = groups(job)
        assert first != second, other
    tasks = ot.read_traces(job).traces.collect()["task_id"]
    assert set(tasks) == {"fix-flag"}


def test_a_job_says_how_many_trials_there_were(job: Path) -> None:
    assert messages(ot.read_traces(job), "source.runs_missing") == []
    put(job / "result.json", {"id": "j", "n_total_trials": 5, "stats": {"n_retries": 2}})
    for paths in ([job], sorted(job.rglob("*.json*"), reverse=True)):
        corpus = ot.read_traces(paths)
        said = corpus.findings.filter(pl.col("code").cast(pl.String).str.starts_with("source.")).collect()
        assert sorted(said["code"].cast(pl.String)) == ["source.retried", "source.runs_missing"]
        assert said["trace"].n_unique() == 1
        assert messages(corpus, "source.runs_missing") == [
            "n_total_trials of the job is 5, results of trials found: 2"
        ]
    put(job / "result.json", {"id": "j", "n_total_trials": 1, "stats": {}})
    assert len(messages(ot.read_traces(job), "source.surplus")) == 1


def test_an_endpoint_that_counts_nothing_states_no_total(job: Path) -> None:
    put(job / "a" / "result.json", result("a", (400, 0)))
    assert messages(ot.read_traces(job), "usage.repeated") == []


def mini(tokens: int) -> dict[str, Any]:
    """A trajectory as mini-swe-agent writes it."""
    usage = {"prompt_tokens": tokens, "completion_tokens": 5, "total_tokens": tokens + 5}
    answer = {"role": "assistant", "content": "t1", "extra": {"response": {"usage": usage}}}
    messages = [{"role": "user", "content": "Go."}, answer]
    return {
        "trajectory_format": "mini-swe-agent-1",
        "info": {"exit_status": "Submitted"},
        "messages": messages,
    }


@pytest.mark.parametrize("with_atif", [False, True])
def test_a_document_made_of_a_run_may_call_it_otherwise(tmp_path: Path, with_atif: bool) -> None:
    put(tmp_path / "a/result.json", result("a", (100, 5), verifier_result={"rewards": {"reward": 1.0}}))
    put(tmp_path / "a/agent/mini-swe-agent.trajectory.json", mini(100))
    if with_atif:
        put(tmp_path / "a/agent/trajectory.json", atif("fresh", 1))
    corpus = ot.read_traces(tmp_path)
    traces = corpus.traces.collect()
    assert traces["importer"].cast(pl.String).to_list() == ["swe_agent"]
    assert traces["task_id"].to_list() == ["fix-flag"]
    assert list(measures(corpus, "team").values()) == [1.0]
    assert len(messages(corpus, "trace.set_aside")) == with_atif
    assert ot.metrics(corpus)["tokens"].to_list() == [105]


def test_a_trial_without_a_recording_is_said(job: Path) -> None:
    shutil.rmtree(job / "b/agent")
    assert messages(ot.read_traces(job), "source.runs_missing") == [
        "runs of the job with a result but no recording: 1; they are not traces, so means leave them out"
    ]


def test_the_job_is_told_with_a_run_whose_own_result_is_not_used(job: Path) -> None:
    put(job / "result.json", {"id": "j", "n_total_trials": 5, "stats": {"n_retries": 2}})
    other = "00000000-ec16-4f6f-83a0-fc4819daef44"
    put(job / "a/agent/sessions/projects/-app" / f"{other}.jsonl", session(other, 1))
    corpus = ot.read_traces(job)
    assert len(messages(corpus, "source.retried")) == 1
    assert len(messages(corpus, "source.runs_missing")) == 1


def test_a_job_may_be_called_as_steps_are(tmp_path: Path, job: Path) -> None:
    shutil.copytree(job, tmp_path / "other/steps")
    corpus = ot.read_traces(tmp_path / "other")
    assert measures(corpus, "team") == {FIRST: 1.0, SECOND: 0.0}


def test_a_result_without_a_folder_is_of_nothing_that_lies_elsewhere(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(job / "a")
    corpus = ot.read_traces(["result.json", job / "b/agent/trajectory.json"])
    assert measures(corpus, "team") == {}
    corpus = ot.read_traces(["result.json", "agent/trajectory.json"])
    assert measures(corpus, "team") == {FIRST: 1.0}


def test_rewards_with_names_of_their_own_are_told_apart(job: Path) -> None:
    rewards = {"verifier_result": {"rewards": {"correct": 0.5, "style": 1.0}}}
    stopped = {"exception_info": {"exception_type": "CancelledError"}}
    put(job / "b/result.json", result("b", (200, 10), **rewards, **stopped))
    corpus = ot.read_traces(job)
    assert measures(corpus, "correct_unreliable") == {SECOND: 0.5}
    assert measures(corpus, "style_unreliable") == {SECOND: 1.0}
    assert "names end in '_unreliable'" in messages(corpus, "reward.unreliable")[0]


def test_a_reward_that_is_no_number_is_said(job: Path) -> None:
    put(job / "b/result.json", result("b", (200, 10), verifier_result={"rewards": {"reward": "1.0"}}))
    corpus = ot.read_traces(job)
    assert measures(corpus, "team") == {FIRST: 1.0}
    assert messages(corpus, "reward.unscored") == [
        "the reward 'reward' of the run's result is \"1.0\", expected a number: it is not known"
    ]
