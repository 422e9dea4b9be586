"""Explain codes: rejects, findings, reasons, ignored records."""

from typing import Annotated, Final

import polars as pl
import typer

from ...base.errors import ParameterError
from ...base.remedies import code_rows
from ...base.schema import unknown_name
from ..registry import command
from ..tables import Columns, TableOptions, print_line

EXAMPLES: Final = (
    "codes",
    "codes graph.cycle",
)
COLUMNS: Final = Columns("code level meaning severity", "fix")

_FACTS: Final = ("level", "code", "severity", "meaning", "example", "fix")


def code_table(code: str | None = None) -> pl.DataFrame:
    """Every code, or one, with its level, its meaning, an example and what to do."""
    rows = [(*facts, *remedy) for *facts, remedy in code_rows(code)]
    return pl.DataFrame(rows, schema=dict.fromkeys(_FACTS, pl.String), orient="row")


@command
def run(
    table: TableOptions,
    code: Annotated[str | None, typer.Argument(metavar="CODE", help="One code to explain.")] = None,
) -> None:
    frame = code_table(code)
    if code is not None and not frame.height:
        raise ParameterError(unknown_name("code", code, sorted(set(code_table()["code"]))))
    if code is None or not table.is_plain:
        table.give(frame, "codes", COLUMNS)
        return
    for row in frame.iter_rows(named=True):
        kind = ", ".join(filter(None, (row["level"], row["severity"])))
        print_line(f"{row['code']} ({kind})")
        print_line(f"  {row['meaning']}")
        print_line(f"  Example: {row['example']}")
        print_line(f"  What to do: {row['fix']}")
