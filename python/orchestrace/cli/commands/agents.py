"""List sub-agents: cost, time, whether the answer was used."""

from typing import Final

import typer

from ...costs import spawns
from ..options import (
    Batch,
    EngineOptions,
    LongestGap,
    Method,
    PriceList,
    RewardOptions,
    StrictOptions,
    gap_of,
    prices_of,
)
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import Columns, TableOptions
from ..values import weights

EXAMPLES: Final = (
    "agents runs.jsonl",
    "agents runs.jsonl --reward team",
)
COLUMNS: Final = Columns(
    "trace_id agent role tokens cost_usd seconds critical answered",
    "used parent basis floor n_tool_errors unpriced_share credit",
)


@command
def run(
    recordings: StrictOptions,
    rewards: RewardOptions,
    table_: TableOptions,
    engine: EngineOptions,
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
        **engine.running(recordings.threads),
    )
    table_.give(frame, "sub-agents", COLUMNS)
    if not frame.height:
        typer.echo("no spawn names an agent: orchestrace costs --by agent lists all agents", err=True)
    report_quarantined(corpus, recordings, recordings.strict)
