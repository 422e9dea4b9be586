"""Entries of archives are read as the same bytes are outside; what is not read is counted and said."""

import gzip
import io
import json
import os
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

import orchestrace as ot
from orchestrace import _core
from samples.inputs import gz, trace_ids, zst

EMPTY = (("archive.empty", 1),)


def record(name: str) -> bytes:
    event = {"id": "e", "t": 0, "type": "message", "agent": "x"}
    costs = {"tokens": 0, "wall_clock_s": 0}
    document = {
        "trace_id": name,
        "task_id": "t",
        "events": [event],
        "edges": [],
        "rewards": {},
        "costs": costs,
    }
    return json.dumps(document).encode() + b"\n"


TWO = record("one") + record("two")
TEXTS = {
    "log line": b"INFO start\n" + TWO,
    "null": b"null\n" + TWO,
    "string": b'"x"\n' + TWO,
    "comment": b"# x\n" + TWO,
    "zero byte": b"\0\n" + TWO,
    "record separator": b"\x1e\n" + TWO,
    "percent": b"%\n" + TWO,
    "angle bracket": b"<log>\n" + TWO,
    "minus": b"-\n" + TWO,
    "number": b"12\n" + TWO,
    "bracket": b"[\n" + TWO,
    "brace": b"{\n" + TWO,
    "byte order mark": b"\xef\xbb\xbf" + TWO,
    "byte order mark and log line": b"\xef\xbb\xbfINFO\n" + TWO,
    "blanks": b" " * (2 << 20) + b"\n" + TWO,
    "blanks and log line": b"\n" * (2 << 20) + b"INFO\n" + TWO,
    "invalid UTF-8": b"\xff\xfe\n" + TWO,
    "twenty-five log lines": b"INFO\n" * 25 + TWO,
    "nineteen log lines": b"INFO\n" * 19 + TWO,
    "cut": TWO[:-20],
    "array": b"[" + record("one") + b"," + record("two") + b"]",
    "log line before a document": b"INFO\n" + json.dumps(json.loads(record("one")), indent=1).encode(),
    "nothing of the kind": b"words\nand words\n",
    "picture": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
    "Parquet": b"PAR1\x15\0\x15\0PAR1",
}


def tar(entries: dict[str, bytes], mode: str = "w") -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode=mode) as archive:  # type: ignore[call-overload]
        for name, body in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
    return made.getvalue()


def stored(entries: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for name, body in entries.items():
            archive.writestr(name, body)
    return made.getvalue()


CONTAINERS: dict[str, Callable[[dict[str, bytes]], bytes]] = {
    "tar": tar,
    "tar.gz": lambda entries: tar(entries, "w:gz"),
    "tar.zst": lambda entries: zst(tar(entries)),
    "zip": stored,
    "deflated zip": lambda entries: stored(entries, zipfile.ZIP_DEFLATED),
}
PACKED: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gz, ".zst": zst}


