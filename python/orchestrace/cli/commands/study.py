"""Measure credit methods on corpora whose truth is known."""

from collections.abc import Container
from itertools import count
from os.path import abspath
from pathlib import Path
from typing import Annotated, Final

import polars as pl
import typer

from ... import study
from ...base.paths import path_of
from ...base.text import plain, plain_json
from ...corpus.corpus import Corpus
from ..options import EngineOptions, Json, RecordingOptions
from ..output import STOPPED
from ..recordings import usable
from ..registry import group
from ..tables import Columns, show

EXAMPLES: Final = (
    "study run study.toml -o cells",
    "study run study.toml -o divided --engine processes",
    "study report study",
)
COLUMNS: Final = Columns("events agents status cells seconds")

of_study = group(__name__)


@of_study
def run_(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="TOML file like examples/study.toml.")],
    folder: Annotated[
        Path, typer.Option("--output", "-o", help="Output folder; an unfinished study resumes.")
    ],
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            min=0,
            max=256,
            help="Worker processes, default 1; 0: this one, which stops no slow call; with --engine: cells at"
            " a time, default: all cores.",
        ),
    ] = None,
    engine: Annotated[
        str | None, typer.Option("--engine", help="processes or ray; default: this machine.")
    ] = None,
    address: Annotated[
        str | None, typer.Option("--address", help="With --engine ray: of the cluster, as in ray.init.")
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", min=1, max=1024, help="Threads of each call; default: all cores, with --engine one."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure every cell; resume where a run stopped."""
    running = EngineOptions(engine, None if engine is None else workers, address).running(threads)
    if engine is None:
        running["workers"] = workers
    try:
        table = study.run(config, folder, **running)
    except KeyboardInterrupt:
        typer.echo(
            f"stopped: finished cells are in {plain(folder)}; run the same command again to resume", err=True
        )
        raise typer.Exit(STOPPED) from None
    if as_json:
        typer.echo(plain_json(table.write_json()))
        return
    counts = table.group_by("events", "agents", "status", maintain_order=True).agg(
        cells=pl.len(), seconds=pl.col("seconds").sum()
    )
    show(counts, f"cells of {folder}", COLUMNS)


@of_study
def report_(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `study run` wrote.")],
    corpus: Annotated[
        list[Path] | None,
        typer.Option("--corpus", help="Recordings or a corpus on disk to place on the map; repeatable."),
    ] = None,
) -> None:
    """Write report.html, report.md and the figures.

    Needs Altair and vl-convert, the extra plot.
    """
    named: dict[str, Corpus] = {}
    for path in corpus or []:
        path = path_of(path)
        name = Path(abspath(path)).name if path.is_dir() else path.stem  # links keep their names
        named[_free(name, named)] = usable(RecordingOptions([str(path)]))
    for path in study.report(folder, corpora=named):
        typer.echo(f"wrote {plain(path)}")


def _free(name: str, taken: Container[str]) -> str:
    """The name, numbered where it is taken: runs/a.jsonl and more/a.jsonl are two corpora."""
    names = (name if place == 1 else f"{name} ({place})" for place in count(1))
    return next(candidate for candidate in names if candidate not in taken)
