"""Measure efficiency, collaboration, overhead and safety."""

from typing import Annotated, Final, Literal, get_args

import typer

from ... import metrics
from ...metrics.verb import By
from ..options import EngineOptions, LongestGap, StrictOptions, gap_of
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import Columns, TableOptions
from ..values import word

EXAMPLES: Final = (
    "metrics runs.jsonl",
    "metrics runs.jsonl --by agent",
    "metrics runs.jsonl --by role",
    "metrics runs.jsonl --by trace",
    "metrics runs.jsonl --by topology",
    "metrics runs.jsonl --by system",
    "metrics runs.jsonl --by task",
    "metrics corpus --engine processes --workers 1",
)
_MEANS: Final = "metric mean lower upper n_traces time_unit"
COLUMNS: Final = {
    "trace": Columns(
        "trace_id n_events n_agents tokens cost_usd elapsed work span parallelism",
        "task_success time_unit durations",
    ),
    "agent": Columns("trace_id agent n_events tokens cost_usd work critical_share", "time_unit durations"),
    "role": Columns(
        "trace_id role n_events tokens cost_usd work critical_share n_agents", "time_unit durations"
    ),
    "importer": Columns(f"importer {_MEANS}", "reason"),
    "topology": Columns(f"topology {_MEANS}", "reason"),
    "system": Columns(f"system {_MEANS}", "reason"),
    "task": Columns(f"task_id {_MEANS}", "reason"),
}


@command
def run(
    recordings: StrictOptions,
    table: TableOptions,
    engine: EngineOptions,
    by: Annotated[
        str, typer.Option("--by", help="trace, agent, role; or means by importer, topology, system, task.")
    ] = "importer",
    group: Annotated[
        list[str] | None, typer.Option("--group", help="A group of metrics; repeatable; default: all linear.")
    ] = None,
    max_gap: LongestGap = "auto",
) -> None:
    chosen: By | Literal["trace"] = word(by, "--by", ("trace", *get_args(By)))
    corpus = usable(recordings)
    frame = metrics(
        corpus,
        by=None if chosen == "trace" else chosen,
        groups=group or None,
        max_gap=gap_of(max_gap),
        **engine.running(recordings.threads),
    )
    table.give(frame, f"metrics by {by}", COLUMNS[by])
    report_quarantined(corpus, recordings, recordings.strict)
