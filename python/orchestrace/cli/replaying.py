"""The command replay."""

from typing import Annotated

import typer

from .. import replay
from . import values as words
from .application import app
from .options import MaxGap, StrictOptions, grouped
from .recordings import tell_quarantined, usable
from .tables import TableOptions, show_replays


@app.command(name="replay")
@grouped
def replay_(
    recordings: StrictOptions,
    table: TableOptions,
    dropped: Annotated[
        list[str] | None,
        typer.Option(
            "--drop",
            help="agent, role, tool, spawn, type=NAME; event, call, message=ID; edge='ID->ID'; repeatable.",
        ),
    ] = None,
    each: Annotated[
        list[str] | None,
        typer.Option(
            "--each",
            help="Drop every agent, event, role, tool, call, spawn, message or edge in turn; repeatable.",
        ),
    ] = None,
    mode: Annotated[
        str, typer.Option("--mode", help="subtree or node: what is lost with a dropped event.")
    ] = ("subtree"),
    lost: Annotated[
        str, typer.Option("--lost", help="An event is lost if all or any of its inputs are.")
    ] = "all",
    values: Annotated[
        list[str] | None, typer.Option("--set", help="agent=NAME:VALUE, event=ID:VALUE, ...; repeatable.")
    ] = None,
    truncated: Annotated[
        list[str] | None,
        typer.Option("--truncate", help="A time after the first event, or event=ID; repeatable."),
    ] = None,
    aggregate: Annotated[
        list[str] | None,
        typer.Option("--aggregate", help="best, majority, mean or confidence; repeatable."),
    ] = None,
    faster: Annotated[
        list[str] | None, typer.Option("--speed-up", help="tool=NAME:FACTOR, agent=NAME:2, ...; repeatable.")
    ] = None,
    slots: Annotated[
        str | None, typer.Option("--slots", help="Numbers of slots: 1,2,4,none (none: as many as needed).")
    ] = None,
    pool: Annotated[str, typer.Option("--pool", help="What takes a slot: all, agents or tools.")] = "all",
    at_once: Annotated[
        bool, typer.Option("--together", help="Apply all changes at once, as one scenario.")
    ] = False,
    outcome: Annotated[str, typer.Option("--outcome", help="noisy_or, typed, linear, max, ...")] = "noisy_or",
    quorum: Annotated[float, typer.Option("--quorum", help="A majority needs more than this share.")] = 0.5,
    sensitivity: Annotated[bool, typer.Option(help="Bound the effects over seven families of gates.")] = True,
    max_gap: MaxGap = None,
    program_order: Annotated[
        bool, typer.Option("--program-order", help="Join consecutive events of one owner.")
    ] = False,
) -> None:
    """Show how runs would have ended with something changed."""
    asked = words.scenarios(
        dropped=dropped,
        each=each,
        mode=mode,
        lost=lost,
        values=values,
        truncated=truncated,
        aggregate=aggregate,
        faster=faster,
        slots=slots,
        pool=pool,
        at_once=at_once,
    )
    corpus = usable(recordings)
    frame = replay(
        corpus,
        *asked,
        outcome=outcome,  # type: ignore[arg-type]  # judged there
        quorum=quorum,
        sensitivity=sensitivity,
        max_gap=max_gap,
        program_order=program_order,
        threads=recordings.threads,
        progress=True,
    )
    if table.is_plain:
        show_replays(frame, table)
    else:
        table.give(frame, "replayed", "replay")
    tell_quarantined(corpus, recordings, recordings.strict)
