"""Show how runs would have ended with something changed."""

from typing import Annotated

import typer

from ... import replay
from ..options import EngineOptions, LongestGap, StrictOptions, gap_of
from ..recordings import tell_quarantined, usable
from ..registry import command
from ..scenarios import ScenarioOptions
from ..tables import TableOptions, show_replays


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
    asked = changes.scenarios()
    corpus = usable(recordings)
    frame = replay(
        corpus,
        *asked,
        outcome=outcome,  # type: ignore[arg-type]  # judged there
        quorum=quorum,
        sensitivity=sensitivity,
        max_gap=gap_of(max_gap),
        program_order=program_order,
        **engine.running(recordings.threads),
    )
    if table.is_plain:
        show_replays(frame, table)
    else:
        table.give(frame, "replayed", "replay")
    tell_quarantined(corpus, recordings, recordings.strict)
