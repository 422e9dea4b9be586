"""Seeded recordings, and planted ones whose truth is known."""

from .choosing import ChoiceTruth, choices
from .gaming import GamedTruth, gamed
from .generating import generate
from .planting import Truth, planted
from .stopping import StopTruth, stops

__all__ = [
    "ChoiceTruth",
    "GamedTruth",
    "StopTruth",
    "Truth",
    "choices",
    "gamed",
    "generate",
    "planted",
    "stops",
]
