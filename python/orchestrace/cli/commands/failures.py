"""Find signs of failure in the shape of runs, and their rates."""

from typing import TYPE_CHECKING, Annotated, Any, Final

import polars as pl
import typer

from ...base.deferred import Deferred
from ...base.errors import ParameterError
from ..options import EngineOptions, ReadingTools, RewardOptions, StrictOptions, VerifyingTools, WritingTools
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import Columns, TableOptions
from ..values import weights

if TYPE_CHECKING:
    from ... import evaluation
else:
    evaluation = Deferred("orchestrace.evaluation")  # which needs NumPy

EXAMPLES: Final = (
    "failures attempts.jsonl --success 0.5",
    "failures runs.jsonl --each",
    "failures runs.jsonl --each --all --verifying-tool '*'",
    "failures corpus --each --engine processes --workers 1",
)
COLUMNS: Final = {
    "rates": Columns(
        "class rate_failed rate_passed difference reason",
        "lower upper n_failed shows_failed n_passed shows_passed n_unknown n_unjudged n_tasks",
    ),
    "each": Columns("trace_id class seq n reason"),
}


@command
def run(
    recordings: StrictOptions,
    rewards: RewardOptions,
    table: TableOptions,
    engine: EngineOptions,
    success: Annotated[float, typer.Option("--success", help="The reward from which on a run passed.")] = 1.0,
    each: Annotated[
        bool, typer.Option("--each", help="Show the signs of each run instead of rates.")
    ] = False,
    every: Annotated[
        bool, typer.Option("--all", help="With --each: also what a run does not show, and what is not known.")
    ] = False,
    reading: ReadingTools = None,
    writing: WritingTools = None,
    verifying: VerifyingTools = None,
) -> None:
    running = engine.running(recordings.threads)
    if every and not each:
        raise ParameterError("--all has no effect without --each: add it, or drop --all")
    if running.get("engine") is not None and not each:
        raise ParameterError("--engine has no effect without --each: add it, or drop --engine")
    corpus = usable(recordings, rewards)
    uses: dict[str, Any] = {"reading": reading or (), "writing": writing or (), "verifying": verifying or ()}
    if each:
        rows = evaluation.failure_classes(corpus, **uses, **running)
        table.give(rows if every else rows.filter(pl.col("n") > 0), "failures", COLUMNS["each"])
    else:
        channels = weights(rewards.reward or ["team"])
        rates = evaluation.failure_rates(
            corpus, reward=channels, success=success, **uses, threads=recordings.threads, progress=True
        )
        table.give(rates, "failures", COLUMNS["rates"])
    report_quarantined(corpus, recordings, recordings.strict)