def judged(source: object, **options: object) -> tuple[list[str], list[str], dict[str, int]]:
    """Ids, codes of rejects and kinds of what was ignored; warnings of skipped entries are no errors here."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "skipped")
        corpus = ot.read_traces(source, threads=2, **options)  # type: ignore[arg-type]
    counts = corpus.records
    assert counts["read"] == sum(counts[kind] for kind in ("used", "ignored", "duplicate", "quarantined"))
    kinds = corpus.record_counts.filter(status="ignored").group_by("kind").agg(pl.col("count").sum())
    codes = corpus.quarantine.sort("file", "offset").collect()["code"].to_list()
    return trace_ids(corpus), codes, dict(kinds.collect().rows())


@pytest.mark.every_nth(4)
@pytest.mark.parametrize("packed", PACKED)
@pytest.mark.parametrize("what", TEXTS)
def test_an_entry_is_judged_as_outside(what: str, packed: str) -> None:
    body = PACKED[packed](TEXTS[what])
    outside = judged(io.BytesIO(body))
    for kind, container in CONTAINERS.items():
        # With a good neighbor the archive has a format; alone the entry decides.
        alone = judged(io.BytesIO(container({f"a.jsonl{packed}": body})))
        assert alone == outside, kind
        beside = judged(io.BytesIO(container({f"a.jsonl{packed}": body, "b.jsonl": record("three")})))
        assert (sorted(beside[0]), len(beside[1])) == (sorted([*outside[0], "three"]), len(outside[1])), kind


@pytest.mark.parametrize("what", TEXTS)
def test_the_name_of_an_entry_decides_only_where_twenty_lines_do_not(what: str) -> None:
    outside = judged(io.BytesIO(TEXTS[what]))
    kept = judged(io.BytesIO(stored({"a.log": TEXTS[what], "b.jsonl": record("three")})))
    if what in ("nothing of the kind", "picture", "twenty-five log lines", "log line before a document"):
        assert kept == (["three"], [], {"archive.not_json": 1})
    else:
        assert (sorted(kept[0]), len(kept[1])) == (sorted([*outside[0], "three"]), len(outside[1]))


def test_what_is_no_recording_is_said_by_name(tmp_path: Path) -> None:
    path = tmp_path / "runs.zip"
    inner = stored({"x.json": record("x")})
    entries = {
        "README.md": b"# Runs\n",
        "a.jsonl": TWO,
        "more.zip": inner,
        "empty.jsonl": b"",
        ".DS_Store": b"\0",
    }
    path.write_bytes(stored(entries))
    said = (
        r"^skipped 2 entries of archives: \S*runs.zip/README.md \(archive.not_json\), \S*runs.zip/more.zip "
    )
    said += r"\(archive.nested\); .*`orchestrace codes archive.not_json` says why$"
    with pytest.warns(UserWarning, match=said):
        corpus = ot.read_traces(path)
    ignored = corpus.record_counts.filter(status="ignored").select(
        pl.col("file").cast(pl.String), "kind", "count"
    )
    assert sorted(ignored.collect().rows()) == [
        (str(path), "archive.empty", 1),
        (str(path), "archive.hidden", 1),
        (f"{path}/README.md", "archive.not_json", 1),
        (f"{path}/more.zip", "archive.nested", 1),
    ]
    with pytest.warns(UserWarning, match="skipped 2 entries"):
        assert ot.scan_traces(path).collect().height == 2
    with pytest.warns(UserWarning, match="skipped 2 entries"):
        report = ot.ingest(path, tmp_path / "corpus")
    assert report.records == corpus.records
    counts = ot.read_corpus(tmp_path / "corpus").record_counts.collect()
    assert sorted(counts.select("kind", "count").rows(), key=str) == sorted(
        corpus.record_counts.select("kind", "count").collect().rows(), key=str
    )


def test_an_archive_of_recordings_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "runs.zip"
    path.write_bytes(stored({"a.jsonl": TWO, "empty.jsonl": b"", "__MACOSX/._a.jsonl": b"\0\5\x16\7"}))
    assert len(ot.read_traces(path)) == 2  # a warning is an error


def session(name: str) -> bytes:
    """A line of a session of Claude Code."""
    line = {"type": "user", "uuid": name, "sessionId": name, "timestamp": "2026-01-01T00:00:00Z"}
    message = {"role": "user", "content": "hello"}
    return json.dumps({**line, "message": message, "version": "2.0.0", "cwd": "/"}).encode() + b"\n"


def test_a_format_of_spread_traces_names_them_too() -> None:
    data = stored({"a.jsonl.gz": gz(b"INFO\n" + session("s")), "b.txt": b"words"})
    with pytest.warns(UserWarning, match="skipped 1 entry of an archive"):
        corpus = ot.read_traces(io.BytesIO(data))
    (row,) = corpus.record_counts.filter(kind="archive.not_json").collect().rows(named=True)
    assert row["file"].endswith("/b.txt") and row["importer"] == "claude_code"
    assert corpus.records["quarantined"] == 1


@pytest.mark.parametrize("kind", CONTAINERS)
def test_a_damaged_entry_shows_its_format(kind: str) -> None:
    """What stands before the damage was judged as native traces, and rejected."""
    body = gz(b"".join(session(f"s{i}") for i in range(1_000)))[:-12]
    outside = ot.read_traces(io.BytesIO(body))
    inside = ot.read_traces(io.BytesIO(CONTAINERS[kind]({"a.jsonl.gz": body})))
    assert inside.records == outside.records and outside.records["used"] > 0
    assert inside.quarantine.collect()["code"].to_list() == ["input.truncated"]


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("packed", PACKED)
def test_the_place_of_a_record_in_a_compressed_entry(tmp_path: Path, kind: str, packed: str) -> None:
    path = tmp_path / "runs"
    body = b"INFO\n\n" + TWO
    path.write_bytes(CONTAINERS[kind]({"x.txt": record("zero"), f"a.jsonl{packed}": PACKED[packed](body)}))
    corpus = ot.read_traces(path)
    for trace, line in ((1, 3), (2, 4)):
        source = corpus.source(trace, 0)
        assert (source.file, source.line) == (f"{path}/a.jsonl{packed}", line)
        assert body[source.offset : source.offset + source.length].decode() == source.text
    (reject,) = corpus.quarantine.collect().rows(named=True)
    assert (reject["file"], reject["line"], reject["offset"]) == (f"{path}/a.jsonl{packed}", 1, 0)


@pytest.mark.parametrize("kind", CONTAINERS)
def test_an_ingest_goes_on_within_compressed_entries(tmp_path: Path, kind: str) -> None:
    """After a reading that was left behind each batch, the rows are those of one reading."""
    bodies = {
        f"{i}.jsonl.gz": gz(b"INFO\n" + b"".join(record(f"{i}.{k}") for k in range(3))) for i in range(4)
    }
    path = tmp_path / "runs"
    path.write_bytes(CONTAINERS[kind]({"README": b"words", **bodies}))
    with pytest.warns(UserWarning, match="skipped 1 entry"):
        whole = ot.read_traces(path)
    place, ids, counts = (0, 0, 0, False), list[str](), list[pl.DataFrame]()
    while not place[-1]:
        reader = _core.TraceReader([(os.fspath(path), "runs", place)])
        batch = reader.next(1, threads=1)
        assert batch is not None
        store, parts, _ = batch
        ids += pl.DataFrame(store.table("traces"))["trace_id"].to_list()
        counts.append(pl.DataFrame(store.table("record_counts")).with_columns(pl.col("file").cast(pl.String)))
        place = parts[0][-1]
    assert ids == trace_ids(whole)
    summed = pl.concat(counts).group_by("kind", "status").agg(pl.col("count").sum())
    found = {(kind, str(status)): n for kind, status, n in summed.rows()}
    assert found == {("archive.not_json", "ignored"): 1, (None, "used"): 12, (None, "quarantined"): 4}


HOSTILE: dict[str, tuple[dict[str, bytes], list[str], list[str]]] = {
    "cut gzip": ({"a.json.gz": gz(TWO)[:-12]}, [], ["input.truncated"]),
    "wrong sum": ({"a.json.gz": gz(TWO)[:-8] + bytes(4) + gz(TWO)[-4:]}, ["one", "two"], ["input.truncated"]),
    "text with the name of gzip": ({"a.json.gz": TWO}, ["one", "two"], []),
    "gzip without the name": ({"a": gz(TWO)}, ["one", "two"], []),
    "members": ({"a.json.gz": gz(record("one")) + gz(record("two"))}, ["one", "two"], []),
    "the magic bytes alone": ({"a.json.gz": b"\x1f\x8b"}, [], ["input.truncated"]),
    "one byte of them": ({"a.json.gz": b"\x1f"}, [], ["json.syntax"]),
    "zstd that is cut": ({"a.json.zst": zst(TWO)[:-5]}, [], ["input.truncated"]),
    "compressed nothing": ({"a.json.gz": gz(b"")}, [], []),
    "nothing": ({"a.json": b""}, [], []),
    "folder": ({"a/": b"", "a/b.json": TWO}, ["one", "two"], []),
}


@pytest.mark.parametrize("kind", CONTAINERS)
@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_entries_cost_only_themselves(what: str, kind: str) -> None:
    entries, ids, codes = HOSTILE[what]
    if kind.startswith("tar"):
        entries = {name: body for name, body in entries.items() if not name.endswith("/")}
    traces, rejects, _ = judged(io.BytesIO(CONTAINERS[kind]({**entries, "last.json": record("last")})))
    kept = [name for name in traces if name != "last"]
    assert "last" in traces
    if codes == ["input.truncated"]:
        assert set(kept) <= {"one", "two"} and rejects[-1:] == codes
    else:
        assert (kept, rejects) == (ids, codes)


@pytest.mark.parametrize("kind", CONTAINERS)
def test_a_compressed_entry_counts_towards_the_limits(kind: str) -> None:
    """Gigabytes come out of some kilobytes in two steps; the limit is that of the archive."""
    bomb = gzip.compress(b"[" + b" " * (64 << 20), 9)
    data = CONTAINERS[kind]({"a.json": record("one"), "bomb.json.gz": bomb})
    assert judged(io.BytesIO(data), max_expansion=50)[:2] == (["one"], ["input.expansion"])
    assert judged(io.BytesIO(data), max_decompressed=1 << 20)[1][-1] == "input.expansion"


def test_links_are_passed_over() -> None:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for kind, name in (
            (tarfile.SYMTYPE, "s.json.gz"),
            (tarfile.LNKTYPE, "h.json.gz"),
            (tarfile.DIRTYPE, "d"),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, "a.json.gz"
            archive.addfile(info)
        body = gz(TWO)
        info = tarfile.TarInfo("a.json.gz")
        info.size = len(body)
        archive.addfile(info, io.BytesIO(body))
    assert judged(io.BytesIO(made.getvalue())) == (["one", "two"], [], {})
