"""Files written under another name, made durable, then renamed."""

import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

_LONGEST: Final = 230  # bytes of a name, which systems hold to 255 with what is added here


def new_key() -> str:
    """A key of `temporary` that nobody else has."""
    return os.urandom(8).hex()


_process_key = new_key()


def _renew_key() -> None:
    """A forked process is another one: names of what its killed siblings left must be free for it."""
    global _process_key
    _process_key = new_key()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_key)


def temporary(path: Path, key: str | None = None) -> Path:
    """Where this process writes a file before it is published; no listing takes it for a published one.

    Nobody can guess the name and put a link there. It has to be opened with the mode ``xb``: not even then is
    the link followed. What a killed process leaves behind is known by its beginning and end. Another `key`,
    from `new_key`, keeps calls apart that write to one name at once.
    """
    name = path.name if len(os.fsencode(path.name)) <= _LONGEST else path.name[:40]
    return path.with_name(f".{key or _process_key}.{name}.tmp")


def is_temporary(path: Path) -> bool:
    """Whether a file has such a name."""
    return re.fullmatch(r"\.[0-9a-f]{16}\..+\.tmp", path.name) is not None


def clear_temporary(folder: Path) -> None:
    """Remove what killed processes wrote into a folder and never published, as far as that is possible."""
    for path in folder.glob(".*.tmp"):
        if is_temporary(path):
            with suppress(OSError):
                path.unlink()


def replace(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file completely, then give it its name."""
    unpublished = temporary(path)
    try:
        with open(unpublished, "xb") as file:
            write(file)
        sync_file(unpublished)
        os.replace(unpublished, path)
    except BaseException:
        with suppress(OSError):
            unpublished.unlink(missing_ok=True)
        raise


def sync_file(path: Path) -> None:
    """Wait until a file is on disk."""
    handle = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on disk; Windows has no such call."""
    if sys.platform != "win32":
        sync_file(path)  # a folder holds names as a file holds bytes
