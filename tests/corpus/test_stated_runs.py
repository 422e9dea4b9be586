"""Sources that state how many runs they hold: what is missing is said, and means get bounds."""

import json
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot


def trace(number: int) -> dict[str, Any]:
    """A trace of Langfuse, as a page lists it."""
    name = f"t{number:03}"
    time = f"2026-03-01T10:00:{number % 60:02}.000Z"
    return {"id": name, "timestamp": time, "projectId": "p", "tags": [], "observations": [], "scores": []}


def page(number: int, traces: Sequence[Any], total: int) -> dict[str, Any]:
    """A page of a list."""
    return {
        "data": list(traces),
        "meta": {"page": number, "limit": 10, "totalItems": total, "totalPages": 10},
    }


def written(folder: Path, pages: Sequence[Any], one_file: bool = False) -> Path:
    """Pages, each in a file of its own or all in one."""
    folder.mkdir(parents=True, exist_ok=True)
    if one_file:
        (folder / "pages.jsonl").write_text("".join(json.dumps(one) + "\n" for one in pages))
    else:
        for at, one in enumerate(pages):
            (folder / f"page{at}.json").write_text(json.dumps(one))
    return folder


def source_findings(corpus: ot.Corpus) -> list[tuple[str, int, str]]:
    """Findings about sources."""
    is_source = pl.col("code").cast(pl.String).str.starts_with("source.")
    found = corpus.findings.filter(is_source).select(pl.col("code").cast(pl.String), "count", "message")
    return found.collect().sort("code").rows()


