"""Stopping rules: when a run may be aborted, when an answer may be released, and what is guaranteed."""

from .abort import fit_abort
from .abort_evaluation import abort_looks, evaluate_abort
from .abort_rule import AbortRule
from .epochs import from_frame, quarantined
from .features import features
from .release import ReleaseRule, evaluate_release, fit_release
from .thresholds import calibration_needed

__all__ = [
    "AbortRule",
    "ReleaseRule",
    "abort_looks",
    "calibration_needed",
    "evaluate_abort",
    "evaluate_release",
    "features",
    "fit_abort",
    "fit_release",
    "from_frame",
    "quarantined",
]
