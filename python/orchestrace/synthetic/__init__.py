"""Seeded recordings, and planted ones whose truth is known."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .choosing import ChoiceTruth as ChoiceTruth, choices as choices
    from .gaming import GamedTruth as GamedTruth, gamed as gamed
    from .planting import Truth as Truth, planted as planted
    from .stopping import StopTruth as StopTruth, stops as stops


load_lazily(__name__)
