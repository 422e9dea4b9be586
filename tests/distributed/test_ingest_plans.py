"""A planned ingest makes the corpus that one machine makes."""

import gzip
import json
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import orchestrace as ot
from orchestrace.base.schema import SCHEMAS
from orchestrace.cli import app
from orchestrace.disk.manifest import Manifest, load
from orchestrace.disk.shards import current_side

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
    results = [ot.distributed.run_task(task) for task in reversed(plan.tasks)]
    return ot.distributed.reduce(results, corpus=plan.call.corpus)


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


def _equal(source: Any, place: Path, tasks: int, **options: Any) -> None:
    ot.ingest(source, place / "one", **options)
    plan = _planned(source, place, tasks=tasks, **options)
    assert len(plan.tasks) <= tasks
    _run(plan)
    _same(place / "one", place / "out")


@pytest.mark.parametrize("tasks", [1, 2, 5])
def test_generated_files_give_the_same_corpus(tmp_path: Path, tasks: int) -> None:
    _equal(_recordings(tmp_path / "runs"), tmp_path, tasks, partitions=3, memory="64MiB")


def test_archives_with_compressed_entries_give_the_same_corpus(tmp_path: Path) -> None:
    for number, file in enumerate(_recordings(tmp_path / "runs", files=3)):
        with zipfile.ZipFile(f"{file}.zip", "w") as archive:
            archive.writestr(f"{number}.jsonl.gz", gzip.compress(b"log line\n" + Path(file).read_bytes()))
            archive.writestr("README", "words")
        Path(file).unlink()
    with pytest.warns(UserWarning, match=r"^skipped 3 entries of archives: \S*0.jsonl.zip/README ") as said:
        _equal(str(tmp_path / "runs"), tmp_path, 3)
    assert len(said) == 2, "by the ingest, and where the tasks are joined"
    records = ot.read_corpus(tmp_path / "out").records
    assert (records["used"], records["quarantined"], records["ignored"]) == (18, 3, 3)


def test_files_with_the_same_ids_give_the_same_corpus(tmp_path: Path) -> None:
    files = _recordings(tmp_path / "runs")
    shutil.copy(files[0], tmp_path / "runs" / "copy.jsonl")  # repeats
    reused = Path(files[1]).read_text().splitlines()
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


