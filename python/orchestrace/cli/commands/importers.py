"""List the formats that can be read."""

from typing import Final

from ... import list_importers
from ..registry import command
from ..tables import Columns, TableOptions

EXAMPLES: Final = ("importers",)
COLUMNS: Final = Columns("name summary suffixes")


@command
def run(table: TableOptions) -> None:
    table.give(list_importers(), "importers", COLUMNS)
