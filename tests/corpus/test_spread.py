"""Traces that are spread over records and files: whatever comes first, the corpus is that of one reading."""

import json
import tarfile
import zipfile
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot
from orchestrace.disk import manifest
from samples import on_disk
from samples.on_disk import (
    assert_content,
    assert_rows,
    assert_tidy,
    document,
    lines,
    request,
    rows,
    span,
    touch,
    write_spans,
)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    on_disk.make_small(monkeypatch.setattr)


def numbers(corpus: ot.Corpus) -> dict[str, int]:
    """Of each trace the number."""
    return dict(corpus.traces.select("trace_id", "trace").collect().iter_rows())


def test_ingest_is_reading(small: None, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    write_spans(source, traces=200, files=5)
    (source / "whole.jsonl").write_bytes(lines(document("a"), b"noise\n", document("b")))
    (source / "LICENSE").write_text("text")
    (source / ".hidden.json").write_text("{}")
    report = ot.ingest(source, tmp_path / "out", partitions=3)
    together = ot.read_traces(source)
    assert_rows(ot.read_corpus(tmp_path / "out"), rows(together))
    assert_tidy(tmp_path / "out")
    expected = {"read": 1203, "used": 1202, "ignored": 0, "duplicate": 0, "quarantined": 1}
    assert report.records == together.records == expected
    assert report.skipped == 1
    assert set(report.inputs["importer"]) == {"otel", "native"}
    assert not list((tmp_path / "out").glob(".*")), "what was spilled is gone"


def test_a_file_that_comes_later_completes_its_traces(small: None, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    paths = write_spans(source, traces=60, files=3)
    (source / "whole.jsonl").write_bytes(lines(document("a")))
    before = paths[0].read_bytes()
    paths[0].unlink()
    ot.ingest(source, out, partitions=2)
    known = numbers(ot.read_corpus(out))
    paths[0].write_bytes(before)
    # The first of all in order, named alone: the others come along.
    report = ot.ingest(paths[0], out)
    assert report.inputs["status"].to_list() == ["new"]
    corpus = ot.read_corpus(out)
    assert_content(corpus, ot.read_traces(source))
    assert_tidy(out)
    now = numbers(corpus)
    assert {name: now[name] for name in known} == known, "traces keep their numbers"
    again = ot.ingest(source, out)
    assert set(again.inputs["status"]) == {"unchanged"}
    assert_rows(ot.read_corpus(out), rows(corpus))


def test_a_file_that_changes_replaces_what_it_gave(small: None, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    paths = write_spans(source, traces=40, files=2)
    paths[0].write_bytes(paths[0].read_bytes() + b"noise\n")
    ot.ingest(source, out, partitions=2)
    known = numbers(ot.read_corpus(out))
    shorter = paths[0].read_bytes().splitlines(keepends=True)[3:-1]
    touch(paths[0], b"".join(shorter) + request(span(900, 0), span(900, 1)))
    report = ot.ingest(source, out)
    assert sorted(report.inputs["status"]) == ["replaced", "unchanged"]
    corpus = ot.read_corpus(out)
    assert_content(corpus, ot.read_traces(source))
    assert_tidy(out)
    now = numbers(corpus)
    assert all(now[name] == number for name, number in known.items() if name in now)
    assert max(now.values()) > max(known.values())
    # It becomes something else: its traces are gone, those of the other file are what that has of them.
    touch(paths[0], lines(document("plain")))
    ot.ingest(source, out)
    assert_content(ot.read_corpus(out), ot.read_traces(source))
    touch(paths[1], lines(document("other")))
    ot.ingest(source, out)
    assert_content(ot.read_corpus(out), ot.read_traces(source))
    assert_tidy(out)


def test_a_file_that_is_gone_is_missed(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    paths = write_spans(source, traces=4, files=2)
    ot.ingest(source, out)
    before = rows(ot.read_corpus(out))
    gone = paths[0].rename(tmp_path / "elsewhere")
    # Nothing has to be read: what is there stays.
    ot.ingest(source, out)
    assert_rows(ot.read_corpus(out), before)
    (source / "new.jsonl").write_bytes(request(span(9, 0)))
    with pytest.raises(ot.InputError, match=r"spans-00.jsonl: the file is gone.*restore it"):
        ot.ingest(source, out)
    assert_rows(ot.read_corpus(out), before)
    gone.rename(paths[0])
    ot.ingest(source, out)
    assert_content(ot.read_corpus(out), ot.read_traces(source))


def test_the_format_of_others_stays_theirs(tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    paths = write_spans(source, traces=4, files=2)
    ot.ingest(paths[0], out)
    ot.ingest(paths[1], out, format="otel")
    assert_content(ot.read_corpus(out), ot.read_traces(source))
    (source / "z.jsonl").write_bytes(request(span(9, 0)))
    ot.ingest(source / "z.jsonl", out, format="native")
    assert ot.read_corpus(out).records["quarantined"] == 1
    assert len(ot.read_corpus(out)) == 4


def test_repeats_are_counted_and_overlapping_files_add_nothing(small: None, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    (path,) = write_spans(source, traces=30, files=1)
    alone = ot.read_traces(path)
    half = path.read_bytes().splitlines(keepends=True)[::2]
    (source / "spans-99.jsonl").write_bytes(b"".join(half))
    report = ot.ingest(source, out, partitions=2)
    assert report.records["duplicate"] == sum(line.count(b'"traceId"') for line in half)
    corpus = ot.read_corpus(out)
    assert_tidy(out)
    for table in ("events", "edges", "measures", "traces"):
        on_disk.assert_table(table, rows(corpus)[table], rows(alone)[table])


def test_labels_that_are_read_alone_meet_their_traces(small: None, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    label = {
        "trajectory_id": "a",
        "failures": [{"failure_id": "1", "step_number": 1, "failure_category": "Wrong plan"}],
        "root_cause": {"failure_id": "1", "reason": "of this"},
    }
    (source / "labels.jsonl").write_text(json.dumps(label) + "\n")
    (source / "runs.jsonl").write_bytes(lines(document("a"), document("b")))
    together = ot.read_traces(source)
    assert together.labels.collect()["trace_id"].to_list().count("a") > 0, together.quarantine.collect()
    ot.ingest(source / "labels.jsonl", out, partitions=4)
    assert ot.read_corpus(out).labels.collect().height == together.labels.collect().height
    assert len(ot.read_corpus(out)) == 0
    ot.ingest(source / "runs.jsonl", out)
    corpus = ot.read_corpus(out)
    assert_content(corpus, together)
    assert_tidy(out)
    (piece,) = [piece for piece in corpus.slices() if "a" in piece.traces.collect()["trace_id"].to_list()]
    assert piece.labels.collect()["trace_id"].unique().to_list() == ["a"]
    assert corpus.filter(pl.col("trace_id") == "b").labels.collect().height == 0


@pytest.mark.filterwarnings("ignore:skipped 1 entry")
def test_archives_are_read_entry_by_entry(small: None, tmp_path: Path) -> None:
    plain, source = tmp_path / "plain", tmp_path / "in"
    plain.mkdir()
    source.mkdir()
    paths = write_spans(plain, traces=20, files=3)
    with zipfile.ZipFile(source / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(paths[0], "deep/one.jsonl")
        archive.write(paths[1], "two.jsonl")
        archive.writestr("README.md", "# nothing")
    with tarfile.open(source / "b.tar.gz", "w:gz") as packed:
        packed.add(paths[2], "three.jsonl")
    ot.ingest(source, tmp_path / "out", partitions=2)
    corpus, together = ot.read_corpus(tmp_path / "out"), ot.read_traces(source)
    assert_rows(corpus, rows(together))
    places = ["file", "offset", "line", "length"]
    expected = rows(ot.read_traces(plain))["traces"].drop("trace", *places).sort("trace_id")
    on_disk.assert_table("traces", rows(corpus)["traces"].drop("trace", *places).sort("trace_id"), expected)
    assert corpus.records["ignored"] == 1
    files = set(corpus.traces.select(pl.col("file").cast(pl.String)).collect()["file"])
    assert files <= {
        f"{source}/a.zip/deep/one.jsonl",
        f"{source}/a.zip/two.jsonl",
        f"{source}/b.tar.gz/three.jsonl",
    }
    # It changes: what was rejected of its entries goes with it.
    with zipfile.ZipFile(source / "c.zip", "w") as archive:
        archive.writestr("x.jsonl", lines(document("x"), b"noise\n"))
    ot.ingest(source, tmp_path / "out")
    assert ot.read_corpus(tmp_path / "out").records["quarantined"] == 1
    with pytest.raises(ot.InputError, match="unpack"):
        ot.read_corpus(tmp_path / "out").write_quarantined(tmp_path / "broken")
    (source / "c.zip").unlink()
    with zipfile.ZipFile(source / "c.zip", "w") as archive:
        archive.writestr("x.jsonl", lines(document("x"), document("y")))
    touch(source / "c.zip", (source / "c.zip").read_bytes())
    ot.ingest(source, tmp_path / "out")
    assert ot.read_corpus(tmp_path / "out").quarantine.collect().height == 0
    assert_tidy(tmp_path / "out")


@pytest.mark.process
def test_a_call_that_stops_goes_on_where_it_was(
    small: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    write_spans(source, traces=500, files=3)
    expected = rows(ot.read_traces(source))
    published = []

    class Stopped(Exception):
        pass

    save = manifest.Manifest.save

    def stopping(self: manifest.Manifest, folder: Path) -> None:
        save(self, folder)
        if self.gathering is not None and self.gathering.taken and not self.gathering.done:
            published.append(self.gathering.taken)
            raise Stopped

    for _ in range(50):
        with monkeypatch.context() as patch:
            patch.setattr(manifest.Manifest, "save", stopping)
            try:
                ot.ingest(source, out, partitions=2)
                break
            except Stopped:
                on_disk.reconcile(out)
    assert len(published) >= 3 and published == sorted(set(published)), "each call got further"
    assert_rows(ot.read_corpus(out), expected)
    assert_tidy(out)
