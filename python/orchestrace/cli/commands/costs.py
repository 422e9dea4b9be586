"""Commands about money: costs, agents."""

from typing import Annotated, get_args

import typer

from ...base.errors import ParameterError
from ...base.schema import unknown_name
from ...costs import spawns, table
from ...costs.verb import By
from ..application import app
from ..options import LongestGap, Method, PriceList, RewardOptions, StrictOptions, gap_of, grouped, prices_of
from ..recordings import tell_quarantined, usable
from ..tables import TableOptions
from ..values import weights

Batch = Annotated[bool, typer.Option("--batch", help="All requests were sent as a batch.")]


@app.command(name="costs")
@grouped
def costs_(
    recordings: StrictOptions,
    table_: TableOptions,
    by: Annotated[
        str, typer.Option("--by", help="model, importer; trace, agent or role of each run.")
    ] = "model",
    prices: PriceList = "package",
    batch: Batch = False,
) -> None:
    """Add up tokens and dollars, recorded or by prices."""
    known = list(get_args(By))
    if by not in known:
        raise ParameterError(unknown_name("word for --by", by, known))
    corpus = usable(recordings)
    frame = table(corpus, by=by, prices=prices_of(prices), batch=batch, progress=True)  # type: ignore[arg-type]
    table_.give(frame, f"costs by {by}", f"costs by {by}")
    tell_quarantined(corpus, recordings, recordings.strict)


@app.command(name="agents")
@grouped
def agents_(
    recordings: StrictOptions,
    rewards: RewardOptions,
    table_: TableOptions,
    prices: PriceList = "package",
    batch: Batch = False,
    method: Method = "flow",
    max_gap: LongestGap = "auto",
) -> None:
    """List sub-agents: cost, time, whether the answer was used."""
    corpus = usable(recordings, rewards)
    frame = spawns(
        corpus,
        prices=prices_of(prices),
        batch=batch,
        reward=weights(rewards.reward) if rewards.reward else None,
        method=method,
        max_gap=gap_of(max_gap),
        threads=recordings.threads,
        progress=True,
    )
    table_.give(frame, "sub-agents", "agents spawned")
    if not frame.height:
        typer.echo("no spawn names an agent: orchestrace costs --by agent lists all agents", err=True)
    tell_quarantined(corpus, recordings, recordings.strict)
