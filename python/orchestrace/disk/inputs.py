"""Inputs of an ingest where they lie: files on disk, and objects with copies while they are read."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..base.errors import InputError
from ..base.paths import is_file
from ..storage.addresses import Address, address_of, is_address
from ..storage.fetching import copies, fetch, scratch
from ..storage.objects import RemoteObject, look_up
from .manifest import Input


class Content(NamedTuple):
    """What is known of a file without reading it."""

    size: int
    mtime_ns: int
    """Of an object a number that changes with its content."""


class InputFiles:
    """The inputs of one call, and those of earlier ones that it looks at again.

    An input is known by its absolute path or by its address. Copies of objects are made when they are first
    read, side by side, and stay to the end of the call.
    """

    def __init__(self, objects: Iterable[RemoteObject], folder: Path) -> None:
        self._objects: dict[str, RemoteObject | None] = {remote.url: remote for remote in objects}
        self._addresses: dict[str, Address] = {remote.url: remote.address for remote in objects}
        self._folder = folder
        self._copies: dict[str, Path] = {}

    def identity(self, name: str) -> str:
        """What an input is known by, whatever folder the call is made from."""
        return name if is_address(name) else os.path.abspath(name)

    def exists(self, path: str) -> bool:
        """Whether an input is there.

        Raises
        ------
        InputError
            The system does not say.
        """
        return self._object(path) is not None if is_address(path) else is_file(path)

    def content(self, name: str) -> Content:
        """Size and time of an input.

        Raises
        ------
        InputError
            It is not there.
        """
        if is_address(name):
            remote = self._object(name)
            if remote is None:
                raise InputError(f"no such object: '{name}'")
            return Content(remote.size, remote.version)
        try:
            stat = os.stat(name)
        except OSError as error:
            raise InputError(f"{name}: {error.strerror or error}") from error
        return Content(stat.st_size, stat.st_mtime_ns)

    def is_as_read(self, entry: Input) -> bool:
        """Whether an input is still there as it was when reading began."""
        return self.exists(entry.path) and self.content(entry.path) == (entry.size, entry.mtime_ns)

    def local(self, path: str) -> str:
        """A file to read an input from.

        Raises
        ------
        InputError
            It cannot be copied.
        """
        if not is_address(path):
            return path
        self.copy([path])
        return os.fspath(self._copies[path])

    def copy(self, paths: Iterable[str]) -> None:
        """Have copies of those of the inputs that are objects.

        Raises
        ------
        InputError
            One cannot be copied.
        """
        absent = [path for path in dict.fromkeys(paths) if is_address(path) and path not in self._copies]
        if not absent:
            return
        objects = [remote for remote in map(self._object, absent) if remote is not None]
        if len(objects) < len(absent):
            gone = next(path for path in absent if self._object(path) is None)
            raise InputError(f"no such object: '{gone}'")
        with scratch(sum(remote.size for remote in objects), "the inputs"):
            pass  # there is room
        targets = copies(objects, self._folder / f"{len(self._copies):06}")
        fetch(targets)
        self._copies |= {remote.url: path for remote, path in targets}

    def _object(self, url: str) -> RemoteObject | None:
        if url not in self._objects:
            self._objects[url] = look_up(self._addresses.get(url) or address_of(url))
        return self._objects[url]


@contextmanager
def opened_inputs(objects: Iterable[RemoteObject]) -> Iterator[InputFiles]:
    """Inputs of one call, whose copies are gone at its end."""
    with scratch(0, "the inputs") as folder:
        yield InputFiles(list(objects), folder)
