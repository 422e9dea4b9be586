"""Copies of single objects for the life of the process, for repeated reads of a recording."""

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Final

from .fetching import copies, fetch
from .objects import RemoteObject

_LENT: Final[dict[tuple[str, int, int], Path]] = {}


def lent(remote: RemoteObject) -> Path:
    """A copy of an object as it was looked up.

    Raises
    ------
    InputError
        It cannot be read.
    """
    key = (remote.url, remote.size, remote.version)
    if key not in _LENT or not _LENT[key].is_file():
        folder = Path(tempfile.mkdtemp(prefix="orchestrace-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        ((_, path),) = targets = copies([remote], folder)
        fetch(targets)
        _LENT[key] = path
    return _LENT[key]
