"""Dask: the same plan by another scheduler of Python functions, as docs/beyond-one-machine.md has it."""

import os
import sys
from pathlib import Path

import pytest

import orchestrace as ot
from samples import divided
from samples.divided import assert_same_bits, one_machine, planned

dask = pytest.importorskip("dask.distributed", reason="Dask is not installed, so it runs no task")

pytestmark = [
    pytest.mark.process,
    pytest.mark.every_nth(1),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def test_dask_gives_the_table_of_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    folder = divided.corpus_on_disk(tmp_path)
    plan = planned(folder, "credit of siblings", tmp_path / "plan")
    with (
        dask.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        dask.Client(cluster) as client,
    ):
        results = client.gather(client.map(ot.distributed.run_task, plan.tasks, pure=False))
    table = ot.distributed.reduce(results)
    assert_same_bits(table, one_machine(ot.read_corpus(folder), "credit of siblings"))
