"""A cut archive or compressed stream gives all entries or a row that says so, from paths and streams."""

import io
import json
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import orchestrace as ot
from samples.inputs import gz, trace_ids, zst

NAMES = ("a.json", "b.jsonl", f"{'folder/' * 20}c.json")


def _record(name: str) -> bytes:
    event = {"id": "e", "t": 0, "type": "message", "agent": "x"}
    costs = {"tokens": 0, "wall_clock_s": 0}
    return json.dumps(
        {"trace_id": name, "task_id": "t", "events": [event], "edges": [], "rewards": {}, "costs": costs}
    ).encode()


def _tar(form: int, entries: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=form) as tar:
        for name, body in entries.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            tar.addfile(info, io.BytesIO(body))
    return made.getvalue()


def _zip(entries: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in entries.items():
            archive.writestr(name, body)
    return made.getvalue()


ENTRIES = {name: _record(name) for name in NAMES}
LINES = b"".join(body + b"\n" for body in ENTRIES.values())
TAR = {
    "ustar": _tar(tarfile.USTAR_FORMAT, ENTRIES),
    "gnu": _tar(tarfile.GNU_FORMAT, ENTRIES),
    "pax": _tar(tarfile.PAX_FORMAT, ENTRIES),
}
CONTAINERS: dict[str, bytes] = {
    **TAR,
    "tgz": gz(TAR["gnu"]),
    "tar.zst": zst(TAR["pax"]),
    "zip": _zip(ENTRIES),
    "gz": gz(LINES),
    "zst": zst(LINES),
}

Told = tuple[int, list[str]]


def _told(source: object) -> Told:
    corpus = ot.read_traces(source, threads=1)  # type: ignore[arg-type]
    counts = corpus.records
    assert counts["read"] == sum(counts[k] for k in ("used", "ignored", "duplicate", "quarantined"))
    return len(trace_ids(corpus)), corpus.quarantine.collect()["code"].to_list()


def _from_path(tmp_path: Path) -> Callable[[bytes], Told]:
    def told(data: bytes) -> Told:
        path = tmp_path / "cut.json"
        path.write_bytes(data)
        return _told(path)

    return told


def _from_stream(data: bytes) -> Told:
    return _told(io.BytesIO(data))


def _check(kind: str, end: int, tmp_path: Path) -> None:
    data = CONTAINERS[kind][:end]
    traces, codes = _from_stream(data)
    assert traces == len(ENTRIES) or codes, (
        f"{kind} cut at {end}: {len(ENTRIES) - traces} traces lost silently"
    )
    assert (traces, codes) == _from_path(tmp_path)(data), f"{kind} cut at {end}: a stream is told otherwise"


@pytest.mark.parametrize("kind", CONTAINERS)
def test_a_whole_container_is_read_whole(kind: str, tmp_path: Path) -> None:
    assert _from_stream(CONTAINERS[kind]) == (len(ENTRIES), [])
    assert _from_path(tmp_path)(CONTAINERS[kind]) == (len(ENTRIES), [])


@pytest.mark.every_nth(3)
@pytest.mark.parametrize("kind", CONTAINERS)
def test_a_cut_is_told(kind: str, tmp_path: Path) -> None:
    """Some cuts of each, those around the blocks of a tar among them."""
    length = len(CONTAINERS[kind])
    edges = [512 * block + near for block in range(1, 24) for near in (-1, 0, 1)] if kind in TAR else []
    cuts = {cut for cut in edges if 0 < cut < length} | set(random.Random(7).sample(range(1, length), 40))
    for end in sorted(cuts):
        _check(kind, end, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", CONTAINERS)
def test_every_cut_is_told(kind: str, tmp_path: Path) -> None:
    for end in range(1, len(CONTAINERS[kind])):
        _check(kind, end, tmp_path)


@pytest.mark.filterwarnings("ignore:skipped")
@pytest.mark.parametrize("kind", ["tgz", "tar.zst"])
def test_what_stands_before_a_cut_is_kept(kind: str) -> None:
    noise = random.Random(3).randbytes(300_000).hex().encode()
    entries = {"first.json": ENTRIES["a.json"], "noise.txt": noise, "last.json": ENTRIES["b.jsonl"]}
    tar = _tar(tarfile.USTAR_FORMAT, entries)
    packed = gz(tar) if kind == "tgz" else zst(tar)
    traces, codes = _from_stream(packed[: len(packed) - 2_000])
    assert traces >= 1
    assert codes == ["archive.entry"] or codes == ["input.truncated"]


def test_a_name_that_claims_gigabytes_is_told() -> None:
    """A long-name header whose name is not there is a cut, whatever length it claims."""
    header = bytearray(TAR["gnu"][:512])
    header[156:157] = b"L"
    header[124:136] = b"\x80" + (8 << 30).to_bytes(11, "big")
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    assert _from_stream(bytes(header)) == (0, ["archive.entry"])
    assert _from_stream(TAR["gnu"][:1024] + bytes(header)) == (1, ["archive.entry"])


def test_entries_that_are_no_recordings_take_no_memory(tmp_path: Path) -> None:
    """200,000 empty entries took 950 MB, a table of its own for each."""
    resource = pytest.importorskip("resource")
    header = TAR["ustar"][:512]
    empty = bytearray(header)
    empty[124:136] = b"00000000000\0"
    empty[148:156] = b" " * 8
    empty[148:156] = f"{sum(empty):06o}\0 ".encode()
    path = tmp_path / "empty.tar"
    path.write_bytes(bytes(empty) * 50_000 + TAR["ustar"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    corpus = ot.read_traces(path, threads=1)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert len(trace_ids(corpus)) == len(ENTRIES)
    assert corpus.records["ignored"] == 50_000
    assert grown < 60_000, f"{grown} KB"
