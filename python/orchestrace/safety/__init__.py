"""Untrusted content: its spread, and where it could have been stopped."""

from .tracking import sanitizer_cut, taint, tainted_events

__all__ = [
    "sanitizer_cut",
    "taint",
    "tainted_events",
]
