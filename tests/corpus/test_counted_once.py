"""Every format: what is copied, cut in two, or read in another order counts once (R12)."""

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples import copies

FORMATS = copies.FORMATS


@pytest.mark.parametrize("way", copies.WAYS)
@pytest.mark.parametrize("name", FORMATS)
def test_a_copy_counts_nothing(name: str, way: str, tmp_path: Path) -> None:
    if (name, way) == ("native", "respelt"):
        return  # known by bytes: see below
    folder, options = copies.laid_out(name, tmp_path / "whole"), copies.options(name)
    whole = ot.read_traces(folder, **options)
    for at, some in enumerate(copies.subsets(copies.recordings(folder), 7)):
        work = tmp_path / str(at)
        shutil.copytree(folder, work)
        for path in some:
            copies.WAYS[way](work / path.relative_to(folder), work)
        again = ot.read_traces(work, **options)
        assert copies.counted(again) == copies.counted(whole)
        assert again.records["used"] == whole.records["used"]
        for kind in ("read", "duplicate") if len(some) == len(copies.recordings(folder)) else ("read",):
            assert again.records[kind] > whole.records[kind]


@pytest.mark.parametrize("name", FORMATS)
def test_the_order_of_files_changes_no_trace(name: str, tmp_path: Path) -> None:
    folder, options = copies.laid_out(name, tmp_path / "whole"), copies.options(name)
    for path in copies.recordings(folder):
        copies.under_another_name(path, folder)
        copies.in_a_subfolder(path, folder)
    files = copies.recordings(folder)
    forward, backward = (ot.read_traces(order, **options) for order in (files, files[::-1]))
    assert copies.per_trace(forward) == copies.per_trace(backward)


@pytest.mark.parametrize(
    "name", [name for name in FORMATS if any(copies.IMPORTERS.glob(f"{name}/input*.jsonl"))]
)
def test_lines_in_two_files_are_those_of_one(name: str, tmp_path: Path) -> None:
    folder, options = copies.laid_out(name, tmp_path / "whole"), copies.options(name)
    whole = ot.read_traces(folder, **options)
    (path,) = copies.recordings(folder)
    lines = path.read_text().splitlines(keepends=True)
    for at in range(1, len(lines)):
        work = tmp_path / str(at)
        work.mkdir()
        (work / path.name).write_text("".join(lines[:at]))
        (work / f"more-{path.name}").write_text("".join(lines[at:]))
        # The rest alone may not show what it is of.
        again = ot.read_traces(work, **options, format=name)
        assert copies.counted(again) == copies.counted(whole), at


