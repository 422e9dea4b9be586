"""Recompute the statistics of the survey."""

from pathlib import Path
from typing import Annotated, Final

import polars as pl
import typer

from ...base.paths import path_of
from ...base.publication import published_folder, write_parquet
from ...base.text import plain
from ...scaling import survey
from ..options import Json
from ..registry import command
from ..tables import Columns, print_json, show

EXAMPLES: Final = ("survey survey",)
COLUMNS: Final = {
    "claims": Columns("claim stated counted agrees as_of", "boundary support field value"),
    "strict_and_broad": Columns(
        "cell broad strict at_most ledger_broad ledger_strict agrees as_of", "checked"
    ),
}
_AS_THEY_SHOULD_BE: Final = ("matched", "matched_without_year")


@command
def run(
    path: Annotated[str, typer.Argument(metavar="PATH", help="Folder with papers.csv and excluded.csv.")],
    as_json: Json = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write a Parquet file of each table to this folder.")
    ] = None,
) -> None:
    tables = survey(path)
    if output is not None:
        with published_folder(path_of(output)) as folder:
            for name, frame in tables.items():
                write_parquet(frame, folder / f"{name}.parquet")
        typer.echo(f"wrote {len(tables)} Parquet files to {plain(output)}", err=as_json)
    if as_json:
        print_json(tables)
    elif output is None:
        for name, frame in tables.items():
            words = frame.with_columns(pl.col(pl.List(pl.String)).list.join(" "))
            title = name
            if name == "bibliography":
                words = words.filter(pl.col("status").is_in(_AS_THEY_SHOULD_BE).not_())
                title = f"{name}, of {frame.height} those without a match or with several"
            elif name == "spot_check":
                words = words.filter(pl.col("agrees").not_())
                title = f"{name}, of {frame.height} those that differ"
            show(words, title, COLUMNS.get(name), limit=20 if name == "cells" else None)
