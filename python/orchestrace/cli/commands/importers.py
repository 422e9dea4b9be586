"""List the formats that can be read."""

from ... import importers
from ..registry import command
from ..tables import TableOptions


@command
def run(table: TableOptions) -> None:
    table.give(importers(), "importers", "importers")
