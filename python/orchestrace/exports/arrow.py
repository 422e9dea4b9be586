"""Tables of a corpus as pyarrow tables, through the Arrow C stream of the core."""

from typing import TYPE_CHECKING, Any

import polars as pl

from .. import _core
from ..errors import ParameterError
from ..manifest import SIDE
from ..schema import SCHEMAS, dtype_of, unknown_name
from .format import empty_tables

if TYPE_CHECKING:
    import pyarrow

    from ..corpus import Corpus


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
    streams, lifted = _streams(corpus, name)
    columns = {**SCHEMAS[name], **({} if name != "events" else lifted)}
    tables = [_complete(pa, pa.table(stream), columns) for stream in streams]
    whole = pa.concat_tables(tables) if len(tables) > 1 else tables[0]
    return whole.unify_dictionaries() if len(tables) > 1 else whole


def _streams(corpus: "Corpus", name: str) -> tuple[list[_core.Stream], dict[str, pl.DataType]]:
    """What the core says of a table, piece by piece, and the lifted columns."""
    from ..partitioned import PartitionedCorpus

    if not isinstance(corpus, PartitionedCorpus):
        kinds, streams = corpus._store.lifted, [corpus._store.table(name)]
    else:
        kinds = corpus._manifest.fields
        if name in SIDE:  # no piece has it, or not all of it
            given = {name: corpus._table(name).collect(engine="streaming")}
            streams = [_core.Store.from_arrow(empty_tables() | given).table(name)]
        else:
            streams = [piece._store.table(name) for piece in corpus.slices()]
    streams = streams or [_core.Store.from_arrow(empty_tables()).table(name)]
    return streams, {field: dtype_of(kind) for field, kind in sorted(kinds.items())}


def _complete(pa: Any, table: "pyarrow.Table", columns: dict[str, pl.DataType]) -> "pyarrow.Table":
    """With the columns that no record has, all null."""
    made = [
        table.column(name)
        if name in table.column_names
        else pa.chunked_array([pa.nulls(table.num_rows, _type(pa, dtype))])
        for name, dtype in columns.items()
    ]
    return pa.table(made, names=list(columns))


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
