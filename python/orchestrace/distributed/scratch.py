"""The folder of a plan that lasts as long as one call, unless the call fails."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..base.errors import InputError, OrchestraceError, ParameterError
from ..base.locks import lock
from ..base.publication import refusal
from .folder import PARTS, PLAN, clear_parts


@contextmanager
def scratch(folder: Path) -> Iterator[None]:
    """A folder of this call alone, removed when the call succeeds.

    After an error or Ctrl-C it stays if a part is done, and the error says where.

    Raises
    ------
    InputError
        Another process computes in it, or the system refuses it.
    ParameterError
        A file has the name of the folder that it is to lie in.
    """
    with _locked(folder):
        if not (folder / PLAN).exists():  # a kill came while the folder was made, or removed
            shutil.rmtree(folder, ignore_errors=True)
        try:
            yield
        except OrchestraceError as error:
            if _is_worth_keeping(folder) and os.fspath(folder) not in str(error):
                error.args = (f"{error}; {_resumption(folder)}", *error.args[1:])
            raise
        except BaseException as error:
            if _is_worth_keeping(folder):
                error.add_note(_resumption(folder))
            raise
        shutil.rmtree(folder, ignore_errors=True)  # the table is there, whatever becomes of its parts


def _is_worth_keeping(folder: Path) -> bool:
    """Whether some part is done; if none is, the folder is removed."""
    clear_parts(folder)
    if any((folder / PARTS).glob("*.json")):
        return True
    shutil.rmtree(folder, ignore_errors=True)
    return False


def _resumption(folder: Path) -> str:
    return f"what is done is in '{folder}', and the same call resumes from it"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    path = folder.with_name(f"{folder.name}.lock")
    if path.parent.is_file():
        raise ParameterError(f"folder '{path.parent}' is a file, expected a folder")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise InputError(
            f"{refusal(path, error)}; give the engine a folder that all workers see: folder=..."
        ) from error
    try:
        if not _is_ours(path, handle):
            raise InputError(
                f"another process computes the same call in '{folder}': wait for it, or give the engine"
                " another folder="
            )
        try:
            yield
        finally:
            with suppress(OSError):
                path.unlink()
    finally:
        os.close(handle)


def _is_ours(path: Path, handle: int) -> bool:
    """Lock the file; it still has to have its name, which the call that had it before may have removed."""
    try:
        if not lock(handle):
            return False
    except OSError:
        return True  # a file system without locks: the same bytes are written twice
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    locked = os.fstat(handle)
    return (named.st_dev, named.st_ino) == (locked.st_dev, locked.st_ino)
