"""Evaluation of credit and of corpora: agreement, localization, faithfulness, accounts."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .accounts import free_ride as free_ride, reward_accounting as reward_accounting
    from .alignment import align as align
    from .annotation import place_labels as place_labels
    from .attempts import attempts as attempts
    from .attribution import failure_attribution as failure_attribution
    from .benchmark import benchmark_counts as benchmark_counts, benchmark_verdict as benchmark_verdict
    from .blame import blame as blame
    from .blame_units import blame_candidates as blame_candidates
    from .branch_tests import branch_tests as branch_tests
    from .checklist import report_checklist as report_checklist
    from .continued_runs import continued_runs as continued_runs
    from .deletion_curves import faithfulness as faithfulness
    from .divergence import (
        divergence as divergence,
        divergence_scores as divergence_scores,
        lucky_passes as lucky_passes,
    )
    from .edit_script import edit_script as edit_script
    from .failure_classes import failure_classes as failure_classes, failure_rates as failure_rates
    from .gate import gate as gate, gate_power as gate_power
    from .metric_comparison import (
        against_single_agent as against_single_agent,
        compare_metrics as compare_metrics,
    )
    from .pass_rates import pass_rates as pass_rates
    from .rank_agreement import agreement as agreement
    from .siblings import sibling_diagnostics as sibling_diagnostics
    from .task_differences import task_differences as task_differences


load_lazily(__name__)
