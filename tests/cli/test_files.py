"""Files that commands write: none over one that they did not make, and none that is cut."""

import json
import os
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot
from cli.commands import error_line, recordings, run
from exports.test_publication import files_of_at_most

WRITERS: dict[str, list[str]] = {
    "credit": ["credit", "RUNS", "-o", "OUT"],
    "compare": ["compare", "RUNS", "--method", "flow", "-o", "OUT"],
    "explain": ["explain", "RUNS", "--id", "lead", "--trace", "0", "-o", "OUT"],
    "replay": ["replay", "RUNS", "--each", "agent", "-o", "OUT"],
    "metrics": ["metrics", "RUNS", "-o", "OUT"],
    "taint": ["taint", "RUNS", "-o", "OUT"],
    "methods": ["methods", "-o", "OUT"],
    "importers": ["importers", "-o", "OUT"],
    "codes": ["codes", "-o", "OUT"],
    "quarantined": ["quarantined", "RUNS", "-o", "OUT"],
    "export": ["export", "RUNS", "--to", "ocel", "-o", "OUT"],
    "generate": ["generate", "OUT", "--traces", "20"],
}
"""Every command that writes a file."""

each_writer = pytest.mark.parametrize("name", WRITERS)


def call(name: str, folder: Path) -> tuple[list[object], Path]:
    path = recordings(folder)
    path.write_text(path.read_text() + "{" + "x" * 300 + "\n")
    out = folder / "out.parquet"
    words: dict[str, object] = {"RUNS": path, "OUT": out}
    return [words.get(word, word) for word in WRITERS[name]], out


@each_writer
def test_a_file_that_exists_is_replaced_only_with_force(name: str, tmp_path: Path) -> None:
    args, out = call(name, tmp_path)
    out.write_text("mine")
    assert error_line(run(*args, code=1)) == f"'{out}' exists; give --force to replace it"
    assert out.read_text() == "mine"
    run(*args, "--force")
    assert out.read_bytes()[:4] != b"mine"
    out.unlink()
    run(*args)
    assert out.is_file() and sorted(os.listdir(tmp_path)) == ["out.parquet", "runs.jsonl"]


@each_writer
def test_a_full_disk_is_one_line_and_leaves_no_file(name: str, tmp_path: Path) -> None:
    args, out = call(name, tmp_path)
    with files_of_at_most(200):
        assert error_line(run(*args, code=1)) == f"{out}: File too large"
    assert os.listdir(tmp_path) == ["runs.jsonl"]


def test_it_is_said_before_anything_is_computed(tmp_path: Path) -> None:
    (tmp_path / "out.parquet").touch()
    refused = error_line(run("credit", tmp_path / "nothing.jsonl", "-o", tmp_path / "out.parquet", code=1))
    assert refused.endswith("exists; give --force to replace it")


def test_a_recording_is_not_generated_over(tmp_path: Path) -> None:
    path = recordings(tmp_path)
    before = path.read_bytes()
    assert "exists; give --force to replace it" in error_line(run("generate", path, code=1))
    assert path.read_bytes() == before


def test_the_demo_writes_to_its_own_folder_only(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "events.parquet").write_text("mine")
    refused = error_line(run("demo", "-o", mine, code=1))
    assert refused == f"the demo did not make folder '{mine}'; give --force to write into it"
    assert (mine / "events.parquet").read_text() == "mine" and os.listdir(mine) == ["events.parquet"]
    for _ in range(2):
        run("demo", "-o", tmp_path / "demo")
    assert pl.read_parquet(tmp_path / "demo" / "events.parquet").height > 0
    run("demo", "-o", mine, "--force")
    assert pl.read_parquet(mine / "events.parquet").height > 0


def test_folders_of_others_are_not_written_to(tmp_path: Path) -> None:
    path = recordings(tmp_path)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "notes.txt").write_text("mine")
    for args in (
        ["ingest", path, "-o", mine],
        ["export", path, "--to", "parquet", "-o", mine],
        ["credit", path, "--sink", mine],
    ):
        assert "is not empty" in error_line(run(*args, code=2))
        assert os.listdir(mine) == ["notes.txt"]


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    path = recordings(tmp_path, rewards={})
    ids = [json.loads(line)["trace_id"] for line in path.read_text().splitlines()]
    pl.DataFrame({"trace_id": ids, "team": [1, 2, 3]}).write_csv(tmp_path / "r.csv")
    run("credit", "~/runs.jsonl", "--rewards", "~/r.csv", "-o", "~/credits.parquet")
    run("credit", "~/runs.jsonl", "--rewards", "~/r.csv", "--sink", "~/sink")
    run("ingest", "~/*.jsonl", "-o", "~/corpus")
    run("metrics", "~/corpus", "-o", "~/metrics.parquet")
    run("export", "~/runs.jsonl", "--to", "jsonl", "-o", "~/out.jsonl")
    run("generate", "~/made.jsonl", "--traces", "2")
    run("demo", "-o", "~/demo")
    run("survey", "~", code=1)
    assert "credits.parquet" in error_line(run("credit", "~/runs.jsonl", "-o", "~/credits.parquet", code=1))
    made = {"credits.parquet", "sink", "corpus", "metrics.parquet", "out.jsonl", "made.jsonl", "demo"}
    assert made <= set(os.listdir(tmp_path)) and os.listdir(elsewhere) == []
    assert len(ot.read_corpus("~/corpus")) == 3
