"""Source records of a run's events, with their text on request."""

from typing import Any, Final

from ..base.errors import InputError, ParameterError
from ..corpus.corpus import Corpus
from ..corpus.source import event_places, event_texts, reading_size

REREAD: Final = 64 * 2**20
"""Bytes of recordings that are read again for a page, to find the lines of events."""
GONE: Final = "the recording was no file, or has changed since it was read"
TEXT: Final = 4_000
"""Characters of an event's record that a page holds."""


class Sources:
    """Lines of events, for as many runs as `REREAD` allows, and their records where these are asked for."""

    def __init__(self, corpus: Corpus, text: bool) -> None:
        self._corpus = corpus
        self._text = text
        self._left = REREAD

    def places(self, trace: int) -> dict[str, Any]:
        """``files``, and for every event ``file`` (its place among them) and ``line``, or ``reason``."""
        none: dict[str, Any] = {"files": [], "file": [], "line": []}
        try:
            size = reading_size(self._corpus, trace)
            if size > self._left and not self._text:
                reason = (
                    f"lines of single events are looked up in {REREAD >> 20} MiB of recordings;"
                    f" Corpus.source({trace}, seq) finds one"
                )
                return none | {"reason": reason}
            self._left -= size
            places = event_places(self._corpus, trace)
        except (InputError, ParameterError):  # its message is about the machine that makes the page
            return none | {"reason": GONE}
        files = {name: at for at, name in enumerate(dict.fromkeys(name for name, _ in places))}
        lines = [line for _, line in places]
        return {
            "files": list(files),
            "file": [files[name] for name, _ in places],
            "line": lines,
            "reason": None,
        }

    def texts(self, trace: int, seqs: list[int]) -> tuple[list[str], str | None]:
        """The records of the given events, each cut to `TEXT` characters; or why they are absent."""
        if not self._text:
            return [], None
        try:
            records = event_texts(self._corpus, trace, seqs)
        except (InputError, ParameterError):
            return [], GONE
        return [_cut(text) for text in records], None


def _cut(text: str) -> str:
    more = len(text) - TEXT
    return text[:TEXT] + (f"\n... and {more:,} characters more" if more > 0 else "")
