"""Add up tokens and dollars, recorded or by prices."""

from typing import Annotated, get_args

import typer

from ...base.errors import ParameterError
from ...base.schema import unknown_name
from ...costs import table
from ...costs.verb import By
from ..options import (
    Batch,
    PriceList,
    StrictOptions,
    prices_of,
)
from ..recordings import tell_quarantined, usable
from ..registry import command
from ..tables import TableOptions


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
    known = list(get_args(By))
    if by not in known:
        raise ParameterError(unknown_name("word for --by", by, known))
    corpus = usable(recordings)
    frame = table(corpus, by=by, prices=prices_of(prices), batch=batch, progress=True)  # type: ignore[arg-type]
    table_.give(frame, f"costs by {by}", f"costs by {by}")
    tell_quarantined(corpus, recordings, recordings.strict)
