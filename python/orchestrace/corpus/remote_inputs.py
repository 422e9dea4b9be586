"""Recordings in object storage: which objects a source names, and copies of them while they are read.

Formats are detected, resumed and looked at again from files, and an id may follow from a file's name. So
objects are copied to scratch files of the same names, and the tables call them by their addresses.
"""

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import _core
from ..base.errors import InputError
from ..base.text import plain
from ..storage.addresses import address_of, is_address
from ..storage.fetching import copies, fetch, scratch
from ..storage.lending import lent
from ..storage.objects import RemoteObject, beginning, has_magic, listed, look_up, matching
from ..storage.stores import open_store
from .on_disk import BEGINNING, MANIFEST
from .recording_names import KINDS, is_recording

Named = tuple[str, str]
"""Where a file lies, and what the tables call it."""


def remote_files(url: str) -> tuple[list[RemoteObject], int]:
    """The objects that an address names, by key, and how many of a prefix are no recordings.

    Raises
    ------
    InputError
        Nothing is there, it is a corpus, or it cannot be listed.
    ParameterError
        The address is none.
    """
    address = address_of(url)
    store = open_store(address)
    if has_magic(address):
        found = matching(address, store)
        if not found:
            raise InputError(f"no object matches '{plain(address.url)}'")
        return found, 0
    if not url.partition("?")[0].endswith("/") and (one := look_up(address, store)) is not None:
        return [one], 0
    found = listed(address, store)
    if not found:
        raise InputError(f"no such object or prefix: '{plain(address.url)}'; keys are case-sensitive")
    return _of_prefix(address.url, address.key, found, store)


def _of_prefix(
    url: str, prefix: str, found: list[RemoteObject], store: Any
) -> tuple[list[RemoteObject], int]:
    """What of a listing is read: recordings, outside of folders that are hidden or corpora."""
    depth = len(prefix) + 1 if prefix else 0
    corpora = tuple(
        one.address.key.removesuffix(MANIFEST)
        for one in found
        if one.address.name == MANIFEST and beginning(one, len(BEGINNING), store) == BEGINNING
    )
    if any(len(key) <= depth for key in corpora):
        raise InputError(f"'{plain(url)}' is a corpus that ingest made: open it with read_corpus")
    here, skipped = [], 0
    for one in found:
        *folders, name = one.address.key[depth:].split("/")
        if any(folder.startswith(".") for folder in folders) or one.address.key.startswith(corpora):
            continue
        if is_recording(name):
            here.append(one)
        else:
            skipped += not name.startswith(".")
    if not here:
        raise InputError(f"no recording ({KINDS}) below '{plain(url)}'")
    return here, skipped


@contextmanager
def local_files(
    inputs: Sequence[str | RemoteObject], progress: Callable[[int, int], object] | None = None
) -> Iterator[list[Named]]:
    """Files for inputs: those on disk as they are, objects as copies that are gone at the end.

    Raises
    ------
    InputError
        An object cannot be copied.
    """
    remote = [one for one in inputs if isinstance(one, RemoteObject)]
    with scratch(sum(one.size for one in remote), "objects") as folder:
        targets = copies(remote, folder)
        fetch(targets, progress)
        paths = iter(path for _, path in targets)
        yield [
            (os.fspath(next(paths)), one.url)
            if isinstance(one, RemoteObject)
            # A name need not be UTF-8, the tables are.
            else (os.path.abspath(one), os.fsencode(one).decode("utf-8", "replace"))
            for one in inputs
        ]


def read_copies(
    inputs: Sequence[str | RemoteObject],
    threads: int | None,
    progress: Callable[[int, int], object] | None,
    options: dict[str, Any],
) -> _core.Store:
    """Read inputs of which some are in object storage into memory.

    Raises
    ------
    InputError
        One cannot be read.
    """
    with local_files(inputs, progress) as named:
        reader = _core.TraceReader([(path, name, (0, 0, 0, False)) for path, name in named], **options)
        batch = reader.next(sys.maxsize, threads=threads, progress=progress)
        if batch is None:
            return _core.read([], **options)
        return batch[0]


def read_again(name: str) -> Named:
    """A copy of the object that the tables call so, or of the archive that the file lies in, and its name.

    Raises
    ------
    InputError
        It is gone or cannot be read.
    """
    address = address_of(name)
    store = open_store(address)
    key = address.key
    while key:
        if (one := look_up(address.at(key), store)) is not None:
            return os.fspath(lent(one)), one.url
        key = key.rpartition("/")[0]
    raise InputError(f"'{plain(name)}' is gone: it cannot be read again")


def is_remote_corpus(path: str) -> bool:
    """Whether an address is that of a corpus, as far as one may look."""
    if not is_address(path):
        return False
    address = address_of(path)
    if has_magic(address) or address.query:
        return False
    store = open_store(address)
    try:
        one = look_up(address.below(MANIFEST), store)
        return one is not None and beginning(one, len(BEGINNING), store) == BEGINNING
    except InputError:
        return False  # who opens it says what is wrong
