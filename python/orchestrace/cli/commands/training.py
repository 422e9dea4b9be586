"""Follow a training run step by step, and find what jumped."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...base import arguments
from ...base.deferred import Deferred
from ..options import RewardOptions, Seed, StrictOptions, option
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import Columns, TableOptions
from ..values import weights

if TYPE_CHECKING:
    from ... import trainers
else:
    trainers = Deferred("orchestrace.trainers")  # which needs NumPy


EXAMPLES: Final = (
    "training training.jsonl --alarms",
    "training training.jsonl --columns train_step,statistic,value",
)
COLUMNS: Final = Columns("train_step statistic value lower upper jump alarm", "reward n_traces reason")


@command
def run(
    recordings: StrictOptions,
    rewards: RewardOptions,
    table: TableOptions,
    success: Annotated[float, typer.Option("--success", help="The reward from which on a run passed.")] = 1.0,
    alarms: Annotated[
        bool, typer.Option("--alarms", help="Only the steps at which something jumped.")
    ] = False,
    alpha: Annotated[float, option(arguments.Alpha)] = 0.05,
    seed: Seed = 0,
) -> None:
    corpus = usable(recordings, rewards)
    curves = trainers.training_curves(
        corpus,
        reward=weights(rewards.reward or ["team"]),
        success=success,
        alpha=alpha,
        seed=seed,
        threads=recordings.threads,
        progress=True,
    )
    table.give(curves.filter("alarm") if alarms else curves, "steps", COLUMNS)
    report_quarantined(corpus, recordings, recordings.strict)
