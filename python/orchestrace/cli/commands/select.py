"""Choose runs to train on, and write their conversations."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, get_args

import polars as pl
import typer

from ...base.deferred import Deferred
from ...base.text import counted, plain
from ..options import RewardOptions, Seed, StrictOptions
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import Columns, TableOptions
from ..values import weights, word

if TYPE_CHECKING:
    from ... import trainers
else:
    trainers = Deferred("orchestrace.trainers")  # which needs NumPy

EXAMPLES: Final = (
    "select runs.jsonl --for sft --success 0.5",
    "select attempts.jsonl --for dpo --per-task 1 --columns trace_id,pair,side",
    "select chats.jsonl --for sft --to chosen",
)
COLUMNS: Final = Columns(
    "trace_id kept reason split reward", "task_id pair side pass_rate attempts tokens_out"
)
Purpose = Literal["sft", "dpo", "rl"]


@command
def run(
    recordings: StrictOptions,
    rewards: RewardOptions,
    table: TableOptions,
    purpose: Annotated[
        str, typer.Option("--for", help="sft: what passed; dpo: pairs; rl: tasks that partly pass.")
    ] = "sft",
    to: Annotated[
        Path | None, typer.Option("--to", help="Folder for train.jsonl and validation.jsonl.")
    ] = None,
    success: Annotated[float, typer.Option("--success", help="The reward from which on a run passed.")] = 1.0,
    by: Annotated[str, typer.Option("--by", help="Attempts are of one task, or group.")] = "task",
    per_task: Annotated[
        int | None, typer.Option("--per-task", help="Runs (pairs) of a task at most, the shortest.")
    ] = None,
    min_attempts: Annotated[
        int, typer.Option("--min-attempts", help="Judged attempts that a task needs.")
    ] = 1,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", help="Tokens that a run may have written.")
    ] = None,
    max_turns: Annotated[
        int | None, typer.Option("--max-turns", help="Turns that it may have taken.")
    ] = None,
    max_repeats: Annotated[
        float | None, typer.Option("--max-repeats", help="Share of calls that may repeat an earlier one.")
    ] = None,
    duplicates: Annotated[
        bool, typer.Option("--keep-duplicates", help="Also runs that did and said the same.")
    ] = False,
    validation: Annotated[
        float, typer.Option("--validation", help="The share of tasks that is held out.")
    ] = 0.1,
    seed: Seed = 0,
) -> None:
    chosen = word(purpose, "--for", get_args(Purpose))
    sets: Literal["task", "group"] = word(by, "--by", ("task", "group"))
    corpus = usable(recordings, rewards)
    selection = trainers.select(
        corpus,
        chosen,
        reward=weights(rewards.reward or ["team"]),
        success=success,
        by=sets,
        per_task=per_task,
        min_attempts=min_attempts,
        max_tokens=max_tokens,
        max_turns=max_turns,
        max_repeats=max_repeats,
        duplicates="keep" if duplicates else "drop",
        validation=validation,
        seed=seed,
        threads=recordings.threads,
        progress=True,
    )
    if to is not None:
        written = trainers.sink_selection(corpus, selection, chosen, to, overwrite=table.force, progress=True)
        lost = written.filter(pl.col("file").is_null())
        for reason, n in lost.group_by("reason").len().sort("reason").rows():
            typer.echo(f"{counted(n, 'run')} could not be written: {reason}", err=True)
        for file, n in written.group_by("file").len().drop_nulls("file").sort("file").rows():
            typer.echo(plain(f"{to / file}: {counted(n, 'run')}"), err=True)
    dropped = (
        selection.drop_nulls("reason")["reason"]
        .value_counts()
        .sort("count", "reason", descending=[True, False])
    )
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in dropped.rows())
    summary = f"kept {selection['kept'].sum():,} of {counted(selection.height, 'run')}"
    typer.echo(f"{summary}; dropped: {reasons}" if reasons else summary, err=True)
    table.give(selection, "runs", COLUMNS)
    report_quarantined(corpus, recordings, recordings.strict)
