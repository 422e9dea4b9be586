"""Summarize recordings: sizes, origins, measures, what is odd."""

from ... import report
from ..options import (
    Json,
    StrictOptions,
)
from ..recordings import opened, refuse_unused, tell_quarantined
from ..registry import command
from ..tables import show, tell


@command
def run(recordings: StrictOptions, as_json: Json = False) -> None:
    corpus = opened(recordings)
    tables = report(corpus)
    if as_json:
        tell(tables)
    else:
        for name, frame in tables.items():
            if frame.height:
                show(frame, name, f"report {name}")
    refuse_unused(corpus, recordings)
    tell_quarantined(corpus, recordings, recordings.strict)
