"""Find the rule, or the fault, behind a trainer's advantages."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, get_args

import polars as pl
import typer

from ...base.deferred import Deferred
from ...trainers.dumps import Trainer
from ..output import FAILED
from ..registry import command
from ..tables import Columns, TableOptions
from ..values import weights, word

if TYPE_CHECKING:
    from ... import trainers
else:
    trainers = Deferred("orchestrace.trainers")  # which needs NumPy


EXAMPLES: Final = (
    "audit dump.csv --group prompt --advantage adv",
    "audit dump.csv --group prompt --advantage adv --step step",
)
COLUMNS: Final = Columns("step rule variant explained fault", "n_rows n_groups largest_residual message rows")


@command
def run(
    dump: Annotated[
        Path,
        typer.Argument(help="What the trainer wrote: .csv, .parquet, .jsonl, .ndjson, or a folder of such."),
    ],
    table: TableOptions,
    trainer: Annotated[
        str | None,
        typer.Option("--trainer", help="verl, skyrl, trl, rllm or verifiers, whose names its columns have."),
    ] = None,
    reward: Annotated[
        list[str] | None,
        typer.Option("--reward", help="Column, or column=weight; several are added up. [default: reward]"),
    ] = None,
    advantage: Annotated[str | None, typer.Option("--advantage", help="Column. [default: advantage]")] = None,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", help="Column of what is compared; several together. [default: group]"),
    ] = None,
    rollout: Annotated[
        str | None, typer.Option("--rollout", help="Column: which rollout a row is of.")
    ] = None,
    step: Annotated[str | None, typer.Option("--step", help="Column of training steps.")] = None,
    length: Annotated[str | None, typer.Option("--length", help="Column of trained tokens.")] = None,
    trained: Annotated[
        str | None, typer.Option("--trained", help="Column: false where a rollout was filtered out.")
    ] = None,
    mask: Annotated[
        str | None, typer.Option("--mask", help="Column of lists: which tokens are trained, 1 or 0.")
    ] = None,
    turn: Annotated[
        str | None, typer.Option("--turn", help="Column: the number of a turn, where rows are turns.")
    ] = None,
) -> None:
    rows = trainers.audit(
        dump,
        trainer=None if trainer is None else word(trainer, "--trainer", get_args(Trainer)),
        reward=weights(reward) if reward else None,
        advantage=advantage,
        group=group or None,
        rollout=rollout,
        step=step,
        length=length,
        trained=trained,
        mask=mask,
        turn=turn,
    )
    table.give(rows, "steps", COLUMNS)
    if rows.select((pl.col("explained").fill_null(0.0) < 1.0).any()).item():
        raise typer.Exit(FAILED)
