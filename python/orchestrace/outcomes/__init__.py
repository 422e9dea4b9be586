"""Outcome models: their weights fitted to recordings, and what holds under several of them."""

from .fitting import FittedOutcome, fit
from .model_sensitivity import models, sensitivity

__all__ = [
    "FittedOutcome",
    "fit",
    "models",
    "sensitivity",
]
