"""Input that was made to hurt: what has a limit keeps it, what is refused has its code, nothing is silent.

Single lines of broken JSON are in `golden/cases.py`. Here is what needs an option, a stream, a lot of bytes,
or a look at memory, time and terminal.
"""

import io
import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import pytest
from typer.testing import CliRunner

import orchestrace as ot
from orchestrace import _core
from orchestrace.cli import app
from samples.inputs import gz, reconcile, rows, trace_ids, zst
from samples.verdict_cases import BASE, literal, member, put, text

MIB = 1 << 20
SPARE = "/events/3"


def line(name: str, **more: Any) -> bytes:
    return text(BASE | {"trace_id": name} | more)


def read(data: bytes, **options: Any) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(data), **{"format": "native"} | options)


def codes(corpus: ot.Corpus) -> list[str]:
    return [row["code"] for row in rows(corpus.quarantine)]


BEFORE, AFTER = line("before"), line("after")


# --- the limits of a record ------------------------------------------------------------------------------


class Limit(NamedTuple):
    """An option, its default, a value for it, a record that keeps it, one that does not, and its code."""

    option: str
    default: int
    value: int
    kept: bytes
    beyond: bytes
    code: str


def nested(levels: int) -> bytes:
    return literal(f"{SPARE}/x_note", "[" * (levels - 3) + "]" * (levels - 3))


def with_text(place: str, length: int) -> bytes:
    return put(f"{SPARE}/{place}", "s" * length)


def sized(length: int) -> bytes:
    return with_text("x_note", length - len(with_text("x_note", 0)))


def with_key(place: str, length: int) -> bytes:
    return member(place, f'"{"k" * length}": 1')


DEPTH = ("max_depth", 128)
RECORD = ("max_record", 512 * MIB)
STRING = ("max_string", 64 * MIB)

LIMITS = [
    Limit(*DEPTH, 128, nested(128), nested(129), "json.depth"),
    Limit(*DEPTH, 3, put(f"{SPARE}/x_note", 1), put(f"{SPARE}/x_note", []), "json.depth"),
    Limit(*DEPTH, 1_000, nested(1_000), nested(1_001), "json.depth"),
    Limit(*RECORD, 5_000, sized(5_000), sized(5_001), "record.too_large"),
    Limit(*RECORD, 2_000_000_000, sized(5_000), b"", ""),
    *(
        Limit(*STRING, 50, with_text(place, 50), with_text(place, 51), "record.too_large")
        for place in ("id", "agent", "role", "content_ref", "model", "x_note")
    ),
    *(
        Limit(*STRING, 50, with_key(place, 50), with_key(place, 51), "record.too_large")
        for place in (SPARE, "/rewards", "/costs", "/metrics")
    ),
    Limit(
        *STRING,
        50,
        put(f"{SPARE}/x_note", [{"a": "s" * 50}]),
        put(f"{SPARE}/x_note", [{"a": "s" * 51}]),
        "record.too_large",
    ),
    # As written: an escape counts with all of its characters.
    Limit(
        *STRING,
        50,
        literal(f"{SPARE}/agent", '"' + r"\u0061" * 8 + 'xx"'),
        literal(f"{SPARE}/agent", '"' + r"\u0061" * 8 + 'xxx"'),
        "record.too_large",
    ),
    Limit(
        *STRING, 64 * MIB, with_text("agent", 64 * MIB), with_text("agent", 64 * MIB + 1), "record.too_large"
    ),
]


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: f"{limit.option} {limit.value} {limit.code}")
def test_a_limit_is_kept(limit: Limit) -> None:
    options = {} if limit.value == limit.default else {limit.option: limit.value}
    corpus = read(b"\n".join([BEFORE, limit.kept, limit.beyond, AFTER]), **options)
    reconcile(corpus)
    assert trace_ids(corpus) == ["before", "mutated", "after"]
    assert [(row["line"], row["code"]) for row in rows(corpus.quarantine)] == (
        [(3, limit.code)] if limit.beyond else []
    )


