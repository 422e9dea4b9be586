"""Seeded recordings, and planted ones whose truth is known."""

from .gaming import GamedTruth, gamed
from .generating import generate
from .planting import Truth, planted
from .stopping import StopTruth, stops

__all__ = [
    "GamedTruth",
    "StopTruth",
    "Truth",
    "gamed",
    "generate",
    "planted",
    "stops",
]
