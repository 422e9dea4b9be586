"""Read and credit the sample corpus; write tables and a page."""

import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

from ... import credit, describe, read_traces, summary, view
from ...base.errors import InputError, ParameterError
from ...base.paths import path_of
from ...base.publication import write_parquet, write_text
from ...base.schema import SCHEMAS
from ...base.terminal import terminal_width
from ...base.text import plain
from ...corpus.parts import table_of
from ...corpus.samples import samples_path
from ..browser import open_page
from ..options import Force, Threads
from ..registry import command
from ..tables import CORPUS, CREDITS, REJECTS, show

EXAMPLES: Final = ("demo -o demo",)
COLUMNS: Final = {**CORPUS, "credits": CREDITS, "rejects": REJECTS}
_DEMO: Final = ".orchestrace-demo"
"""Marks a folder that the command demo made, and may write to again."""

_DEMO_PAGE: Final = "runs.html"


@command
def run(
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the Parquet files.")] = Path(
        "orchestrace-demo"
    ),
    force: Force = False,
    opened_page: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False,
    threads: Threads = None,
) -> None:
    folder = _demo_folder(output, force)
    corpus = read_traces(samples_path(), threads=threads, progress=True)
    frames = {name: table_of(corpus, name).collect() for name in SCHEMAS}
    for method in ("flow", "grpo"):
        frames[f"credits_{method}"] = credit(corpus, method=method, unit="agent", threads=threads)
    for name, frame in frames.items():
        show(frame, name, CREDITS if name.startswith("credits") else COLUMNS.get(name), limit=5, rest="")
    show(describe(corpus)["quarantine"], "quarantined, by code", REJECTS, rest="")
    typer.echo(", ".join(f"{count} {status}" for status, count in corpus.records.items()))
    write_text("", folder / _DEMO)
    for name, frame in frames.items():
        write_parquet(frame, folder / f"{name}.parquet", overwrite=True)
    typer.echo(f"wrote {len(frames)} Parquet files to {plain(output)}\n")
    samples = shlex.quote(str(samples_path()))
    typer.echo(summary(corpus, threads=threads).text(samples, terminal_width() or 80))
    view(corpus, folder / _DEMO_PAGE, overwrite=True, threads=threads)
    if opened_page:
        open_page(folder / _DEMO_PAGE)
    again = shlex.join(["orchestrace", "demo", "-o", str(output), "--open"])
    typer.echo(f"\nA page of the runs is in {plain(output / _DEMO_PAGE)}. To open it in a browser:")
    typer.echo(f"$ {plain(again)}")


def _demo_folder(output: Path, force: bool) -> Path:
    folder = path_of(output)
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"'{output}' is a file, expected a folder")
    folder.mkdir(parents=True, exist_ok=True)
    if not force and not (folder / _DEMO).exists() and any(folder.iterdir()):
        raise InputError(f"the demo did not make folder '{output}'; give --force to write into it")
    return folder
