"""Evaluation of credit and of corpora: agreement, localization, faithfulness, accounts."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
    from .accounts import free_ride, ledger
    from .annotation import place_labels
    from .attribution import localization
    from .checklist import report_checklist
    from .deletion_curves import faithfulness
    from .metric_comparison import against_single_agent, compare_metrics
    from .pass_rates import pass_rates
    from .rank_agreement import agreement
    from .siblings import sibling_diagnostics

__all__ = [
    "against_single_agent",
    "agreement",
    "compare_metrics",
    "faithfulness",
    "free_ride",
    "ledger",
    "localization",
    "pass_rates",
    "place_labels",
    "report_checklist",
    "sibling_diagnostics",
]

load_when_asked(
    __name__,
    {
        ".accounts": "free_ride ledger",
        ".annotation": "place_labels",
        ".attribution": "localization",
        ".checklist": "report_checklist",
        ".deletion_curves": "faithfulness",
        ".metric_comparison": "against_single_agent compare_metrics",
        ".pass_rates": "pass_rates",
        ".rank_agreement": "agreement",
        ".siblings": "sibling_diagnostics",
    },
)
