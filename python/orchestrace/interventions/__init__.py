"""What can be changed about a recorded run, in its content and in its timing."""

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
