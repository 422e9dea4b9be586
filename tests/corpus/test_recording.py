"""The example that records: what it writes is valid, and a crash costs the run that it hits."""

import json
import os
import runpy
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

import orchestrace as ot
from orchestrace.cli import app

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "record.py"


@pytest.fixture(scope="module")
def Run() -> Any:
    return runpy.run_path(str(EXAMPLE))["Run"]


def recorded(run: Any, reward: float) -> None:
    """A lead that asks a searcher, which calls a tool."""
    ask = run.add("orchestrator_decision", "lead", tokens_in=120, tokens_out=18, group_id="capital")
    start = run.add("spawn", "lead", after=[ask], edge="spawn", to="searcher", role="executor")
    call = run.add("tool_call", "searcher", after=[start], edge="spawn", tool="search", tokens_out=9)
    got = run.add("tool_result", "search", after=[call], edge="return", tool="search", duration_s=0.25)
    told = run.add("return", "searcher", after=[got], to="lead", tokens_out=31, score=0.9)
    run.add("aggregate", "lead", after=[told], edge="aggregate", tokens_in=200, tokens_out=12)
    run.finish(team=reward)


def test_it_is_short_and_needs_nothing() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 30
    modules = {line.split()[1] for line in lines if line.startswith(("import ", "from "))}
    assert modules and modules <= sys.stdlib_module_names


def test_what_it_writes_is_valid_and_can_be_credited(Run: Any, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    for reward in (1.0, 0.0):
        recorded(Run(str(path), "capital"), reward)
    done = CliRunner().invoke(app, ["validate", str(path)])
    assert done.exit_code == 0 and "2 records: 2 used; 2 traces" in done.stdout, done.output
    corpus = ot.read_traces(path)
    assert corpus.findings.collect().height == 0
    assert corpus.traces.select("group_id").collect()["group_id"].to_list() == ["capital"] * 2
    events = corpus.events.filter(pl.col("trace") == 0).collect()
    assert events["type"].to_list()[-1] == "aggregate" and events["t"].is_sorted()
    assert events["duration_s"].drop_nulls().to_list() == [0.25]
    costs = corpus.measures.filter(pl.col("name") == "tokens").collect()
    assert costs["value"].to_list() == [390.0, 390.0]
    credits = ot.credit(corpus, method="grpo", unit="agent").drop_nulls("unit_id")
    assert credits["credit"].sign().to_list() == [1.0, 1.0, -1.0, -1.0]
    flow = ot.credit(corpus, method="flow", unit="agent")
    assert flow.filter(pl.col("trace") == 0)["credit"].sum() == pytest.approx(1.0)
    table = ot.trainers.trainer_table(corpus, ot.credit(corpus, method="grpo", unit="turn"), per="token")
    assert table["response_length"].to_list() == [18, 9, 31, 12] * 2


def test_half_a_line_spoils_no_other(Run: Any, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    recorded(Run(str(path), "one"), 1.0)
    with path.open("ab") as file:
        file.write(b'\n{"trace_id": "cut sho')
    recorded(Run(str(path), "two"), 1.0)
    corpus = ot.read_traces(path)
    assert corpus.records == {"read": 3, "used": 2, "ignored": 0, "duplicate": 0, "quarantined": 1}
    assert corpus.traces.select("task_id").collect()["task_id"].to_list() == ["one", "two"]


def test_a_kill_costs_at_most_the_run_it_hits(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    code = (
        f"import runpy, sys; Run = runpy.run_path({str(EXAMPLE)!r})['Run']\n"
        "while True:\n  run = Run(sys.argv[1], 't')\n"
        "  for n in range(2000): run.add('message', 'a', text='x' * 50)\n"
        "  run.finish(team=1.0); print('done', flush=True)"
    )
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        for _ in range(3):
            assert child.stdout.readline() == b"done\n"
        time.sleep(0.003)
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        child.stdout.close()
    corpus = ot.read_traces(path)
    # what was reported as done is there, whatever happened next
    assert corpus.records["used"] >= 9 and corpus.records["quarantined"] <= 3
    assert (corpus.traces.select("n_events").collect()["n_events"] == 2000).all()


def test_runs_of_several_threads_do_not_mix(Run: Any, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: recorded(Run(str(path), f"task {n}"), n / 40), range(40)))
    corpus = ot.read_traces(path)
    assert corpus.records["used"] == 40 and not corpus.records["quarantined"]
    assert corpus.traces.select(pl.col("trace_id").n_unique()).collect().item() == 40


def test_what_is_no_number_is_refused_before_it_is_written(Run: Any, tmp_path: Path) -> None:
    run = Run(str(tmp_path / "runs.jsonl"), "t")
    run.add("message", "a")
    with pytest.raises(ValueError):
        run.finish(team=float("nan"))
    assert not os.path.exists(tmp_path / "runs.jsonl") or not (tmp_path / "runs.jsonl").read_bytes()


def test_the_page_says_what_happens(Run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The code of docs/recording.md runs as it stands, with the example beside it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(EXAMPLE.parent))
    page = (ROOT / "docs" / "recording.md").read_text(encoding="utf-8")
    blocks = [block.partition("\n```")[0] for block in page.split("```python\n")[1:]]
    assert EXAMPLE.read_text(encoding="utf-8").rstrip() == blocks[0].rstrip()
    loops = [block for block in blocks[1:] if "from record import Run" in block]
    assert len(loops) == 1
    exec(compile(loops[0], "docs/recording.md", "exec"), {})
    (name,) = [path.name for path in tmp_path.iterdir() if path.suffix == ".jsonl"]
    corpus = ot.read_traces(name)
    assert len(corpus) == 2 and not corpus.records["quarantined"] and not corpus.findings.collect().height
    assert corpus.traces.select(pl.col("group_id").n_unique()).collect().item() == 1
    first = json.loads(Path(name).read_text().split("\n")[1])["events"][0]
    assert first["x_trace"]["time_basis"] == "seconds"
    assert corpus.traces.select("time_basis").collect()["time_basis"].to_list() == ["seconds"] * 2
