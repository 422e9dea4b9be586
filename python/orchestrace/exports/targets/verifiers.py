"""Episodes of verifiers as they stand in their files, with credits as the advantages of their nodes."""

from typing import Final

from ...base.errors import ParameterError
from ...corpus.corpus import Corpus
from ...trainers.episodes import stamp
from ..format import Export, Request, Sink


def _write(corpus: Corpus, sink: Sink, request: Request) -> None:
    if request.credits is None:
        raise ParameterError("the export 'verifiers' needs credits: rows of credit(..., unit='turn')")
    stamp(corpus, sink, request.credits, request.report, stacklevel=4)


VERIFIERS: Final = Export(
    "verifiers",
    "Episodes as they were read, with credits as advantages of their nodes (JSONL)",
    "verifiers, prime-rl",
    ".jsonl",
    "corpus",
    ("trace_id", "credits"),
    _write,
    importer="verifiers",
)
