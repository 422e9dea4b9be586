"""Engines: worker processes that die, drivers that are stopped, arrays of commands that are killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.distributed.folder import part_file
from orchestrace.distributed.worker_processes import fitting_workers
from samples import divided, dying
from samples.divided import assert_same_bits, one_machine, planned

D = ot.distributed

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return divided.corpus_on_disk(tmp_path_factory.mktemp("corpus"))


def slow(folder: Path, tmp_path: Path, seconds: float) -> D.Plan:
    return D.plan(
        folder, "credit", method=dying.NAME, unit="agent", seconds=seconds, folder=tmp_path / "plan"
    )


def expected_of(folder: Path, plan: D.Plan, **options) -> pl.DataFrame:
    return ot.credit(ot.read_corpus(folder), method=dying.NAME, unit="agent", **options)


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@contextmanager
def driver(plan: D.Plan, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command that runs all tasks, in a group of its own as a terminal would have it."""
    run = [sys.executable, "-m", "orchestrace.cli", "run-task", plan.folder, "--all"]
    command = [*run, *(word for name in plan.call.modules for word in ("--module", name)), *words]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, env=environment()
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def workers_of(plan: D.Plan) -> list[int]:
    """Processes that work on a plan, by what the system says of them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if b"orchestrace.distributed.work" in words:
                found.append((int(entry.name), parent))
    return [number for number, parent in found]


def wait_for(condition, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def parts(plan: D.Plan) -> list[Path]:
    return [path for task in plan.tasks if (path := Path(plan.folder) / part_file(task.number)).exists()]


# --- processes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("workers", "threads"), [(1, 2), (2, 1)])
def test_processes_give_the_table_of_one_machine(folder, tmp_path, workers, threads) -> None:
    plan = planned(folder, "replay of several", tmp_path / "plan")
    calls: list[tuple[int, int]] = []
    results = D.run(plan, workers=workers, threads=threads, progress=lambda *call: calls.append(call))
    assert [one.task for one in results] == list(range(5))
    assert calls[0] == (0, 5) and calls[-1] == (5, 5)
    assert_same_bits(D.reduce(results), one_machine(ot.read_corpus(folder), "replay of several"))
    assert D.run(plan) == results


def test_a_worker_that_dies_is_replaced_and_its_task_run_again(folder, tmp_path, run_number) -> None:
    plan = D.plan(
        folder, "credit", method=dying.NAME, unit="agent", run=run_number, folder=tmp_path / "plan", tasks=3
    )
    results = D.run(plan, workers=2, retries=5)
    assert len(list(dying.marks_of(run_number).iterdir())) == 5  # each piece killed a worker
    assert_same_bits(D.reduce(results), expected_of(folder, plan, run=run_number))


def test_a_task_whose_workers_always_die_is_named(folder, tmp_path) -> None:
    plan = D.plan(folder, "credit", method=dying.NAME, unit="team", always=True, folder=tmp_path / "plan")
    with pytest.raises(ot.InputError, match=r"task \d was started 2 times, .* signal 9, perhaps for want"):
        D.run(plan, workers=1, retries=1)
    assert not parts(plan)


def test_what_a_task_refuses_is_told_with_its_number(tmp_path) -> None:
    own = divided.corpus_on_disk(tmp_path, traces=48, partitions=3)
    plan = planned(own, "taint", tmp_path / "plan")
    file = next((own / f"part={plan.tasks[1].pieces[0][0]}" / "events").iterdir())
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(ot.InputError, match=r"task 1: .* is damaged \(events of partition"):
        D.run(plan, workers=1)


def test_a_disk_that_is_full_is_told_and_resumed_from(folder, tmp_path, run_number) -> None:
    options = {"method": dying.NAME, "unit": "agent", "run": run_number, "room": 2048}
    plan = D.plan(folder, "credit", folder=tmp_path / "plan", **options)
    with pytest.raises(ot.InputError, match=r"task \d: .*\.parquet.*: File too large"):
        D.run(plan, workers=1)
    assert not list((tmp_path / "plan" / "parts").iterdir())  # no part, nor a piece of one
    results = D.run(plan, workers=2)
    assert_same_bits(D.reduce(results), ot.credit(ot.read_corpus(folder), **options))


def test_workers_without_a_program_are_told(folder, tmp_path, monkeypatch) -> None:
    real = subprocess.Popen
    ending = [sys.executable, "-c", "raise SystemExit(3)"]
    monkeypatch.setattr(
        "orchestrace.base.children.subprocess.Popen", lambda _, **options: real(ending, **options)
    )
    plan = planned(folder, "taint", tmp_path / "plan")
    with pytest.raises(ot.InputError, match="once, and the process ended with 3"):
        D.run(plan, workers=2, retries=0)


def test_options_of_engines_are_judged(folder, tmp_path) -> None:
    plan = planned(folder, "taint", tmp_path / "plan")
    for options, match in (
        ({"engine": "dask"}, "engine is 'dask', expected"),
        ({"workers": 0}, "workers is 0"),
        ({"threads": 0}, "threads is 0"),
        ({"address": "auto"}, "leave it out"),
    ):
        with pytest.raises(ot.ParameterError, match=match):
            D.run(plan, **options)
    assert fitting_workers(plan.call, 1) >= 1
    assert fitting_workers(plan.call, 10_000) == 1


def test_ray_that_is_not_installed_is_told(folder, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    plan = planned(folder, "taint", tmp_path / "plan")
    with pytest.raises(ot.ParameterError, match=r"needs Ray: pip install '\.\[ray\]' in your clone"):
        D.run(plan, engine="ray")


# --- drivers that end -------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc").exists(), reason="the processes of a machine are listed in /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_driver_leaves_no_worker_and_resumes(folder, tmp_path, how) -> None:
    plan = slow(folder, tmp_path, 1.0)
    with driver(plan, "--workers", "2") as process:
        wait_for(lambda: 1 <= len(parts(plan)) < 5)
        process.send_signal(how)
        told = process.communicate(timeout=30)[1].decode()
        if how == signal.SIGINT:
            assert process.returncode == 130
            assert "finished parts are in" in told and "Traceback" not in told
        wait_for(lambda: not workers_of(plan))
    done = parts(plan)
    assert 1 <= len(done) < 5
    times = {path: path.stat().st_mtime_ns for path in done}
    results = D.run(plan, workers=2)
    assert {path: path.stat().st_mtime_ns for path in done} == times
    assert_same_bits(D.reduce(results), expected_of(folder, plan, seconds=1.0))
    assert not list((tmp_path / "plan" / "parts").glob(".*.tmp"))


def test_commands_of_an_array_that_are_killed_are_run_again(folder, tmp_path) -> None:
    """What a Slurm array does: each task is a process, some are killed, then all run once more."""
    plan = planned(folder, "credit of siblings", tmp_path / "plan")

    def begun(number: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "orchestrace.cli", "run-task", plan.folder],
            env={**environment(), "SLURM_ARRAY_TASK_ID": str(number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    began = time.monotonic()
    undisturbed = begun(4)
    undisturbed.communicate()
    assert undisturbed.returncode == 0
    lasts = time.monotonic() - began
    killed = 0
    for numbers, share in (((0, 1), 0.3), ((2, 3), 0.6), ((0, 2), 0.9)):
        array = [begun(number) for number in numbers]
        time.sleep(share * lasts)
        for process in array:
            if process.poll() is None:
                process.kill()
                killed += 1
            process.communicate()
    assert killed
    states = D.status(plan)["state"].to_list()
    assert set(states) <= {"done", "missing"}  # never a torn part
    for number, state in enumerate(states):
        if state != "done":
            process = begun(number)
            told, error = process.communicate(timeout=120)
            assert process.returncode == 0, error
            assert f"task {number}: ".encode() in told
    assert_same_bits(D.reduce(plan), one_machine(ot.read_corpus(folder), "credit of siblings"))
