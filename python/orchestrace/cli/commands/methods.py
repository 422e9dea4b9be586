"""List the credit methods."""

from typing import Final, get_args

import polars as pl

from ... import list_methods
from ...base.schema import Unit as Level
from ..registry import command
from ..tables import Columns, TableOptions

EXAMPLES: Final = ("methods",)
COLUMNS: Final = Columns("name quantity units summary")


def _units(units: pl.Series) -> str:
    lacks = [unit for unit in get_args(Level) if unit not in units]
    return " ".join(units) if len(lacks) > 2 else f"all but {' '.join(lacks)}" if lacks else "all"


@command
def run(table: TableOptions) -> None:
    frame = list_methods()
    if table.is_plain:
        frame = frame.with_columns(units=pl.Series(list(map(_units, frame["units"]))))
    table.give(frame, "methods", COLUMNS)
