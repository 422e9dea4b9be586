"""Effects of decisions on the outcome: spawns, messages, delegations, aggregations, choices, policies."""

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
