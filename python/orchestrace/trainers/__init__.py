"""Credit for trainers: advantages on arrays, tokens, tables of turns."""

from . import advantages
from .tables import trainer_table
from .tokens import token_credits

__all__ = [
    "advantages",
    "token_credits",
    "trainer_table",
]