@pytest.mark.parametrize("first", ["original", "copy"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_copy_that_comes_in_a_later_ingest_counts_nothing(name: str, first: str, tmp_path: Path) -> None:
    folder, options = copies.laid_out(name, tmp_path / "whole"), copies.options(name)
    if name == "agentrx":
        return  # labels alone
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    for path in copies.recordings(other):
        (copies.under_another_name if name == "native" else copies.respelt)(path, other)
        path.unlink()
    corpus = tmp_path / "corpus"
    begin, rest = (folder, other) if first == "original" else (other, folder)
    ot.ingest(begin, corpus, **options)
    assert copies.counted(ot.read_corpus(corpus)) == copies.counted(ot.read_traces(begin, **options))
    ot.ingest(rest, corpus, **options)
    assert copies.counted(ot.read_corpus(corpus)) == copies.counted(ot.read_traces(folder, **options))


def run(trial: int | None = None, **more: Any) -> dict[str, Any]:
    """A run of tau-bench that broke off before anybody spoke."""
    return {"task_id": 1, "reward": 0.0, "info": {}, "traj": [{"role": "user", "content": "hi"}]} | (
        {} if trial is None else {"trial": trial}
    ) | more  # fmt: skip


def written(path: Path, *runs: dict[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(json.dumps(list(runs)))
    return path


def test_equal_runs_of_two_trials_are_two(tmp_path: Path) -> None:
    written(tmp_path / "runs.json", run(0), run(1))
    assert len(ot.read_traces(tmp_path)) == 2


def test_equal_runs_in_files_that_differ_are_two(tmp_path: Path) -> None:
    """Both models failed at once: nobody copied anything."""
    written(tmp_path / "one.json", run(0), run(0, task_id=2))
    written(tmp_path / "other.json", run(0), run(0, task_id=3))
    corpus = ot.read_traces(tmp_path)
    assert len(corpus) == 4 and corpus.records["duplicate"] == 0
    written(tmp_path / "again" / "one.json", run(0), run(0, task_id=2))
    again = ot.read_traces(tmp_path)
    assert len(again) == 4 and again.records["duplicate"] == 2


def test_one_id_and_other_content_are_two_traces(tmp_path: Path) -> None:
    line = (copies.IMPORTERS / "native" / "input.jsonl").read_text().splitlines()[0]
    other = json.loads(line)
    other["rewards"] = {"team": 0.25}
    (tmp_path / "a.jsonl").write_text(line + "\n")
    (tmp_path / "b.jsonl").write_text(json.dumps(other) + "\n")
    corpus = ot.read_traces(tmp_path)
    assert len(corpus) == 2 and corpus.records["duplicate"] == 0
    assert "trace.id_reused" in set(corpus.findings.select(pl.col("code").cast(pl.String)).collect()["code"])


def test_a_native_record_that_is_spelt_anew_is_told(tmp_path: Path) -> None:
    """Its bytes are looked at, no more: what they say takes as long to find out as reading them."""
    folder = copies.laid_out("native", tmp_path / "whole")
    whole = ot.read_traces(folder)
    copies.respelt(copies.recordings(folder)[0], folder)
    again = ot.read_traces(folder)
    told = again.findings.filter(pl.col("code") == "trace.id_reused").collect()
    assert told["trace"].n_unique() == len(again) - len(whole) > 0


def rollout(output: str, score: float, **more: Any) -> dict[str, Any]:
    return {"input": "p", "output": output, "gts": "x", "score": score, "step": 2} | more


def verl(path: Path, *lines: dict[str, Any]) -> ot.Corpus:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ot.read_traces(path.parent)


def test_equal_rollouts_of_two_runs_are_two_and_of_a_copy_one(tmp_path: Path) -> None:
    verl(tmp_path / "a" / "2.jsonl", rollout("same", 1.0), rollout("one", 0.0))
    both = verl(tmp_path / "b" / "2.jsonl", rollout("same", 1.0), rollout("other", 0.0))
    assert len(both) == 2
    whole = ot.read_traces(tmp_path)
    assert len(whole) == 4 and whole.records["duplicate"] == 0
    # They have one name, which is said.
    told = whole.findings.filter(pl.col("code") == "trace.id_reused").collect()
    assert told.height == 1
    shutil.copytree(tmp_path / "a", tmp_path / "c" / "backup")
    assert len(ot.read_traces(tmp_path)) == 4


def test_lines_of_one_rollout_that_disagree_are_told(tmp_path: Path) -> None:
    lines = [rollout("part", 1.0, rollout_id="r"), rollout("part", 0.5, rollout_id="r", reward=2)]
    corpus = verl(tmp_path / "2.jsonl", *lines)
    assert len(corpus) == 1
    rewards = corpus.measures.filter(pl.col("kind") == "reward").collect()
    assert rewards["value"].to_list() == [0.5]
    told = corpus.findings.filter(pl.col("code") == "trace.conflict").collect()
    assert told["message"].to_list() == [
        "a record gives the reward 'team' as 0.5, but an earlier one as 1; the last is used"
    ]
    agreed = verl(tmp_path / "agreed" / "2.jsonl", lines[0], lines[0] | {"output": "more"})
    assert agreed.findings.filter(pl.col("code") == "trace.conflict").collect().is_empty()


def test_lines_of_one_trl_rollout_that_disagree_are_told(tmp_path: Path) -> None:
    row = {"step": 1, "prompt": "p", "completion": "a", "accuracy": 1.0, "advantage": 0.0, "trajectory": "t"}
    path = tmp_path / "rows.jsonl"
    path.write_text(
        "".join(json.dumps(row | more) + "\n" for more in ({}, {"accuracy": 0.0, "completion": "b"}))
    )
    corpus = ot.read_traces(path)
    assert len(corpus) == 1
    told = corpus.findings.filter(pl.col("code") == "trace.conflict").collect()["message"].to_list()
    assert told[0].startswith("a record gives the reward 'accuracy' as 0, but an earlier one as 1; ")


@pytest.mark.parametrize(
    ("one", "other", "runs"),
    [
        (["v", "w"], ["v", "w", "x"], 5),
        (["v", "w"], ["v", "w", "x cut"], 4),
        (["v", "w", "y cut"], ["v", "w", "x cut"], 4),
        (["v", "w", "x cut"], ["v", "w", "x cut"], 2),
    ],
)
def test_files_that_differ_in_what_is_broken_are_no_copies(
    tmp_path: Path, one: list[str], other: list[str], runs: int
) -> None:
    """Equal rollouts in two files that differ elsewhere both count: nobody can tell."""
    for name, said in (("a", one), ("b", other)):
        rows = [
            json.dumps({"input": "q", "output": what[0], "score": 1.0, "step": 1})[
                : -9 if "cut" in what else None
            ]
            for what in said
        ]
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.jsonl").write_text("".join(f"{row}\n" for row in rows))
    files = [tmp_path / "a/1.jsonl", tmp_path / "b/1.jsonl"]
    for order in (files, files[::-1]):
        assert len(ot.read_traces(order, format="verl")) == runs
