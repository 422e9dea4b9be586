"""Pictures of runs, credit and measurements, as Altair charts (``pip install 'orchestrace[plot]'``)."""

from .agreement_matrix import agreement
from .credits import credit
from .intervention_effects import effects
from .law_fits import laws
from .saving import save
from .scaling_curves import scaling
from .size_map import envelopes
from .spawn_trees import spawn_tree
from .stopping_frontiers import stopping
from .taint_flows import taint
from .timelines import timeline

__all__ = [
    "agreement",
    "credit",
    "effects",
    "envelopes",
    "laws",
    "save",
    "scaling",
    "spawn_tree",
    "stopping",
    "taint",
    "timeline",
]
