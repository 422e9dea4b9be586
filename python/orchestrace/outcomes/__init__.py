"""Outcome models: weights fitted to recordings, and conclusions under several models."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_when_asked

if TYPE_CHECKING:  # what a type checker reads; the table below is what runs
    from .fitting import FittedOutcome, fit
    from .model_sensitivity import models, sensitivity

__all__ = [
    "FittedOutcome",
    "fit",
    "models",
    "sensitivity",
]

load_when_asked(
    __name__,
    {
        ".fitting": "FittedOutcome fit",
        ".model_sensitivity": "models sensitivity",
    },
)
