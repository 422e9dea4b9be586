"""Outcome models: weights fitted to recordings, and conclusions under several models."""

from typing import TYPE_CHECKING

from ..base.namespaces import load_lazily

if TYPE_CHECKING:  # the only list of names: type checkers and `load_lazily` read it
    from .fitting import FittedOutcome as FittedOutcome, fit as fit
    from .model_sensitivity import list_models as list_models, sensitivity as sensitivity


load_lazily(__name__)
