"""Ray: the same plan on a cluster of several nodes, with workers killed and a node removed."""

import os
import random
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import orchestrace as ot
from samples import divided, dying
from samples.divided import assert_same_bits, one_machine, planned

ray = pytest.importorskip("ray", reason="Ray is not installed, so no cluster runs the tasks")
cluster_utils = pytest.importorskip("ray.cluster_utils")

D = ot.distributed

# Ray leaves sockets and processes to the collector
pytestmark = [
    pytest.mark.process,
    pytest.mark.share(1),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
NODE: dict[str, Any] = {"num_cpus": 1, "memory": 2 << 30, "object_store_memory": 80 << 20}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("corpus")
    divided.corpus_on_disk(place)
    return place / "corpus"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))  # what nodes import from
    made = cluster_utils.Cluster(initialize_head=True, head_node_args=NODE | {"include_dashboard": False})
    made.add_node(**NODE)
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def small(folder: Path) -> ot.Corpus:
    """With a budget that a node of the tests has room for."""
    return ot.read_corpus(folder, memory="256MiB")


@pytest.mark.parametrize("call", ["credit flow", "metrics by task"])
def test_a_cluster_gives_the_table_of_one_machine(cluster, folder, tmp_path, call) -> None:
    plan = planned(small(folder), call, tmp_path / "plan")
    results = D.run(plan, engine="ray", address=cluster.address)
    assert_same_bits(D.reduce(results), one_machine(small(folder), call))
    assert D.run(plan, engine="ray", address=cluster.address) == results
    assert not ray.is_initialized()  # it is left as it was found


def test_killed_workers_are_replaced(cluster, folder, tmp_path) -> None:
    run = random.SystemRandom().getrandbits(40)
    marks = dying.marks_of(run)
    marks.mkdir()
    options = {"method": dying.NAME, "unit": "agent", "run": run}
    plan = D.plan(small(folder), "credit", folder=tmp_path / "plan", **options)
    results = D.run(plan, engine="ray", address=cluster.address, retries=3)
    assert len(list(marks.iterdir())) == 5
    assert_same_bits(D.reduce(results), ot.credit(small(folder), **options))
    shutil.rmtree(marks)


def test_a_task_whose_workers_always_die_is_named(cluster, folder, tmp_path) -> None:
    plan = D.plan(
        small(folder), "credit", method=dying.NAME, unit="agent", always=True, folder=tmp_path / "plan"
    )
    with pytest.raises(ot.InputError, match=r"task \d was lost on the cluster .* resumes from it"):
        D.run(plan, engine="ray", address=cluster.address, retries=1)
    assert not ray.is_initialized()


def test_a_node_that_is_removed_costs_nothing(cluster, folder, tmp_path) -> None:
    node = cluster.add_node(**NODE)
    options = {"method": dying.NAME, "unit": "agent", "seconds": 1.0}
    plan = D.plan(small(folder), "credit", folder=tmp_path / "plan", **options)
    removed = []

    def on_first(done: int, total: int) -> None:
        if done and not removed:
            removed.append(done)
            cluster.remove_node(node, allow_graceful=False)

    results = D.run(plan, engine="ray", address=cluster.address, retries=5, progress=on_first)
    assert removed
    assert_same_bits(D.reduce(results), ot.credit(small(folder), **options))


def test_an_interrupted_driver_cancels_its_tasks_and_resumes(cluster, folder, tmp_path) -> None:
    options = {"method": dying.NAME, "unit": "agent", "seconds": 2.0}
    plan = D.plan(small(folder), "credit", folder=tmp_path / "plan", **options)

    def interrupt(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        D.run(plan, engine="ray", address=cluster.address, progress=interrupt)
    assert not ray.is_initialized()
    assert D.status(plan)["state"].to_list().count("done") < 5
    results = D.run(plan, engine="ray", address=cluster.address)
    assert_same_bits(D.reduce(results), ot.credit(small(folder), **options))


def test_a_plan_that_no_node_has_room_for_is_refused(cluster, folder, tmp_path) -> None:
    plan = planned(ot.read_corpus(folder, memory="64GiB"), "taint", tmp_path / "plan")
    with pytest.raises(ot.ParameterError, match="no node has 1 cores and 65,792 MiB"):
        D.run(plan, engine="ray", address=cluster.address)


def test_an_error_of_a_task_is_that_of_one_machine(cluster, tmp_path) -> None:
    own = divided.corpus_on_disk(tmp_path, traces=48, partitions=3)
    plan = planned(small(own), "taint", tmp_path / "plan")
    file = next((own / f"part={plan.tasks[1].pieces[0][0]}" / "events").iterdir())
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(ot.InputError, match=r"task 1: .* is damaged"):
        D.run(plan, engine="ray", address=cluster.address)
