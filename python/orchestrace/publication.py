"""Files and folders that take their name when they are complete: whoever looks sees the old one or the new
one, never half of one."""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .errors import InputError, ParameterError
from .manifest import sync_file, sync_folder, temporary


def path_of(target: object) -> Path:
    """A path that a caller named.

    Raises
    ------
    ParameterError
        It is none.
    """
    if not isinstance(target, str | os.PathLike):
        raise ParameterError(f"path is of type {type(target).__name__}, expected the name of a file")
    name = os.fspath(target)
    if not isinstance(name, str) or not name or "\0" in name:
        raise ParameterError(f"path is {name!r}, expected the name of a file")
    return Path(name)


@contextmanager
def published_file(target: Path) -> Iterator[Path]:
    """Where to write a file, which takes its name if the block ends well and leaves nothing if it does not.

    A pipe or a device is written as it is: it has no name to give, and nothing to keep.

    Raises
    ------
    InputError
        The system refuses, in one line.
    """
    # what a link leads to is replaced, not the link
    path = Path(os.path.realpath(target))
    try:
        if _is_stream(path):
            yield path
            return
        if path.is_dir():
            raise InputError(f"{target}: it is a folder, expected the name of a file")
        made = temporary(path)
        try:
            yield made
            sync_file(made)
            os.replace(made, path)
            sync_folder(path.parent)
        except BaseException:
            with suppress(OSError):
                made.unlink(missing_ok=True)
            raise
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{target}: {error.strerror or error}") from error


@contextmanager
def published_folder(target: Path) -> Iterator[Path]:
    """The same for a folder, which must be absent or empty.

    Raises
    ------
    ParameterError
        It has something in it already.
    InputError
        The system refuses, in one line.
    """
    path = Path(os.path.realpath(target))
    try:
        if path.exists() and not path.is_dir():
            raise ParameterError(f"'{target}' is a file, expected a folder")
        if path.is_dir() and any(path.iterdir()):
            raise ParameterError(f"folder '{target}' is not empty: choose another")
        path.parent.mkdir(parents=True, exist_ok=True)
        made = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
        made.mkdir()
        try:
            yield made
            sync_folder(made)
            os.replace(made, path)
            sync_folder(path.parent)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
    except InputError as error:
        if error.__cause__ is None:
            raise
        # said by what goes on after a crash, which this does not
        reason = str(error).removeprefix(f"cannot write to '{made}': ").partition("; what is published")[0]
        raise InputError(f"{target}: {reason}") from error.__cause__
    except ParameterError:
        raise
    except OSError as error:
        raise InputError(f"{target}: {error.strerror or error}") from error


def _is_stream(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
