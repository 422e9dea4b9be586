"""Schedules of events: fewer slots, bottlenecks, fits of speedup."""

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
