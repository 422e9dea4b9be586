"""Damaged Parquet and Arrow files, one after the other. A script: `python damaged_rows.py FIRST COUNT MARK`.

File number n is always the same. Before a file is read, its number is written to the file MARK, so that
whoever starts the script knows what killed it. The script prints what became of the files, by kind of damage
and by outcome.
"""

import collections
import functools
import io
import json
import os
import random
import resource
import struct
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc
import pyarrow.parquet as pq

import orchestrace as ot

MEMORY = 6 << 30
"""Address space of the process: a size that damage made up is refused, not granted."""


def rows() -> list[dict[str, Any]]:
    """Conversations with nested columns, numbers, times, nulls and long texts."""
    return [
        {
            "messages": [
                {"role": "user", "content": f"question {n} " + "x" * (n * 7), "n": n},
                {"role": "assistant", "content": None if n % 5 == 0 else f"answer {n}", "n": None},
            ],
            "instance_id": f"task-{n % 4}",
            "resolved": [-1, 0, 1][n % 3],
            "score": n / 7,
            "notes": json.dumps({"n": n}) if n % 2 else None,
        }
        for n in range(24)
    ]


@functools.cache
def whole() -> tuple[tuple[str, bytes], ...]:
    """Files without damage: codecs, encodings, versions, row groups; streams and files of Arrow."""
    table = pa.Table.from_pylist(rows())
    written = []
    for codec in ("NONE", "snappy", "zstd", "gzip", "lz4"):
        for options in (
            {"row_group_size": 8},
            {"use_dictionary": False, "data_page_version": "2.0"},
            {"data_page_size": 128, "write_page_index": True, "row_group_size": 12},
        ):
            out = io.BytesIO()
            pq.write_table(table, out, compression=codec, **options)
            written.append(("rows.parquet", out.getvalue()))
    for new in (ipc.new_file, ipc.new_stream):
        out = io.BytesIO()
        with new(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=8)
        written.append(("rows.arrow", out.getvalue()))
    return tuple(written)


def footer(data: bytes) -> int:
    """Where the footer of a Parquet file begins; of other files some place near the end."""
    length = struct.unpack("<I", data[-8:-4])[0] if data[-4:] == b"PAR1" else 0
    return len(data) - 8 - length if 0 < length < len(data) - 8 else max(len(data) - 256, 0)


def bits(data: bytearray, chance: random.Random, first: int, end: int) -> None:
    for _ in range(chance.choice((1, 1, 2, 8, 64))):
        data[chance.randrange(first, end)] ^= 1 << chance.randrange(8)


def in_pages(data: bytearray, chance: random.Random) -> None:
    bits(data, chance, 4, max(footer(data), 5))


def in_footer(data: bytearray, chance: random.Random) -> None:
    bits(data, chance, footer(data), len(data))


def in_length(data: bytearray, chance: random.Random) -> None:
    lengths = (0, 1, 8, len(data), 2**31 - 1, 2**32 - 1, chance.randrange(2**20))
    data[-8:-4] = struct.pack("<I", chance.choice(lengths))


def overwritten(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    length = chance.choice((1, 4, 16, 200))
    with_what = chance.choice((b"\x00", b"\xff", b"\x7f", b"\x80"))
    data[at : at + length] = with_what * min(length, len(data) - at)


def cut(data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(len(data)) :]


def left_out(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    del data[at : at + chance.choice((1, 3, 40, 400))]


def repeated(data: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(data))
    data[at:at] = data[at : at + chance.choice((1, 3, 40, 400))]


def with_another(data: bytearray, chance: random.Random) -> None:
    """The beginning of one file and the end of another."""
    _, other = chance.choice(whole())
    at = chance.randrange(len(data))
    data[at:] = other[chance.randrange(len(other)) :]


DAMAGE: tuple[Callable[[bytearray, random.Random], None], ...] = (
    in_pages,
    in_footer,
    in_length,
    overwritten,
    cut,
    left_out,
    repeated,
    with_another,
)


def file(number: int) -> tuple[str, str, bytes]:
    """The damaged file of a number: what was done to it, its name, its bytes."""
    chance = random.Random(number)
    name, data = chance.choice(whole())
    damaged = bytearray(data)
    kinds = [chance.choice(DAMAGE) for _ in range(chance.choice((1, 1, 1, 2, 3)))]
    for kind in kinds:
        if len(damaged) > 16:
            kind(damaged, chance)
    return "+".join(kind.__name__ for kind in kinds[:1]), name, bytes(damaged)


def outcome(path: Path) -> str:
    """What reading it came to; anything but a corpus or one of our errors is raised."""
    try:
        corpus = ot.read_traces(path, threads=1)
    except ot.OrchestraceError as error:
        message = str(error)
        assert message and "\n" not in message and "panick" not in message, message
        return "an error"
    counts = corpus.records
    became = sum(counts[status] for status in ("used", "ignored", "duplicate", "quarantined"))
    assert counts["read"] == became, counts
    return "quarantined" if counts["quarantined"] else "read"


def main(first: int, count: int, mark: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    tally: collections.Counter[str] = collections.Counter()
    folder = mark.parent
    with mark.open("wb", buffering=0) as marking:
        for number in range(first, first + count):
            os.pwrite(marking.fileno(), b"%20d" % number, 0)
            kind, name, data = file(number)
            path = folder / f"{mark.stem}-{name}"
            path.write_bytes(data)
            tally[f"{kind}: {outcome(path)}"] += 1
    print(json.dumps(tally))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
