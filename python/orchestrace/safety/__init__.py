"""Untrusted content: its spread, and where it could have been stopped."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
    from .tracking import sanitizer_cut, taint, tainted_events

__all__ = [
    "sanitizer_cut",
    "taint",
    "tainted_events",
]

load_when_asked(
    __name__,
    {
        ".tracking": "sanitizer_cut taint tainted_events",
    },
)
