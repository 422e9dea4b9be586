"""Tables of a corpus as pyarrow tables, through the Arrow C stream of the core."""

from typing import TYPE_CHECKING, Any

import polars as pl

from ..base.errors import ParameterError
from ..base.schema import SCHEMAS, dtype_of, unknown_name
from .pieces import empty_store

if TYPE_CHECKING:
    import pyarrow

    from .corpus import Corpus


def check_table(name: object) -> None:
    """Refuse a name that no table has.

    Raises
    ------
    ParameterError
        Says which there are.
    """
    if name not in SCHEMAS:
        raise ParameterError(unknown_name("table", str(name), list(SCHEMAS)))


def arrow_table(corpus: "Corpus", name: str) -> "pyarrow.Table":
    """One table with its full schema; pieces of a corpus on disk share one dictionary of names."""
    try:
        import pyarrow as pa
    except ModuleNotFoundError:
        raise ParameterError("to_arrow needs pyarrow: pip install pyarrow") from None
    check_table(name)
    streams = corpus._streams(name) or [empty_store().table(name)]
    lifted = {field: dtype_of(kind) for field, kind in sorted(corpus._lifted().items())}
    columns = {**SCHEMAS[name], **({} if name != "events" else lifted)}
    tables = [_complete(pa, pa.table(stream), columns) for stream in streams]
    joined = pa.concat_tables(tables) if len(tables) > 1 else tables[0]
    return joined.unify_dictionaries() if len(tables) > 1 else joined


def _complete(pa: Any, table: "pyarrow.Table", columns: dict[str, pl.DataType]) -> "pyarrow.Table":
    """With the columns that no record has, all null."""
    arrays = [
        table.column(name)
        if name in table.column_names
        else pa.chunked_array([pa.nulls(table.num_rows, _type(pa, dtype))])
        for name, dtype in columns.items()
    ]
    return pa.table(arrays, names=list(columns))


def _type(pa: Any, dtype: pl.DataType) -> Any:
    """What the core hands out for a kind of column."""
    if isinstance(dtype, pl.Enum):
        return pa.dictionary(pa.uint8(), pa.string_view())
    if isinstance(dtype, pl.Categorical):
        return pa.dictionary(pa.uint32(), pa.string())
    plain = {
        pl.UInt32(): pa.uint32(),
        pl.UInt64(): pa.uint64(),
        pl.Int64(): pa.int64(),
        pl.Float64(): pa.float64(),
        pl.Boolean(): pa.bool_(),
        pl.String(): pa.string_view(),
        pl.Datetime("ns", "UTC"): pa.timestamp("ns", tz="UTC"),
        pl.List(pl.Float64()): pa.large_list(pa.float64()),
    }
    return plain[dtype]
