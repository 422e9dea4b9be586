"""Daft: the same plan as a column of task numbers, as docs/beyond-one-machine.md has it."""

from pathlib import Path

import pytest

import orchestrace as ot
from samples import divided
from samples.divided import assert_same_bits, one_machine, planned

daft = pytest.importorskip("daft", reason="Daft is not installed, so it runs no task")

pytestmark = [pytest.mark.process, pytest.mark.every_nth(1), pytest.mark.filterwarnings("ignore")]


def test_daft_gives_the_table_of_one_machine(tmp_path: Path) -> None:
    folder = divided.corpus_on_disk(tmp_path)
    plan = planned(folder, "credit of siblings", tmp_path / "plan")

    @daft.func
    def run(number: int) -> int:
        return ot.distributed.run_task(plan.tasks[number], threads=1).rows

    numbers = daft.from_pydict({"task": list(range(len(plan.tasks)))})
    rows = numbers.with_column("rows", run(daft.col("task"))).to_pydict()["rows"]
    table = ot.distributed.reduce(plan)
    assert sum(rows) == table.height
    assert_same_bits(table, one_machine(ot.read_corpus(folder), "credit of siblings"))