def test_no_record_is_longer_than_a_column_can_hold() -> None:
    with pytest.raises(ot.ParameterError, match="max_record is 2000000001"):
        read(BEFORE, max_record=2_000_000_001)


def test_no_record_is_deeper_than_a_stack_holds() -> None:
    with pytest.raises(ot.ParameterError, match="max_depth is 1001, expected at most 1000"):
        read(BEFORE, max_depth=1_001)


# --- what comes out of a compressed stream ------------------------------------------------------------------


@pytest.mark.parametrize("pack", [gz, zst], ids=["gz", "zst"])
@pytest.mark.parametrize("framed", [False, True], ids=["lines", "array"])
@pytest.mark.parametrize("short", [0, 1, 40, 700])
def test_the_size_of_a_stream_has_a_limit(tmp_path: Path, pack, framed: bool, short: int) -> None:
    """Exactly as much as the limit is read, cut at the same byte on any number of threads, in any blocks."""
    records = [line(f"t{n}") for n in range(20)]
    data = b"[" + b",\n".join(records) + b"]" if framed else b"\n".join(records)
    limit = len(data) - short
    # A record is whole once what ends it has come: a line end, a comma, the end of the array.
    whole = sum(end < limit for end in _ends(records, int(framed), 2 if framed else 1))
    path = tmp_path / "runs"
    path.write_bytes(pack(data) + pack(b""))
    found = set()
    for threads in (1, 2, 7):
        for block_size in (100, 1_000, 4 * MIB):
            store = _core.read(
                [str(path)], format="native", threads=threads, block_size=block_size, max_decompressed=limit
            )
            assert store.records_read == store.n_traces + store.records_quarantined
            rejects = pl.DataFrame(store.table("quarantine")).select("line", "offset", "length", "code")
            found.add((store.n_traces, *rejects.cast({"code": pl.String}).rows()))
    assert len(found) == 1
    n_traces, *rejects = found.pop()
    if short == 0:
        assert (n_traces, rejects) == (20, [])
        return
    assert [row[3] for row in rejects] == ["input.expansion"]
    assert rejects[0][1] + rejects[0][2] == limit
    assert n_traces == whole


def _ends(records: list[bytes], start: int, separator: int) -> list[int]:
    """Where each record ends."""
    ends = []
    for record in records:
        ends.append(start + len(record))
        start = ends[-1] + separator
    return ends


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, "input.expansion"),
        ({"max_expansion": 10**6}, None),
        ({"max_expansion": 10**6, "max_decompressed": 40 * MIB}, None),
        ({"max_expansion": 10**6, "max_decompressed": 10 * MIB}, "input.expansion"),
        ({"max_expansion": 0}, "input.expansion"),
    ],
)
def test_a_bomb_is_stopped_by_default(options: dict[str, int], code: str | None) -> None:
    bomb = zst(BEFORE + b"\n" + b" " * (32 * MIB) + b"\n" + AFTER + b"\n")
    corpus = read(bomb, **options)
    reconcile(corpus)
    assert codes(corpus) == ([code] if code else [])
    assert trace_ids(corpus) == (["before"] if code else ["before", "after"])


def test_the_default_size_of_a_stream_is_generous() -> None:
    # 1 TiB cannot be tried; that the option is what stops a stream is shown above.
    corpus = read(gz(BEFORE), max_decompressed=1 << 40)
    assert corpus.records["used"] == 1


def skippable(length: int) -> bytes:
    """A frame that zstd decoders pass over."""
    return b"\x50\x2a\x4d\x18" + struct.pack("<I", length) + b"x" * length


def rle(byte: bytes, size: int) -> bytes:
    """A zstd frame of one byte repeated, 4 bytes for every 128 KiB."""
    whole, rest = divmod(size, 128 << 10)
    sizes = [128 << 10] * whole + [rest]
    last = len(sizes) - 1
    blocks = [struct.pack("<I", n << 3 | 1 << 1 | (i == last))[:3] + byte for i, n in enumerate(sizes)]
    return b"\x28\xb5\x2f\xfd\x00\x38" + b"".join(blocks)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


ONE, TWO = BEFORE + b"\n", AFTER + b"\n"
BOTH = ["before", "after"]

