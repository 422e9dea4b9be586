"""Measure recordings of multi-agent LLM runs: what happened, and which unit earned the outcome.

>>> import orchestrace as ot
>>> corpus = ot.generate(traces=10, seed=0)
>>> credits = ot.credit(corpus, method="flow", unit="agent", reward="team")
>>> credits.height >= len(corpus)
True
"""

from .base import start as start  # isort: skip  # before all else: Ctrl-C may come while modules load

import warnings
from typing import TYPE_CHECKING

from .base import process as process  # isort: skip  # it refuses what would break the others
from . import _core
from .base.misspelled import missing_name
from .base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from . import (
        costs as costs,
        decisions as decisions,
        disk as disk,
        distributed as distributed,
        effects as effects,
        evaluation as evaluation,
        games as games,
        interventions as interventions,
        mapping as mapping,
        outcomes as outcomes,
        plot as plot,
        rewards as rewards,
        safety as safety,
        scaling as scaling,
        schedules as schedules,
        stopping as stopping,
        study as study,
        synthetic as synthetic,
        trainers as trainers,
        values as values,
    )
    from .base.errors import (
        InputError as InputError,
        OrchestraceError as OrchestraceError,
        ParameterError as ParameterError,
        QuarantineError as QuarantineError,
        SchemaError as SchemaError,
    )
    from .corpus.corpus import Corpus as Corpus
    from .corpus.reading import read_traces as read_traces
    from .corpus.scanning import scan_events as scan_events, scan_traces as scan_traces
    from .corpus.searching import grep as grep
    from .credit.explanation import explain as explain
    from .credit.parameters import Param as Param
    from .credit.registry import EventValues as EventValues, credit_method as credit_method
    from .credit.verb import credit as credit, list_importers as list_importers, list_methods as list_methods
    from .disk.ingesting import ingest as ingest
    from .disk.partitioned import read_corpus as read_corpus
    from .evaluation.comparison import compare as compare
    from .exports.verb import export as export, export_size as export_size, list_exports as list_exports
    from .metrics.verb import list_metrics as list_metrics, metrics as metrics
    from .replay.verb import replay as replay
    from .safety.tracking import taint as taint
    from .summaries.narrative import summary as summary
    from .summaries.tables import describe as describe
    from .synthetic.generating import generate as generate
    from .view.verb import view as view

__version__ = _core.VERSION


load_lazily(__name__, missing=missing_name)

if _core.DEBUG_BUILD:
    warnings.warn(
        "orchestrace was built without optimization (maturin develop); time nothing with it, "
        "build with --release for that",
        RuntimeWarning,
        stacklevel=2,
    )
