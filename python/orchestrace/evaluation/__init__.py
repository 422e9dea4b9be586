"""Evaluation of credit and of corpora: agreement, localization, faithfulness, accounts."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .accounts import free_ride as free_ride, reward_accounting as reward_accounting
    from .annotation import place_labels as place_labels
    from .attempts import attempts as attempts
    from .attribution import failure_attribution as failure_attribution
    from .blame import blame as blame
    from .checklist import report_checklist as report_checklist
    from .continued_runs import continued_runs as continued_runs
    from .deletion_curves import faithfulness as faithfulness
    from .metric_comparison import (
        against_single_agent as against_single_agent,
        compare_metrics as compare_metrics,
    )
    from .pass_rates import pass_rates as pass_rates
    from .rank_agreement import agreement as agreement
    from .siblings import sibling_diagnostics as sibling_diagnostics


load_lazily(__name__)
