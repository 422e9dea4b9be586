"""Lazy frames over what comes frame by frame: only one of them is in memory at a time."""

from collections.abc import Callable, Iterable, Iterator

import polars as pl
from polars.io.plugins import register_io_source


def scan_batches(
    batches: Callable[[list[str], int | None], Iterable[pl.DataFrame]], schema: pl.Schema
) -> pl.LazyFrame:
    """A scan of frames that are made when it is collected.

    Parameters
    ----------
    batches
        Gives the frames, with the columns that it is asked for, in their order; the second argument is how
        many rows are asked for in all, if not all are.
    schema
        The columns that there are.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.base.batched_scans import scan_batches
    >>> schema = pl.Schema({"a": pl.Int64, "b": pl.Int64})
    >>> frames = [pl.DataFrame({"a": [1, 2], "b": [3, 4]}), pl.DataFrame({"a": [5], "b": [6]})]
    >>> table = scan_batches(lambda columns, rows: (frame.select(columns) for frame in frames), schema)
    >>> table.filter(pl.col("b") > 3).select("a").collect()["a"].to_list()
    [2, 5]
    """

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        wanted = list(schema) if columns is None else columns
        judged = set() if predicate is None else set(predicate.meta.root_names())
        read = [*wanted, *(name for name in schema if name in judged.difference(wanted))]
        # Rows are counted before the predicate, as everywhere in Polars.
        left = n_rows
        for batch in batches(read, n_rows):
            frame = batch if left is None else batch.head(left)
            left = None if left is None else left - frame.height
            frame = frame if predicate is None else frame.filter(predicate)
            yield frame if read == wanted else frame.select(wanted)
            if left == 0:
                return

    return register_io_source(source, schema=schema, validate_schema=True, is_pure=True)
