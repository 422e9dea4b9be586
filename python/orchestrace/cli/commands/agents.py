"""List sub-agents: cost, time, whether the answer was used."""

import typer

from ...costs import spawns
from ..options import (
    Batch,
    LongestGap,
    Method,
    PriceList,
    RewardOptions,
    StrictOptions,
    gap_of,
    prices_of,
)
from ..recordings import tell_quarantined, usable
from ..registry import command
from ..tables import TableOptions
from ..values import weights


@command
def run(
    recordings: StrictOptions,
    rewards: RewardOptions,
    table_: TableOptions,
    prices: PriceList = "package",
    batch: Batch = False,
    method: Method = "flow",
    max_gap: LongestGap = "auto",
) -> None:
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
