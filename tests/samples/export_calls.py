"""What a call of `export` needs for each format, so that a new one is in all tests of exports by its name."""

from pathlib import Path
from typing import Any

import orchestrace as ot
from samples.episodes import episodes_file

TARGETS = {row["name"]: row for row in ot.list_exports().iter_rows(named=True)}


def file_for(format: str) -> Path | None:
    """Recordings of the only format that is written back so; None if any will do."""
    return episodes_file() if TARGETS[format]["importer"] == "verifiers" else None


def corpus_for(format: str, corpus: ot.Corpus) -> ot.Corpus:
    """The corpus, or one of the only format that is written back so."""
    file = file_for(format)
    return corpus if file is None else ot.read_traces(file)


def options_of(format: str, corpus: ot.Corpus) -> dict[str, Any]:
    """The trace for a format that shows one, the longest there is; credits for tables of trainers."""
    options: dict[str, Any] = {}
    if TARGETS[format]["scope"] == "trace":
        options["trace_id"] = longest_trace(corpus)
    if TARGETS[format]["scope"] == "corpus" and "credits" in TARGETS[format]["options"]:
        options["credits"] = ot.credit(corpus, method="uniform", unit="turn")
    return options


def longest_trace(corpus: ot.Corpus) -> str:
    """The name of the trace with the most events, the first of several; of no trace a name that none has."""
    traces = corpus.traces.sort("n_events", "trace", descending=[True, False]).head(1).collect()
    return str(traces["trace_id"].item()) if traces.height else "none"


def viewers() -> list[str]:
    """The formats that show single traces."""
    return [name for name, row in TARGETS.items() if row["scope"] != "corpus"]


def files() -> list[str]:
    """The formats that are one file."""
    return [name for name, row in TARGETS.items() if row["suffix"]]
