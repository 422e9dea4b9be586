"""Where the events of a run are recorded, and on request what is written there."""

import os
from typing import Any, Final

from ..base.errors import InputError, ParameterError
from ..corpus.corpus import Corpus
from ..corpus.source import event_places, event_texts

REREAD: Final = 64 * 2**20
"""Bytes of recordings that are read again, for each run, to find the lines of its events."""
TEXT: Final = 4_000
"""Characters of an event's record that a page holds."""


def places_of(corpus: Corpus, trace: int, first: tuple[str | None, int | None], size: int) -> dict[str, Any]:
    """``files``, and for every event ``file`` (its place among them) and ``line``; or ``reason``.

    `first` is where the trace begins, `size` what would be read to find more.
    """
    told: dict[str, Any] = {"files": [], "file": [], "line": [], "first": list(first), "reason": None}
    if size > REREAD:
        told["reason"] = f"lines of single events are not looked up in recordings of {size:,} bytes"
        return told
    try:
        places = event_places(corpus, trace)
    except (InputError, ParameterError) as error:
        told["reason"] = str(error)
        return told
    files = {name: at for at, name in enumerate(dict.fromkeys(name for name, _ in places))}
    return told | {
        "files": list(files),
        "file": [files[name] for name, _ in places],
        "line": [line for _, line in places],
    }


def texts_of(corpus: Corpus, trace: int, kept: list[int]) -> tuple[list[str], str | None]:
    """The records of the events that are kept, each cut to `TEXT` characters, and why there are none."""
    try:
        whole = event_texts(corpus, trace, kept)
    except (InputError, ParameterError) as error:
        return [], str(error)
    return [_cut(text) for text in whole], None


def _cut(text: str) -> str:
    more = len(text) - TEXT
    return text[:TEXT] + (f"\n... and {more:,} characters more" if more > 0 else "")


def sizes_of(corpus: Corpus) -> dict[str, int]:
    """Bytes of the files of each importer, as they lie on disk; of what is not on disk 0."""
    rows = corpus.record_counts.select("importer", "file").unique().collect(engine="streaming")
    sizes: dict[str, int] = {}
    for importer, file in rows.iter_rows():
        if importer is not None:
            sizes[importer] = sizes.get(importer, 0) + (
                os.path.getsize(file) if file is not None and os.path.isfile(file) else 0
            )
    return sizes