STREAMS: dict[str, tuple[bytes, list[str], list[str]]] = {
    # name: bytes, traces, codes of rejects
    "gz: members": (gz(ONE) + gz(TWO), BOTH, []),
    "gz: empty members": (gz(b"") * 20_000 + gz(ONE) + gz(b"") * 20_000 + gz(TWO), BOTH, []),
    "gz: member cut inside a record": (gz(ONE + TWO[:40]) + gz(TWO[40:]), BOTH, []),
    "gz: padding": (gz(ONE) + bytes(999) + gz(TWO) + bytes(1), BOTH, []),
    "gz: noise after it": (gz(ONE) + b"noise", ["before"], ["input.truncated"]),
    "gz: records after it": (gz(ONE) + TWO, ["before"], ["input.truncated"]),
    "gz: zst after it": (gz(ONE) + zst(TWO), ["before"], ["input.truncated"]),
    "gz: half a member": (gz(ONE) + gz(TWO)[:-30], ["before"], ["input.truncated"]),
    "gz: half a header": (gz(ONE) + gz(TWO)[:5], ["before"], ["input.truncated"]),
    "gz: wrong check sum": (flipped(gz(ONE), -8), ["before"], ["input.truncated"]),
    "gz: wrong length": (flipped(gz(ONE), -1), ["before"], ["input.truncated"]),
    "gz: reserved flags": (flipped(gz(ONE), 3)[:3] + b"\xe0" + gz(ONE)[4:], [], ["input.truncated"]),
    "gz: name without an end": (b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * MIB, [], ["input.truncated"]),
    "gz: mark of a member": (gz(b"\xef\xbb\xbf" + ONE) + gz(TWO), BOTH, []),
    "gz: mark of a later member": (
        gz(ONE) + gz(b"\xef\xbb\xbf" + TWO),
        BOTH,
        [],
    ),
    "zst: frames": (zst(ONE) + zst(TWO), BOTH, []),
    "zst: empty frames": (zst(b"") * 20_000 + zst(ONE) + zst(TWO), BOTH, []),
    "zst: skippable frames": (skippable(9) + zst(ONE) + skippable(0) + zst(TWO) + skippable(MIB), BOTH, []),
    "zst: nothing but skippable frames": (skippable(3) * 1_000, [], []),
    "zst: half a skippable frame": (zst(ONE) + skippable(100)[:-1], ["before"], ["input.truncated"]),
    "zst: skippable frame of 4 GiB": (
        zst(ONE) + b"\x50\x2a\x4d\x18\xff\xff\xff\xff" + TWO,
        ["before"],
        ["input.truncated"],
    ),
    "zst: noise after it": (zst(ONE) + b"noise", ["before"], ["input.truncated"]),
    "zst: padding": (zst(ONE) + bytes(99), ["before"], ["input.truncated"]),
    "zst: half a frame": (zst(ONE) + zst(TWO)[:-9], ["before"], ["input.truncated"]),
    "zst: a window of 2 TiB": (b"\x28\xb5\x2f\xfd\x00\xf8" + rle(b"x", 9)[6:], [], ["input.truncated"]),
    "zst: a reserved block": (b"\x28\xb5\x2f\xfd\x00\x38\x07\x00\x00", [], ["input.truncated"]),
    "zst: an unknown dictionary": (
        b"\x28\xb5\x2f\xfd\x01\x38\x07" + rle(b"x", 9)[6:],
        [],
        ["input.truncated"],
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_streams_that_are_put_together(name: str) -> None:
    data, traces, rejected = STREAMS[name]
    corpus = read(data)
    reconcile(corpus)
    assert trace_ids(corpus) == traces
    assert codes(corpus) == rejected


# --- bytes that are not a text of lines ---------------------------------------------------------------------

MARK = b"\xef\xbb\xbf"

BYTES: dict[str, tuple[bytes, list[str], list[str]]] = {
    "mark twice": (MARK + MARK + ONE + TWO, BOTH, []),
    "mark alone on a line": (ONE + MARK + b"\n" + TWO, BOTH, ["json.syntax"]),
    "half a mark": (MARK[:2] + ONE + TWO, BOTH, ["utf8.invalid"]),
    "UTF-16, little end first": (
        (ONE + TWO).decode().encode("utf-16"),
        [],
        ["format.unknown"],  # the message says that it is UTF-16
    ),
    "UTF-16 without a mark": (ONE.decode().encode("utf-16-be") + TWO, ["after"], ["json.syntax"]),
    "zeros on a line": (ONE + bytes(1_000) + b"\n" + TWO, BOTH, ["json.syntax"]),
    "zeros at the end": (ONE + TWO + bytes(1_000), BOTH, ["json.syntax"]),
    "zeros before a record": (bytes(10) + ONE + TWO, BOTH, []),
    "zeros behind a record": (BEFORE + bytes(10) + b"\n" + TWO, BOTH, []),
    "carriage returns alone": (BEFORE + b"\r" + AFTER, BOTH, []),
    "line separators of Unicode": ("\u2028".join([BEFORE.decode(), AFTER.decode()]).encode(), BOTH, []),
    "form feeds": (ONE + b"\f\n" + TWO, BOTH, ["json.syntax"]),
    "keys that meet after unescaping": (
        member("/rewards", r'"t\u0065am": 2') + b"\n" + TWO,
        ["after"],
        ["json.duplicate_key"],
    ),
    "keys that differ in normal form": (member("/rewards", '"é": 1, "e\u0301": 2'), ["mutated"], []),
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_are_no_lines(name: str) -> None:
    data, traces, rejected = BYTES[name]
    corpus = read(data)
    reconcile(corpus)
    assert trace_ids(corpus) == traces
    assert codes(corpus) == rejected


# --- numbers ------------------------------------------------------------------------------------------------

INTEGERS = [
    "0",
    "-0",
    "9007199254740993",
    "-9007199254740993",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "1" + "0" * 30,
    "1" + "0" * 22,
    "1" + "0" * 308,
]
BEYOND = ["1e309", "-1e309", "1e400", "1" + "0" * 400, "1e99999999999999999999", "123456789e400"]

#: Where a number may stand: how it is written there, and the columns that may show it.
PLACES: dict[str, tuple[Callable[[str], bytes], Callable[[ot.Corpus], Any]]] = {
    **{
        name: (
            lambda n, name=name: literal(f"{SPARE}/{name}", n),
            lambda corpus, name=name: rows(corpus.events)[3][name],
        )
        for name in ("t", "duration_s", "t_end", "score", "tokens", "turn")
    },
    "p_actions": (
        lambda n: literal(f"{SPARE}/p_actions", f"[0.5, {n}]"),
        lambda corpus: (rows(corpus.events)[3]["p_actions"] or [None])[-1],
    ),
    **{
        kind: (
            lambda n, kind=kind: literal(f"/{kind}s/tokens", n),
            lambda corpus, kind=kind: rows(
                corpus.measures.filter(pl.col("kind") == kind, pl.col("name").cast(pl.String) == "tokens")
            )[0]["value"],
        )
        for kind in ("reward", "cost", "metric")
    },
    **{
        f"lifted {dtype}": (
            lambda n: literal(f"{SPARE}/x_note", n),
            lambda corpus: rows(corpus.events)[3]["x_note"],
        )
        for dtype in ("Int64", "Float64", "String", "Boolean")
    },
    "extras": (lambda n: literal(f"{SPARE}/x_note", n), lambda corpus: None),
}
NEVER_READ = ("extras", "lifted String", "lifted Boolean", "lifted Int64")


def read_number(place: str, number: str) -> ot.Corpus:
    fields = {"x_note": getattr(pl, place.split()[1])} if place.startswith("lifted") else None
    return read(PLACES[place][0](number), fields=fields)


@pytest.mark.parametrize("number", INTEGERS)
@pytest.mark.parametrize("place", PLACES)
def test_an_integer_is_exact_or_it_is_told(place: str, number: str) -> None:
    """In a column as it is, or rounded with a finding, or as written in `extras`, or refused."""
    corpus = read_number(place, number)
    reconcile(corpus)
    if corpus.records["quarantined"]:
        assert codes(corpus) == ["field.minimum"] and number.startswith("-")
        return
    told = {row["code"] for row in rows(corpus.findings)}
    shown = PLACES[place][1](corpus)
    extras = rows(corpus.events)[3]["extras"] or ""
    if shown is None:
        # `x_note` is unknown, hence told only where somebody asked for a column.
        assert told == (set() if place == "extras" else {"field.ignored"})
        assert f": {number}" in extras or f" {number}]" in extras
    elif told:
        assert told == {"number.rounded"}
        assert int(shown) != int(number) and float(shown) == float(int(number))
    else:
        assert int(shown) == int(number)


@pytest.mark.parametrize("number", BEYOND)
@pytest.mark.parametrize("place", PLACES)
def test_a_number_beyond_the_range_is_never_infinity(place: str, number: str) -> None:
    corpus = read_number(place, number)
    reconcile(corpus)
    if place in NEVER_READ:
        assert codes(corpus) == []
        assert PLACES[place][1](corpus) is None
        assert f": {number}" in rows(corpus.events)[3]["extras"]
    else:
        assert codes(corpus) == ["number.range"]


# --- memory -------------------------------------------------------------------------------------------------

PROBE = """
import io, sys
import orchestrace as ot

def peak():
    # Of this program alone: what resource.getrusage tells includes the parent that it was forked from.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

class Pieces:
    def __init__(self, *pieces):
        self.pieces, self.left = [list(piece) for piece in pieces], memoryview(b"")
    def read(self, size):
        while not self.left and self.pieces:
            piece, times = self.pieces[0]
            if times:
                self.pieces[0][1] -= 1
                self.left = memoryview(piece)
            else:
                del self.pieces[0]
        given, self.left = self.left[:size], self.left[size:]
        return given

LENGTH = 2 << 30
BEFORE, AFTER, PATH = sys.argv[1].encode(), sys.argv[2].encode(), sys.argv[3]
ot.read_traces(io.BytesIO(BEFORE))
held = peak()
corpus = ot.read_traces({source}, format="native", max_record=1 << 20, max_expansion=10**7)
grown = peak() - held
print(grown, corpus.records["used"], corpus.records["quarantined"])
for row in corpus.quarantine.collect().iter_rows(named=True):
    print(row["line"], row["offset"], row["length"], row["code"])
"""

linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")


def run_probe(source: str, path: Path) -> list[list[str]]:
    arguments = [PROBE.format(source=source), BEFORE.decode(), AFTER.decode(), str(path)]
    done = subprocess.run([sys.executable, "-c", *arguments], capture_output=True, check=True, timeout=120)
    return [each.split() for each in done.stdout.decode().splitlines()]


@pytest.mark.process
@linux
@pytest.mark.parametrize("kind", ["sparse file", "file object", "array", "document", "zst"])
def test_a_line_of_2_gib_is_never_held(tmp_path: Path, kind: str) -> None:
    path, length = tmp_path / "runs", 2 << 30
    sources = {
        "file object": 'Pieces((BEFORE + b"\\n", 1), (b"x" * (1 << 20), LENGTH >> 20), (b"\\n" + AFTER, 1))',
        "array": 'Pieces((b"[" + BEFORE + b",", 1), (b"x" * 2**20, LENGTH >> 20), (b"," + AFTER + b"]", 1))',
        "document": 'Pieces((b"{\\n\\"a\\": \\"", 1), (b"x" * (1 << 20), LENGTH >> 20))',
    }
    if kind == "sparse file":
        with path.open("wb") as file:
            file.write(ONE)
            file.seek(length, os.SEEK_CUR)
            file.write(b"\n" + AFTER)
    elif kind == "zst":
        path.write_bytes(zst(ONE) + rle(b"x", length) + zst(b"\n" + AFTER))
    (grown, *counts), *rejects = run_probe(sources.get(kind, "PATH"), path)
    assert int(grown) < 64 * 1024, f"{int(grown) >> 10} MiB"
    if kind == "document":
        assert counts == ["0", "1"]
        assert rejects == [["1", "0", str(length + 8), "record.too_large"]]
        return
    assert counts == ["2", "1"]
    at = len(BEFORE) + (2 if kind == "array" else 1)
    assert rejects == [["1" if kind == "array" else "2", str(at), str(length), "record.too_large"]]


@linux
@pytest.mark.parametrize(
    ("what", "source"),
    [
        ("a key", "io.BytesIO(b'{\"' + b\"k\" * (32 << 20) + b'\": 1}')"),
        ("a word", 'io.BytesIO(b\'{"topology": "\' + b"k" * (32 << 20) + b\'"}\')'),
        (
            "an edge end",
            'io.BytesIO(BEFORE.replace(b\'"src": "e1"\', b\'"src": "\' + b"k" * (32 << 20) + b\'"\'))',
        ),
    ],
)
def test_what_is_said_of_a_long_name_is_short(tmp_path: Path, what: str, source: str) -> None:
    """32 MiB that are quoted in a message: copies of it, but no table of edit distances, which took GB."""
    source = f"{source}, max_string=1 << 30"
    program = PROBE.replace("max_record=1 << 20, ", "")
    arguments = [program.format(source=source), BEFORE.decode(), AFTER.decode(), str(tmp_path)]
    done = subprocess.run([sys.executable, "-c", *arguments], capture_output=True, check=True, timeout=120)
    (grown, *counts), *_ = (each.split() for each in done.stdout.decode().splitlines())
    assert counts == ["0", "1"]
    assert int(grown) < 1024 * 1024, f"{int(grown) >> 10} MiB for {what}"


# --- time ---------------------------------------------------------------------------------------------------


def spent(work: Callable[[], object]) -> float:
    """Processor time of all threads, of the better of two runs."""
    times = []
    for _ in range(2):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def events(count: int, **more: Any) -> str:
    shared = json.dumps({"t": 0, "type": "message", "agent": "a"} | more)[1:]
    return ", ".join(f'{{"id": "e{n}", {shared}' for n in range(count))


def record(events: str, edges: str = "", **more: str) -> bytes:
    maps = {"rewards": '{"team": 1}', "costs": '{"tokens": 0, "wall_clock_s": 0}'} | more
    rest = ", ".join(f'"{key}": {value}' for key, value in maps.items())
    return f'{{"trace_id": "x", "task_id": "y", "events": [{events}], "edges": [{edges}], {rest}}}\n'.encode()


def edge(src: int, dst: int) -> str:
    return f'{{"src": "e{src}", "dst": "e{dst}", "type": "message"}}'


GROWING: dict[str, Callable[[int], bytes]] = {
    "edges into one event": lambda n: record(events(n + 1), ", ".join(edge(k, n) for k in range(n))),
    "edges out of one event": lambda n: record(events(n + 1), ", ".join(edge(0, k) for k in range(1, n + 1))),
    "the same edge": lambda n: record(events(2), ", ".join([edge(0, 1)] * n)),
    "self-loops": lambda n: record(events(1), ", ".join([edge(0, 0)] * n)),
    "a chain against the order": lambda n: record(events(n), ", ".join(edge(k + 1, k) for k in range(n - 1))),
    "one circle": lambda n: record(events(n), ", ".join(edge(k, (k + 1) % n) for k in range(n))),
    "a spawn of every next agent": lambda n: record(
        ", ".join(
            f'{{"id": "e{k}", "t": {k}, "type": "spawn", "agent": "a{k}", "to": "a{k + 1}"}}'
            for k in range(n)
        )
    ),
    "turns that are numbered at will": lambda n: record(
        ", ".join(
            f'{{"id": "e{k}", "t": 0, "type": "message", "agent": "a", "turn": {k * 40503 % 2**32}}}'
            for k in range(n)
        )
    ),
    "groups": lambda n: record(
        ", ".join(
            f'{{"id": "e{k}", "t": 0, "type": "message", "agent": "a", "group_id": "g{k}"}}' for k in range(n)
        )
    ),
    "measures": lambda n: record(
        events(1), rewards='{"team": 1' + "".join(f', "r{k}": {k}' for k in range(n)) + "}"
    ),
    "costs that are named unknown": lambda n: record(
        events(1, x_trace={"unknown_costs": [f"c{k}" for k in range(n)]}),
        costs='{"tokens": 0, "wall_clock_s": 0, ' + ", ".join(f'"c{k}": 0' for k in range(n)) + "}",
    ),
    "unknown fields of one event, then of others": lambda n: record(
        '{"id": "o", "t": 0, "type": "message", "agent": "a"'
        + "".join(f', "u{k}": 1' for k in range(n))
        + "}, "
        + events(n, x=1)
    ),
    "names, then rejects that have a name": lambda n: (
        record(", ".join(f'{{"id": "e{k}", "t": 0, "type": "message", "agent": "a{k}"}}' for k in range(n)))
        + b"".join(b'{"system": "s%d", 1}\n' % k for k in range(n))
    ),
    "brackets in an array": lambda n: b'[{"a":' + b"[" * (10 * n) + b"]" * (10 * n) + b"}]",
    "brackets on the first line": lambda n: b'{"a":' + b"[" * (10 * n) + b"\n" + AFTER,
    "no line end": lambda n: b"x" * (40 * n),
    "commas in an array": lambda n: b"[" + b"," * n + b"]",
}


@pytest.mark.parametrize("what", GROWING)
def test_work_grows_with_the_bytes(what: str) -> None:
    """20 times the input may take 20 times the work, never its square; the bound is halfway, by factors.

    What does not depend on the size makes the small input slower, which errs on the safe side.
    """
    small, large = (GROWING[what](n) for n in (4_000, 80_000))
    settled = []

    def work(data: bytes) -> None:
        corpus = read(data)
        settled.append(corpus.records)
        if corpus.records["used"]:
            for method in ("flow", "discounted"):
                for unit in ("event", "turn", "agent"):
                    ot.credit(corpus, method=method, unit=unit)

    first, second = spent(lambda: work(small)), spent(lambda: work(large))
    assert second < 90 * max(first, 0.002), f"{first:.4f} s and {second:.4f} s"
    assert all(each["read"] == each["used"] + each["quarantined"] > 0 for each in settled)


def test_a_million_edges_at_one_event() -> None:
    n = 1_000_000
    edges = ", ".join([edge(0, 1)] * (n // 2) + [edge(1, 2)] * (n // 2))
    corpus = read(record(events(3), edges))
    assert corpus.records == {"read": 1, "used": 1, "ignored": 0, "duplicate": 0, "quarantined": 0}
    assert corpus.edges.select(pl.len()).collect().item() == n
    assert ot.credit(corpus)["credit"].sum() == pytest.approx(1.0)


def test_a_misspelt_reward_is_told_without_all_that_there_are() -> None:
    n = 50_000
    corpus = read(record(events(1), rewards="{" + ", ".join(f'"r{k}": {k}' for k in range(n)) + "}"))
    with pytest.raises(ot.ParameterError, match="unknown reward channel 'teem'") as caught:
        ot.credit(corpus, reward="teem")
    assert len(str(caught.value)) < 1_000


# --- names on their way out ---------------------------------------------------------------------------------

NAMES = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x9b31m",
    "\u202egnp.exe",
    "a\u200bb\u2066c",
    "del\x7f\x08\x08",
    "line\r\nfeed\u2028\u2029",
    "nul\0",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "../../../tmp/escaped",
    "C:\\windows\\x",
    "[red]markup[/red]",
    "\U000e0041tag",
]


def hostile_records(name: str) -> bytes:
    """A trace in which every name is the same, and rejects and findings that quote it."""
    at = "/events/3"
    good = put(
        "/events",
        [
            {
                "id": name,
                "t": 1,
                "type": "message",
                "agent": name,
                "role": name,
                "to": name,
                "group_id": name,
            },
            {"id": name + "2", "t": 0, "type": "return", "agent": name, "tool": name, "group_id": name + "2"},
            {"id": "e3", "t": 0, "type": "spawn", "agent": name, "to": name + "3", name: {name: name}},
        ],
        trace_id=name,
        task_id=name,
        system=name,
        edges=[
            {"src": name, "dst": name + "2", "type": "message"},
            {"src": name + "2", "dst": name, "type": "message"},
        ],
        rewards={name: 2**53 + 1, "team": 1},
        metrics={name: 2**53 + 1},
    )
    again = good.replace(b'"team": 1', b'"team": 2')  # one id, and another trace
    bad = [
        put(f"{at}/id", name, trace_id=name, edges=[{"src": name + "9", "dst": name, "type": "causal"}]),
        put(f"{at}/type", name),
        put("/topology", name),
        put("/" + name.replace("~", "").replace("/", ""), 1),
        put("/costs", {name: -1, "tokens": 0, "wall_clock_s": 0}),
        put("/rewards", {name: "x"}),
        name.encode(),
        b"{" + name.encode(),
    ]
    return b"\n".join(b"".join(line.splitlines()) for line in [good, again, *bad])


def printable(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.every_nth(3)
@pytest.mark.parametrize("name", NAMES)
def test_names_reach_no_terminal_and_no_page(tmp_path: Path, monkeypatch, name: str) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    file_name = name.replace("/", "_").replace("\0", "") + ".jsonl"
    path = folder / file_name
    path.write_bytes(hostile_records(name))
    corpus = ot.read_traces(path, format="native")
    assert corpus.records["used"] == 2
    assert corpus.records["quarantined"] >= 6
    assert corpus.findings.collect().height >= 4
    assert name in corpus.agents.collect()["agent"].cast(pl.String).to_list(), "data are not changed"

    assert printable(str(corpus)) and printable(repr(corpus))
    html = corpus._repr_html_()
    assert printable(html) and "<script" not in html and "<img" not in html
    for table, column in (("quarantine", "message"), ("quarantine", "excerpt"), ("findings", "message")):
        assert all(map(printable, corpus._table(table).collect()[column])), (table, column)

    messages = []
    for call in (
        lambda: ot.read_traces(path, format="native", on_error="raise"),
        lambda: ot.credit(corpus, reward="absent"),
        lambda: ot.read_traces(str(path) + "?"),
        lambda: ot.read_traces(folder / (file_name + "x")),
    ):
        with pytest.raises(ot.OrchestraceError) as caught:
            call()
        messages.append(str(caught.value))
    assert all(map(printable, messages)), messages

    before = sorted(tmp_path.rglob("*"))
    for arguments in (
        ["validate", str(path)],
        ["validate", str(path), "--json"],
        ["describe", str(path)],
        ["describe", str(path), "--json"],
        ["credit", str(path), "--unit", "agent"],
        ["credit", str(path), "--unit", "agent", "--json"],
        ["credit", str(path), "--reward", "absent"],
        ["credit", str(path) + "?"],
    ):
        done = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
        assert done.exit_code in (0, 1, 2) and (done.exception is None or done.exit_code)
        assert isinstance(done.exception, SystemExit | None)
        assert printable(done.output), (arguments, done.output)
        if "--json" in arguments:
            found = json.loads(done.stdout)
            assert found
    assert sorted(tmp_path.rglob("*")) == before, "a name has become a file"


def test_json_on_a_terminal_is_the_same_json(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    names = "".join(NAMES)
    path.write_bytes(
        put("/topology", "x", trace_id="x") + b"\n" + put("/events/0/agent", names, trace_id="y")
    )
    done = CliRunner().invoke(app, ["credit", str(path), "--unit", "agent", "--json"])
    assert printable(done.output)
    assert names in [row["unit_id"] for row in json.loads(done.stdout)]


def test_a_pipe_in_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.jsonl")
    (tmp_path / "b.jsonl").write_bytes(ONE)
    assert trace_ids(ot.read_traces(tmp_path)) == ["before"]
    (tmp_path / "c.jsonl").symlink_to(tmp_path / "gone")
    with pytest.raises(ot.InputError, match=r"c\.jsonl"):
        ot.read_traces(tmp_path)
