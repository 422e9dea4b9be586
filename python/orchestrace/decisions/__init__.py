"""Decisions as rows: what was known, what was done, what it was worth; and contexts that they share."""

from .context_keys import contexts
from .tables.verb import table

__all__ = [
    "contexts",
    "table",
]
