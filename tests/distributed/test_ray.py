"""Ray: the same plan, and the same verbs, on a cluster of two nodes."""

from pathlib import Path
from typing import Any

import pytest

import orchestrace as ot
from samples import divided, dying
from samples.divided import CALLS, assert_same_bits, function, one_machine, planned

ray = pytest.importorskip("ray", reason="Ray is not installed, so no cluster runs the tasks")

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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return divided.corpus_on_disk(tmp_path_factory.mktemp("corpus"), traces=48, partitions=3)


def small(folder: Path) -> ot.Corpus:
    """With a budget that a node of the tests has room for."""
    return ot.read_corpus(folder, memory="256MiB")


def left(folder: Path) -> list[Path]:
    """What calls have left beside a corpus."""
    return [path for path in folder.parent.iterdir() if path.name.startswith("corpus.")]


def test_a_cluster_gives_the_table_of_one_machine(cluster, folder, tmp_path) -> None:
    plan = planned(small(folder), "credit flow", tmp_path / "plan")
    results = D.run(plan, engine="ray", address=cluster.address)
    assert_same_bits(D.reduce(results), one_machine(small(folder), "credit flow"))
    assert D.run(plan, engine="ray", address=cluster.address) == results
    assert not ray.is_initialized()  # it is left as it was found


def test_verbs_on_a_cluster_give_the_tables_of_one_machine(cluster, folder, tmp_path) -> None:
    ray.init(cluster.address, log_to_driver=False)
    try:
        for call in ("credit of siblings", "replay", "metrics by task", "taint of tools"):
            verb, arguments, options = CALLS[call]
            found = function(verb)(small(folder), *arguments, engine="ray", **options)
            assert_same_bits(found, one_machine(small(folder), call))
            assert ray.is_initialized()  # what is connected is used, and stays
        more: dict[str, Any] = {"unit": "agent", "method": "grpo"}
        sunk = ot.credit(small(folder), engine="ray", sink=tmp_path / "sink", **more)
    finally:
        ray.shutdown()
    assert_same_bits(sunk.collect(), ot.credit(small(folder), **more))
    assert not left(folder)


def test_a_verb_joins_the_cluster_of_its_engine_and_leaves_it(cluster, folder) -> None:
    engine = D.ray(cluster.address, threads=1, retries=3)
    found = ot.metrics(small(folder), engine=engine)
    assert_same_bits(found, ot.metrics(small(folder)))
    assert not left(folder) and not ray.is_initialized()


def test_a_task_whose_workers_always_die_is_named(cluster, folder) -> None:
    engine = D.ray(cluster.address, retries=0)
    with pytest.raises(ot.InputError, match=r"task \d was lost on the cluster"):
        ot.credit(small(folder), method=dying.NAME, always=True, engine=engine)
    assert not left(folder) and not ray.is_initialized()


def test_a_plan_that_no_node_has_room_for_is_refused(cluster, folder) -> None:
    with pytest.raises(ot.ParameterError, match="no node has 1 cores and 65,792 MiB"):
        ot.taint(ot.read_corpus(folder, memory="64GiB"), engine=D.ray(cluster.address))
    assert not left(folder)


def test_an_error_of_a_task_is_that_of_one_machine(cluster, tmp_path) -> None:
    own = divided.corpus_on_disk(tmp_path, traces=48, partitions=3)
    plan = planned(small(own), "taint", tmp_path / "plan")
    file = next((own / f"part={plan.tasks[1].pieces[0][0]}" / "events").iterdir())
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(ot.InputError, match=r"task 1: .* is damaged"):
        D.run(plan, engine="ray", address=cluster.address)
