"""Links that others put where the engine prepares its files, in folders that they can write to."""

import os
import re
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.base.publication import published_file


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    ot.generate(tmp_path / "runs.jsonl", traces=8, seed=0)
    return tmp_path / "runs.jsonl"


def test_ingest_writes_through_no_link_at_a_name_that_can_be_guessed(runs: Path, tmp_path: Path) -> None:
    victim, out = tmp_path / "victim", tmp_path / "corpus"
    victim.write_text("mine")
    out.mkdir()
    (out / ".manifest.json.tmp").symlink_to(victim)
    ot.ingest(runs, out)
    assert victim.read_text() == "mine"
    for name in ("manifest.json", *(path.name for path in out.rglob("*.parquet"))):
        for folder in (out, *(path.parent for path in out.rglob("*.parquet"))):
            link = folder / f".{name}.tmp"
            if not link.is_symlink():
                link.symlink_to(victim)
    ot.generate(tmp_path / "more.jsonl", traces=8, seed=1)
    ot.ingest(tmp_path / "more.jsonl", out, resume=True)
    assert victim.read_text() == "mine"
    assert len(ot.read_corpus(out)) > 8
    left = [path for path in out.rglob("*.tmp")]
    assert left == [], "what a killed process left is removed"


def test_names_of_temporary_files_are_of_one_process(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    renamed: list[str] = []
    replace = os.replace

    def spy(made: str | Path, target: str | Path) -> None:
        renamed.append(os.path.basename(made))
        assert not os.path.islink(made)
        replace(made, target)

    monkeypatch.setattr(os, "replace", spy)
    ot.ingest(runs, tmp_path / "corpus")
    ot.read_traces(runs).write_jsonl(tmp_path / "out.jsonl")
    corpus = ot.read_corpus(tmp_path / "corpus")
    ot.credit(corpus, method="uniform", unit="team", sink=tmp_path / "credits").collect()
    assert len(renamed) > 5
    assert all(re.search(r"[0-9a-f]{16}", name) and name.endswith(".tmp") for name in renamed), renamed


def test_a_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        with published_file(tmp_path / "new") as file:
            file.write(b"x")
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(before)


def test_no_link_is_followed_even_where_the_name_is_known(runs: Path, tmp_path: Path) -> None:
    from orchestrace.base.durable import replace, temporary

    (tmp_path / "victim").write_text("mine")
    temporary(tmp_path / "target").symlink_to(tmp_path / "victim")
    with pytest.raises(FileExistsError):
        replace(tmp_path / "target", lambda file: file.write(b"x"))
    assert (tmp_path / "victim").read_text() == "mine"
    assert pl.read_ndjson(runs).height == 8
