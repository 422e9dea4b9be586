"""Show how runs would have ended with something changed."""

from typing import Annotated, Final

import polars as pl
import typer

from ... import replay
from ...base.terminal import cell_text
from ..options import EngineOptions, LongestGap, StrictOptions, gap_of
from ..recordings import report_quarantined, usable
from ..registry import command
from ..scenarios import ScenarioOptions
from ..tables import Columns, TableOptions, show

EXAMPLES: Final = (
    "replay runs.jsonl --each agent",
    "replay runs.jsonl --each agent --slots 1,2,none",
    "replay runs.jsonl --each agent --each event",
    "replay runs.jsonl --each agent --sort -effect",
    "replay corpus --each agent --engine processes --workers 1",
)
COLUMNS: Final = {
    "effects": Columns("trace intervention unit_id effect tier reason", "bounds trace_id"),
    "schedules": Columns("trace intervention unit_id makespan_cf tier makespan reason bounds", "trace_id"),
    "replays": Columns("trace_id intervention unit_id effect makespan_cf tier reason"),
}


@command
def run(
    recordings: StrictOptions,
    table: TableOptions,
    changes: ScenarioOptions,
    engine: EngineOptions,
    outcome: Annotated[str, typer.Option("--outcome", help="noisy_or, typed, linear, max, ...")] = "noisy_or",
    quorum: Annotated[float, typer.Option("--quorum", help="A majority needs more than this share.")] = 0.5,
    sensitivity: Annotated[bool, typer.Option(help="Bound the effects over seven families of gates.")] = True,
    max_gap: LongestGap = "auto",
    program_order: Annotated[
        bool, typer.Option("--program-order", help="Join consecutive events of one owner.")
    ] = False,
) -> None:
    scenarios = changes.scenarios()
    corpus = usable(recordings)
    frame = replay(
        corpus,
        *scenarios,
        outcome=outcome,  # type: ignore[arg-type]  # judged there
        quorum=quorum,
        sensitivity=sensitivity,
        max_gap=gap_of(max_gap),
        program_order=program_order,
        **engine.running(recordings.threads),
    )
    if table.is_plain:
        _show_replays(frame, table)
    else:
        table.give(frame, "replayed", COLUMNS["replays"])
    report_quarantined(corpus, recordings, recordings.strict)


def _show_replays(frame: pl.DataFrame, table: TableOptions) -> None:
    """Print what replays say: effects on outcomes, then schedules.

    A number comes with its tier before everything else, then with its bounds, so that narrow terminals show
    them. The one intervention of a table stands over it.
    """
    ends = frame.select("lower", "upper").iter_rows()
    bounds = [
        None if lower is None and upper is None else f"{_short(lower)}..{_short(upper)}"
        for lower, upper in ends
    ]
    frame = frame.with_columns(bounds=pl.Series(bounds, dtype=pl.String)).drop("lower", "upper", "params")
    timed = pl.col("makespan_cf").is_not_null().any().over("intervention")
    schedules, effects = frame.filter(timed), frame.filter(~timed)
    if effects.height or not schedules.height:
        _show_answers(effects, "effects on the outcome", COLUMNS["effects"], table)
    if schedules.height:
        _show_answers(schedules, "schedules", COLUMNS["schedules"], table)


def _show_answers(frame: pl.DataFrame, subject: str, columns: Columns, table: TableOptions) -> None:
    interventions = frame["intervention"].unique()
    title = f"{subject} of {interventions[0]}" if len(interventions) == 1 else subject
    frame = frame.drop("intervention") if len(interventions) == 1 else frame
    show(frame, title, columns, limit=table.limit, hints=True)


def _short(number: float | None) -> str:
    return "" if number is None else cell_text(number)
