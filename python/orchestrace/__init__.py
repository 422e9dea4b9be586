"""Measure recordings of multi-agent LLM runs: what happened, and which unit earned the outcome.

>>> import orchestrace as ot
>>> corpus = ot.generate(traces=10, seed=0)
>>> credits = ot.credit(corpus, method="flow", unit="agent", reward="team")
>>> credits.height >= len(corpus)
True
"""

import warnings

from . import process as process  # isort: skip  # first: it refuses what would break the others
from . import _core, advantages, mapping, study
from .agreement import agreement
from .annotation import place_labels
from .attribution import localisation
from .checklist import report_checklist
from .comparison import compare
from .contexts import contexts
from .corpus import Corpus
from .credit import credit, importers, methods
from .critical_path import concurrency_profile, critical_path, dominators, drag
from .diffusion import DiffusionLaw, credit_snr, diffusion_law, rollouts_needed
from .envelopes import envelopes, gap
from .errors import InputError, OrchestraceError, ParameterError, QuarantineError, SchemaError
from .explain import explain
from .export import ExportSize, export, export_size, exports
from .exports.trainer import trainer_table
from .faithfulness import faithfulness
from .games import game_values
from .generate import generate
from .ingest import IngestReport, ingest
from .interventions import aggregate_by, drop, set_value, truncate
from .io import read_traces
from .laws import fit_law, predict_law
from .ledger import free_ride, ledger
from .matching import matched_effect
from .metric_comparison import against_single_agent, compare_metrics
from .metrics import metric_definitions, metrics
from .model_sensitivity import model_sensitivity, outcome_models
from .observed import aggregation_effects, delegation_effects, message_effects
from .outcome_fit import FittedOutcome, fit_outcome
from .parameters import Param
from .partitioned import PartitionedCorpus, read_corpus
from .planted import Truth, generate_planted
from .registry import EventValues, credit_method
from .replay import replay
from .report import report
from .safety import sanitizer_cut, taint, tainted_events
from .scaling import fit_scaling, plot_scaling
from .scan import scan_events, scan_traces
from .schedule import scaling_curve, schedule
from .schedule_interventions import cap_stragglers, concurrency, merge, remove, serialise, speed_up, split
from .siblings import sibling_diagnostics
from .source import EventSource
from .spawn_effect import spawn_effect
from .story import Story, story
from .survey import survey
from .tokens import token_credits

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
