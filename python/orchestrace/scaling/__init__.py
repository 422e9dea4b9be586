"""Growth with size: laws, diffusion of credit, published sizes, the paper pool of the survey."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
    from .diffusion import DiffusionLaw, credit_snr, diffusion_law, rollouts_needed
    from .laws import fit_law, predict_law
    from .paper_pool import survey
    from .published_sizes import envelopes, gap

__all__ = [
    "DiffusionLaw",
    "credit_snr",
    "diffusion_law",
    "envelopes",
    "fit_law",
    "gap",
    "predict_law",
    "rollouts_needed",
    "survey",
]

load_when_asked(
    __name__,
    {
        ".diffusion": "DiffusionLaw credit_snr diffusion_law rollouts_needed",
        ".laws": "fit_law predict_law",
        ".paper_pool": "survey",
        ".published_sizes": "envelopes gap",
    },
)
