"""Summarize recordings: sizes, origins, measures, what is odd."""

from typing import Final

from ... import describe
from ..options import Json, StrictOptions
from ..recordings import opened, refuse_unused, report_quarantined
from ..registry import command
from ..tables import REJECTS, Columns, print_json, show

EXAMPLES: Final = (
    "describe runs.jsonl",
    "describe broken.jsonl",
)
COLUMNS: Final = {
    "formats": Columns(
        "importer records used ignored duplicate quarantined traces events",
        "tokens cost_usd partial tokens_in tokens_out",
    ),
    "findings": Columns("code severity traces message count trace_id seq"),
    "quarantine": REJECTS,
}


@command
def run(recordings: StrictOptions, as_json: Json = False) -> None:
    corpus = opened(recordings)
    tables = describe(corpus)
    if as_json:
        print_json(tables)
    else:
        for name, frame in tables.items():
            if frame.height:
                show(frame, name, COLUMNS.get(name))
    refuse_unused(corpus, recordings)
    report_quarantined(corpus, recordings, recordings.strict)
