"""Pictures of runs, credit and measurements, as Altair charts (``pip install 'orchestrace[plot]'``)."""

from .spawn_trees import spawn_tree
from .timelines import timeline

__all__ = [
    "spawn_tree",
    "timeline",
]
