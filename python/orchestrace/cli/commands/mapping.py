"""Check a mapping file against its records."""

from pathlib import Path
from typing import Annotated, Final

import polars as pl
import typer

from ... import mapping
from ...base.text import counted, plain
from ..options import Json, Threads
from ..output import FAILED, QUARANTINED
from ..registry import group
from ..tables import Columns, print_json, print_line, show

EXAMPLES: Final = ("mapping check house.json house.jsonl",)
COLUMNS: Final = Columns("key pointer matched note type")

of_mapping = group(__name__)


@of_mapping
def check_(
    file: Annotated[Path, typer.Argument(metavar="MAPPING", help="TOML or JSON file.", show_default=False)],
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES...", help="Files, globs, folders; - is standard input.", show_default=False
        ),
    ],
    threads: Threads = None,
    as_json: Json = False,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Exit with 3 if a key found no value or a record was quarantined."),
    ] = False,
) -> None:
    """Report what each key finds, and which fields no key reads.

    How often each key finds a value, and which fields of the records no key reads. Exits with 1 if no record
    could be used.
    """
    tables = mapping.check(file, paths, threads=threads, progress=True)
    # records without a list of steps are ignored, and nothing is looked for in them
    stepless = (tables["records"]["kind"] == "mapping.no_steps").any()
    missed = (pl.col("matched") == 0) & ((pl.col("of") > 0) | ((pl.col("key") == "steps") & stepless))
    if as_json:
        print_json(tables)
    else:
        idle = pl.when(pl.col("of") == 0).then(pl.lit("never looked for"))
        note = pl.when(missed).then(pl.lit("no value")).otherwise(idle).alias("note")
        matched = pl.format("{} of {}", "matched", "of").alias("matched")
        show(tables["keys"].select("key", "pointer", matched, "type", note), "keys", COLUMNS)
        if tables["unread"].height:
            show(tables["unread"], "fields that no key reads")
        records = tables["records"]
        counts = [
            f"{count:,} {status}" + (f" ({plain(kind)})" if kind else "")
            for status, kind, count in records.iter_rows()
        ]
        total = int(records["count"].sum())
        print_line(f"{counted(total, 'record')}: {', '.join(counts) or 'none'}")
        for code, path, message, count in tables["quarantine"].iter_rows():
            place = f" {path}" if path else ""
            print_line(f"{count:,} quarantined: {code}{place}: {message}")
    if not (tables["records"]["status"] == "used").any():
        raise typer.Exit(FAILED)
    if strict and (tables["keys"].filter(missed).height or tables["quarantine"].height):
        raise typer.Exit(QUARANTINED)
