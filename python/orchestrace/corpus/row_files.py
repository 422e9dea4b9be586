"""Parquet and Arrow files as recordings: their rows, some at a time, for the core that makes lines of them.

pyarrow has the codecs. It decodes page by page, so that a row group larger than memory is read in pieces, and
its decoders are fuzzed. Rows that cannot be decoded are lost alone: what is around them is read.
"""

import os
from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from ..base.text import plain

Rows = tuple[pa.Table | None, int, str, int]
"""A table; or None, how many rows are lost, and why. And the bytes of the file that are done with it."""

_BATCH_BYTES: Final = 4 << 20
"""What a batch of rows takes as columns, about."""
_MOST_ROWS: Final = 1 << 14
_MOST_LOST: Final = 1 << 24
"""Lost rows that are counted: a footer that is damaged may claim any number."""
_DAMAGES: Final = (pa.ArrowException, OSError, ValueError, MemoryError, OverflowError, RuntimeError)
"""What pyarrow raises at bytes that no writer wrote."""


def rows_of(path: str | os.PathLike[str]) -> Iterator[Rows]:
    """The rows of a Parquet or Arrow file, in order.

    A footer that cannot be read costs the file, as one lost row; a page the rest of its row group; a row
    whose texts are not UTF-8 costs itself.
    """
    path = os.fspath(path)
    with open(path, "rb") as file:
        is_parquet = file.read(4) == b"PAR1"
    size = os.path.getsize(path)
    try:
        yield from (_of_parquet if is_parquet else _of_arrow)(path, size)
    except _DAMAGES as error:
        kind = "Parquet" if is_parquet else "Arrow"
        yield None, 1, f"found no {kind} file that can be opened: {_reason(error)}", size


def _of_parquet(path: str, size: int) -> Iterator[Rows]:
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20) as file:
        groups = file.metadata.num_row_groups
        for group in range(groups):
            facts = file.metadata.row_group(group)
            bytes_of_a_row = max(facts.total_byte_size / max(facts.num_rows, 1), 1.0)
            rows = max(1, min(int(_BATCH_BYTES / bytes_of_a_row), _MOST_ROWS))
            done, place = 0, f"row group {group + 1} of {groups}"
            try:
                for batch in file.iter_batches(rows, row_groups=[group], use_threads=False):
                    for lost, some, reason in _judged(batch):
                        done += lost if some is None else some.num_rows
                        share = min(done / max(facts.num_rows, 1), 1.0)
                        yield some, lost, f"{place}, {reason}", int(size * (group + share) / groups)
            except _DAMAGES as error:
                lost = min(max(facts.num_rows - done, 1), _MOST_LOST)
                reason = f"the rows after the first {done:,} cannot be decoded: {_reason(error)}"
                yield None, lost, f"{place}: {reason}", int(size * (group + 1) / groups)


def _of_arrow(path: str, size: int) -> Iterator[Rows]:
    with pa.OSFile(path) as source, pa.ipc.open_file(source) as file:
        batches = file.num_record_batches
        for index in range(batches):
            done = size * (index + 1) // batches
            try:
                batch = file.get_batch(index)
                for start in range(0, batch.num_rows, _MOST_ROWS):
                    for lost, some, reason in _judged(batch.slice(start, _MOST_ROWS)):
                        yield some, lost, f"batch {index + 1} of {batches}, {reason}", done
            except _DAMAGES as error:
                yield None, 1, f"batch {index + 1} of {batches} cannot be decoded: {_reason(error)}", done


def _judged(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Table | None, str]]:
    """The rows whose values are what their types say, texts UTF-8; and those that are lost, and why."""
    try:
        for field in batch.schema:
            _check_names(field)
        batch.validate(full=True)
    except _DAMAGES as error:
        if batch.num_rows <= 1:
            yield 1, None, f"a row: {_reason(error)}"
            return
        half = batch.num_rows // 2
        yield from _judged(batch.slice(0, half))
        yield from _judged(batch.slice(half))
    else:
        yield 0, pa.Table.from_batches([batch]), ""


def _check_names(field: pa.Field) -> None:
    """Raise where a name is not UTF-8, which no other library takes."""
    field.name.encode()
    for index in range(field.type.num_fields):
        _check_names(field.type.field(index))


def _reason(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return plain(lines[0][:200]) if lines else type(error).__name__
