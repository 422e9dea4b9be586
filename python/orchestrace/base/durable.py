"""Files that are written under another name, made durable and renamed."""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

_OWN: Final = os.urandom(8).hex()


def temporary(path: Path) -> Path:
    """Where this process writes a file before it is published; no listing takes it for a published one.

    Nobody can guess the name and put a link there. It has to be opened with the mode ``xb``: not even then is
    the link followed. What a killed process leaves behind is known by its beginning and end.
    """
    return path.with_name(f".{_OWN}.{path.name}.tmp")


def clear_temporary(folder: Path) -> None:
    """Remove what killed processes wrote into a folder and never published, as far as that is possible."""
    for path in folder.glob(".*.tmp"):
        if re.fullmatch(r"\.[0-9a-f]{16}\..+\.tmp", path.name):
            with suppress(OSError):
                path.unlink()


def replace(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file completely, then give it its name."""
    made = temporary(path)
    try:
        with open(made, "xb") as file:
            write(file)
        sync_file(made)
        os.replace(made, path)
    except BaseException:
        with suppress(OSError):
            made.unlink(missing_ok=True)
        raise


def sync_file(path: Path) -> None:
    """Wait until a file is on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


sync_folder = sync_file  # a folder holds names as a file holds bytes
