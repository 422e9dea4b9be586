"""Stopping rules: when a run may be aborted, when an answer may be released, and what is guaranteed."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .abort import fit_abort as fit_abort
    from .abort_evaluation import evaluate_abort as evaluate_abort, power_by_epoch as power_by_epoch
    from .abort_rule import AbortRule as AbortRule
    from .answer_evaluation import evaluate as evaluate
    from .answer_rules import (
        StoppingRule as StoppingRule,
        export as export,
        fit as fit,
        list_rules as list_rules,
        regret as regret,
    )
    from .censoring import support as support
    from .epochs import epochs_from_frame as epochs_from_frame, unused_runs as unused_runs
    from .features import features as features
    from .frontiers import frontier as frontier, frontier_area as frontier_area
    from .recorded import epochs as epochs
    from .release import (
        ReleaseRule as ReleaseRule,
        evaluate_release as evaluate_release,
        fit_release as fit_release,
    )
    from .thresholds import calibration_needed as calibration_needed


load_lazily(__name__)
