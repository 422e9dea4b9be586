"""Spark: the same plan through `mapInArrow`, as docs/beyond-one-machine.md has it."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import orchestrace as ot
from samples import divided
from samples.divided import assert_same_bits, one_machine, planned

sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed, so it runs no task")

pytestmark = [
    pytest.mark.process,
    pytest.mark.every_nth(1),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(shutil.which("java") is None, reason="there is no Java, which Spark needs"),
]


def test_spark_gives_the_table_of_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"):
        monkeypatch.setenv(name, sys.executable)
    folder = divided.corpus_on_disk(tmp_path)
    plan = planned(folder, "credit of siblings", tmp_path / "plan")

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            numbers = batch["id"].to_pylist()
            rows = [ot.distributed.run_task(plan.tasks[number], threads=1).rows for number in numbers]
            yield pa.RecordBatch.from_pydict({"task": numbers, "rows": rows})

    # no page about the session, and no name of this machine to look up
    quiet = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    session = sql.SparkSession.builder.master("local[2]").config(map=quiet).getOrCreate()
    try:
        numbers = session.range(len(plan.tasks), numPartitions=len(plan.tasks))
        found = numbers.mapInArrow(run, "task long, rows long").collect()
    finally:
        session.stop()
    table = ot.distributed.reduce(plan)
    assert sum(row["rows"] for row in found) == table.height
    assert_same_bits(table, one_machine(ot.read_corpus(folder), "credit of siblings"))
