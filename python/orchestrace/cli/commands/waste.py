"""Say what runs spent in vain, the greatest loss first."""

from typing import Annotated, Final, get_args

import typer

from ...costs import waste
from ...costs.waste import By
from ..options import Batch, PriceList, ReadingTools, StrictOptions, WritingTools, prices_of
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import Columns, TableOptions
from ..values import word

EXAMPLES: Final = (
    "waste runs.jsonl",
    "waste runs.jsonl --by class",
    "waste runs.jsonl --by error",
    "waste runs.jsonl --by shape --writing-tool '*'",
)
_LOST: Final = "tokens usd seconds loss_share"
_MORE: Final = "reason share_of traces tokens_after usd_after seconds_critical unpriced_tokens usd_reason"
COLUMNS: Final = {
    "class": Columns(f"class events {_LOST}", _MORE),
    "tool": Columns(f"class tool events {_LOST}", _MORE),
    "error": Columns(f"class tool error_type events {_LOST}", _MORE),
    "shape": Columns(f"class tool role depth events {_LOST}", _MORE),
}


@command
def run(
    recordings: StrictOptions,
    table: TableOptions,
    by: Annotated[
        str, typer.Option("--by", help="class, tool, error (type of it) or shape (role, depth).")
    ] = "tool",
    reading: ReadingTools = None,
    writing: WritingTools = None,
    prices: PriceList = "package",
    batch: Batch = False,
) -> None:
    chosen: By = word(by, "--by", get_args(By))
    corpus = usable(recordings)
    rows = waste(
        corpus,
        by=chosen,
        reading=reading or (),
        writing=writing or (),
        prices=prices_of(prices),
        batch=batch,
        threads=recordings.threads,
        progress=True,
    )
    table.give(rows, f"waste by {by}", COLUMNS[by])
    report_quarantined(corpus, recordings, recordings.strict)
