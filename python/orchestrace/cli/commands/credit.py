"""Commands about credit: credit, compare, explain, methods."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, get_args

import polars as pl
import typer

from ... import credit, explain, methods
from ...base.deferred import Deferred
from ...base.errors import ParameterError
from ...base.schema import Unit as Level
from ...base.text import plain
from ..application import app
from ..options import EngineOptions, Method, Params, RewardOptions, Seed, StrictOptions, Unit, grouped
from ..output import STOPPED
from ..recordings import tell_quarantined, usable
from ..tables import TableOptions
from ..values import credit_options, run_of

if TYPE_CHECKING:
    from ...evaluation import comparison
else:
    comparison = Deferred("orchestrace.evaluation.comparison")  # which needs NumPy


@app.command(name="credit")
@grouped
def credit_(
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
    """Divide the reward among units."""
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


@app.command(name="compare")
@grouped
def compare_(
    recordings: StrictOptions,
    rewards: RewardOptions,
    table: TableOptions,
    engine: EngineOptions,
    method: Annotated[
        list[str] | None,
        typer.Option("--method", help="NAME or NAME:PARAM=VALUE,...; repeatable; default: all."),
    ] = None,
    unit: Unit = "agent",
    seed: Seed = 0,
) -> None:
    """Compare credit methods: their cost and how far they agree."""
    corpus = usable(recordings, rewards)
    options = credit_options(unit, rewards.reward, seed, None)
    runs = list(map(run_of, method)) if method else None
    frame = comparison.compare(corpus, runs, **options, **engine.running(recordings.threads))
    if runs and frame.height and frame["error"].null_count() == 0:
        raise ParameterError(f"no method could be asked; {frame['method'][0]}: {frame['error'][0]}")
    table.give(frame, "methods compared", "compare")
    tell_quarantined(corpus, recordings, recordings.strict)


@app.command(name="explain")
@grouped
def explain_(
    recordings: StrictOptions,
    rewards: RewardOptions,
    table: TableOptions,
    unit_id: Annotated[str, typer.Option("--id", help="The unit whose credit to explain.")],
    trace: Annotated[
        str | None,
        typer.Option("--trace", help="Its trace, by number or trace_id; required if several traces have it."),
    ] = None,
    method: Method = "flow",
    unit: Unit = "agent",
    param: Params = None,
    seed: Seed = 0,
) -> None:
    """Show what made the credit of one unit."""
    corpus = usable(recordings, rewards)
    options = credit_options(unit, rewards.reward, seed, param)
    credits = credit(corpus, method=method, **options, threads=recordings.threads, progress=True)
    number = int(trace) if trace is not None and trace.isdecimal() else trace
    table.give(explain(corpus, credits, unit_id, number), f"credit of {unit_id} by {method}", "explain")
    tell_quarantined(corpus, recordings, recordings.strict)


def _units(units: pl.Series) -> str:
    lacks = [unit for unit in get_args(Level) if unit not in units]
    return " ".join(units) if len(lacks) > 2 else f"all but {' '.join(lacks)}" if lacks else "all"


@app.command(name="methods")
@grouped
def methods_(table: TableOptions) -> None:
    """List the credit methods."""
    frame = methods()
    if table.is_plain:
        frame = frame.with_columns(units=pl.Series(list(map(_units, frame["units"]))))
    table.give(frame, "methods", "methods")
