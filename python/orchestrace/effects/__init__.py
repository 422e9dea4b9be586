"""Effects of decisions on the outcome: spawns, messages, delegations, aggregations, matched choices."""

from .matching import matched
from .observed import aggregation, delegation, message
from .spawning import spawn

__all__ = [
    "aggregation",
    "delegation",
    "matched",
    "message",
    "spawn",
]
