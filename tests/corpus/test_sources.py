"""Where bytes come from: framings, compression, cut streams, limits, paths and file objects."""

import gzip
import io
import json
import os
import subprocess
import sys
import threading
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import orchestrace as ot
from samples.inputs import assert_identity, assert_tables, gz, ingest, reconcile, rows, trace_ids, zst
from samples.verdict_cases import BASE, put, text

MIB = 1 << 20


def document(name: str, **more: Any) -> dict[str, Any]:
    return BASE | {"trace_id": name} | more


def line(name: str, **more: Any) -> bytes:
    return text(document(name, **more))


def padded(name: str, length: int) -> bytes:
    """A valid line of exactly so many bytes."""
    empty = put("/events/3/x_note", "").replace(b'"mutated"', json.dumps(name).encode())
    return empty.replace(b'"x_note": ""', b'"x_note": "' + b"x" * (length - len(empty)) + b'"')


def names(count: int) -> list[str]:
    return [f"t{n}" for n in range(count)]


def lines(count: int) -> bytes:
    """Distinct valid lines that do not compress to nothing."""
    noise = [f"{zlib.crc32(str(n).encode()):08x}" * 3 for n in range(count)]
    return b"".join(line(f"t{n}", system=noise[n]) + b"\n" for n in range(count))


PACKINGS: dict[str, Callable[[bytes], bytes]] = {"plain": bytes, "gz": gz, "zst": zst}


@pytest.fixture(params=PACKINGS.values(), ids=PACKINGS.keys())
def packed(request: pytest.FixtureRequest) -> Callable[[bytes], bytes]:
    return request.param  # type: ignore[no-any-return]


# --- nothing, little, odd ends ------------------------------------------------------------------


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"\n\n\r\n \t\n", b"   ", b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b"[]", b" [ ]\n"]
)
@pytest.mark.parametrize("format", ["auto", "native"])
def test_nothing_to_read_is_no_error(tmp_path: Path, packed, data: bytes, format: str) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(packed(data))
    corpus = ot.read_traces(path, format=format)
    assert corpus.records == {"read": 0, "used": 0, "ignored": 0, "duplicate": 0, "quarantined": 0}
    reconcile(corpus)
    out = io.BytesIO()
    corpus.write_jsonl(out)
    assert out.getvalue() == b""


def test_nothing_beside_something(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"")
    (tmp_path / "b.jsonl").write_bytes(line("only"))
    (tmp_path / "c.jsonl").write_bytes(b"\n\n")
    corpus = ot.read_traces(tmp_path)
    assert trace_ids(corpus) == ["only"]


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\n\n\n", b" \t"])
def test_the_last_line_may_end_in_any_way(tmp_path: Path, packed, end: bytes) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(packed(line("a") + b"\n" + line("b") + end))
    corpus = ot.read_traces(path)
    assert trace_ids(corpus) == ["a", "b"]
    assert rows(corpus.quarantine) == []


@pytest.mark.parametrize(
    "break_", [b"\n", b"\r\n", b"\n\n", b"\n \r\n"], ids=["LF", "CRLF", "blank", "mixed"]
)
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"], ids=["", "BOM"])
def test_places_are_those_of_the_file(tmp_path: Path, packed, break_: bytes, bom: bytes) -> None:
    records = [line("a"), b"{}", line("b"), b"nothing", line("c")]
    data = bom + break_.join(records)
    corpus = ingest(tmp_path / "runs.jsonl", packed(data))
    assert trace_ids(corpus) == ["a", "b", "c"]
    found = rows(corpus.quarantine)
    step = break_.count(b"\n")
    assert [row["line"] for row in found] == [1 + step, 1 + 3 * step]
    assert [row["offset"] for row in found] == [data.index(b"\n{}") + 1, data.index(b"nothing")]
    traces = rows(corpus.traces.select("line", "offset", "length"))
    assert [row["line"] for row in traces] == [1, 1 + 2 * step, 1 + 4 * step]
    for row, record in zip(traces, records[::2], strict=True):
        assert data[row["offset"] :][: row["length"]].removeprefix(bom).strip() == record


