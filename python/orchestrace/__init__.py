"""Measure recordings of multi-agent LLM runs: what happened, and which unit earned the outcome.

>>> import orchestrace as ot
>>> corpus = ot.generate(traces=10, seed=0)
>>> credits = ot.credit(corpus, method="flow", unit="agent", reward="team")
>>> credits.height >= len(corpus)
True
"""

import warnings
from typing import TYPE_CHECKING

from .base import process as process  # isort: skip  # first: it refuses what would break the others
from . import _core
from .base.misspelled import missing_name
from .base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
    from . import (
        costs,
        decisions,
        distributed,
        effects,
        evaluation,
        games,
        interventions,
        mapping,
        outcomes,
        plot,
        rewards,
        safety,
        scaling,
        schedules,
        stopping,
        study,
        synthetic,
        trainers,
    )
    from .base.errors import InputError, OrchestraceError, ParameterError, QuarantineError, SchemaError
    from .corpus.corpus import Corpus
    from .corpus.reading import read_traces
    from .corpus.scanning import scan_events, scan_traces
    from .credit.explanation import explain
    from .credit.parameters import Param
    from .credit.registry import EventValues, credit_method
    from .credit.verb import credit, importers, methods
    from .disk.ingesting import ingest
    from .disk.partitioned import read_corpus
    from .evaluation.comparison import compare
    from .exports.verb import export, export_size, exports
    from .metrics.verb import metric_definitions, metrics
    from .replay.verb import replay
    from .safety.tracking import taint
    from .summaries.narrative import story
    from .summaries.tables import report
    from .synthetic.generating import generate
    from .view.verb import view

__version__ = _core.VERSION

__all__ = [
    "Corpus",
    "EventValues",
    "InputError",
    "OrchestraceError",
    "Param",
    "ParameterError",
    "QuarantineError",
    "SchemaError",
    "__version__",
    "compare",
    "costs",
    "credit",
    "credit_method",
    "decisions",
    "distributed",
    "effects",
    "evaluation",
    "explain",
    "export",
    "export_size",
    "exports",
    "games",
    "generate",
    "importers",
    "ingest",
    "interventions",
    "mapping",
    "methods",
    "metric_definitions",
    "metrics",
    "outcomes",
    "plot",
    "read_corpus",
    "read_traces",
    "replay",
    "report",
    "rewards",
    "safety",
    "scaling",
    "scan_events",
    "scan_traces",
    "schedules",
    "stopping",
    "story",
    "study",
    "synthetic",
    "taint",
    "trainers",
    "view",
]

load_when_asked(
    __name__,
    {
        ".base.errors": "InputError OrchestraceError ParameterError QuarantineError SchemaError",
        ".corpus.corpus": "Corpus",
        ".corpus.reading": "read_traces",
        ".corpus.scanning": "scan_events scan_traces",
        ".credit.explanation": "explain",
        ".credit.parameters": "Param",
        ".credit.registry": "EventValues credit_method",
        ".credit.verb": "credit importers methods",
        ".disk.ingesting": "ingest",
        ".disk.partitioned": "read_corpus",
        ".evaluation.comparison": "compare",
        ".exports.verb": "export export_size exports",
        ".metrics.verb": "metric_definitions metrics",
        ".replay.verb": "replay",
        ".safety.tracking": "taint",
        ".summaries.narrative": "story",
        ".summaries.tables": "report",
        ".synthetic.generating": "generate",
        ".view.verb": "view",
    },
    modules=(
        "costs",
        "decisions",
        "distributed",
        "effects",
        "evaluation",
        "games",
        "interventions",
        "mapping",
        "outcomes",
        "plot",
        "rewards",
        "safety",
        "scaling",
        "schedules",
        "stopping",
        "study",
        "synthetic",
        "trainers",
    ),
    missing=missing_name,
)

if _core.DEBUG_BUILD:
    warnings.warn(
        "orchestrace was built without optimization (maturin develop); time nothing with it, "
        "build with --release for that",
        RuntimeWarning,
        stacklevel=2,
    )
