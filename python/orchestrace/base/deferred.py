"""Packages that are slow to import, and that few calls need: loaded when something of them is used."""

import sys
from importlib import import_module
from typing import Any


class Deferred:
    """A module that loads when the first of its names is asked for.

    Parameters
    ----------
    name
        Its full name.

    Examples
    --------
    >>> from orchestrace.base.deferred import Deferred
    >>> Deferred("fractions").Fraction(1, 2)
    Fraction(1, 2)
    """

    def __init__(self, name: str) -> None:
        self._module = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._module), name)


def is_of_numpy(value: object, kind: str) -> bool:
    """Whether a value is of a class of NumPy; False where NumPy is not loaded yet.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.base.deferred import is_of_numpy
    >>> is_of_numpy(np.zeros(2), "ndarray"), is_of_numpy([0, 0], "ndarray")
    (True, False)
    """
    return isinstance(value, getattr(sys.modules.get("numpy"), kind, ()))
