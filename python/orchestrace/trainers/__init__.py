"""Credit for trainers: advantages on arrays, tokens and their weights, tables of turns."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
    from . import advantages
    from .tables import trainer_table
    from .tokens import token_credits
    from .weights import token_weights

__all__ = [
    "advantages",
    "token_credits",
    "token_weights",
    "trainer_table",
]

load_when_asked(
    __name__,
    {
        ".tables": "trainer_table",
        ".tokens": "token_credits",
        ".weights": "token_weights",
    },
    modules=("advantages",),
)
