"""Tables of a corpus as NumPy arrays."""

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from ..base.deferred import Deferred
from ..base.schema import REQUIRED
from .arrow_tables import check_table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .corpus import Corpus
else:
    np = Deferred("numpy")


class Names(NamedTuple):
    """A column of names or words: what stands in each row, as a place in `categories`.

    Examples
    --------
    >>> import orchestrace as ot
    >>> kinds = ot.generate(traces=1, seed=0).to_numpy("events")["type"]
    >>> str(kinds.categories[kinds.codes[0]])
    'orchestrator_decision'
    """

    codes: "NDArray[np.int32]"
    """Int32, -1 where there is none."""
    categories: "NDArray[np.object_]"
    """Texts, in order of first appearance; of a closed vocabulary all its words, in their order."""


def numpy_columns(corpus: "Corpus", name: str) -> dict[str, Any]:
    """The columns of one table by name."""
    check_table(name)
    frame = corpus._table(name).collect(engine="streaming")
    return {column.name: _array(column, column.name in REQUIRED[name]) for column in frame}


def _array(column: pl.Series, is_full: bool) -> Any:
    dtype = column.dtype
    if isinstance(dtype, pl.Enum | pl.Categorical):
        return _names(column)
    if dtype == pl.String or isinstance(dtype, pl.List):
        values = np.empty(column.len(), dtype=object)
        for row, value in enumerate(column):  # one by one: lists of one length would become a matrix
            values[row] = value.to_numpy() if isinstance(value, pl.Series) else value
        return values
    if dtype.is_temporal():
        return column.dt.replace_time_zone(None).to_numpy()
    if is_full or dtype.is_float():
        return column.to_numpy()
    absent = column.is_null().to_numpy()
    filled = column.fill_null(False if dtype == pl.Boolean else 0).to_numpy()
    return np.ma.MaskedArray(filled, mask=absent)


def _names(column: pl.Series) -> Names:
    if isinstance(column.dtype, pl.Enum):
        words = column.dtype.categories
        coded = column
    else:
        words = column.drop_nulls().unique(maintain_order=True).cast(pl.String)
        coded = column.cast(pl.String).cast(pl.Enum(words))
    codes = coded.to_physical().cast(pl.Int32).fill_null(-1).to_numpy()
    categories = np.empty(words.len(), dtype=object)
    categories[:] = words.to_list()
    return Names(codes, categories)
