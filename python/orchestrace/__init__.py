"""Measure recordings of multi-agent LLM runs: what happened, and which unit earned the outcome.

>>> import orchestrace as ot
>>> corpus = ot.generate(traces=10, seed=0)
>>> credits = ot.credit(corpus, method="flow", unit="agent", reward="team")
>>> credits.height >= len(corpus)
True
"""

import warnings

from .base import process as process  # isort: skip  # first: it refuses what would break the others
from . import _core, mapping, study
from .base.errors import InputError, OrchestraceError, ParameterError, QuarantineError, SchemaError
from .corpus.corpus import Corpus
from .corpus.reading import read_traces
from .corpus.scanning import scan_events, scan_traces
from .corpus.source import EventSource
from .credit.explanation import explain
from .credit.parameters import Param
from .credit.registry import EventValues, credit_method
from .credit.verb import credit, importers, methods
from .decisions.context_keys import contexts
from .disk.ingesting import IngestReport, ingest
from .disk.partitioned import PartitionedCorpus, read_corpus
from .effects.matching import matched_effect
from .effects.observed import aggregation_effects, delegation_effects, message_effects
from .effects.spawning import spawn_effect
from .evaluation.accounts import free_ride, ledger
from .evaluation.annotation import place_labels
from .evaluation.attribution import localisation
from .evaluation.comparison import compare
from .evaluation.deletion_curves import faithfulness
from .evaluation.rank_agreement import agreement
from .evaluation.siblings import sibling_diagnostics
from .exports.verb import ExportSize, export, export_size, exports
from .games import game_values
from .interventions.content import aggregate_by, drop, set_value, truncate
from .interventions.timing import cap_stragglers, concurrency, merge, remove, serialise, speed_up, split
from .metrics.checklist import report_checklist
from .metrics.comparison import against_single_agent, compare_metrics
from .metrics.verb import metric_definitions, metrics
from .replay.outcome_fit import FittedOutcome, fit_outcome
from .replay.sensitivity import model_sensitivity, outcome_models
from .replay.verb import replay
from .safety.tracking import sanitizer_cut, taint, tainted_events
from .scaling.diffusion import DiffusionLaw, credit_snr, diffusion_law, rollouts_needed
from .scaling.laws import fit_law, predict_law
from .scaling.paper_pool import survey
from .scaling.published_sizes import envelopes, gap
from .schedules.bottlenecks import concurrency_profile, critical_path, dominators, drag
from .schedules.scheduling import scaling_curve, schedule
from .schedules.speedup_fits import fit_scaling, plot_scaling
from .summaries.narrative import Story, story
from .summaries.tables import report
from .synthetic.generating import generate
from .synthetic.planted import Truth, generate_planted
from .trainers import advantages
from .trainers.tables import trainer_table
from .trainers.tokens import token_credits

__version__ = _core.VERSION

__all__ = [
    "Corpus",
    "DiffusionLaw",
    "EventSource",
    "EventValues",
    "ExportSize",
    "FittedOutcome",
    "IngestReport",
    "InputError",
    "OrchestraceError",
    "Param",
    "ParameterError",
    "PartitionedCorpus",
    "QuarantineError",
    "SchemaError",
    "Story",
    "Truth",
    "__version__",
    "advantages",
    "against_single_agent",
    "aggregate_by",
    "aggregation_effects",
    "agreement",
    "cap_stragglers",
    "compare",
    "compare_metrics",
    "concurrency",
    "concurrency_profile",
    "contexts",
    "credit",
    "credit_method",
    "credit_snr",
    "critical_path",
    "delegation_effects",
    "diffusion_law",
    "dominators",
    "drag",
    "drop",
    "envelopes",
    "explain",
    "export",
    "export_size",
    "exports",
    "faithfulness",
    "fit_law",
    "fit_outcome",
    "fit_scaling",
    "free_ride",
    "game_values",
    "gap",
    "generate",
    "generate_planted",
    "importers",
    "ingest",
    "ledger",
    "localisation",
    "mapping",
    "matched_effect",
    "merge",
    "message_effects",
    "methods",
    "metric_definitions",
    "metrics",
    "model_sensitivity",
    "outcome_models",
    "place_labels",
    "plot_scaling",
    "predict_law",
    "read_corpus",
    "read_traces",
    "remove",
    "replay",
    "report",
    "report_checklist",
    "rollouts_needed",
    "sanitizer_cut",
    "scaling_curve",
    "scan_events",
    "scan_traces",
    "schedule",
    "serialise",
    "set_value",
    "sibling_diagnostics",
    "spawn_effect",
    "speed_up",
    "split",
    "story",
    "study",
    "survey",
    "taint",
    "tainted_events",
    "token_credits",
    "trainer_table",
    "truncate",
]

if _core.DEBUG_BUILD:
    warnings.warn(
        "orchestrace was built without optimisation (maturin develop); time nothing with it, "
        "build with --release for that",
        RuntimeWarning,
        stacklevel=2,
    )
