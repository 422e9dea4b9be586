"""Interventions on recorded runs, as options of commands."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from . import values as words


@dataclass(frozen=True)
class ScenarioOptions:
    """Scenarios of a replay, one for each option."""

    dropped: Annotated[
        list[str] | None,
        typer.Option(
            "--drop",
            help="agent, role, tool, spawn, type=NAME; event, call, message=ID; edge='ID->ID'; repeatable.",
        ),
    ] = None
    each: Annotated[
        list[str] | None,
        typer.Option(
            "--each",
            help="Drop every agent, event, role, tool, call, spawn, message or edge in turn; repeatable.",
        ),
    ] = None
    mode: Annotated[
        str, typer.Option("--mode", help="subtree or node: what is lost with a dropped event.")
    ] = "subtree"
    lost: Annotated[str, typer.Option("--lost", help="An event is lost if all or any of its inputs are.")] = (
        "all"
    )
    values: Annotated[
        list[str] | None, typer.Option("--set", help="agent=NAME:VALUE, event=ID:VALUE, ...; repeatable.")
    ] = None
    truncated: Annotated[
        list[str] | None,
        typer.Option("--truncate", help="A time after the first event, or event=ID; repeatable."),
    ] = None
    aggregate: Annotated[
        list[str] | None,
        typer.Option("--aggregate", help="best, majority, mean or confidence; repeatable."),
    ] = None
    faster: Annotated[
        list[str] | None, typer.Option("--speed-up", help="tool=NAME:FACTOR, agent=NAME:2, ...; repeatable.")
    ] = None
    slots: Annotated[
        str | None, typer.Option("--slots", help="Numbers of slots: 1,2,4,none (none: as many as needed).")
    ] = None
    pool: Annotated[str, typer.Option("--pool", help="What takes a slot: all, agents or tools.")] = "all"
    at_once: Annotated[
        bool, typer.Option("--together", help="Apply all changes at once, as one scenario.")
    ] = False

    def scenarios(self) -> list[Any]:
        """As interventions."""
        return words.scenarios(**vars(self))

    @property
    def changes_runs(self) -> bool:
        """Whether anything is changed."""
        return vars(self) != vars(ScenarioOptions())
