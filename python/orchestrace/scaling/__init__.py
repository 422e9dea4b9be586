"""Growth with size: laws, diffusion of credit, published sizes, the paper pool of the survey."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .diffusion import (
        DiffusionLaw as DiffusionLaw,
        credit_snr as credit_snr,
        diffusion_law as diffusion_law,
        rollouts_needed as rollouts_needed,
    )
    from .laws import fit_law as fit_law, predict_law as predict_law
    from .paper_pool import survey as survey
    from .published_sizes import (
        distance_to_published as distance_to_published,
        list_envelopes as list_envelopes,
    )


load_lazily(__name__)
