"""Show at which steps passed and failed runs of a group part."""

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import polars as pl
import typer

from ...base.deferred import Deferred
from ...base.text import counted
from ..options import RewardOptions, Seed, StrictOptions
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import Columns, TableOptions
from ..values import weights, word

if TYPE_CHECKING:
    from ... import evaluation
else:
    evaluation = Deferred("orchestrace.evaluation")  # which needs NumPy

EXAMPLES: Final = (
    "branches runs.jsonl --success 0.5",
    "branches attempts.jsonl --each --sort -effect",
)
COLUMNS: Final = {
    "steps": Columns(
        "type label tool effect p_adjusted finding", "n_groups n_runs lower upper odds_ratio reason"
    ),
    "branches": Columns(
        "group_id depth label tool n_pass n_fail effect reason", "type trace seq log_odds tier"
    ),
}


@command
def run(
    recordings: StrictOptions,
    rewards: RewardOptions,
    table: TableOptions,
    each: Annotated[bool, typer.Option("--each", help="Every branch of every group; no tests.")] = False,
    key: Annotated[str, typer.Option("--key", help="Equal steps: shape, or exact (texts too).")] = "shape",
    success: Annotated[float, typer.Option("--success", help="The reward from which on a run passed.")] = 1.0,
    alpha: Annotated[
        float, typer.Option("--alpha", help="The chance of any finding where no step goes with failure.")
    ] = 0.05,
    draws: Annotated[int, typer.Option("--draws", help="How often outcomes are exchanged.")] = 999,
    seed: Seed = 0,
) -> None:
    keys: Literal["shape", "exact"] = word(key, "--key", ("shape", "exact"))
    corpus = usable(recordings, rewards)
    options: dict[str, Any] = {
        "key": keys,
        "reward": weights(rewards.reward or ["team"]),
        "success": success,
        "threads": recordings.threads,
    }
    if each:
        branches = evaluation.divergence(corpus, **options)
        table.give(branches, "branches", COLUMNS["branches"])
    else:
        steps = evaluation.branch_tests(corpus, **options, alpha=alpha, draws=draws, seed=seed)
        n_findings = int(steps["finding"].sum())
        compared = evaluation.divergence(corpus, **options)
        groups = compared.filter(pl.col("effect").is_not_null())["group_id"].n_unique()
        typer.echo(
            f"{counted(groups, 'group')} of {compared['group_id'].n_unique():,} part with both outcomes;"
            f" {counted(steps.height, 'step')} tested, {n_findings:,} go with the outcome",
            err=True,
        )
        table.give(steps, "steps where runs part", COLUMNS["steps"])
    report_quarantined(corpus, recordings, recordings.strict)
