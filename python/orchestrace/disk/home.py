"""A corpus in object storage: its objects, and the folder of copies that every step works on.

Parts are written before the manifest that lists them, and the manifest is replaced on the condition that it
is the one that was read. So readers see the corpus of before or of after a step, and of two ingests the
later one goes on while the earlier one learns of it at its next step.
"""

import os
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from ..base.durable import temporary
from ..base.errors import InputError
from ..corpus.on_disk import MANIFEST
from ..storage.addresses import Address
from ..storage.cache import folder_of, make_room
from ..storage.fetching import fetch
from ..storage.objects import RemoteObject, content, listed, look_up
from ..storage.stores import open_store
from ..storage.writing import Overtaken, remove, replace, upload

_LOCK: Final = threading.Lock()
"""Two threads may want copies of the same files."""


class Wanted(NamedTuple):
    """A file of a corpus that is read now."""

    name: str
    """Its path below the corpus."""
    size: int | None
    """Null where the manifest does not say it."""


class Home:
    """Where a corpus in object storage lies."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.folder = folder_of(address)
        """Of the copies."""
        self._version: dict[str, Any] | None = None
        self._store: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process, perhaps of another machine, has a client and copies of its own."""
        return Home, (self.address,)

    @property
    def url(self) -> str:
        """The address, as messages show it."""
        return self.address.url

    @property
    def store(self) -> Any:
        """The client, made when it is first needed."""
        if self._store is None:
            self._store = open_store(self.address)
        return self._store

    def manifest(self) -> bytes | None:
        """The manifest as it is now; what is published next replaces this one.

        Raises
        ------
        InputError
            It cannot be read.
        """
        current = content(self.address.below(MANIFEST), self.store)
        self._version = None if current is None else current[1]
        return None if current is None else current[0]

    def publish(self, data: bytes) -> None:
        """Put a manifest in place of the one that was read or published last.

        Raises
        ------
        InputError
            Another ingest has published one meanwhile, or it cannot be written.
        """
        try:
            self._version = replace(self.address.below(MANIFEST), data, self._version, self.store)
        except Overtaken:
            raise InputError(
                f"another ingest is writing to '{self.url}' and has taken over from this one: let it come to "
                "its end, then run the same call again; nothing of the corpus is lost"
            ) from None

    def listing(self) -> dict[str, RemoteObject]:
        """All objects below the corpus, by their path there.

        Raises
        ------
        InputError
            They cannot be listed.
        """
        depth = len(self.address.key) + 1 if self.address.key else 0
        return {remote.address.key[depth:]: remote for remote in listed(self.address, self.store)}

    def upload(self, files: Sequence[tuple[Path, str]]) -> list[str | None]:
        """Write files as objects of these names; their tags.

        Raises
        ------
        InputError
            One cannot be written.
        """
        return upload([(path, self.address.below(name)) for path, name in files], self.store)

    def remove(self, names: Iterable[str]) -> None:
        """Remove objects.

        Raises
        ------
        InputError
            One cannot be removed.
        """
        remove([self.address.below(name) for name in names], self.store)

    def fetch(self, files: Iterable[Wanted], *, anew: bool = False) -> None:
        """Copy files to this machine. A copy of the right size is not fetched again, unless `anew`.

        Copies are not compared with checksums here.

        Raises
        ------
        Unlike
            An object is gone or has another size.
        InputError
            It cannot be read, or there is no room for a copy.
        """
        with _LOCK:
            wanted = {file.name: file for file in files}
            absent = [file for file in wanted.values() if anew or not self._is_here(file)]
            if not absent:
                return
            objects = [(file, self._object(file)) for file in absent]
            paths = {file.name: self.folder / file.name for file in absent}
            make_room(
                self.folder,
                sum(remote.size for _, remote in objects),
                {self.folder / name for name in wanted},
            )
            fetch([(remote, temporary(paths[file.name])) for file, remote in objects])
            for path in paths.values():
                os.replace(temporary(path), path)

    def _is_here(self, file: Wanted) -> bool:
        try:
            size = (self.folder / file.name).stat().st_size
        except OSError:
            return False
        return file.size is None or file.size == size

    def _object(self, file: Wanted) -> RemoteObject:
        address = self.address.below(file.name)
        if file.size is not None:
            return RemoteObject(address, file.size, datetime.fromtimestamp(0, UTC), None)
        remote = look_up(address, self.store)
        if remote is None:
            raise InputError(f"no such object: '{address.url}', which the manifest of the corpus lists")
        return remote
