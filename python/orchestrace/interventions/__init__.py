"""Interventions on recorded runs, on content and on timing."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
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

load_when_asked(
    __name__,
    {
        ".content": "aggregate_by drop set_value truncate",
        ".timing": "cap_stragglers concurrency merge remove serialize speed_up split",
    },
)
