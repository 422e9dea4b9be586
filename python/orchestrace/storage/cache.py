"""The cache of parts of corpora in object storage, which drops the oldest first."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ..base.errors import InputError, ParameterError
from .addresses import Address

_COPIES: Final = (".parquet", ".arrows")
"""Endings of the files of a corpus, its manifest excepted."""


def cache_folder() -> Path:
    """The folder of copies: that of ORCHESTRACE_CACHE, else the system's folder for caches."""
    if folder := os.environ.get("ORCHESTRACE_CACHE"):
        return Path(folder).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "orchestrace"


def folder_of(address: Address) -> Path:
    """Where copies of what lies below an address are kept; another server has another folder."""
    server = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    key = hashlib.blake2b(f"{server}\n{address.url}".encode(), digest_size=8).hexdigest()
    name = re.sub(r"[^A-Za-z0-9.-]+", "-", address.name or address.place)[:60].strip(".-") or "corpus"
    return cache_folder() / f"{name}-{key}"


def limit() -> int | None:
    """Bytes that may be kept, as ORCHESTRACE_CACHE_LIMIT says; none where the disk is the limit.

    Raises
    ------
    ParameterError
        It is not a number of bytes.
    """
    value = os.environ.get("ORCHESTRACE_CACHE_LIMIT", "")
    if not value:
        return None
    if not value.isdecimal():
        raise ParameterError(f"ORCHESTRACE_CACHE_LIMIT is {value!r}, expected a number of bytes")
    return int(value)


def make_room(folder: Path, size: int, needed: set[Path]) -> None:
    """Remove the oldest copies until there is room for more bytes; those that are needed stay.

    Raises
    ------
    InputError
        There is not enough even without the others.
    """
    root = cache_folder()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    most = limit()
    free = shutil.disk_usage(folder).free
    copies = sorted(_copies(root)) if most is not None or free < size else []
    held = sum(length for _, length, _ in copies)
    for _, length, path in copies:
        if (most is None or held + size <= most) and size <= free:
            return
        if path not in needed:
            path.unlink(missing_ok=True)
            held, free = held - length, free + length
    if size > free:
        raise InputError(
            f"copies of a corpus need {size / 2**30:,.1f} GiB, and '{root}' has {free / 2**30:,.1f} GiB "
            "left: set ORCHESTRACE_CACHE to a folder with more room"
        )


def _copies(root: Path) -> Iterator[tuple[int, int, Path]]:
    """Time, size and path of every copy."""
    for path in root.rglob("*"):
        if path.suffix not in _COPIES:
            continue
        try:
            stat = path.stat()
        except OSError:
            continue  # another process has removed it
        yield stat.st_mtime_ns, stat.st_size, path
