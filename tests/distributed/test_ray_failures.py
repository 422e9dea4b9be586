"""Failures of a Ray cluster: killed workers, nodes and drivers, a full disk, tasks that run twice."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import orchestrace as ot
from samples import divided, dying
from samples.divided import assert_same_bits, one_machine, planned

ray = pytest.importorskip("ray", reason="Ray is not installed, so no cluster runs the tasks")

D = ot.distributed

# Ray leaves sockets and processes to the collector
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.process,
    pytest.mark.every_nth(1),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return divided.corpus_on_disk(tmp_path_factory.mktemp("corpus"))


def small(folder: Path) -> ot.Corpus:
    """With a budget that a node of the tests has room for."""
    return ot.read_corpus(folder, memory="256MiB")


def dying_plan(folder: Path, place: Path, **options: Any) -> D.Plan:
    return D.plan(small(folder), "credit", method=dying.NAME, unit="agent", folder=place, **options)


def expected_of(folder: Path, **options: Any) -> Any:
    return ot.credit(small(folder), method=dying.NAME, unit="agent", **options)


def test_workers_that_are_killed_in_the_middle_are_replaced(cluster, folder, tmp_path, run_number) -> None:
    options = {"run": run_number, "seconds": 0.3}
    plan = dying_plan(folder, tmp_path / "plan", **options)
    results = D.run(plan, engine="ray", address=cluster.address, retries=3)
    assert len(list(dying.marks_of(run_number).iterdir())) == 5  # each piece killed a worker
    assert_same_bits(D.reduce(results), expected_of(folder, **options))


def test_a_node_that_is_removed_costs_nothing(cluster, extra_node, folder, tmp_path) -> None:
    plan = dying_plan(folder, tmp_path / "plan", seconds=1.0)
    removed = []

    def on_first(done: int, total: int) -> None:
        if done and not removed:
            removed.append(done)
            cluster.remove_node(extra_node, allow_graceful=False)

    results = D.run(plan, engine="ray", address=cluster.address, retries=5, progress=on_first)
    assert removed
    assert_same_bits(D.reduce(results), expected_of(folder, seconds=1.0))


def test_tasks_that_run_twice_in_any_order_are_the_same_bytes(cluster, folder, tmp_path) -> None:
    plan = planned(small(folder), "credit sampled", tmp_path / "plan")
    order = random.Random(3).sample(plan.tasks * 3, 15)
    ray.init(cluster.address, log_to_driver=False)
    try:
        work = ray.remote(num_cpus=1)(lambda task: D.run_task(task, threads=1, again=True))
        results = ray.get([work.remote(task) for task in order])
    finally:
        ray.shutdown()
    assert len({one.blake3 for one in results}) == len(plan.tasks)
    assert_same_bits(D.reduce(results), one_machine(small(folder), "credit sampled"))


def test_an_interrupted_call_cancels_its_tasks_and_resumes(cluster, folder, tmp_path) -> None:
    engine = D.ray(cluster.address, folder=tmp_path)

    def interrupt(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    options: dict[str, Any] = {"method": dying.NAME, "unit": "agent", "seconds": 2.0, "engine": engine}
    with pytest.raises(KeyboardInterrupt):
        ot.credit(small(folder), **options, progress=interrupt)
    assert not ray.is_initialized()
    (kept,) = tmp_path.iterdir()
    assert D.status(kept)["state"].to_list().count("done") < 5
    assert_same_bits(ot.credit(small(folder), **options), expected_of(folder, seconds=2.0))
    assert not list(tmp_path.iterdir())


def test_a_driver_that_is_killed_resumes(cluster, folder, tmp_path) -> None:
    script = """
import sys
import orchestrace as ot
from samples import dying
engine = ot.distributed.ray(sys.argv[2], folder=sys.argv[3])
corpus = ot.read_corpus(sys.argv[1], memory="256MiB")
ot.credit(corpus, method=dying.NAME, unit="agent", seconds=2.0, engine=engine)
"""
    driver = subprocess.Popen(
        [sys.executable, "-c", script, folder, cluster.address, tmp_path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    try:
        end = time.monotonic() + 90
        while not (done := list(tmp_path.rglob("*.parquet"))):
            assert driver.poll() is None and time.monotonic() < end
            time.sleep(0.05)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    assert len(done) < 5
    times = {path: path.stat().st_mtime_ns for path in done if path.with_suffix(".json").exists()}
    engine = D.ray(cluster.address, folder=tmp_path)
    calls: list[tuple[int, int]] = []

    def seen(done: int, total: int) -> None:
        calls.append((done, total))
        assert all(path.stat().st_mtime_ns == time for path, time in times.items())

    found = ot.credit(
        small(folder), method=dying.NAME, unit="agent", seconds=2.0, engine=engine, progress=seen
    )
    assert calls[0][0] >= len(times)
    assert_same_bits(found, expected_of(folder, seconds=2.0))
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_full_on_one_node_is_told_and_resumed_from(
    cluster, folder, tmp_path, run_number
) -> None:
    options = {"run": run_number, "room": 2048}
    plan = dying_plan(folder, tmp_path / "plan", **options)
    with pytest.raises(ot.InputError, match=r"task \d: .*\.parquet.*: File too large"):
        D.run(plan, engine="ray", address=cluster.address)
    assert set(D.status(plan)["state"].to_list()) <= {"done", "missing"}  # never a torn part
    assert not list((tmp_path / "plan" / "parts").glob(".*.tmp"))
    results = D.run(plan, engine="ray", address=cluster.address)
    assert_same_bits(D.reduce(results), expected_of(folder, **options))
