"""Trainer tables as exports, one for each layout."""

from collections.abc import Callable, Iterator
from typing import Final, Literal

import polars as pl
from polars.io.plugins import register_io_source

from ...base.errors import ParameterError
from ...corpus.corpus import Corpus
from ...trainers.tables import ROW_GROUP, prepared
from ..format import Export, Request, Sink


def _writer(layout: Literal["verl", "trl"]) -> Callable[[Corpus, Sink, Request], None]:
    def write(corpus: Corpus, sink: Sink, request: Request) -> None:
        if request.credits is None:
            raise ParameterError(f"the export '{layout}' needs credits: rows of credit(..., unit='turn')")
        options = (request.returns, None, 2**62)
        schema, frames = prepared(corpus, request.credits, layout, request.per, *options)

        def batches(
            columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _size: int | None
        ) -> Iterator[pl.DataFrame]:
            yield from frames

        table = register_io_source(batches, schema=schema, is_pure=True)
        table.sink_parquet(sink, compression="zstd", row_group_size=ROW_GROUP)  # type: ignore[call-overload]  # it only writes

    return write


VERL: Final = Export(
    "verl",
    "Trainer table: turns with advantages, as verl's DataProto names them (Parquet)",
    "verl, any Parquet reader",
    ".parquet",
    "corpus",
    ("trace_id", "credits", "returns", "per"),
    _writer("verl"),
)


TRL: Final = Export(
    "trl",
    "Trainer table: turns with advantages, as TRL's GRPOTrainer names them (Parquet)",
    "TRL, datasets, any Parquet reader",
    ".parquet",
    "corpus",
    ("trace_id", "credits", "returns", "per"),
    _writer("trl"),
)
