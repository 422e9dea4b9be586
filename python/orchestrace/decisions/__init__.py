"""Decisions as rows: state, action and effect; and the contexts that they share."""

from .context_keys import contexts
from .tables.verb import table

__all__ = [
    "contexts",
    "table",
]
