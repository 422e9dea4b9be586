"""Pictures of runs, credit and measurements, as Altair charts (the extra ``plot``)."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
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

load_when_asked(
    __name__,
    {
        ".agreement_matrix": "agreement",
        ".credits": "credit",
        ".intervention_effects": "effects",
        ".law_fits": "laws",
        ".saving": "save",
        ".scaling_curves": "scaling",
        ".size_map": "envelopes",
        ".spawn_trees": "spawn_tree",
        ".stopping_frontiers": "stopping",
        ".taint_flows": "taint",
        ".timelines": "timeline",
    },
)
