"""Show what made the credit of one unit."""

from typing import TYPE_CHECKING, Annotated

import typer

from ... import credit, explain
from ...base.deferred import Deferred
from ..options import Method, Params, RewardOptions, Seed, StrictOptions, Unit
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
    table.give(explain(corpus, credits, unit_id, number), f"credit of {unit_id} by {method}", "explain")
    tell_quarantined(corpus, recordings, recordings.strict)
