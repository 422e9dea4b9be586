"""Divide the reward among units."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import polars as pl
import typer

from ... import credit
from ...base.deferred import Deferred
from ...base.errors import ParameterError
from ...base.text import plain
from ..options import EngineOptions, Method, Params, RewardOptions, Seed, StrictOptions, Unit
from ..output import STOPPED
from ..recordings import tell_quarantined, usable
from ..tables import TableOptions
from ..values import credit_options

if TYPE_CHECKING:
    from ...evaluation import comparison
else:
    comparison = Deferred("orchestrace.evaluation.comparison")  # which needs NumPy
from ..registry import command


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
    sink: Annotated[
        Path | None, typer.Option("--sink", help="Folder for a result that is larger than memory.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the result in that folder.")] = False,
) -> None:
    if resume and sink is None:
        raise ParameterError("--resume is of --sink: name the folder of the result to continue")
    corpus = usable(recordings, rewards)
    options = credit_options(unit, rewards.reward, seed, param) | {"method": method}
    options |= engine.running(recordings.threads)
    if sink is not None:
        try:
            rows = credit(corpus, **options, sink=sink, resume=resume)
        except KeyboardInterrupt:
            again = "run the command again with --resume"
            typer.echo(f"stopped: what is done is in {plain(sink)}; {again}", err=True)
            raise typer.Exit(STOPPED) from None
        typer.echo(f"wrote {plain(sink)}: {rows.select(pl.len()).collect().item():,} rows")
    else:
        table.give(credit(corpus, **options), f"credit by {method}", "credit")
    tell_quarantined(corpus, recordings, recordings.strict)
