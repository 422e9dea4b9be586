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
from ..tables import print_json, show

EXAMPLES: Final = ("survey survey",)


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
            show(words, name, limit=20 if name == "cells" else None)