@pytest.mark.every_nth(5)
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
    with pa.CompressedOutputStream(str(runs / "b.jsonl.zst"), "zstd") as file:
        file.write((runs / "1.jsonl").read_bytes().replace(b"f1-", b"zst-"))
    (runs / "broken.jsonl").write_text('{"trace_id": 1}\nnot json\n' + (runs / "2.jsonl").read_text()[:300])
    (runs / "cut.jsonl.gz").write_bytes(packed[: len(packed) // 2])
    _equal([DATA / "samples", DATA / "importers", runs], tmp_path, 9, partitions=4, memory="64MiB")
    assert ot.read_corpus(tmp_path / "out").records["quarantined"] > 0


def test_a_mapping_of_several_files(tmp_path: Path) -> None:
    text = (DATA / "importers" / "mapping" / "input.jsonl").read_text()
    (tmp_path / "runs").mkdir()
    for number in range(3):
        lines = text.splitlines()[number:]
        (tmp_path / "runs" / f"{number}.jsonl").write_text("\n".join(lines) + "\n")
    mapping = DATA / "importers" / "mapping" / "mapping.json"
    _equal(str(tmp_path / "runs"), tmp_path, 3, mapping=mapping)


def test_ids_that_spread_traces_share_with_others(tmp_path: Path) -> None:
    """The session has the id of a trace in a file of another format, and is read again for it."""
    sessions = DATA / "importers" / "claude_code"
    ids = ot.read_traces(sessions).traces.collect()["trace_id"].to_list()
    files = _recordings(tmp_path / "runs", 2)
    lines = [json.loads(line) for line in Path(files[0]).read_text().splitlines()]
    lines[0]["trace_id"] = ids[0]
    Path(files[0]).write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    _equal([*files, sessions], tmp_path, 4)


def test_an_ingest_grows_the_corpus_that_was_reduced(tmp_path: Path) -> None:
    files = _recordings(tmp_path / "runs")
    ot.ingest(files, tmp_path / "one")
    _run(_planned(files[:3], tmp_path, tasks=3))
    ot.ingest(files, tmp_path / "out")
    _same(tmp_path / "one", tmp_path / "out")


def test_a_task_that_runs_twice_gives_the_same(tmp_path: Path) -> None:
    plan = _planned(_recordings(tmp_path / "runs"), tmp_path, tasks=2)
    first = ot.distributed.run_task(plan.tasks[0])
    assert ot.distributed.run_task(plan.tasks[0]) == first
    again = ot.distributed.run_task(plan.tasks[0], again=True)
    assert again.blake3 == first.blake3
    assert [path.name for path in (tmp_path / "plan" / "corpora").iterdir()] == ["000000"]


def test_an_input_that_changed_is_refused(tmp_path: Path) -> None:
    files = _recordings(tmp_path / "runs")
    plan = _planned(files, tmp_path, tasks=5)
    Path(files[1]).write_text(Path(files[0]).read_text())
    with pytest.raises(ot.InputError, match=r"1.jsonl: the file has changed since the ingest was planned"):
        ot.distributed.run_task(plan.tasks[1])
    Path(files[2]).unlink()
    with pytest.raises(ot.InputError, match=r"2.jsonl: the file is gone"):
        ot.distributed.run_task(plan.tasks[2])


def test_an_input_that_changes_after_its_task_is_not_read_again(tmp_path: Path) -> None:
    files = _recordings(tmp_path / "runs")
    ot.ingest(files, tmp_path / "one")
    plan = _planned(files, tmp_path, tasks=5)
    for task in plan.tasks:
        ot.distributed.run_task(task)
    Path(files[1]).unlink()
    ot.distributed.reduce(plan)
    _same(tmp_path / "one", tmp_path / "out")


def test_a_damaged_corpus_of_a_task_is_named(tmp_path: Path) -> None:
    files = _recordings(tmp_path / "runs")
    plan = _planned(files, tmp_path, tasks=5)
    results = [ot.distributed.run_task(task) for task in plan.tasks]
    one = next((tmp_path / "plan" / "corpora" / "000003").rglob("part=*/events/*.parquet"))
    one.write_bytes(one.read_bytes()[:-9])
    with pytest.raises(ot.InputError, match=r"run-task .* 3 --again"):
        ot.distributed.reduce(results, corpus=tmp_path / "out")
    ot.distributed.run_task(plan.tasks[3], again=True)
    ot.distributed.reduce(results, corpus=tmp_path / "out")  # goes on with what it had joined
    ot.ingest(files, tmp_path / "one")
    _same(tmp_path / "one", tmp_path / "out")


def test_commands(tmp_path: Path) -> None:
    _recordings(tmp_path / "runs")
    place = str(tmp_path / "plan")
    out = f"out={tmp_path / 'out'}"
    for words in (
        ["plan", str(tmp_path / "runs"), "ingest", "-O", out, "-o", place, "--tasks", "2"],
        ["run-task", place, "1"],
        ["run-task", place, "0"],
        ["reduce", place, "-o", str(tmp_path / "inputs.parquet"), "--corpus", str(tmp_path / "out")],
    ):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
    ot.ingest(tmp_path / "runs", tmp_path / "one")
    _same(tmp_path / "one", tmp_path / "out")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "needs out="),
        ({"out": "s3://bucket/corpus"}, "object storage"),
        ({"out": "made", "max_errors": 3}, "max_errors is not an option of a planned ingest"),
        ({"out": "made", "formt": "native"}, "formt"),
        ({"out": "made", "group": "no_such"}, "no_such"),
    ],
)
def test_what_a_plan_refuses(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    files = _recordings(tmp_path / "runs", 1)
    if options.get("out") == "made":
        options = {**options, "out": tmp_path / "made"}
    with pytest.raises(ot.OrchestraceError, match=told):
        ot.distributed.plan(files, "ingest", folder=tmp_path / "plan", **options)


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    files = _recordings(tmp_path / "runs", 1)
    with pytest.raises(ot.ParameterError, match="makes a new corpus"):
        ot.distributed.plan(files, "ingest", out=tmp_path / "runs", folder=tmp_path / "plan")


_LIMITED = """
import resource, sys
import orchestrace as ot
from orchestrace.distributed.folder import load_plan
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    if sys.argv[2] == "reduce":
        ot.distributed.reduce(load_plan(sys.argv[1]))
    else:
        ot.distributed.run_task(load_plan(sys.argv[1]).tasks[0])
except ot.InputError as error:
    print(error)
"""


def _process(script: str, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", script, *words],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


@pytest.mark.process
def test_a_disk_that_is_full(tmp_path: Path) -> None:
    files = _recordings(tmp_path / "runs", 3, 60)
    plan = _planned(files, tmp_path, tasks=3)
    told, _ = _process(_LIMITED, plan.folder, "task").communicate(timeout=60)
    assert "cannot write" in told and "too large" in told
    assert not list((tmp_path / "plan" / "corpora").iterdir())
    for task in plan.tasks:
        ot.distributed.run_task(task)
    told, _ = _process(_LIMITED, plan.folder, "reduce").communicate(timeout=60)
    assert "cannot write" in told
    ot.distributed.reduce(plan)
    ot.ingest(files, tmp_path / "one")
    _same(tmp_path / "one", tmp_path / "out")


_WHOLE = """
import sys
import orchestrace as ot
from orchestrace.distributed.folder import load_plan
print("begun", flush=True)
ot.distributed.run(sys.argv[1], workers=1)
ot.distributed.reduce(load_plan(sys.argv[1]))
"""


@pytest.mark.nightly
@pytest.mark.process
def test_drivers_and_tasks_that_are_killed(tmp_path: Path) -> None:
    """Killed at ever later moments, in tasks and in the reduction; the last call ends the work."""
    files = _recordings(tmp_path / "runs", 6, 60)
    shutil.copy(files[1], tmp_path / "runs" / "copy.jsonl")
    ot.ingest(tmp_path / "runs", tmp_path / "one", partitions=3)
    plan = _planned(tmp_path / "runs", tmp_path, tasks=7, partitions=3)
    killed = 0
    for wait in (0.8, 1.2, 1.6, 2.0, 2.4):
        driver = _process(_WHOLE, plan.folder)
        assert driver.stdout is not None and driver.stdout.readline() == "begun\n"
        time.sleep(wait)
        driver.kill()
        driver.communicate()
        assert driver.returncode in (0, -9)
        killed += driver.returncode == -9
    assert killed
    ot.distributed.run(plan, workers=2)
    assert not list((tmp_path / "plan" / "corpora").glob(".*"))
    ot.distributed.reduce(plan)
    _same(tmp_path / "one", tmp_path / "out")


_STOPPED = """
import os, signal, sys
import orchestrace as ot
from orchestrace.disk.manifest import Manifest
from orchestrace.distributed.folder import load_plan
saves, save = int(sys.argv[2]), Manifest.save
def counted(self, folder):
    global saves
    if saves == 0:
        print(sum(one.done for one in self.inputs), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    saves -= 1
    save(self, folder)
Manifest.save = counted
ot.distributed.reduce(load_plan(sys.argv[1]))
"""


@pytest.mark.process
def test_a_reduction_that_is_killed_before_each_manifest(tmp_path: Path) -> None:
    files = _recordings(tmp_path / "runs", 3)
    shutil.copy(files[1], tmp_path / "runs" / "copy.jsonl")
    ot.ingest(tmp_path / "runs", tmp_path / "one", partitions=2)
    plan = _planned(tmp_path / "runs", tmp_path, tasks=4, partitions=2)
    for task in plan.tasks:
        ot.distributed.run_task(task)
    saves, joined = 0, []
    while True:
        process = _process(_STOPPED, plan.folder, str(saves))
        said, _ = process.communicate(timeout=60)
        if process.returncode == 0:
            break
        assert process.returncode == -9
        joined.append(int(said))
        saves = 1  # each call gets one step on
    # before the manifest of nothing, of each task, and of what is merged then
    assert joined[:5] == [0, 1, 2, 3, 4]
    assert len(joined) >= 7 and set(joined[5:]) == {4}
    _same(tmp_path / "one", tmp_path / "out")
