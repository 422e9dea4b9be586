"""Decisions as rows, and the contexts in which they were taken."""

from .context_keys import contexts

__all__ = [
    "contexts",
]
