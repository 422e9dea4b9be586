"""The corpus in the native format: one document a line, which reads back unchanged."""

from typing import Any, Final, cast

from ...corpus.corpus import Corpus
from ..format import Export, Request, Sink


def _write(corpus: Corpus, sink: Sink, request: Request) -> None:
    total, done = len(corpus), 0
    for piece in request.pieces(corpus):
        done += piece.write_jsonl(cast(Any, sink), threads=request.threads)
        request.report(done, total)


JSONL: Final = Export(
    "jsonl",
    "Native traces, one JSON document a line; reads back as it was",
    "orchestrace, any JSON reader",
    ".jsonl",
    "corpus",
    ("trace_id", "anonymize"),
    _write,
)
