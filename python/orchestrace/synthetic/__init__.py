"""Seeded recordings, and planted ones whose truth is known."""

from .generating import generate
from .planting import Truth, planted
from .stopping import StopTruth, stops

__all__ = [
    "StopTruth",
    "Truth",
    "generate",
    "planted",
    "stops",
]
