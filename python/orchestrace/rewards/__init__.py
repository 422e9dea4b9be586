"""Rewards of runs and of their units by rules, sums of rewards, and how they are gamed."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
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

load_when_asked(
    __name__,
    {
        ".balance": "balance",
        ".failure_modes": "failure_modes",
        ".hazards": "hazards",
        ".health": "verifier_health",
        ".mixing": "mix",
        ".verb": "attach compute explain rules",
    },
)
