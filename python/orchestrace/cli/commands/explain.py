"""Show what made the credit of one unit."""

from typing import Annotated, Final

import typer

from ... import credit, explain
from ..options import Method, Params, RewardOptions, Seed, StrictOptions, Unit
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import Columns, TableOptions
from ..values import credit_options

EXAMPLES: Final = ("explain runs.jsonl --id lead --trace 0",)
COLUMNS: Final = Columns("part kind event other weight amount rule")


@command
def run(
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
    corpus = usable(recordings, rewards)
    options = credit_options(unit, rewards.reward, seed, param)
    credits = credit(corpus, method=method, **options, threads=recordings.threads, progress=True)
    number = int(trace) if trace is not None and trace.isdecimal() else trace
    table.give(explain(corpus, credits, unit_id, number), f"credit of {unit_id} by {method}", COLUMNS)
    report_quarantined(corpus, recordings, recordings.strict)
