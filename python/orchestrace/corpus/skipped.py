"""Entries of archives that were not read, although recordings may be lost with them."""

import warnings
from collections.abc import Sequence
from typing import Final

import polars as pl

from .. import _core
from ..base.text import plain

_LISTED: Final = 3
"""Entries that a warning names; `Corpus.record_counts` has more of them."""


def lossy_counts(record_counts: pl.LazyFrame) -> pl.DataFrame:
    """The rows of `Corpus.record_counts` that count entries which may have been recordings.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.corpus.skipped import lossy_counts
    >>> kinds = ["archive.not_json", "archive.empty", None]
    >>> counts = pl.LazyFrame({"file": ["a.zip/README", "a.zip", "a.zip"], "kind": kinds, "count": [1, 7, 9]})
    >>> lossy_counts(counts).rows()
    [('a.zip/README', 'archive.not_json', 1)]
    """
    rows = record_counts.filter(pl.col("kind").is_in(_core.LOSSY_CODES))
    return rows.select(pl.col("file").cast(pl.String), "kind", "count").collect(engine="streaming")


def warn_of_skipped(batches: Sequence[pl.DataFrame], *, stacklevel: int = 2) -> None:
    """Warn of the entries that `lossy_counts` counted in the batches of a reading, if there are any.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.corpus.skipped import warn_of_skipped
    >>> warn_of_skipped([pl.DataFrame({"file": [], "kind": [], "count": []})])
    """
    filled = [batch for batch in batches if batch.height]
    if not filled:
        return
    rows = pl.concat(filled)
    total = int(rows["count"].sum())
    entries = "1 entry of an archive" if total == 1 else f"{total:,} entries of archives"
    listed = [f"{file} ({kind})" for file, kind, count in rows.iter_rows() if count == 1][:_LISTED]
    more = ", ..." if 0 < len(listed) < total else ""
    named = f": {', '.join(listed)}{more}" if listed else ""
    why = f"`orchestrace codes {rows['kind'][0]}` says why"
    text = plain(f"skipped {entries}{named}; record_counts counts them, and {why}")
    warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)