@pytest.mark.parametrize("one_file", [False, True])
@pytest.mark.parametrize("missing", [0, 1, 10, 55, 90])
def test_pages_that_are_cut_off_are_counted(tmp_path: Path, missing: int, one_file: bool) -> None:
    traces = [trace(number) for number in range(100 - missing)]
    pages = [page(at // 10 + 1, traces[at : at + 10], 100) for at in range(0, len(traces), 10)]
    corpus = ot.read_traces(written(tmp_path / "a", pages, one_file))
    expected = ("source.runs_missing", missing, f"meta.totalItems is 100, traces found: {100 - missing}")
    assert source_findings(corpus) == ([expected] if missing else [])
    assert len(corpus) == 100 - missing
    backwards = sorted((tmp_path / "a").iterdir(), reverse=True)
    assert source_findings(ot.read_traces(backwards)) == source_findings(corpus)


def test_what_is_read_twice_is_there_once(tmp_path: Path) -> None:
    pages = [page(1, map(trace, range(10)), 20), page(2, map(trace, range(10, 20)), 20)]
    assert source_findings(ot.read_traces(written(tmp_path / "a", [*pages, pages[0]]))) == []
    assert source_findings(ot.read_traces(written(tmp_path / "b", [*pages, pages[0]], one_file=True))) == []


def test_a_broken_record_is_not_missing(tmp_path: Path) -> None:
    traces: list[Any] = [trace(number) for number in range(10)]
    del traces[4]["id"]
    corpus = ot.read_traces(written(tmp_path, [page(1, traces, 10)]))
    assert corpus.quarantine.collect().height == 1
    assert source_findings(corpus) == []


def test_other_totals_in_one_folder_are_a_conflict(tmp_path: Path) -> None:
    first, second = page(1, map(trace, range(10)), 20), page(2, map(trace, range(10, 20)), 30)
    [(code, count, message)] = source_findings(ot.read_traces(written(tmp_path / "one", [first, second])))
    assert (code, count) == ("source.conflict", 1)
    assert message == "meta.totalItems is 20 in one part of the source and 30 in another one"
    written(tmp_path / "two/a", [first])
    written(tmp_path / "two/b", [second])
    both = source_findings(ot.read_traces(tmp_path / "two"))
    assert [(code, count) for code, count, _ in both] == [
        ("source.runs_missing", 10),
        ("source.runs_missing", 20),
    ]


def test_exports_in_files_of_their_own_may_lie_in_one_folder(tmp_path: Path) -> None:
    exports = {"a": (0, 20, 20), "b": (20, 40, 30), "c": (50, 55, 5)}
    for name, (begin, end, total) in exports.items():
        pages = [
            page(at, map(trace, range(first, min(first + 10, end))), total)
            for at, first in enumerate(range(begin, end, 10), 1)
        ]
        lines = "".join(json.dumps(one) + "\n" for one in pages)
        (tmp_path / f"{name}.jsonl").write_text(lines)
    expected = [("source.runs_missing", 10, "meta.totalItems is 30, traces found: 20")]
    assert source_findings(ot.read_traces(tmp_path)) == expected
    (tmp_path / "copy.jsonl").write_bytes((tmp_path / "b.jsonl").read_bytes())
    assert source_findings(ot.read_traces(tmp_path)) == expected


def test_more_than_is_stated_is_a_surplus(tmp_path: Path) -> None:
    corpus = ot.read_traces(written(tmp_path, [page(1, map(trace, range(10)), 7)]))
    assert source_findings(corpus) == [("source.surplus", 3, "meta.totalItems is 7, traces found: 10")]


def test_parts_of_traces_are_no_runs(tmp_path: Path) -> None:
    parts = [
        {"id": f"o{at}", "traceId": "t", "type": "SPAN", "name": "s", "startTime": "2026-03-01T10:00:00.000Z"}
        for at in range(3)
    ]
    corpus = ot.read_traces(written(tmp_path, [page(1, parts, 5)]))
    expected = ("source.incomplete", 2, "meta.totalItems is 5, observations found: 3")
    assert len(corpus) == 0 or source_findings(corpus) == [expected]


def rewarded(tmp_path: Path, n_passed: int = 40) -> ot.Corpus:
    """Half of an export of a hundred traces, of which so many passed."""
    traces = [trace(number) for number in range(50)]
    corpus = ot.read_traces(written(tmp_path, [page(1, traces, 100)]))
    rewards = pl.DataFrame(
        {
            "trace": range(50),
            "kind": "reward",
            "name": "team",
            "value": [1.0] * n_passed + [0.0] * (50 - n_passed),
        }
    )
    return corpus.with_measures(rewards)


def test_a_mean_over_half_of_an_export_has_bounds(tmp_path: Path) -> None:
    # methods.md 21: 100 stated, 50 read, 40 passed
    corpus = rewarded(tmp_path)
    row = ot.describe(corpus)["measures"].filter(pl.col("name").cast(pl.String) == "team")
    assert row.select("mean", "lowest", "highest").row(0) == (0.8, 0.4, 0.9)
    assert "state 50 more runs, which no mean has" in " ".join(str(ot.summary(corpus)).split())
    whole = ot.generate(traces=5, seed=1)
    assert ot.describe(whole)["measures"].select(pl.col("lowest", "highest").count()).row(0) == (0, 0)
    assert "more run" not in str(ot.summary(whole))


def test_runs_of_other_formats_are_not_missing(tmp_path: Path) -> None:
    rewarded(tmp_path / "half")  # its pages
    lines = tmp_path / "whole.jsonl"
    ot.export(ot.generate(traces=30, seed=2), "jsonl", lines)
    corpus = ot.read_traces([tmp_path / "half", lines])
    mine = pl.col("importer").cast(pl.String)
    numbers = corpus.traces.filter(mine == "langfuse").select("trace").collect()["trace"]
    judged = pl.DataFrame(
        {"trace": numbers, "kind": "reward", "name": "passed", "value": [1.0] * 20 + [0.0] * 20 + [None] * 10}
    )
    table = ot.describe(corpus.with_measures(judged.drop_nulls()))["measures"]
    rows = {row["name"]: row for row in table.filter(pl.col("kind") == "reward").iter_rows(named=True)}
    assert (rows["passed"]["mean"], rows["passed"]["lowest"], rows["passed"]["highest"]) == (0.5, 0.2, 0.8)
    assert rows["team"]["lowest"] is None, "its source states nothing"


@pytest.mark.parametrize("disk", [False, True])
def test_the_counts_hold_on_disk_too(tmp_path: Path, disk: bool) -> None:
    source = written(tmp_path / "in", [page(1, map(trace, range(50)), 100)])
    corpus = ot.read_traces(source)
    if disk:
        ot.ingest(source, tmp_path / "out")
        corpus = ot.read_corpus(tmp_path / "out")
    expected = ("source.runs_missing", 50, "meta.totalItems is 100, traces found: 50")
    assert source_findings(corpus) == [expected]


def sample(number: int) -> dict[str, Any]:
    """A sample of Inspect."""
    messages = [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4"}]
    scores = {"match": {"value": "C", "answer": "4"}}
    return {
        "id": number,
        "epoch": 1,
        "input": "2 + 2?",
        "target": "4",
        "messages": messages,
        "scores": scores,
    }


EVAL = {"run_id": "r", "task_id": "t", "task": "sums", "model": "m", "created": "2026-03-01T10:00:00"}


def log(samples: Sequence[Any], total: int) -> dict[str, Any]:
    """A log of Inspect."""
    results = {"total_samples": total, "completed_samples": total, "scores": []}
    return {
        "version": 2,
        "status": "success",
        "eval": EVAL,
        "plan": {},
        "results": results,
        "samples": list(samples),
    }


def archived(path: Path, samples: Sequence[Any], total: int) -> Path:
    """The same as an archive."""
    header = {name: value for name, value in log([], total).items() if name != "samples"}
    with zipfile.ZipFile(path, "w") as archive:
        for one in samples:
            archive.writestr(f"samples/{one['id']}_epoch_1.json", json.dumps(one))
        archive.writestr("header.json", json.dumps(header))
    return path


def test_logs_of_inspect_are_compared_in_both_forms(tmp_path: Path) -> None:
    samples = [sample(number) for number in range(3)]
    (tmp_path / "log.json").write_text(json.dumps(log(samples, 5)))
    expected = ("source.runs_missing", 2, "results.total_samples is 5, samples found: 3")
    assert source_findings(ot.read_traces(tmp_path / "log.json")) == [expected]
    assert source_findings(ot.read_traces(archived(tmp_path / "log.eval", samples, 5))) == [expected]
    # a log and its copy in the other form are one log
    assert source_findings(ot.read_traces(tmp_path)) == [expected]
    assert source_findings(ot.read_traces(archived(tmp_path / "more.eval", samples[:2], 2))) == []


def test_a_sample_that_cannot_be_read_is_not_missing(tmp_path: Path) -> None:
    samples = [sample(number) for number in range(4)]
    del samples[2]["epoch"]
    (tmp_path / "log.json").write_text(json.dumps(log(samples, 4)))
    corpus = ot.read_traces(tmp_path / "log.json")
    assert len(corpus) == 3
    assert source_findings(corpus) == []
