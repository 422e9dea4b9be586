"""Say which steps of a failed run to read first."""

from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import polars as pl
import typer

from ...base.deferred import Deferred
from ...base.text import counted
from ..options import RecordingOptions, Seed, StrictOptions
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import Columns, TableOptions
from ..values import word

if TYPE_CHECKING:
    from ... import evaluation
else:
    evaluation = Deferred("orchestrace.evaluation")  # which needs NumPy

EXAMPLES: Final = (
    "blame failed.jsonl --calibrate labelled.jsonl",
    "blame failed.jsonl --calibrate labelled.jsonl --coverage 0.8 --each",
    "blame failed.jsonl --calibrate labelled.jsonl --by length",
)
COLUMNS: Final = {
    "runs": Columns("trace_id first set_size n_units share abstain reason", "unit_ids trace"),
    "units": Columns("trace_id unit_id seq rank in_set", "score set_size share abstain reason"),
}


@command
def run(
    recordings: StrictOptions,
    table: TableOptions,
    calibrate: Annotated[
        list[str], typer.Option("--calibrate", help="Recordings with labels, of other tasks; repeatable.")
    ],
    coverage: Annotated[
        float, typer.Option("--coverage", help="In how many runs the set holds the blamed step.")
    ] = 0.9,
    level: Annotated[str, typer.Option("--level", help="step: turns of agents; agent: agents.")] = "step",
    score: Annotated[
        str, typer.Option("--score", help="position, structure or combined: what is fitted to labels.")
    ] = "combined",
    random: Annotated[
        bool, typer.Option("--random-ties", help="Place equal scores at random: smaller sets.")
    ] = False,
    by: Annotated[
        str | None, typer.Option("--by", help="A threshold for each value of this column, or length.")
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="A row per step instead of one per run.")] = False,
    seed: Seed = 0,
) -> None:
    levels: Literal["step", "agent"] = word(level, "--level", ("step", "agent"))
    scores: Literal["position", "structure", "combined"] = word(
        score, "--score", ("position", "structure", "combined")
    )
    corpus = usable(recordings)
    labelled = usable(RecordingOptions(calibrate, recordings.format, recordings.mapping, recordings.threads))
    options: dict[str, Any] = {"coverage": coverage, "level": levels, "scores": scores, "seed": seed}
    options["by"] = by
    options["ties"] = "random" if random else "count"
    units = evaluation.blame(corpus, calibration=labelled, **options)
    runs = _runs(units)
    basis = f"calibrated on {_calibrated(units)}; of {counted(runs.height, 'run')}"
    if (units["reason"] == "label.unplaced").any():
        share = units.select(pl.col("unplaced").max()).item()
        typer.echo(f"{basis}; no sets: {share:.0%} of the labels are of no step that anybody took", err=True)
    else:
        unclear = int(runs["abstain"].fill_null(value=True).sum())
        typer.echo(f"{basis}, {unclear:,} would have to be read by more than half", err=True)
    if each:
        table.give(units, "steps" if levels == "step" else "agents", COLUMNS["units"])
    else:
        table.give(runs, "runs", COLUMNS["runs"])
    report_quarantined(corpus, recordings, recordings.strict)


def _runs(units: pl.DataFrame) -> pl.DataFrame:
    """A row per run: its set, the most suspect first."""
    inside = pl.col("unit_id").filter(pl.col("in_set"))
    return units.group_by("trace", "trace_id", maintain_order=True).agg(
        pl.col("set_size", "share", "abstain", "reason").first(),
        n_units=pl.len(),
        first=pl.when(pl.col("in_set").first()).then(pl.col("unit_id").first()),
        unit_ids=inside.implode().list.join(" "),
    )


def _calibrated(units: pl.DataFrame) -> str:
    """How many labelled runs thresholds are of."""
    numbers = sorted(units["n_calibration"].drop_nulls().unique()) or [0]
    if numbers[0] == numbers[-1]:
        return counted(numbers[0], "labelled run")
    return f"{numbers[0]:,} to {numbers[-1]:,} labelled runs for each threshold"
