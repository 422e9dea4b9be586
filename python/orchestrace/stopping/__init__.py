"""Stopping rules: when a run may be aborted, when an answer may be released, and what is guaranteed."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
    from .abort import fit_abort
    from .abort_evaluation import abort_looks, evaluate_abort
    from .abort_rule import AbortRule
    from .answer_evaluation import evaluate
    from .answer_rules import StoppingRule, export, fit, regret, rules
    from .censoring import overlap
    from .epochs import from_frame, quarantined
    from .features import features
    from .frontiers import frontier, frontier_area
    from .recorded import epochs
    from .release import ReleaseRule, evaluate_release, fit_release
    from .thresholds import calibration_needed

__all__ = [
    "AbortRule",
    "ReleaseRule",
    "StoppingRule",
    "abort_looks",
    "calibration_needed",
    "epochs",
    "evaluate",
    "evaluate_abort",
    "evaluate_release",
    "export",
    "features",
    "fit",
    "fit_abort",
    "fit_release",
    "from_frame",
    "frontier",
    "frontier_area",
    "overlap",
    "quarantined",
    "regret",
    "rules",
]

load_when_asked(
    __name__,
    {
        ".abort": "fit_abort",
        ".abort_evaluation": "abort_looks evaluate_abort",
        ".abort_rule": "AbortRule",
        ".answer_evaluation": "evaluate",
        ".answer_rules": "StoppingRule export fit regret rules",
        ".censoring": "overlap",
        ".epochs": "from_frame quarantined",
        ".features": "features",
        ".frontiers": "frontier frontier_area",
        ".recorded": "epochs",
        ".release": "ReleaseRule evaluate_release fit_release",
        ".thresholds": "calibration_needed",
    },
)
