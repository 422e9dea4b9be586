"""Compare credit methods: their cost and how far they agree."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from ...base.deferred import Deferred
from ...base.errors import ParameterError
from ..options import EngineOptions, RewardOptions, Seed, StrictOptions, Unit
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import Columns, TableOptions
from ..values import credit_options, run_of

if TYPE_CHECKING:
    from ...evaluation import comparison
else:
    comparison = Deferred("orchestrace.evaluation.comparison")  # which needs NumPy


EXAMPLES: Final = (
    "compare runs.jsonl --method flow --method uniform",
    "compare runs.jsonl",
    "compare corpus --method flow --engine processes --workers 1",
)
COLUMNS: Final = Columns("method quantity agreement null_share seconds error reason", "unit n_rows")


@command
def run(
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
    corpus = usable(recordings, rewards)
    options = credit_options(unit, rewards.reward, seed, None)
    runs = list(map(run_of, method)) if method else None
    frame = comparison.compare(corpus, runs, **options, **engine.running(recordings.threads))
    if runs and frame.height and frame["error"].null_count() == 0:
        raise ParameterError(f"no method could be asked; {frame['method'][0]}: {frame['error'][0]}")
    table.give(frame, "methods compared", COLUMNS)
    report_quarantined(corpus, recordings, recordings.strict)
