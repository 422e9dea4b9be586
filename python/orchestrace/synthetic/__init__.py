"""Seeded recordings, and planted ones whose truth is known."""

from .generating import generate
from .planting import Truth, planted

__all__ = [
    "Truth",
    "generate",
    "planted",
]
