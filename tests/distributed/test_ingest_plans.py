"""A planned ingest makes the corpus that one machine makes."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import orchestrace as ot
from orchestrace.base.schema import SCHEMAS
from orchestrace.cli import app
from orchestrace.disk.manifest import Manifest, load
from orchestrace.disk.shards import INDEX, current_side

DATA = Path(__file__).parents[2] / "data"


def _recordings(folder: Path, files: int = 5, traces: int = 6) -> list[str]:
    folder.mkdir()
    made = []
    for number in range(files):
        made.append(str(folder / f"{number}.jsonl"))
        ot.generate(made[-1], traces=traces, seed=number)
        text = Path(made[-1]).read_text().replace('"trace_id":"', f'"trace_id":"f{number}-')
        Path(made[-1]).write_text(text)
    return made


def _planned(source: Any, place: Path, **options: Any) -> Any:
    return ot.distributed.plan(source, "ingest", out=place / "out", folder=place / "plan", **options)


def _run(plan: Any) -> pl.DataFrame:
    return ot.distributed.reduce([ot.distributed.run_task(task) for task in reversed(plan.tasks)])


def _manifest(folder: Path) -> Manifest:
    made = load(folder)
    assert made is not None
    return made


def _same(one: Path, other: Path) -> None:
    """Both folders hold the same corpus: every table in its order, and all that the manifests count."""
    a, b = ot.read_corpus(one), ot.read_corpus(other)
    assert a.records == b.records
    for table in SCHEMAS:
        left, right = getattr(a, table), getattr(b, table)
        left, right = (x.collect() if isinstance(x, pl.LazyFrame) else x for x in (left, right))
        assert_frame_equal(left, right, categorical_as_str=True)
    assert_frame_equal(a.mapping_counts, b.mapping_counts)
    ours, theirs = _manifest(one), _manifest(other)
    inputs = [[{**vars(x), "since": 0} for x in m.inputs] for m in (ours, theirs)]
    assert inputs[0] == inputs[1]
    known = [
        current_side(folder, made, "index").collect().drop("shard").sort("trace", "input", "duplicate")
        for folder, made in ((one, ours), (other, theirs))
    ]
    assert_frame_equal(*known)
    assert (ours.next_trace, ours.partitions, ours.key, ours.complete, ours.fields, ours.mapping) == (
        *(theirs.next_trace, theirs.partitions, theirs.key, theirs.complete, theirs.fields, theirs.mapping),
    )
    assert "shard" in INDEX


def _equal(source: Any, place: Path, tasks: int, **options: Any) -> None:
    single = {name: value for name, value in options.items()}
    ot.ingest(source, place / "one", **single)
    plan = _planned(source, place, tasks=tasks, **options)
    assert len(plan.tasks) <= tasks
    _run(plan)
    _same(place / "one", place / "out")


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_generated_files_give_the_same_corpus(tmp_path: Path, tasks: int) -> None:
    _equal(_recordings(tmp_path / "runs"), tmp_path, tasks, partitions=3, memory="64MiB")


def test_files_with_the_same_ids_give_the_same_corpus(tmp_path: Path) -> None:
    files = _recordings(tmp_path / "runs")
    shutil.copy(files[0], tmp_path / "runs" / "copy.jsonl")  # repeats
    reused = Path(files[1]).read_text().replace('"id_reused"', "").splitlines()
    other = json.loads(reused[0])
    other["task_id"] = "another"
    (tmp_path / "runs" / "reused.jsonl").write_text(json.dumps(other) + "\n")
    _equal(str(tmp_path / "runs"), tmp_path, 7, partitions=2)
    assert ot.read_corpus(tmp_path / "out").records["duplicate"] == 6
    findings = ot.read_corpus(tmp_path / "out").findings
    found = findings.collect() if isinstance(findings, pl.LazyFrame) else findings
    assert "trace.id_reused" in found["code"].cast(pl.String).to_list()


def test_ids_reused_within_a_task(tmp_path: Path) -> None:
    files = _recordings(tmp_path / "runs")
    lines = Path(files[3]).read_text().splitlines()
    other = json.loads(lines[0])
    other["task_id"] = "another"
    Path(files[3]).write_text("\n".join([*lines, json.dumps(other)]) + "\n")
    _equal(files, tmp_path, 5)


@pytest.mark.parametrize("name", sorted(path.name for path in (DATA / "importers").iterdir()))
@pytest.mark.parametrize("tasks", [3, 50])
def test_formats_give_the_same_corpus(tmp_path: Path, name: str, tasks: int) -> None:
    options = {}
    if name == "mapping":
        options["mapping"] = next(iter(sorted((DATA / "importers" / name).rglob("*mapping*.json"))))
    _equal(str(DATA / "importers" / name), tmp_path, tasks, partitions=3, **options)


def test_formats_that_are_mixed_and_packed(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    _recordings(runs, 3)
    packed = gzip.compress((runs / "0.jsonl").read_bytes().replace(b"f0-", b"gz-"))
    (runs / "a.jsonl.gz").write_bytes(packed)
    (runs / "broken.jsonl").write_text('{"trace_id": 1}\nnot json\n' + (runs / "2.jsonl").read_text()[:300])
    (runs / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    _equal([DATA / "samples", DATA / "importers", runs], tmp_path, 9, partitions=4, memory="64MiB")
    assert ot.read_corpus(tmp_path / "out").records["quarantined"] > 0
