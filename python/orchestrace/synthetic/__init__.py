"""Seeded recordings, and planted ones whose truth is known."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
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

load_when_asked(
    __name__,
    {
        ".choosing": "ChoiceTruth choices",
        ".gaming": "GamedTruth gamed",
        ".generating": "generate",
        ".planting": "Truth planted",
        ".stopping": "StopTruth stops",
    },
)
