"""List the credit methods."""

from typing import TYPE_CHECKING, get_args

import polars as pl

from ... import methods
from ...base.deferred import Deferred
from ...base.schema import Unit as Level
from ..tables import TableOptions

if TYPE_CHECKING:
    from ...evaluation import comparison
else:
    comparison = Deferred("orchestrace.evaluation.comparison")  # which needs NumPy
from ..registry import command


def _units(units: pl.Series) -> str:
    lacks = [unit for unit in get_args(Level) if unit not in units]
    return " ".join(units) if len(lacks) > 2 else f"all but {' '.join(lacks)}" if lacks else "all"


@command
def run(table: TableOptions) -> None:
    frame = methods()
    if table.is_plain:
        frame = frame.with_columns(units=pl.Series(list(map(_units, frame["units"]))))
    table.give(frame, "methods", "methods")
