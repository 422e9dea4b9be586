"""The commands plan, run-task and reduce."""

import json
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot
from cli.commands import error_line, run
from samples.divided import assert_same_bits


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("divided")
    ot.generate(place / "runs.jsonl", traces=60, seed=0)
    ot.ingest(place / "runs.jsonl", place / "corpus", partitions=4)
    return place / "corpus"


def test_a_plan_is_run_by_numbers_and_reduced(folder, tmp_path, monkeypatch) -> None:
    plan = tmp_path / "plan"
    words = ["-O", "method=flow", "-O", "unit=agent", "-O", 'reward={"team": 0.5}']
    assert "as 4 tasks" in run("plan", folder, "credit", *words, "-o", plan).stdout
    assert run("run-task", plan, "1-2").stdout.startswith("task 1: ")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    assert json.loads(run("run-task", plan, "--json").stdout)["task"] == 0
    assert run("reduce", plan).stdout.count("done") == 3
    output = tmp_path / "table.parquet"
    assert error_line(run("reduce", plan, "-o", output, code=1)).endswith(f"orchestrace run-task {plan} 3")
    assert run("run-task", plan, "--all", "--workers", "1").stdout.count("task ") == 4
    wrote = json.loads(run("reduce", plan, "-o", output, "--json").stdout)
    expected = ot.credit(ot.read_corpus(folder), method="flow", unit="agent", reward={"team": 0.5})
    assert wrote == {"output": str(output), "rows": expected.height}
    assert_same_bits(pl.read_parquet(output), expected)
    assert "exists" in error_line(run("reduce", plan, "-o", output, code=1))
    assert "wrote" in run("reduce", plan, "-o", output, "--force").stdout
    assert json.loads(run("reduce", plan, "--json").stdout)[3]["state"] == "done"


def test_scenarios_are_options_as_of_replay(folder, tmp_path) -> None:
    words = ["--each", "agent", "--truncate", "3", "-O", "sensitivity=false"]
    told_ = run("plan", folder, "replay", *words, "-o", tmp_path / "plan", "--tasks", 2, "--json").stdout
    assert json.loads(told_)["tasks"] == 2
    run("run-task", tmp_path / "plan", "0,1")
    table = ot.distributed.reduce(tmp_path / "plan")
    changes = [ot.interventions.drop(each="agent"), ot.interventions.truncate(at=3.0)]
    assert_same_bits(table, ot.replay(ot.read_corpus(folder), *changes, sensitivity=False))


@pytest.mark.parametrize(
    "words",
    [
        ("credit", "--unit", "agent"),
        ("replay", "--each", "agent"),
        ("metrics", "--by", "trace"),
        ("taint",),
        ("rewards", "--rule", "tokens"),
        ("agents", "--method", "uniform"),
    ],
)
def test_commands_take_an_engine(folder, words) -> None:
    name, *options = words
    expected = run(name, folder, *options, "--csv").stdout
    assert run(name, folder, *options, "--csv", "--engine", "processes", "--workers", "1").stdout == expected
    assert "trace" in expected
    assert not [path for path in folder.parent.iterdir() if path.name.startswith("corpus.")]


def test_compare_and_studies_take_an_engine(folder, tmp_path) -> None:
    words = ("compare", folder, "--method", "flow", "--method", "grpo", "--json")
    by_engine = run(*words, "--engine", "processes", "--workers", "1").stdout
    times = ("seconds", "events_per_s")
    alone, found = (
        [{name: value for name, value in row.items() if name not in times} for row in json.loads(stdout)]
        for stdout in (run(*words).stdout, by_engine)
    )
    assert found == alone and [row["method"] for row in found] == ["flow", "grpo"]
    config = tmp_path / "study.toml"
    size = "[[sizes]]\nevents = 10\nagents = 2\ntraces = 40\n"
    config.write_text(f'methods = ["flow"]\nunits = ["agent"]\n{size}[presets.one]\n')
    engine = ("--engine", "processes", "--workers", "1", "--threads", "2")
    (row,) = json.loads(run("study", "run", config, "-o", tmp_path / "study", *engine, "--json").stdout)
    assert row["status"] == "ok"
    for wrong, message in (
        (("--engine", "dask"), "unknown engine 'dask'"),
        (("--engine", "processes", "--workers", "0"), "--workers is 0, expected a whole number from 1"),
        (("--address", "auto"), "--workers and --address are of --engine"),
    ):
        assert message in error_line(run("study", "run", config, "-o", tmp_path / "none", *wrong, code=2))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--engine", "dask"), "unknown engine 'dask'"),
        (("--workers", "2"), "--workers and --address are of --engine"),
        (("--engine", "processes", "--address", "auto"), "--address is of --engine ray"),
    ],
)
def test_engines_that_are_none_are_told(folder, words, message) -> None:
    assert message in error_line(run("taint", folder, *words, code=2))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("plan", "CORPUS", "compare", "-o", "PLAN2"), "cannot be divided"),
        (("plan", "CORPUS", "replay", "-o", "PLAN2"), "nothing to replay"),
        (("plan", "CORPUS", "taint", "--each", "agent", "-o", "PLAN2"), "of the verb replay"),
        (("plan", "CORPUS", "taint", "-O", "carry", "-o", "PLAN2"), "expected NAME=VALUE"),
        (("plan", "CORPUS", "taint", "-O", "tasks=3", "-o", "PLAN2"), "argument of plan itself"),
        (("run-task", "PLAN"), "no task is named"),
        (("run-task", "PLAN", "x"), "task 'x', expected a number"),
        (("run-task", "PLAN", "0-7"), "task 4 is not in the plan, which has 4 tasks"),
        (("run-task", "PLAN", "1", "--all"), "leave the numbers out"),
        (("run-task", "PLAN", "--all", "--again"), "of single tasks"),
        (("run-task", "PLAN", "--all", "--engine", "dask"), "--engine is 'dask', expected"),
        (("reduce", "PLAN", "-o", "table.csv"), "must end in .parquet"),
    ],
)
def test_what_is_wrong_is_one_line(folder, tmp_path, monkeypatch, words, message) -> None:
    monkeypatch.delenv("SLURM_ARRAY_TASK_ID", raising=False)
    ot.distributed.plan(folder, "taint", folder=tmp_path / "PLAN")
    places = {"CORPUS": folder, "PLAN": tmp_path / "PLAN", "PLAN2": tmp_path / "PLAN2"}
    assert message in error_line(run(*(places.get(word, word) for word in words), code=2))
