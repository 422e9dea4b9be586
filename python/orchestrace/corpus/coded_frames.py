"""A store of Polars frames, whose names and words go to the core as the codes that they are held by."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import polars as pl

from .. import _core
from ..base.deferred import Deferred
from ..base.schema import SCHEMAS

if TYPE_CHECKING:
    import numpy as np
else:
    np = Deferred("numpy")

_MOST_CODES: Final = 4
"""For each row: where codes go further, since this process has held many other names, names go as texts."""


def store_of_frames(
    frames: Mapping[str, pl.DataFrame],
    *,
    threads: int | None = None,
    judged: bool = False,
    set_aside: bool = False,
) -> _core.Store:
    """Check tables in our types and take them over.

    Polars writes a categorical column as Arrow by looking up each name again, row by row. Its codes are
    handed over as they are, with a list of the names that they stand for.

    Raises
    ------
    SchemaError
        Tables contradict each other, or hold what no store holds.

    Notes
    -----
    O(rows); no number is copied on the way.
    """
    tables: dict[str, object] = {}
    names = [pl.DataFrame(schema={"code": pl.UInt32, "name": pl.String})]
    for table, frame in frames.items():
        coded = []
        for column in frame.get_columns():
            if SCHEMAS[table].get(column.name) != column.dtype:
                continue
            if isinstance(column.dtype, pl.Enum):
                coded.append(column.name)
            elif isinstance(column.dtype, pl.Categorical) and (listed := _names(column)) is not None:
                coded.append(column.name)
                names.append(listed)
        tables[table] = frame.with_columns(pl.col(coded).to_physical())
    return _core.Store.from_arrow(
        tables, names=pl.concat(names), threads=threads, judged=judged, set_aside=set_aside
    )


def _names(column: pl.Series) -> pl.DataFrame | None:
    """The names of a categorical column by code; None where the codes go far beyond its rows."""
    codes = column.to_physical()
    last = codes.max()
    beyond = last + 1 if isinstance(last, int) else 0  # stands for null
    if beyond > _MOST_CODES * len(column):
        return None
    row = np.full(beyond + 1, -1)
    row[codes.fill_null(beyond).to_numpy()] = np.arange(len(column))
    standing = np.flatnonzero(row[:beyond] >= 0)
    return pl.DataFrame(
        {"code": pl.Series(standing, dtype=pl.UInt32), "name": column.gather(row[standing]).cast(pl.String)}
    )
