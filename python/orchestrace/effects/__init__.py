"""Effects of decisions on the outcome: spawns, messages, delegations, aggregations, choices, policies."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
    from .matching import matched
    from .observed import aggregation, delegation, message
    from .off_policy import policy_values
    from .spawning import spawn

__all__ = [
    "aggregation",
    "delegation",
    "matched",
    "message",
    "policy_values",
    "spawn",
]

load_when_asked(
    __name__,
    {
        ".matching": "matched",
        ".observed": "aggregation delegation message",
        ".off_policy": "policy_values",
        ".spawning": "spawn",
    },
)
