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
from ..storage.fetching import copies, fetch, lent, scratch
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
        The address is not valid.
    """
    address = address_of(url)
    store = open_store(address)
    if has_magic(address):
        objects = matching(address, store)
        if not objects:
            raise InputError(f"no object matches '{plain(address.url)}'")
        return objects, 0
    if not url.partition("?")[0].endswith("/") and (remote := look_up(address, store)) is not None:
        return [remote], 0
    objects = listed(address, store)
    if not objects:
        raise InputError(f"no such object or prefix: '{plain(address.url)}'; keys are case-sensitive")
    return _of_prefix(address.url, address.key, objects, store)


def _of_prefix(
    url: str, prefix: str, objects: list[RemoteObject], store: Any
) -> tuple[list[RemoteObject], int]:
    """The recordings of a listing, outside of hidden folders and corpora; and the number of other objects."""
    depth = len(prefix) + 1 if prefix else 0
    corpora = tuple(
        remote.address.key.removesuffix(MANIFEST)
        for remote in objects
        if remote.address.name == MANIFEST and beginning(remote, len(BEGINNING), store) == BEGINNING
    )
    if any(len(key) <= depth for key in corpora):
        raise InputError(f"'{plain(url)}' is a corpus that ingest made: open it with read_corpus")
    here, skipped = [], 0
    for remote in objects:
        *folders, name = remote.address.key[depth:].split("/")
        if any(folder.startswith(".") for folder in folders) or remote.address.key.startswith(corpora):
            continue
        if is_recording(name):
            here.append(remote)
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
    objects = [file for file in inputs if isinstance(file, RemoteObject)]
    with scratch(sum(file.size for file in objects), "objects") as folder:
        targets = copies(objects, folder)
        fetch(targets, progress)
        paths = iter(path for _, path in targets)
        yield [
            (os.fspath(next(paths)), file.url)
            if isinstance(file, RemoteObject)
            # A name need not be UTF-8, the tables are.
            else (os.path.abspath(file), os.fsencode(file).decode("utf-8", "replace"))
            for file in inputs
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
    """A copy of the object of this name, or of the archive that the file lies in, and its name.

    Raises
    ------
    InputError
        It is gone or cannot be read.
    """
    address = address_of(name)
    store = open_store(address)
    key = address.key
    while key:
        if (remote := look_up(address.at(key), store)) is not None:
            return os.fspath(lent(remote)), remote.url
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
        manifest = look_up(address.below(MANIFEST), store)
        return manifest is not None and beginning(manifest, len(BEGINNING), store) == BEGINNING
    except InputError:
        return False  # the call that opens it reports what is wrong
