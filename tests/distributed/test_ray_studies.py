"""Studies and comparisons on a Ray cluster of two nodes: the same numbers, also when workers are killed."""

import os
import platform
import signal
from pathlib import Path

import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from samples import divided
from samples.processes import started
from samples.small_study import SLOW, STUDY, assert_same_study

ray = pytest.importorskip("ray", reason="Ray is not installed, so no cluster measures cells")

D = ot.distributed

# Ray leaves sockets and processes to the collector
pytestmark = [
    pytest.mark.process,
    pytest.mark.every_nth(1),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The study, measured by this process."""
    folder = tmp_path_factory.mktemp("here")
    ot.study.run(STUDY, folder, workers=0, threads=1)
    return folder


def test_a_cluster_measures_the_cells_of_one_machine(cluster, here, tmp_path) -> None:
    calls: list[tuple[int, int]] = []
    engine = D.ray(cluster.address)
    table = ot.study.run(STUDY, tmp_path, engine=engine, progress=lambda *one: calls.append(one))
    assert_same_study(tmp_path, here)
    assert set(table["node"]) == {platform.node()} and table["seconds"].min() > 0
    total = len(list((here / "cells").iterdir()))
    assert [done for done, _ in calls][-1] == total and len(calls) >= total  # one by one
    assert not ray.is_initialized()


def test_workers_of_a_cluster_that_are_killed_cost_nothing(cluster, here, tmp_path) -> None:
    killed: list[int] = []

    def kill(done: int, total: int) -> None:
        if done == 3 or done == 12:  # the worker of Ray, then the process that measures for it
            for process, parent in started(os.getpid(), b"orchestrace.study.work"):
                killed.append(parent if done == 3 else process)
                os.kill(killed[-1], signal.SIGKILL)

    ot.study.run(STUDY, tmp_path, engine=D.ray(cluster.address, retries=4), progress=kill)
    assert len(killed) >= 2
    assert_same_study(tmp_path, here)


@pytest.mark.nightly
def test_a_node_of_a_study_that_is_removed_costs_nothing(cluster, extra_node, here, tmp_path) -> None:
    removed: list[int] = []

    def remove(done: int, total: int) -> None:
        if done >= 3 and not removed:
            removed.append(done)
            cluster.remove_node(extra_node, allow_graceful=False)

    ot.study.run(STUDY, tmp_path, engine=D.ray(cluster.address, retries=4), progress=remove)
    assert removed
    assert_same_study(tmp_path, here)


@pytest.mark.nightly
def test_an_interrupted_study_is_gone_on_with_on_the_cluster(cluster, here, tmp_path) -> None:
    def interrupt(done: int, total: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    engine = D.ray(cluster.address)
    with pytest.raises(KeyboardInterrupt):
        ot.study.run(STUDY, tmp_path, engine=engine, progress=interrupt)
    assert not ray.is_initialized()
    there = {path.name: path.read_bytes() for path in (tmp_path / "cells").iterdir()}
    assert len(there) == 5
    ot.study.run(STUDY, tmp_path, engine=engine)
    assert all((tmp_path / "cells" / name).read_bytes() == text for name, text in there.items())
    assert_same_study(tmp_path, here)


def test_a_call_over_the_budget_is_ended_on_its_node(cluster, tmp_path) -> None:
    table = ot.study.run(SLOW, tmp_path, engine=D.ray(cluster.address))
    assert table["status"].to_list() == ["too_slow", "ok"] and table["stopped_s"][0] >= 1.0
    with pytest.raises(ot.ParameterError, match="no node has 64 cores"):
        ot.study.run(STUDY, tmp_path / "other", engine=D.ray(cluster.address, threads=64))
    assert not ray.is_initialized()


def test_compare_on_a_cluster_joins_it_once(cluster, tmp_path, monkeypatch) -> None:
    corpus = ot.read_corpus(divided.corpus_on_disk(tmp_path, traces=48, partitions=2), memory="256MiB")
    joined = []
    init = ray.init
    monkeypatch.setattr(ray, "init", lambda *given, **named: joined.append(1) or init(*given, **named))
    methods = ["flow", "grpo", "reinforce_pp"]
    found = ot.compare(corpus, methods, engine=D.ray(cluster.address))
    alone = ot.compare(corpus, methods)
    times = ("seconds", "events_per_s")
    assert_frame_equal(found.drop(times), alone.drop(times), check_exact=True)
    assert joined == [1] and not ray.is_initialized()
    with pytest.raises(ot.ParameterError, match="no node has 64 cores"):
        ot.compare(corpus, methods, engine=D.ray(cluster.address, threads=64))
