"""Paths as callers name them."""

import os
from pathlib import Path

from .errors import ParameterError


def expanded(path: str | os.PathLike[str]) -> str:
    """A path as text, with a leading ``~`` or ``~user`` replaced by the home folder it stands for."""
    return os.path.expanduser(os.fspath(path))


def path_of(target: object) -> Path:
    """A path that a caller names.

    Raises
    ------
    ParameterError
        It is not a path.
    """
    if not isinstance(target, str | os.PathLike):
        raise ParameterError(f"path is of type {type(target).__name__}, expected the name of a file")
    name = os.fspath(target)
    if not isinstance(name, str) or not name or "\0" in name:
        raise ParameterError(f"path is {name!r}, expected the name of a file")
    return Path(expanded(name))
