"""Divide the reward among units."""

from pathlib import Path
from typing import Annotated, Final

import polars as pl
import typer

from ... import credit
from ...base.errors import ParameterError
from ...base.text import plain
from ..options import EngineOptions, Method, Params, RewardOptions, Seed, StrictOptions, Unit
from ..output import STOPPED
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import CREDITS, TableOptions
from ..values import credit_options

EXAMPLES: Final = (
    "credit runs.jsonl --unit agent",
    "credit runs.jsonl --unit turn --method discounted -P gamma=0.97",
    "credit runs.jsonl",
    "credit runs.jsonl --sink credits",
    "credit corpus --engine processes --workers 1",
)
COLUMNS: Final = CREDITS


@command
def run(
    recordings: StrictOptions,
    rewards: RewardOptions,
    table: TableOptions,
    engine: EngineOptions,
    method: Method = "flow",
    unit: Unit = "event",
    param: Params = None,
    seed: Seed = 0,
    over: Annotated[
        str, typer.Option("--over", help="all, or trainable: agents whose policies are trained alone.")
    ] = "all",
    sink: Annotated[
        Path | None, typer.Option("--sink", help="Folder for a result that is larger than memory.")
    ] = None,
    resume: Annotated[bool, typer.Option(help="Continue a result that is in that folder.")] = True,
) -> None:
    if not resume and sink is None:
        raise ParameterError("--no-resume is of --sink: name the folder that has to be new")
    corpus = usable(recordings, rewards)
    options = credit_options(unit, rewards.reward, seed, param) | {"method": method, "over": over}
    options |= engine.running(recordings.threads)
    if sink is not None:
        try:
            rows = credit(corpus, **options, sink=sink, resume=resume)
        except KeyboardInterrupt:
            done = f"what is done is in {plain(sink)}"
            typer.echo(f"stopped: {done}; run the same command again to resume", err=True)
            raise typer.Exit(STOPPED) from None
        typer.echo(f"wrote {plain(sink)}: {rows.select(pl.len()).collect().item():,} rows")
    else:
        table.give(credit(corpus, **options), f"credit by {method}", COLUMNS)
    report_quarantined(corpus, recordings, recordings.strict)
