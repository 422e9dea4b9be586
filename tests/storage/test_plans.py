"""Plans over a corpus in a bucket: workers open it by its address, with copies of their own."""

from pathlib import Path

import pytest

import orchestrace as ot
from orchestrace import distributed as D
from samples import on_disk
from samples.divided import assert_same_bits
from storage.servers import Bucket

pytestmark = pytest.mark.every_nth(3)
OUT = "s3://runs/corpus"
MEMORY = "64MiB"


@pytest.fixture
def local(bucket: Bucket, tmp_path: Path) -> ot.Corpus:
    """A corpus in a folder; the bucket has the same."""
    (tmp_path / "rec").mkdir()
    on_disk.write_recordings(tmp_path / "rec", events=2500)
    for place in (tmp_path / "local", OUT):
        ot.ingest(tmp_path / "rec", place, partitions=3, fields=on_disk.FIELDS)
    return ot.read_corpus(tmp_path / "local", memory=MEMORY)


@pytest.mark.parametrize(
    ("verb", "options"), [("credit", {"method": "grpo", "unit": "agent"}), ("metrics", {}), ("taint", {})]
)
def test_tasks_open_the_corpus_by_its_address(
    local: ot.Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, options: dict
) -> None:
    plan = D.plan(ot.read_corpus(OUT, memory=MEMORY), verb, folder=tmp_path / "plan", **options)
    assert {task.call.corpus for task in plan.tasks} == {OUT}
    monkeypatch.setenv("ORCHESTRACE_CACHE", str(tmp_path / "another machine"))
    results = [D.run_task(task) for task in reversed(plan.tasks)]
    assert_same_bits(D.reduce(results), getattr(ot, verb)(local, **options))


def test_worker_processes_do_it_too(local: ot.Corpus, tmp_path: Path) -> None:
    plan = D.plan(OUT, "credit", unit="agent", folder=tmp_path / "plan")
    D.run(plan, workers=2)
    assert_same_bits(D.reduce(plan), ot.credit(ot.read_corpus(OUT), unit="agent"))


def test_a_copy_in_a_folder_serves_the_same_plan(local: ot.Corpus, tmp_path: Path) -> None:
    plan = D.plan(tmp_path / "local", "taint", folder=tmp_path / "plan")
    with pytest.raises(ot.InputError, match=r"'s3://runs/corpus' is not as it was planned"):
        D.run_task(plan.tasks[0], corpus=OUT)  # ingested by itself, so its files have other names


def test_a_changed_or_absent_corpus_is_refused(local: ot.Corpus, bucket: Bucket, tmp_path: Path) -> None:
    opened = ot.read_corpus(OUT)
    plan = D.plan(opened, "taint", folder=tmp_path / "plan")
    ot.generate(tmp_path / "more.jsonl", traces=3, seed=5)
    ot.ingest(tmp_path / "more.jsonl", OUT)
    with pytest.raises(ot.InputError, match=r"'s3://runs/corpus' is not as it was planned"):
        D.run_task(plan.tasks[0])
    with pytest.raises(ot.ParameterError, match="has changed since it was opened"):
        D.plan(opened, "taint", folder=tmp_path / "other")
    bucket.clear()
    with pytest.raises(ot.InputError, match=r"no corpus in 's3://runs/corpus'"):
        D.run_task(plan.tasks[0])
