"""Decisions as rows, and what actors had seen when they decided."""

from .context_keys import contexts

__all__ = [
    "contexts",
]
