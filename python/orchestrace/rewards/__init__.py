"""Rewards: what a run, or a unit of it, is paid by a rule, and sums of rewards."""

from .mixing import mix
from .verb import attach, compute, explain, rules

__all__ = [
    "attach",
    "compute",
    "explain",
    "mix",
    "rules",
]
