"""Write views for DuckDB or Polars over a corpus on disk."""

from pathlib import Path
from typing import Annotated, Final, get_args

import typer

from ... import read_corpus
from ...base.errors import ParameterError
from ...base.paths import path_of
from ...base.publication import published_file, refuse_existing
from ...base.text import plain
from ...disk.sql_views import Dialect, sql_views
from ..options import Force
from ..registry import command
from ..values import word

EXAMPLES: Final = (
    "sql corpus -o corpus.sql",
    "sql corpus --dialect polars -o polars.sql",
)


@command
def run(
    corpus: Annotated[
        str, typer.Argument(metavar="CORPUS", help="Folder that `ingest` made.", show_default=False)
    ],
    dialect: Annotated[str, typer.Option("--dialect", help="duckdb, or polars.")] = "duckdb",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the statements to this file.")
    ] = None,
    force: Force = False,
) -> None:
    chosen: Dialect = word(dialect, "--dialect", get_args(Dialect))
    if output is not None and not force:
        refuse_existing(path_of(output))
    text = sql_views(read_corpus(corpus), dialect=chosen)
    if output is None:
        if not text.replace("\n", "").isprintable():
            raise ParameterError(
                "the path of the corpus has characters that a terminal may act on: give --output"
            )
        typer.echo(text, nl=False)
        return
    with published_file(path_of(output), overwrite=force) as file:
        file.write(text.encode())
    use = (
        f"duckdb -init {output}" if chosen == "duckdb" else "docs/how-to/query-with-sql.md says how to run it"
    )
    typer.echo(plain(f"wrote {output}: {use}"))
