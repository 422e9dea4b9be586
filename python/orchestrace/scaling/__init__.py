"""Growth with size: laws, diffusion of credit, published sizes, the paper pool of the survey."""

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
