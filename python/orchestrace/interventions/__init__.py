"""Interventions on recorded runs, on content and on timing."""

from .content import aggregate_by, drop, set_value, truncate
from .timing import cap_stragglers, concurrency, merge, remove, serialize, speed_up, split

__all__ = [
    "aggregate_by",
    "cap_stragglers",
    "concurrency",
    "drop",
    "merge",
    "remove",
    "serialize",
    "set_value",
    "speed_up",
    "split",
    "truncate",
]
