"""Outcome models: weights fitted to recordings, and conclusions under several models."""

from .fitting import FittedOutcome, fit
from .model_sensitivity import models, sensitivity

__all__ = [
    "FittedOutcome",
    "fit",
    "models",
    "sensitivity",
]