def test_every_file_may_begin_with_a_bom(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(b"\xef\xbb\xbf" + line(name))
    assert trace_ids(ot.read_traces(tmp_path)) == ["a", "b"]


# --- framings --------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["auto", "native"])
@pytest.mark.parametrize("indent", [2, "\t"])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"], ids=["", "BOM"])
def test_a_document_may_fill_a_file(
    tmp_path: Path, packed, format: str, indent: int | str, bom: bytes
) -> None:
    path = tmp_path / "run.json"
    data = bom + json.dumps(document("whole"), indent=indent).encode() + b"\n"
    path.write_bytes(packed(data))
    corpus = ot.read_traces(path, format=format)
    assert_tables(corpus, [document("whole")])
    (row,) = rows(corpus.traces)
    assert row["line"] == 1
    assert json.loads(data[row["offset"] :][: row["length"]].removeprefix(b"\xef\xbb\xbf")) == document(
        "whole"
    )


def test_a_broken_document_is_one_record(tmp_path: Path) -> None:
    whole = json.dumps(document("whole") | {"costs": {"tokens": -1, "wall_clock_s": 1}}, indent=1).encode()
    corpus = ingest(tmp_path / "run.json", whole)
    assert corpus.records == {"read": 1, "used": 0, "ignored": 0, "duplicate": 0, "quarantined": 1}
    (row,) = rows(corpus.quarantine)
    assert (row["code"], row["path"], row["line"], row["offset"]) == ("field.minimum", "/costs/tokens", 1, 0)
    assert row["length"] == len(whole)


def test_one_document_per_file_in_a_folder(tmp_path: Path) -> None:
    for name in ("b", "a", "sub/c"):
        path = tmp_path / f"{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(document(name), indent=2))
    (tmp_path / "notes.md").write_text("no recording")
    (tmp_path / "broken.json").write_text("{")
    corpus = ot.read_traces(tmp_path)
    assert trace_ids(corpus) == ["a", "b", "sub/c"]
    reconcile(corpus)
    (row,) = rows(corpus.quarantine)
    assert Path(row["file"]) == tmp_path / "broken.json"
    assert [Path(row["file"]).name for row in rows(corpus.traces)] == ["a.json", "b.json", "c.json"]


@pytest.mark.parametrize("format", ["auto", "native"])
@pytest.mark.parametrize(
    "dress",
    [
        lambda parts: b"[" + b",".join(parts) + b"]",
        lambda parts: b"[\n" + b",\n".join(parts) + b"\n]\n",
        lambda parts: b"\xef\xbb\xbf \n[ " + b" ,\r\n ".join(parts) + b" ] ",
        lambda parts: json.dumps([json.loads(part) for part in parts], indent=2).encode(),
    ],
    ids=["compact", "by line", "spaced", "pretty"],
)
def test_an_array_of_documents(
    tmp_path: Path, packed, format: str, dress: Callable[[list[bytes]], bytes]
) -> None:
    documents = [document("a"), document('b ],[ "}{'), document("c", system='\\",')]
    path = tmp_path / "runs.json"
    data = dress([text(each) for each in documents])
    path.write_bytes(packed(data))
    corpus = ot.read_traces(path, format=format)
    assert_tables(corpus, documents)
    for row, each in zip(rows(corpus.traces), documents, strict=True):
        assert json.loads(data[row["offset"] :][: row["length"]]) == each
        assert row["line"] == data[: row["offset"]].count(b"\n") + 1


def test_an_element_of_an_array_never_costs_its_neighbors(tmp_path: Path, packed) -> None:
    bad = [
        b"5",
        b'{"trace_id": }',
        b"{}",
        b'[1, [2, 3], "]"]',
        line("", task_id="x"),
        line("nan").replace(b"2.5", b"NaN", 1),
    ]
    good = [line(f"g{n}") for n in range(len(bad) + 1)]
    parts = [part for pair in zip(good, bad, strict=False) for part in pair] + good[-1:]
    data = b"[\n" + b",\n".join(parts) + b"\n]"
    corpus = ingest(tmp_path / "runs.json", packed(data))
    reconcile(corpus)
    assert trace_ids(corpus) == [f"g{n}" for n in range(len(good))]
    found = rows(corpus.quarantine)
    assert [row["line"] for row in found] == [3, 5, 7, 9, 11, 13]
    assert [data[row["offset"] :][: row["length"]].strip() for row in found] == bad
    assert [row["code"] for row in found] == [
        *(
            "record.not_object",
            "json.syntax",
            "field.missing",
            "record.not_object",
            "field.empty",
            "number.nan",
        )
    ]


@pytest.mark.parametrize("tail", [b"x", b"]", b"{}", b",", b"[]", b"\f", b"\0"])
def test_nothing_may_follow_an_array(tmp_path: Path, tail: bytes) -> None:
    corpus = ingest(tmp_path / "runs.json", b"[" + line("a") + b"]\n" + tail + b"\n")
    reconcile(corpus)
    assert trace_ids(corpus) == ["a"]
    assert [(row["code"], row["line"]) for row in rows(corpus.quarantine)] == [("json.trailing", 2)]


# --- compression -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.gz", "runs.zst", "runs.json", "runs"])
def test_compression_is_told_by_content_not_by_name(tmp_path: Path, packed, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(packed(lines(5)))
    assert trace_ids(ot.read_traces(path)) == names(5)


def test_members_and_frames_follow_one_another(tmp_path: Path) -> None:
    data = lines(300)
    third = len(data) // 3  # in the middle of a line
    parts = [data[:third], b"", data[third : 2 * third], data[2 * third :]]
    for name, pack in (("gz", gz), ("zst", zst)):
        path = tmp_path / f"runs.{name}"
        path.write_bytes(b"".join(pack(part) for part in parts))
        corpus = ot.read_traces(path)
        assert trace_ids(corpus) == names(300)
        offsets = corpus.traces.collect()["offset"].to_list()
        assert [data[at:].split(b"\n", 1)[0] for at in offsets] == data.splitlines()


def test_gzip_headers_may_name_the_file(tmp_path: Path) -> None:
    out = io.BytesIO()
    with gzip.GzipFile("name-in-header.jsonl", "wb", fileobj=out, mtime=1) as packer:
        packer.write(lines(3))
    assert trace_ids(ingest(tmp_path / "runs.gz", out.getvalue())) == names(3)


# --- streams that end early ----------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["auto", "native"])
def test_a_file_may_be_cut_in_its_last_line(tmp_path: Path, format: str) -> None:
    path = tmp_path / "runs.jsonl"
    whole = lines(3)
    start = whole.index(line("t2")[:17])
    for keep in (start + 1, start + 40, len(whole) - 3):
        path.write_bytes(whole[:keep])
        corpus = ot.read_traces(path, format=format)
        assert trace_ids(corpus) == ["t0", "t1"]
        reconcile(corpus)
        (row,) = rows(corpus.quarantine)
        assert row["code"] == "input.truncated"
        assert (row["line"], row["offset"], row["length"]) == (3, start, keep - start)


def test_a_last_line_may_be_cut_anywhere() -> None:
    """Whatever the cut hits: a literal, an escape, a number, a key."""
    last = put("/events/3/x_note", [False, None, -1.5e-3, "\x07\\ é \U0001f916"])
    assert b"false" in last and b"\\u00e9" in last and b"\\ud83e\\udd16" in last
    for keep in range(1, len(last)):
        corpus = ot.read_traces(io.BytesIO(line("a") + b"\n" + last[:keep]), format="native")
        assert corpus.records == {"read": 2, "used": 1, "ignored": 0, "duplicate": 0, "quarantined": 1}
        (row,) = rows(corpus.quarantine)
        assert (row["code"], row["line"], row["offset"]) == ("input.truncated", 2, len(line("a")) + 1), last[
            :keep
        ]


def test_a_document_and_an_array_may_be_cut(tmp_path: Path) -> None:
    whole = json.dumps(document("whole"), indent=1).encode()
    corpus = ingest(tmp_path / "run.json", whole[:-20])
    assert [row["code"] for row in rows(corpus.quarantine)] == ["input.truncated"]
    reconcile(corpus)

    corpus = ingest(tmp_path / "runs.json", b"[" + line("a") + b",\n" + line("b")[:-20])
    assert trace_ids(corpus) == ["a"]
    reconcile(corpus)
    assert [(row["code"], row["line"]) for row in rows(corpus.quarantine)] == [("input.truncated", 2)]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_gzip_stream_may_be_cut(tmp_path: Path, share: float) -> None:
    data = lines(2_000)
    whole = gz(data)
    kept = whole[: int(len(whole) * share)]
    decoded = zlib.decompressobj(wbits=31).decompress(kept)
    corpus = ingest(tmp_path / "runs.jsonl.gz", kept)
    reconcile(corpus)
    complete = decoded.count(b"\n")
    assert 0 < complete < 2_000
    assert trace_ids(corpus) == names(complete)
    (row,) = rows(corpus.quarantine)
    assert row["code"] == "input.truncated"
    assert row["line"] == complete + 1
    assert row["offset"] == decoded.rindex(b"\n") + 1
    assert_identity(corpus, data.splitlines()[:complete])


@pytest.mark.parametrize("missing", [1, 4, 8])
def test_a_gzip_stream_may_lack_its_check_sum(tmp_path: Path, missing: int) -> None:
    corpus = ingest(tmp_path / "runs.gz", gz(lines(50))[:-missing])
    reconcile(corpus)
    assert trace_ids(corpus) == names(50)
    (row,) = rows(corpus.quarantine)
    assert row["code"] == "input.truncated"
    assert row["offset"] == len(lines(50))


@pytest.mark.parametrize("share", [0.5, 0.9, 0.999])
def test_a_zstd_stream_may_be_cut(tmp_path: Path, share: float) -> None:
    data = lines(2_000)
    whole = zst(data)
    corpus = ingest(tmp_path / "runs.jsonl.zst", whole[: int(len(whole) * share)])
    reconcile(corpus)
    complete = corpus.records["used"]
    assert 0 < complete < 2_000
    assert trace_ids(corpus) == names(complete)
    (row,) = rows(corpus.quarantine)
    assert row["code"] == "input.truncated"
    assert (row["line"], row["offset"]) == (complete + 1, sum(map(len, data.splitlines(True)[:complete])))


@pytest.mark.parametrize("pack", [gz, zst], ids=["gz", "zst"])
@pytest.mark.parametrize("keep", [4, 5, 9, 12])
def test_hardly_a_header(tmp_path: Path, pack, keep: int) -> None:
    corpus = ingest(tmp_path / "runs", pack(lines(50))[:keep])
    reconcile(corpus)
    assert [row["code"] for row in rows(corpus.quarantine)] == ["input.truncated"]


def test_a_cut_stream_does_not_cost_the_next_file(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gz(lines(500))[:-200])
    (tmp_path / "b.jsonl").write_bytes(line("next"))
    corpus = ot.read_traces(tmp_path)
    reconcile(corpus)
    assert trace_ids(corpus)[-1] == "next"
    (row,) = rows(corpus.quarantine)
    assert Path(row["file"]).name == "a.jsonl.gz"


def test_a_bomb_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "runs.gz"
    path.write_bytes(gz(lines(3) + b" " * (24 * MIB) + b"\n" + line("late")))
    corpus = ot.read_traces(path, format="native", max_expansion=50)
    reconcile(corpus)
    assert [row["code"] for row in rows(corpus.quarantine)] == ["input.expansion"]
    assert "late" not in trace_ids(corpus)
    assert trace_ids(ot.read_traces(path, format="native", max_expansion=100_000)) == [
        "t0",
        "t1",
        "t2",
        "late",
    ]


# --- limits ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("valid", [True, False], ids=["valid", "noise"])
def test_a_long_line_never_costs_its_neighbors(tmp_path: Path, packed, valid: bool) -> None:
    long = padded("long", 2 * MIB) if valid else b"x" * (2 * MIB)
    data = line("before") + b"\n" + long + b"\n" + line("after") + b"\n{}\n"
    corpus = ingest(tmp_path / "runs.jsonl", packed(data), max_record=MIB, max_expansion=10**6)
    reconcile(corpus)
    assert trace_ids(corpus) == ["before", "after"]
    large, small = rows(corpus.quarantine)
    assert (large["code"], large["path"]) == ("record.too_large", "")
    assert (large["line"], large["offset"], large["length"]) == (2, len(line("before")) + 1, 2 * MIB)
    assert (small["code"], small["line"], small["offset"]) == ("field.missing", 4, len(data) - 3)
    assert len(large["excerpt"]) < 2_000


@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_the_limit_itself_is_allowed(tmp_path: Path, extra: int) -> None:
    long = padded("long", 100_000 + extra)
    assert len(long) == 100_000 + extra
    corpus = ingest(tmp_path / "runs.jsonl", line("a") + b"\n" + long + b"\n", max_record=100_000)
    assert trace_ids(corpus) == (["a", "long"] if extra <= 0 else ["a"])


@pytest.mark.parametrize("frame", [lambda x: b"[" + x + b"]", lambda x: x], ids=["array", "document"])
def test_a_long_record_of_another_framing(tmp_path: Path, frame) -> None:
    pretty = json.dumps(json.loads(padded("long", 2 * MIB)), indent=1).encode()
    corpus = ingest(tmp_path / "runs.json", frame(pretty), max_record=MIB)
    reconcile(corpus)
    assert [row["code"] for row in rows(corpus.quarantine)] == ["record.too_large"]


def test_a_long_element_never_costs_its_neighbors(tmp_path: Path, packed) -> None:
    parts = [line("before"), padded("long", 2 * MIB), line("after")]
    data = b"[" + b",\n".join(parts) + b"]"
    corpus = ingest(tmp_path / "runs.json", packed(data), max_record=MIB)
    reconcile(corpus)
    assert trace_ids(corpus) == ["before", "after"]
    (row,) = rows(corpus.quarantine)
    assert (row["code"], row["line"], row["length"]) == ("record.too_large", 2, 2 * MIB)
    assert row["offset"] == data.index(parts[1])


def test_a_line_of_100_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    length = 100_000_000
    with path.open("wb") as file:
        file.write(line("before") + b"\n")
        file.write(padded("long", length))
        file.write(b"\n" + line("after") + b"\n")
    corpus = ot.read_traces(path, max_record=64 * MIB)
    reconcile(corpus)
    assert trace_ids(corpus) == ["before", "after"]
    (row,) = rows(corpus.quarantine)
    assert (row["code"], row["line"], row["offset"]) == ("record.too_large", 2, len(line("before")) + 1)
    assert row["length"] == length
    assert rows(corpus.traces)[1]["offset"] == len(line("before")) + 1 + length + 1


def test_lines_longer_than_a_block_are_whole(tmp_path: Path) -> None:
    data = b"\n".join([line("a"), padded("long", 9 * MIB), line("b")])
    corpus = ingest(tmp_path / "runs.jsonl", data)
    assert trace_ids(corpus) == ["a", "long", "b"]
    assert_identity(corpus, data.splitlines())


# --- what a source may be --------------------------------------------------------------------------------


def test_paths_globs_folders_and_lists(tmp_path: Path, packed) -> None:
    for name in ("b", "a", "c"):
        (tmp_path / f"{name}.jsonl").write_bytes(packed(line(name)))
    first, second = tmp_path / "c.jsonl", tmp_path / "a.jsonl"
    assert trace_ids(ot.read_traces(first)) == ["c"]
    assert trace_ids(ot.read_traces(str(first))) == ["c"]
    assert trace_ids(ot.read_traces(tmp_path)) == ["a", "b", "c"]
    assert trace_ids(ot.read_traces(str(tmp_path / "*.jsonl"))) == ["a", "b", "c"]
    assert trace_ids(ot.read_traces(str(tmp_path / "[ac].jsonl"))) == ["a", "c"]
    assert trace_ids(ot.read_traces([first, str(second)])) == ["c", "a"]
    corpus = ot.read_traces([first, io.BytesIO(line("memory")), second])
    assert trace_ids(corpus) == ["c", "memory", "a"]
    assert corpus.traces.collect()["trace"].to_list() == [0, 1, 2]


def test_a_glob_reaches_below(tmp_path: Path) -> None:
    for name in ("x/b", "x/y/a", "z"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{name}.jsonl").write_bytes(line(name))
    assert trace_ids(ot.read_traces(str(tmp_path / "**/*.jsonl"))) == ["x/b", "x/y/a", "z"]


@pytest.mark.parametrize("source", ["missing.jsonl", "missing/*.jsonl", []])
def test_no_input_is_an_error(tmp_path: Path, source: str | list[str]) -> None:
    named = str(tmp_path / source) if isinstance(source, str) else source
    with pytest.raises(ot.InputError) as caught:
        ot.read_traces(named)
    assert isinstance(caught.value, OSError)


def test_an_unknown_format_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "runs.jsonl").write_bytes(line("a"))
    with pytest.raises(ot.ParameterError, match="native"):
        ot.read_traces(tmp_path, format="nativ")


@pytest.mark.parametrize(
    "dress", [lambda data: data, lambda data: b"[" + b",".join(data.splitlines()) + b"]"]
)
def test_file_objects(tmp_path: Path, packed, dress) -> None:
    data = packed(dress(lines(400)))
    assert trace_ids(ot.read_traces(io.BytesIO(data))) == names(400)
    path = tmp_path / "runs"
    path.write_bytes(data)
    with path.open("rb") as file:
        assert trace_ids(ot.read_traces(file)) == names(400)
    with path.open("rb", buffering=0) as file:
        assert trace_ids(ot.read_traces(file)) == names(400)


def test_pipes(packed) -> None:
    data = packed(lines(2_000))
    reader, writer = os.pipe()

    def feed() -> None:
        with os.fdopen(writer, "wb") as out:
            out.write(data)

    feeder = threading.Thread(target=feed)
    feeder.start()
    with os.fdopen(reader, "rb") as source:
        corpus = ot.read_traces(source)
    feeder.join()
    assert trace_ids(corpus) == names(2_000)


class Drip(io.RawIOBase):
    """A stream that gives a few bytes at a time and has no descriptor."""

    def __init__(self, data: bytes, step: int) -> None:
        self.left = data
        self.step = step

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        count = self.step if size < 0 else min(self.step, size)
        given, self.left = self.left[:count], self.left[count:]
        return given


@pytest.mark.parametrize("step", [1, 7, 1_000])
def test_short_reads(packed, step: int) -> None:
    assert trace_ids(ot.read_traces(Drip(packed(lines(4)), step))) == names(4)


def test_a_reader_that_fails_fails_the_call() -> None:
    class Broken(Drip):
        def read(self, size: int = -1, /) -> bytes:
            raise ConnectionResetError("gone")

    with pytest.raises(OSError, match="gone"):
        ot.read_traces(Broken(b"", 1))


@pytest.mark.process
def test_standard_input(packed) -> None:
    program = "import orchestrace as ot; print(ot.read_traces('-').records)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=packed(lines(20) + b"{}"),
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.decode().strip() == str(
        {"read": 21, "used": 20, "ignored": 0, "duplicate": 0, "quarantined": 1}
    )


# --- privacy and loss ------------------------------------------------------------------------------------


def test_extras_can_be_dropped(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    data = put("/events/3/score", "secret")
    kept = ingest(path, data)
    assert kept.events.collect()["extras"].null_count() == 3
    dropped = ot.read_traces(path, extras=False)
    assert dropped.events.collect()["extras"].null_count() == 4
    out = io.BytesIO()
    dropped.write_jsonl(out)
    assert b"x_note" not in out.getvalue() and b"secret" not in out.getvalue()
    assert [row["code"] for row in rows(dropped.findings)] == ["field.ignored"]


def test_excerpts(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(line("a") + b"\n" + b'{"secret": "\xff\x00\x1b[31m' + b"s" * 5_000)
    (default,) = rows(ot.read_traces(path).quarantine)
    assert "secret" in default["excerpt"]
    assert default["excerpt"].isprintable()
    assert len(default["excerpt"]) < 1_000
    (short,) = rows(ot.read_traces(path, excerpt=9).quarantine)
    assert 0 < len(short["excerpt"]) < len(default["excerpt"])
    (none,) = rows(ot.read_traces(path, excerpt=0).quarantine)
    assert none["excerpt"] == ""


def test_unknown_fields_become_columns(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    corpus = ingest(path, line("a"), fields={"x_note": pl.String, "x_gone": pl.Float64})
    events = corpus.events.collect()
    assert events["x_note"].to_list() == [None, None, None, "n"]
    assert events["x_gone"].dtype == pl.Float64
    assert events["x_gone"].null_count() == 4
    assert_identity(corpus, [line("a")])


# --- on the way out ----------------------------------------------------------------------------------------


def test_write_to_a_path_and_to_a_file_object(tmp_path: Path) -> None:
    corpus = ingest(tmp_path / "in.jsonl", lines(10))
    out = tmp_path / "out.jsonl"
    corpus.write_jsonl(out)
    memory = io.BytesIO()
    corpus.write_jsonl(memory)
    assert out.read_bytes() == memory.getvalue()
    assert trace_ids(ot.read_traces(out)) == names(10)


def test_a_native_trace_says_what_is_not_in_its_schema(tmp_path: Path) -> None:
    facts = {
        "group_id": "g7",
        "time_basis": "seconds",
        "started_at": "2026-01-02T03:04:05.000000006Z",
        "importer": "who_and_when",
        "partial": True,
        "unknown_costs": ["tokens"],
    }
    document = json.loads(put("/events/0/x_trace", facts))
    document["costs"]["tokens"] = 0  # as an export writes what it does not know
    corpus = ingest(tmp_path / "runs.jsonl", json.dumps(document).encode())
    (row,) = rows(corpus.traces.with_columns(pl.col("started_at").dt.epoch("ns")))
    assert (row["group_id"], row["time_basis"], row["partial"]) == ("g7", "seconds", True)
    assert row["started_at"] == 1_767_323_045_000_000_006
    costs = corpus.measures.filter(pl.col("kind") == "cost").collect()["name"].to_list()
    assert costs == ["wall_clock_s", "tool_calls", "messages"]
    out = io.BytesIO()
    corpus.write_jsonl(out)
    again = ingest(tmp_path / "again.jsonl", out.getvalue())
    places = ("file", "line", "offset", "length")
    assert rows(again.traces.drop(places)) == rows(corpus.traces.drop(places))
    assert rows(again.events) == rows(corpus.events)
    assert rows(again.measures) == rows(corpus.measures)


@pytest.mark.parametrize(
    ("times", "wall", "basis"),
    [
        ([0, 1, 2, 7], 420, "ordinal"),
        ([0, 1, 2, 420], 420, "seconds"),
        ([0, 1, 2, 401], 420, "seconds"),
        ([0, 1, 2, 439], 420, "seconds"),
        ([0, 1, 2, 397], 420, "ordinal"),
        ([0, 1, 2, 443], 420, "ordinal"),
        ([10, 11, 12, 430], 420, "seconds"),
        ([0, 1.5, 2, 7], 420, "unknown"),
        ([0, 1.5, 2, 419.5], 420, "seconds"),
        ([0, 0, 0, 0], 0, "ordinal"),
        ([0.5, 0.5, 0.5, 0.5], 0, "unknown"),
    ],
)
def test_the_basis_of_time(tmp_path: Path, times: list[float], wall: float, basis: str) -> None:
    events = [event | {"t": t} for event, t in zip(BASE["events"], times, strict=True)]
    data = line("a", events=events, costs={"tokens": 1, "wall_clock_s": wall})
    path = tmp_path / "runs.jsonl"
    assert rows(ingest(path, data).traces)[0]["time_basis"] == basis
    assert rows(ot.read_traces(path, time_basis="partial").traces)[0]["time_basis"] == "partial"


# --- what is no recording ---------------------------------------------------------------------------------


def counts_of(corpus: ot.Corpus) -> list[tuple[str, str, int]]:
    return (
        corpus.record_counts.select(
            pl.col("importer").cast(pl.String), pl.col("status").cast(pl.String), "count"
        )
        .collect()
        .rows()
    )


def test_what_no_importer_recognizes_is_not_called_native(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_bytes(b'{"zzz": 1}\n{"trace_id": "a"}\nnoise\n')
    corpus = ot.read_traces(path)
    assert counts_of(corpus) == [("unknown", "quarantined", 3)]
    assert set(corpus.quarantine.collect()["importer"]) == {"unknown"}
    formats = ot.describe(corpus)["formats"]
    assert formats.select("importer", "records", "quarantined").rows() == [("unknown", 3, 3)]
    assert counts_of(ot.read_traces(path, format="native")) == [("native", "quarantined", 3)]
    assert "unknown" not in ot.list_importers()["name"]
    with pytest.raises(ot.ParameterError, match="unknown format 'unknown'"):
        ot.read_traces(path, format="unknown")


def test_a_native_trace_behind_what_nobody_recognizes_is_native(tmp_path: Path) -> None:
    path = tmp_path / "late.jsonl"
    path.write_bytes(b"noise\n" * 20 + line("a") + b"\n")
    corpus = ot.read_traces(path)
    assert corpus.traces.collect()["importer"].to_list() == ["native"]
    assert sorted(counts_of(corpus)) == [("native", "used", 1), ("unknown", "quarantined", 20)]


BZIP2 = b"BZh91AY&SY\xf9\0\n\x8d" + b"x" * 20 + b"\n"


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (BZIP2, "compressed by bzip2"),
        (BZIP2 * 200_000, "compressed by bzip2"),  # larger than a block
        (b"SQLite format 3\0\n\n", "an SQLite database"),
        ("[{}]".encode("utf-16"), "text in UTF-16"),
        (b"\x7fELF\x02\x01\x01\0\n\0\n", "a binary file"),
    ],
    ids=["bzip2", "large", "sqlite", "utf-16", "program"],
)
def test_a_binary_file_is_one_record_that_says_what_it_is(
    tmp_path: Path, packed: Callable[[bytes], bytes], data: bytes, what: str
) -> None:
    path = tmp_path / "runs.bin"
    path.write_bytes(packed(data))
    for corpus in (ot.read_traces(path), ot.read_traces(io.BytesIO(packed(data)))):
        assert counts_of(corpus) == [("unknown", "quarantined", 1)]
        (row,) = rows(corpus.quarantine)
        assert row["code"] == "format.unknown" and row["line"] == 1 and row["offset"] == 0
        assert row["length"] == len(data.rstrip(b"\n"))
        assert row["message"].startswith(f"found {what}, expected recordings as JSON")
        assert "…" not in row["message"]
    report = ot.ingest(path, tmp_path / "corpus")
    assert report.inputs.select("importer", "quarantined").rows() == [("unknown", 1)]
    assert ot.ingest(path, tmp_path / "corpus").inputs["status"].to_list() == ["unchanged"]


def test_a_record_with_a_zero_byte_costs_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b"\0\0\0\n" + line("a") + b"\nPAR1\0\n" + line("b") + b"\n")
    corpus = ot.read_traces(path)
    assert trace_ids(corpus) == ["a", "b"]
    assert corpus.quarantine.collect()["line"].to_list() == [1, 3]


def test_reading_says_once_that_nothing_could_be_used(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(b"noise\n{}\n")
    with pytest.warns(UserWarning, match="nothing could be used of 2 records: 2 quarantined") as told:
        ot.read_traces(path)
    (one,) = told
    assert one.filename == __file__ and f"the first at {path}:1: json.syntax: " in str(one.message)
    path.write_bytes(b"\n")
    with pytest.warns(UserWarning, match="the input has no record$"):
        ot.read_traces(path)
    path.write_bytes(b"noise\n" + line("a"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ot.read_traces(path)


def test_a_folder_of_other_files_names_one(tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / ".hidden").touch()
    with pytest.raises(ot.InputError, match=r"no recording \(.*\) in folder '[^;]*'$"):
        ot.read_traces(tmp_path)
    for name in ("b.csv", "a.csv"):
        pl.DataFrame({"step": [1]}).write_csv(tmp_path / "tables" / name)
    with pytest.raises(ot.InputError, match=r"; it has 2 files of other kinds, '.*a.csv' for one: name them"):
        ot.read_traces(tmp_path)


def test_a_warning_says_where_and_what_was_ignored(tmp_path: Path) -> None:
    house = {"steps": "/*/steps", "trace": {"id": "/run"}, "step": {"kind": "/ev"}}
    (tmp_path / "runs.jsonl").write_text('{"run": 1, "steps": [{"ev": "llm"}]}\n')
    with pytest.warns(UserWarning, match=r"of 1 record: 1 ignored \(mapping.no_steps\)$"):
        ot.read_traces(tmp_path / "runs.jsonl", mapping=house)
    with pytest.warns(UserWarning, match=r"runs.jsonl:1: field.missing at /ve: found nothing"):
        ot.read_traces(tmp_path / "runs.jsonl", mapping=house | {"steps": "/steps", "step": {"kind": "/ve"}})


AT = "2026-01-01T00:00:01.000Z"
UNNAMED: dict[str, dict[str, Any]] = {
    "copilot": {"type": "assistant.message", "id": "e", "timestamp": AT, "data": {"content": "x"}},
    "cursor": {"role": "assistant", "message": {"content": "x"}},
    "droid": {"type": "message", "id": "a", "message": {"role": "assistant", "content": "x"}},
    "gemini_cli": {"type": "gemini", "id": "a", "timestamp": AT, "content": "x"},
    "kimi": {"type": "turn.prompt", "time": 1767225601000, "input": [{"type": "text", "text": "x"}]},
    "letta_code": {"kind": "user", "text": "x", "captured_at": AT, "source_line_id": "l"},
    "pi": {"type": "message", "id": "a", "timestamp": AT, "message": {"role": "user", "content": "x"}},
    "qwen_code": {"type": "user", "uuid": "u", "message": {"role": "user", "parts": [{"text": "x"}]}},
}
"""Lines that name no session."""


@pytest.mark.parametrize("format", UNNAMED)
def test_a_stream_without_a_name_is_called_as_its_tool(format: str) -> None:
    line = json.dumps(UNNAMED[format]).encode() + b"\n"
    corpus = ot.read_traces(io.BytesIO(line), format=format)
    assert corpus.traces.collect()["trace_id"].to_list() == [format]
    assert corpus.records["quarantined"] == 0
