"""Rewards of runs and of their units by rules, sums of rewards, and how they are gamed."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
    from .gaming.balance import balance
    from .gaming.failure_modes import failure_modes
    from .gaming.hazards import hazards
    from .gaming.health import verifier_health
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

load_when_asked(
    __name__,
    {
        ".gaming.balance": "balance",
        ".gaming.failure_modes": "failure_modes",
        ".gaming.hazards": "hazards",
        ".gaming.health": "verifier_health",
        ".mixing": "mix",
        ".verb": "attach compute explain rules",
    },
)
