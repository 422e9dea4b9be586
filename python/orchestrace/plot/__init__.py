"""Pictures of runs, credit and measurements, as Altair charts (the extra ``plot``)."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names, which `python .ci/pages.py write` makes of the verbs in the files
    from .agreement_matrix import agreement as agreement
    from .credits import credit as credit
    from .intervention_effects import effects as effects
    from .law_fits import laws as laws
    from .presence import concurrency as concurrency
    from .saving import save as save
    from .scaling_curves import scaling as scaling
    from .size_map import envelopes as envelopes
    from .spawn_trees import spawn_tree as spawn_tree
    from .stopping_frontiers import stopping as stopping
    from .taint_flows import taint as taint
    from .timelines import timeline as timeline
    from .training_panels import training as training


load_lazily(__name__)
