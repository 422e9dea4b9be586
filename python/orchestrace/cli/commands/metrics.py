"""Measure efficiency, collaboration, overhead and safety."""

from typing import Annotated, Any, get_args

import typer

from ... import metrics
from ...base.errors import ParameterError
from ...base.schema import unknown_name
from ...metrics.verb import By
from ..options import (
    EngineOptions,
    LongestGap,
    StrictOptions,
    gap_of,
)
from ..recordings import tell_quarantined, usable
from ..registry import command
from ..tables import TableOptions


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
    words = ["trace", *get_args(By)]
    if by not in words:
        raise ParameterError(unknown_name("word for --by", by, words))
    corpus = usable(recordings)
    options: dict[str, Any] = {"by": None if by == "trace" else by, "groups": group or None}
    frame = metrics(corpus, **options, max_gap=gap_of(max_gap), **engine.running(recordings.threads))
    table.give(frame, f"metrics by {by}", f"metrics by {by}")
    tell_quarantined(corpus, recordings, recordings.strict)
