"""The command that explains codes and their remedies."""

from typing import Annotated

import polars as pl
import typer

from .. import _core
from ..base.errors import ParameterError
from ..base.remedies import REMEDIES
from ..base.schema import unknown_name
from .application import app
from .options import grouped
from .tables import TableOptions


def known_codes() -> pl.DataFrame:
    """Every code with its level, its meaning, an example and what to do."""
    rows = [
        {
            "level": level,
            "code": code,
            "severity": severity,
            "meaning": meaning,
            **REMEDIES[level, code]._asdict(),
        }
        for level, code, severity, meaning in _core.codes()
    ]
    return pl.DataFrame(rows)


@app.command(name="codes")
@grouped
def codes_(
    table: TableOptions,
    code: Annotated[str | None, typer.Argument(metavar="CODE", help="One code to explain.")] = None,
) -> None:
    """Explain codes of rejects, findings and reasons."""
    frame = known_codes()
    if code is not None:
        known = sorted(set(frame["code"]))
        if code not in known:
            raise ParameterError(unknown_name("code", code, known))
        frame = frame.filter(pl.col("code") == code)
    if code is None or not table.is_plain:
        table.give(frame, "codes", "codes")
        return
    for row in frame.iter_rows(named=True):
        kind = ", ".join(filter(None, (row["level"], row["severity"])))
        typer.echo(f"{row['code']} ({kind})\n  {row['meaning']}")
        typer.echo(f"  Example: {row['example']}\n  What to do: {row['fix']}")
