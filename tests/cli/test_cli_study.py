"""The commands of the study: what they write, where they go on, and how they stop."""

import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

import orchestrace as ot
from orchestrace.base.extras import install
from orchestrace.cli import app

CONFIG = """
methods = ["flow", "broadcast"]
units = ["agent"]
slots = [1, 2]
[[sizes]]
events = 10
agents = 2
traces = 48
[[sizes]]
events = 30
agents = 3
traces = 48
[presets.additive]
density = 1.0
"""


def run(*args, code=0):
    result = CliRunner().invoke(app, list(map(str, args)), env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(CONFIG)
    return path


@pytest.mark.process
def test_a_study_is_run_gone_on_with_and_reported(config, tmp_path):
    pytest.importorskip("vl_convert")
    folder = tmp_path / "study"
    shown = run("study", "run", config, "-o", folder, "--workers", 0).stdout
    assert "ok" in shown and "cells of" in shown
    before = {path.name: path.stat().st_mtime_ns for path in (folder / "cells").iterdir()}
    assert len(before) == 2 * (2 + 1)
    run("study", "run", config, "-o", folder, "--workers", 0)
    assert {path.name: path.stat().st_mtime_ns for path in (folder / "cells").iterdir()} == before
    ot.generate(str(tmp_path / "mine.jsonl"), traces=5, seed=0)
    told = run("study", "report", folder, "--corpus", tmp_path / "mine.jsonl").stdout.splitlines()
    assert told[0] == f"wrote {folder / 'report.html'}" and (folder / "report.html").stat().st_size > 20_000
    assert "mine" in (folder / "report.md").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("default:fewer than five tasks:RuntimeWarning")
def test_sizes_with_few_tasks_are_said_in_one_line(config, tmp_path):
    few = CONFIG.replace("events = 30\nagents = 3\ntraces = 48", "events = 30\nagents = 3\ntraces = 16")
    config.write_text(few)
    said = run("study", "run", config, "-o", tmp_path / "s", "--workers", 0).stderr
    assert [line for line in said.splitlines() if "tasks" in line] == [
        "warning: fewer than five tasks: size 30x3 has 2 (16 traces in groups of 8; five tasks are 40"
        " traces); the report marks their values and draws no conclusion from them"
    ]


def test_what_a_report_needs_is_said_with_the_command_that_installs_it(config, tmp_path, monkeypatch):
    run("study", "run", config, "-o", tmp_path / "s", "--workers", 0)
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    result = run("study", "report", tmp_path / "s", code=2)
    assert result.stderr == f"error: a report needs Altair and vl-convert: {install('plot')}\n"
    assert "the extra plot" in " ".join(run("study", "report", "--help").stdout.split())


def test_corpora_of_one_name_and_on_disk_have_a_place_each(config, tmp_path):
    pytest.importorskip("vl_convert")
    folder = tmp_path / "study"
    run("study", "run", config, "-o", folder, "--workers", 0)
    for place, traces in (("a", 5), ("b", 7)):
        (tmp_path / place).mkdir()
        ot.generate(str(tmp_path / place / "mine.jsonl"), traces=traces, seed=0)
    run("ingest", tmp_path / "b" / "mine.jsonl", "-o", tmp_path / "held.v1")
    given = [tmp_path / "a" / "mine.jsonl", tmp_path / "b" / "mine.jsonl", tmp_path / "held.v1"]
    given.append(tmp_path / "link")
    given[-1].symlink_to(tmp_path / "held.v1")
    run("study", "report", folder, *(word for path in given for word in ("--corpus", path)))
    lines = (folder / "report.md").read_text(encoding="utf-8").splitlines()
    rows = [[part.strip() for part in line.split("|")][1:4] for line in lines]
    assert [row for row in rows if len(row) == 3 and row[2] in ("5", "7")] == [
        ["A", "mine", "5"],
        ["B", "mine (2)", "7"],
        ["C", "held.v1", "7"],
        ["D", "link", "7"],
    ]
    (tmp_path / "held.v1" / "manifest.json").write_text("{")
    told = run("study", "report", folder, "--corpus", tmp_path / "held.v1", code=1).stderr
    assert told.count("\n") == 1 and "held.v1" in told


def test_mistakes_are_one_line_and_exit_code_2(config, tmp_path):
    config.write_text(CONFIG.replace("flow", "flw"))
    result = run("study", "run", config, "-o", tmp_path / "s", code=2)
    assert result.stderr.count("\n") == 1 and "did you mean 'flow'" in result.stderr
    assert not (tmp_path / "s").exists()
    config.write_text(CONFIG.replace('"flow"', '{ name = "flow", params = { kernel = "zzz" } }'))
    result = run("study", "run", config, "-o", tmp_path / "s", code=2)
    assert result.stderr.count("\n") == 1 and "unknown kernel 'zzz'" in result.stderr
    assert not (tmp_path / "s").exists()
    assert "has no study" in run("study", "report", tmp_path, code=1).stderr


@pytest.mark.process
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_leaves_what_is_written_and_says_how_to_go_on(config, tmp_path):
    slow = '[{ name = "shapley", params = { samples = 500000 } }, "flow"]'
    text = CONFIG.replace('["flow", "broadcast"]', slow).replace("events = 30", "events = 4000")
    config.write_text(text.replace("agents = 3", "agents = 60"))
    folder = tmp_path / "study"
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from orchestrace.cli import main; main()",
            "study",
            "run",
            config,
            "-o",
            folder,
        ],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while len(list(folder.glob("cells/credit*.json"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert said.endswith(f"stopped: finished cells are in {folder}; run the same command again to resume\n")
    assert len(list(folder.glob("cells/*.json"))) >= 3
    assert ot.study.load(folder).height >= 2
