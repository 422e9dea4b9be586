"""What releases left on disk is read by every later one: corpora, plans, studies."""

import json
import tarfile
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot
from orchestrace import _core

from . import write

ARCHIVES = sorted(Path(__file__).parent.glob("*.tar.gz"))
RELEASES = [path.name.removesuffix(".tar.gz") for path in ARCHIVES]


@pytest.fixture(params=ARCHIVES, ids=RELEASES)
def left(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with what a release left."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def expected(left: Path, name: str) -> pl.DataFrame:
    return pl.read_parquet(left / "expected" / f"{name}.parquet")


def test_the_archive_begins_with_0_2_0() -> None:
    assert RELEASES[0] == "0.2.0"


@pytest.mark.parametrize("name", write.TABLES)
def test_a_corpus_reads_as_it_did(left: Path, name: str) -> None:
    ours, theirs = write.rows(getattr(ot.read_corpus(left / "corpus"), name)), expected(left, name)
    assert_frame_equal(ours.select(theirs.columns), theirs)


def test_a_corpus_grows(left: Path) -> None:
    before = write.rows(ot.read_corpus(left / "corpus").events)
    first = (left / "recordings" / "second.jsonl").read_text(encoding="utf-8").splitlines()[0]
    (left / "more.jsonl").write_text(first.replace("hand-", "new-"), encoding="utf-8")
    ot.ingest(left / "more.jsonl", left / "corpus", partitions=2)
    corpus = ot.read_corpus(left / "corpus")
    old = expected(left, "traces")["trace"]
    assert len(corpus) == len(old) + 1
    after = write.rows(corpus.events.filter(pl.col("trace").is_in(old.implode())))
    assert_frame_equal(after.select(before.columns), before)


def test_credit_is_what_it_was(left: Path) -> None:
    theirs = expected(left, "credit")
    ours = write.rows(ot.credit(ot.read_corpus(left / "corpus"), **write.CREDIT))
    assert_frame_equal(ours.select(theirs.columns), theirs, rel_tol=1e-12)


@pytest.mark.parametrize(("name", "states"), [("plan", ["done", "done"]), ("begun", ["done", "missing"])])
def test_a_plan_says_what_is_done_and_which_release_goes_on(left: Path, name: str, states: list[str]) -> None:
    plan = left / name
    assert ot.distributed.status(plan)["state"].to_list() == states
    if has_our_layout(left):
        ot.distributed.run(plan, workers=1, corpus=left / "corpus")
        ours, theirs = write.rows(ot.distributed.reduce(plan)), expected(left, "credit")
        assert_frame_equal(ours.select(theirs.columns), theirs, rel_tol=1e-12)
        return
    # another release may compute something else, and its numbers would stand beside the old ones
    for go_on in (ot.distributed.run, ot.distributed.reduce):
        with pytest.raises(ot.SchemaError, match="install the same version everywhere"):
            go_on(plan, corpus=left / "corpus")


def has_our_layout(left: Path) -> bool:
    manifest = json.loads((left / "corpus" / "manifest.json").read_bytes())
    release = json.loads((left / "study" / "study.json").read_bytes())["version"]
    return (release, manifest["schema_version"]) == (_core.VERSION, _core.SCHEMA_VERSION)


def test_a_study_is_read(left: Path) -> None:
    theirs = expected(left, "study")
    ours = write.rows(ot.study.load(left / "study"))
    assert_frame_equal(ours.select(theirs.columns), theirs)
