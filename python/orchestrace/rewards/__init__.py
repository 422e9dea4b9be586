"""Rewards of runs and of their units by rules, sums of rewards, and how they are gamed."""

from .balance import balance
from .failure_modes import failure_modes
from .hazards import hazards
from .health import verifier_health
from .mixing import mix
from .verb import attach, compute, explain, rules

__all__ = [
    "attach",
    "balance",
    "compute",
    "explain",
    "failure_modes",
    "hazards",
    "mix",
    "rules",
    "verifier_health",
]
