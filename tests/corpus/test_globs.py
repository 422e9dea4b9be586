"""Globs over folders that link to each other."""

import os
from pathlib import Path

import pytest

import orchestrace as ot
from samples.inputs import trace_ids
from samples.verdict_cases import BASE, text


def _names(pattern: Path | str) -> list[str]:
    files = ot.read_traces(str(pattern)).traces.collect()["file"].to_list()
    return [os.path.relpath(file, os.path.dirname(str(pattern).split("*")[0])) for file in files]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.jsonl", "one/b.jsonl", "one/two/c.jsonl", ".hidden/d.jsonl"):
        path = tmp_path / "runs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text(BASE).replace(b'"mutated"', f'"{path.stem}"'.encode()))
    return tmp_path / "runs"


ALL = ["a.jsonl", "one/b.jsonl", "one/two/c.jsonl"]


def test_a_glob_meets_each_file_once_where_folders_link_back(folder: Path) -> None:
    (folder / "one" / "up").symlink_to(folder)
    (folder / "one" / "two" / "self").symlink_to(".")
    (folder / "zero").symlink_to("one")
    assert _names(folder / "**" / "*.jsonl") == ALL
    assert _names(folder / "**") == ALL
    assert _names(f"{folder}/one/**/c.jsonl")[-1].endswith("c.jsonl")


def test_a_glob_follows_a_link_to_another_folder(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "deep"
    other.mkdir(parents=True)
    (other / "e.jsonl").write_bytes(text(BASE))
    (folder / "linked").symlink_to(tmp_path / "other")
    assert _names(folder / "**" / "*.jsonl") == sorted([*ALL, "linked/deep/e.jsonl"])
    assert _names(folder / "**" / "deep" / "**" / "*.jsonl") == ["linked/deep/e.jsonl"]


def test_a_glob_without_a_folder_looks_from_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    found = ot.read_traces("**/*.jsonl").traces.collect()["file"].to_list()
    assert found == ALL
    assert trace_ids(ot.read_traces("one/**/*.jsonl")) == ["b", "c"]
