"""Stopping rules: when a run may be aborted, when an answer may be released, and what is guaranteed."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # the only list of names: type checkers and `load_when_asked` read it
    from .abort import fit_abort as fit_abort
    from .abort_evaluation import abort_looks as abort_looks, evaluate_abort as evaluate_abort
    from .abort_rule import AbortRule as AbortRule
    from .answer_evaluation import evaluate as evaluate
    from .answer_rules import (
        StoppingRule as StoppingRule,
        export as export,
        fit as fit,
        regret as regret,
        rules as rules,
    )
    from .censoring import overlap as overlap
    from .epochs import from_frame as from_frame, quarantined as quarantined
    from .features import features as features
    from .frontiers import frontier as frontier, frontier_area as frontier_area
    from .recorded import epochs as epochs
    from .release import (
        ReleaseRule as ReleaseRule,
        evaluate_release as evaluate_release,
        fit_release as fit_release,
    )
    from .thresholds import calibration_needed as calibration_needed


load_when_asked(__name__)
