"""SWE-agent trajectories: steps, totals and statuses as the files state them.

The files' texts are data that models wrote; nothing of them is kept here.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import orchestrace as ot
from samples.inputs import documents

Document = dict[str, Any]


@pytest.fixture(scope="module")
def runs(corpora: Path) -> dict[Path, Document]:
    paths = sorted((corpora / "swe-agent").rglob("*.traj.gz"))
    return {path: json.loads(gzip.decompress(path.read_bytes())) for path in paths}


@pytest.fixture(scope="module")
def corpus(runs: dict[Path, Document]) -> ot.Corpus:
    return ot.read_traces(list(runs))


def only(corpus: ot.Corpus) -> Document:
    (document,) = documents(corpus).values()
    return document


def one(path: Path) -> Document:
    return only(ot.read_traces(path))


def kinds(document: Document, kind: str) -> list[Document]:
    return [event for event in document["events"] if event["type"] == kind]


def test_runs_and_steps(runs: dict[Path, Document], corpus: ot.Corpus) -> None:
    counts = corpus.record_counts.collect()
    assert counts.select("importer", "status").unique().rows() == [("swe_agent", "used")]
    assert counts["count"].sum() == len(runs) == corpus.traces.collect().height == 11
    steps = demonstrated = 0
    for path, run in runs.items():
        document = one(path)
        told = {event["x_gen"] for event in document["events"] if "x_gen" in event}
        calls = kinds(document, "tool_call")
        if "trajectory" in run:
            steps += len(told)
            assert len(told) == len(calls) == len(run["trajectory"])
            assert [call["tool"] for call in calls] == [
                step["action"].split()[0] for step in run["trajectory"]
            ]
        else:
            demonstrated += len(told)
            answers = [m for m in run["history"] if m["role"] == "assistant"]
            assert len(told) == len(calls) == len(answers)
        assert len(kinds(document, "tool_result")) == len(calls)
    assert (steps, demonstrated) == (108, 5)


def test_totals_and_statuses(runs: dict[Path, Document], corpus: ot.Corpus) -> None:
    sent = received = 0
    for path, run in runs.items():
        document = one(path)
        assert document["rewards"] == {}
        stats = run.get("info", {}).get("model_stats")
        if stats is None:
            assert "tokens" in document["events"][0]["x_trace"]["unknown_costs"]
            continue
        metrics = document["metrics"]
        assert {name: metrics[name] for name in ("tokens_sent", "tokens_received", "api_calls")} == {
            name: stats[name] for name in ("tokens_sent", "tokens_received", "api_calls")
        }
        assert document["costs"]["tokens"] == stats["tokens_sent"] + stats["tokens_received"]
        assert document["costs"]["cost_usd"] == stats["instance_cost"]
        sent, received = sent + stats["tokens_sent"], received + stats["tokens_received"]
        (answer,) = kinds(document, "return")
        assert answer is document["events"][-1] and "ok" not in answer
    assert (sent, received) == (129_753, 1_612)
    labels = corpus.labels.collect()
    assert labels["label"].to_list() == ["submitted"] * 10
    # Four runs of one task are a group.
    assert max(corpus.traces.collect()["task_id"].value_counts()["count"]) == 4


def test_times(runs: dict[Path, Document]) -> None:
    for path, run in runs.items():
        document = one(path)
        took = [step["execution_time"] for step in run.get("trajectory", []) if "execution_time" in step]
        facts = document["events"][0]["x_trace"]
        assert facts["time_basis"] == ("partial" if took else "ordinal")
        assert "started_at" not in facts and "wall_clock_s" in facts["unknown_costs"]
        if took:
            assert [event["duration_s"] for event in kinds(document, "tool_result")] == took
            assert document["events"][-1]["t"] == pytest.approx(sum(took), abs=1e-8)


def test_demonstrations_within_a_run_are_no_part_of_it(runs: dict[Path, Document]) -> None:
    for path, run in runs.items():
        first = next(m for m in run["history"] if m["role"] == "user" and not m.get("is_demo"))
        shown = sum(bool(m.get("is_demo")) for m in run["history"])
        message = one(path)["events"][0]
        assert (message["agent"], message["to"]) == ("user", first["agent"])
        assert message["id"] == f"{'h' if 'trajectory' in run else 'm'}{1 + shown}"


def test_first_steps_of_a_run_are_those_of_the_whole(runs: dict[Path, Document], tmp_path: Path) -> None:
    for path, run in runs.items():
        whole = {event["id"]: event for event in one(path)["events"]}
        steps = run.get("trajectory", [])
        for cut in range(1, len(steps), 3):
            target = tmp_path / path.name.removesuffix(".gz")
            target.write_text(
                json.dumps({k: v for k, v in run.items() if k != "info"} | {"trajectory": steps[:cut]})
            )
            corpus = ot.read_traces(target)
            assert corpus.traces.collect()["partial"].to_list() == [True]
            for event in only(corpus)["events"]:
                assert event | {"x_trace": 0} == whole[event["id"]] | {"x_trace": 0}, (path, cut)
