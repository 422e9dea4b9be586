"""Join the parts of a plan to one table."""

import json
import os
from pathlib import Path
from typing import Annotated, Final

import polars as pl
import typer

from ... import distributed
from ...base.errors import ParameterError
from ...base.text import counted, plain, plain_json
from ..options import Force, Json, Place, PlanFolder
from ..registry import command
from ..tables import Columns, show

EXAMPLES: Final = (
    "reduce plan",
    "reduce finished -o table.parquet",
)
COLUMNS: Final = Columns("task state events rows size seconds fault")


@command
def run(
    folder: PlanFolder,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Parquet file; default: say what is done.")
    ] = None,
    corpus: Place = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    if output is None:
        states = distributed.status(folder)
        if as_json:
            typer.echo(plain_json(states.write_json()))
        else:
            show(states, f"tasks of {folder}", COLUMNS)
        return
    if output.suffix != ".parquet":
        raise ParameterError(f"output '{output}' must end in .parquet")
    table = distributed.reduce(folder, corpus=corpus, sink=output, overwrite=force)
    rows = table.select(pl.len()).collect().item()
    if as_json:
        typer.echo(plain_json(json.dumps({"output": os.fspath(output), "rows": rows})))
    else:
        typer.echo(f"wrote {plain(output)}: {counted(rows, 'row')}")
