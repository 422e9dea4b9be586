"""Credit for trainers: advantages on arrays, tokens and their weights, tables of turns."""

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
