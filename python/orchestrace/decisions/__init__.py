"""Decisions as rows: state, action and effect; and the contexts that they share."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
    from .context_keys import contexts
    from .tables.verb import table

__all__ = [
    "contexts",
    "table",
]

load_when_asked(
    __name__,
    {
        ".context_keys": "contexts",
        ".tables.verb": "table",
    },
)
