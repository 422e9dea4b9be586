"""Write a seeded corpus of valid recordings."""

import json
from pathlib import Path
from typing import Annotated, Final

import typer

from ... import generate
from ...base.errors import ParameterError
from ...base.text import plain
from ..options import Force, Json, Seed, Threads
from ..registry import command

EXAMPLES: Final = ("generate made.jsonl --traces 4",)


@command
def run(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="The JSONL file to write.")],
    preset: Annotated[str, typer.Option("--preset")] = "mixed",
    events: Annotated[
        int | None, typer.Option("--events", min=1, max=10**12, help="About how many events in all.")
    ] = None,
    traces: Annotated[
        int | None, typer.Option("--traces", min=1, max=10**12, help="How many traces.")
    ] = None,
    seed: Seed = 0,
    force: Force = False,
    threads: Threads = None,
    as_json: Json = False,
) -> None:
    if events is not None and traces is not None:
        raise ParameterError("give --traces or --events, not both")
    counts = generate(
        out,
        preset=preset,
        events=events,
        traces=traces,
        seed=seed,
        overwrite=force,
        threads=threads,
        progress=True,
    )
    summary = ", ".join(f"{count:,} {noun}" for noun, count in counts.items())
    typer.echo(json.dumps(counts) if as_json else f"wrote {plain(out)}: {summary}")
