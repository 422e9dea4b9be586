"""List the rules of rewards: whom they pay, and for what."""

from typing import Final

from ...rewards import list_rules
from ..registry import command
from ..tables import Columns, TableOptions

EXAMPLES: Final = ("rules", "rules --sort family")
COLUMNS: Final = Columns("reward family unit summary", "reference")


@command
def run(table: TableOptions) -> None:
    table.give(list_rules(), "rules of rewards", COLUMNS)
