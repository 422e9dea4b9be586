"""What the commands have in common: recordings in, frames out."""

import json
from pathlib import Path

import polars as pl
import typer

from . import read_corpus, read_traces
from .corpus import Corpus
from .display import plain, plain_json
from .errors import ParameterError
from .partitioned import PartitionedCorpus
from .terminal import show

QUARANTINED = 3


def open_recordings(paths: list[str], format: str, mapping: Path | None, threads: int | None) -> Corpus:
    if len(paths) == 1 and (Path(paths[0]) / "manifest.json").is_file():
        return read_corpus(paths[0])
    return read_traces(paths, format=format, mapping=mapping, threads=threads, progress=True)


def give(frame: pl.DataFrame, title: str, as_json: bool, output: Path | None) -> None:
    if output is not None:
        if output.suffix != ".parquet":
            raise ParameterError(f"output '{output}' must end in .parquet")
        frame.write_parquet(output)
        typer.echo(f"wrote {plain(output)}: {frame.height:,} rows", err=as_json)
    if as_json:
        typer.echo(plain_json(frame.write_json()))
    elif output is None:
        show(frame, f"{title}: {frame.height:,} rows", rows=50)


def tell(tables: dict[str, pl.DataFrame]) -> None:
    """Several tables as one JSON object."""
    pairs = (f"{json.dumps(name)}: {frame.write_json()}" for name, frame in tables.items())
    typer.echo(plain_json("{" + ", ".join(pairs) + "}"))


def tell_quarantined(corpus: Corpus, strict: bool) -> None:
    """Say on stderr what was quarantined, and fail if that is asked for."""
    if count := corpus.records["quarantined"]:
        where = "report" if isinstance(corpus, PartitionedCorpus) else "validate"
        typer.echo(
            f"{count} of {corpus.records['read']} records quarantined; see the command {where}", err=True
        )
        if strict:
            raise typer.Exit(QUARANTINED)
