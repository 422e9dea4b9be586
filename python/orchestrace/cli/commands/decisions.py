"""List decisions: what was known, done, and gained."""

from typing import Annotated, Any, Final

import typer

from ... import decisions
from ..options import StrictOptions
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import Columns, TableOptions
from ..values import limits

EXAMPLES: Final = (
    "decisions runs.jsonl --kind delegate",
    "decisions runs.jsonl --kind stop",
)
COLUMNS: Final = Columns(
    "trace_id actor action effect reason lower upper", "outcome seq n_alternatives tier kind"
)


@command
def run(
    recordings: StrictOptions,
    table: TableOptions,
    kind: Annotated[
        str, typer.Option("--kind", help="spawn, delegate, communicate, aggregate or stop.")
    ] = "spawn",
    reward: Annotated[
        str, typer.Option("--reward", help="The reward channel that is the outcome of a run.")
    ] = "team",
    no_reward: Annotated[
        bool, typer.Option("--no-reward", help="The recordings have no rewards: leave outcomes out.")
    ] = False,
    bounds: Annotated[
        str | None, typer.Option("--bounds", help="LEAST,GREATEST reward, for bounds where nothing is known.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--source", help="Of stop: draft, score, turn or attempt; default: the first."),
    ] = None,
) -> None:
    options: dict[str, Any] = {"source": source, "bounds": limits(bounds)}
    corpus = usable(recordings)
    chosen: Any = kind
    rows = decisions.table(corpus, chosen, reward=None if no_reward else reward, **options)
    table.give(rows, f"decisions to {kind}", COLUMNS)
    report_quarantined(corpus, recordings, recordings.strict)
