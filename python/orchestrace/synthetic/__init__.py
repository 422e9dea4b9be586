"""Seeded recordings, and planted ones whose truth is known."""

from .choosing import ChoiceTruth, choices
from .generating import generate
from .planting import Truth, planted
from .stopping import StopTruth, stops

__all__ = [
    "ChoiceTruth",
    "StopTruth",
    "Truth",
    "choices",
    "generate",
    "planted",
    "stops",
]
