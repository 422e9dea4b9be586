"""Schedules of events: fewer slots, bottlenecks, fits of speedup."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
    from .bottlenecks import concurrency_profile, critical_path, dominators, drag
    from .scheduling import scaling_curve, schedule
    from .speedup_fits import fit_scaling

__all__ = [
    "concurrency_profile",
    "critical_path",
    "dominators",
    "drag",
    "fit_scaling",
    "scaling_curve",
    "schedule",
]

load_when_asked(
    __name__,
    {
        ".bottlenecks": "concurrency_profile critical_path dominators drag",
        ".scheduling": "scaling_curve schedule",
        ".speedup_fits": "fit_scaling",
    },
)
