"""Add up tokens and dollars, recorded or by prices."""

from typing import Annotated, Final, get_args

import typer

from ...costs import table
from ...costs.verb import By
from ..options import Batch, PriceList, StrictOptions, prices_of
from ..recordings import report_quarantined, usable
from ..registry import command
from ..tables import Columns, TableOptions
from ..values import word

EXAMPLES: Final = (
    "costs runs.jsonl --by agent",
    "costs runs.jsonl",
    "costs runs.jsonl --by importer",
    "costs runs.jsonl --by trace",
    "costs runs.jsonl --by role",
)
_MONEY: Final = "tokens cost_usd basis floor unpriced_share reason"
_KINDS: Final = "events tokens_fresh tokens_cached tokens_cache_write tokens_out"
COLUMNS: Final = {
    "model": Columns(f"model {_MONEY}", _KINDS),
    "importer": Columns(f"importer {_MONEY}", _KINDS),
    "trace": Columns(f"trace_id {_MONEY} stated_usd"),
    "agent": Columns(f"trace_id agent {_MONEY}"),
    "role": Columns(f"trace_id role {_MONEY}"),
}


@command
def run(
    recordings: StrictOptions,
    table_: TableOptions,
    by: Annotated[
        str, typer.Option("--by", help="model, importer; trace, agent or role of each run.")
    ] = "model",
    prices: PriceList = "package",
    batch: Batch = False,
) -> None:
    chosen: By = word(by, "--by", get_args(By))
    corpus = usable(recordings)
    frame = table(corpus, by=chosen, prices=prices_of(prices), batch=batch, progress=True)
    table_.give(frame, f"costs by {by}", COLUMNS[by])
    report_quarantined(corpus, recordings, recordings.strict)
