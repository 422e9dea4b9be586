"""Paths as callers write them."""

import errno
import os
import stat
import sys
from pathlib import Path

from .errors import InputError, ParameterError
from .text import plain


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


def is_file(path: str) -> bool:
    """Whether there is a file of this name, or a link to one; `os.path.isfile` takes one in trouble for none.

    Raises
    ------
    InputError
        The system does not say what is there.
    """
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL):
            return False
        raise InputError(f"{plain(path)}: {error.strerror or error}") from error


def expect_an_end(path: str | os.PathLike[str]) -> None:
    """Refuse devices that give bytes forever, such as ``/dev/zero``; terminals and the null device do not.

    Raises
    ------
    InputError
        The path names such a device.
    """
    if sys.platform == "win32":
        return  # the null device is the only one that has a name of a file
    try:
        about = os.stat(path)
        if not stat.S_ISCHR(about.st_mode) or os.path.samestat(about, os.stat(os.devnull)):
            return
        handle = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            ends = os.isatty(handle)
        finally:
            os.close(handle)
    except (OSError, ValueError):
        return  # whoever opens it says so
    if not ends:
        raise InputError(f"'{plain(os.fspath(path))}' is a device without an end, expected a file or a pipe")
