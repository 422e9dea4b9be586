"""Files of batches: the rows of several partitions in one file, until they are merged.

A corpus that is larger than the budget comes in many batches, each with few rows of each partition. A file
for every table of every partition of every batch would cost more than what is in it, and Parquet takes its
time for each column of a file, however few its rows. So a batch is written as Arrow streams, one for each
table of each partition, back to back in a few files. Merging reads the pieces of a partition from all
batches, and encodes its rows as Parquet once.
"""

import io
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

import polars as pl

from .. import _core
from ..base.batched_scans import scan_batches
from .manifest import BATCHES, PARTITIONED, Manifest, Part, StoredFile, batch_file
from .staging import Staging

WRITERS: Final = 2
"""Partitions of a batch that are written at once: what they hold beside the batch is a copy of each."""

TOGETHER: Final = 16
"""Partitions whose rows lie in one file, and that are merged and published together: the whole manifest is
written each time, and the files of batches are removed then."""


_Encoded = tuple[int, Part, dict[str, memoryview]]
"""A partition, its part, and the streams of its tables."""


def group_of(partition: int) -> int:
    """Which partitions have files of batches in common."""
    return partition // TOGETHER


def stage_batch(
    files: Staging, manifest: Manifest, division: _core.Partition, shard: int
) -> Iterator[tuple[int, Part]]:
    """Stage the tables of a batch in a few files, and enter these; the part of each partition."""
    for group, numbers in itertools.groupby(sorted(division.present), group_of):
        name, offset = f"{shard:06}-{group:02}", 0
        columns: dict[str, pl.Schema] = {}
        batch = Part(name, shard, {BATCHES: 0}, 0, 0)
        with files.begun(batch_file(name), columns) as file, ThreadPoolExecutor(WRITERS) as pool:
            encoded = partial(_encoded, division, shard, columns)
            for number, part, streams in _some_ahead(pool, encoded, numbers):
                part.batch = name
                for table, stream in streams.items():
                    part.pieces[table] = offset, len(stream)
                    offset += file.write(stream)
                batch.rows[BATCHES] += sum(part.rows.values())
                yield number, part
        batch.files[BATCHES] = files.fingerprint(batch_file(name))
        manifest.batches.append(batch)


def _some_ahead(
    pool: ThreadPoolExecutor, call: Callable[[int], _Encoded], numbers: Iterable[int]
) -> Iterator[_Encoded]:
    """What a call returns for each number, in order; no more results wait than there are writers."""
    begun: deque[Future[_Encoded]] = deque()
    for number in numbers:
        begun.append(pool.submit(call, number))
        if len(begun) > WRITERS:
            yield begun.popleft().result()
    while begun:
        yield begun.popleft().result()


def _encoded(division: _core.Partition, shard: int, columns: dict[str, pl.Schema], number: int) -> _Encoded:
    """The rows of one partition as streams, by table; `columns` gets those of tables that it lacks."""
    part, streams = Part(f"{shard:06}", shard, {}, 0, 0), {}
    piece = division.part(number)
    for table in PARTITIONED:
        frame = pl.DataFrame(piece.table(table))
        if table == "traces":
            part.first, part.last = trace_range(frame)
        if frame.height:
            part.rows[table] = frame.height
            stream = io.BytesIO()
            frame.write_ipc_stream(stream, compression="lz4")
            streams[table] = stream.getbuffer()
            if table not in columns:
                columns[table] = frame.schema  # takes as long as writing few rows
    return number, part, streams


def trace_range(traces: pl.DataFrame) -> tuple[int, int]:
    """The lowest and the highest number of some traces; zeros where there is none."""
    first, last = traces.select(first=pl.col("trace").min(), last=pl.col("trace").max()).row(0)
    return first or 0, last or 0


def scan_pieces(folder: Path, pieces: list[tuple[StoredFile, pl.Schema]], schema: pl.Schema) -> pl.LazyFrame:
    """The rows of pieces of batches, each with the columns that it has, as the columns of `schema`.

    One piece is in memory at a time.
    """

    def frames(columns: list[str], _rows: int | None) -> Iterator[pl.DataFrame]:
        for file, present in pieces:
            frame = _read(folder, file, [name for name in columns if name in present])
            yield _fitted(frame, columns, schema)

    return scan_batches(frames, schema)


def read_pieces(
    folder: Path,
    pieces: list[tuple[StoredFile, pl.Schema]],
    schema: pl.Schema,
    window: tuple[int, int] | None = None,
) -> pl.DataFrame:
    """The rows of pieces as the columns of `schema`, of a window of traces where one is given.

    They are in memory without a plan, which takes longer than many a piece has rows.
    """
    frames = [pl.DataFrame(schema=schema)]
    for _, some in itertools.groupby(pieces, lambda piece: id(piece[1])):
        listed = list(some)
        # Few of the schemas are different objects, and comparing takes as long as reading.
        present = listed[0][1]
        is_alike = present == schema
        for file, _ in listed:
            frame = _read(folder, file, None if is_alike else [name for name in schema if name in present])
            if window is not None and not window[0] <= file.part.first <= file.part.last <= window[1]:
                frame = _within(frame, window)
            frames.append(frame if is_alike else _fitted(frame, list(schema), schema))
    return pl.concat(frames)


def _within(frame: pl.DataFrame, window: tuple[int, int]) -> pl.DataFrame:
    """The rows of a window of traces; where they are in order, without a copy of them."""
    traces = frame["trace"]
    if not traces.is_sorted():
        return frame.filter(pl.col("trace").is_between(*window))
    first, end = traces.search_sorted(window[0], "left"), traces.search_sorted(window[1], "right")
    return frame.slice(first, end - first)


def columns_of_piece(folder: Path, file: StoredFile) -> pl.Schema:
    """The columns of a piece."""
    return pl.read_ipc_stream(_bytes(folder, file), n_rows=0).schema


def _read(folder: Path, file: StoredFile, columns: list[str] | None) -> pl.DataFrame:
    """A piece with some of its columns, or all."""
    if columns == []:
        return pl.DataFrame(height=file.part.rows[file.table])
    return pl.read_ipc_stream(_bytes(folder, file), columns=columns)


def _bytes(folder: Path, file: StoredFile) -> bytes:
    assert file.piece is not None
    offset, length = file.piece
    with (folder / file.name).open("rb") as handle:
        handle.seek(offset)
        return handle.read(length)


def _fitted(frame: pl.DataFrame, columns: list[str], schema: pl.Schema) -> pl.DataFrame:
    """With these columns as a schema has them: another release wrote fewer, or fewer words of codes."""
    return frame.select(
        pl.col(name).cast(schema[name]) if name in frame.columns else pl.lit(None, schema[name]).alias(name)
        for name in columns
    )
