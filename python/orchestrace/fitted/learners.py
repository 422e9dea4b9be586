"""The regressions of scikit-learn, an optional dependency."""

import importlib
from contextlib import AbstractContextManager
from typing import Any

from ..errors import ParameterError


def one_thread() -> AbstractContextManager[object]:
    """Sums in one order: their last bits must not depend on the machine."""
    limits: Any = importlib.import_module("threadpoolctl").threadpool_limits
    held: AbstractContextManager[object] = limits(limits=1)
    return held


def learner(module: str, name: str, option: str) -> Any:
    """A class of scikit-learn; `option` is what the caller asked for.

    Raises
    ------
    ParameterError
        scikit-learn is not installed; says what to run.
    """
    try:
        return getattr(importlib.import_module(f"sklearn.{module}"), name)
    except ImportError:
        raise ParameterError(f"{option} needs scikit-learn: pip install orchestrace[fit]") from None
