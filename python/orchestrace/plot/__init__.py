"""Pictures of runs, credit and measurements, as Altair charts (``pip install 'orchestrace[plot]'``)."""

from .credits import credit
from .intervention_effects import effects
from .spawn_trees import spawn_tree
from .timelines import timeline

__all__ = [
    "credit",
    "effects",
    "spawn_tree",
    "timeline",
]
