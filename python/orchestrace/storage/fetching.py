"""Copies of objects on disk: ranges fetched side by side, each tried again until it is whole."""

import atexit
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ..base.errors import InputError
from .addresses import Address
from .objects import RemoteObject
from .repeating import Short, repeated
from .stores import changed, open_store

CHUNK: Final = 8 << 20
"""Bytes of a range: large enough that the wait for an answer is a small part of its time."""
AT_ONCE: Final = 8
"""Ranges that are on their way, and so held in memory, at a time."""
_BINARY: Final = getattr(os, "O_BINARY", 0)
"""Without it Windows writes two bytes for a line end."""
Target = tuple[RemoteObject, Path]
_LENT: Final[dict[tuple[str, int, int], Path]] = {}


def fetch(targets: Sequence[Target], progress: Callable[[int, int], object] | None = None) -> None:
    """Copy objects to files, which are there completely when it returns.

    Raises
    ------
    InputError
        An object is gone, has changed since it was listed, may not be read, or does not come in spite of
        repetitions; or the disk is full.
    """
    total, done = sum(remote.size for remote, _ in targets), 0
    stores: dict[tuple[str, str, str], Any] = {}
    stop = threading.Event()
    pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="fetch")
    waiting: set[Future[int]] = set()
    files: dict[Path, _Target] = {}

    def settle(least: int) -> None:
        nonlocal done, waiting
        while len(waiting) > least:
            ready, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
            for future in ready:
                done += future.result()
            if progress is not None and ready:
                progress(done, total)

    try:
        for remote, path in targets:
            place = (remote.address.scheme, remote.address.place, remote.address.query)
            if place not in stores:
                stores[place] = open_store(remote.address)
            files[path] = file = _Target(remote, path, stores[place], stop)
            for start in range(0, remote.size, CHUNK):
                waiting.add(pool.submit(file.copy, start))
                settle(2 * AT_ONCE)  # what is queued is no more than what keeps all busy
        settle(0)
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        for file in files.values():
            file.close()


class _Target:
    """A file that an object is copied to."""

    def __init__(self, remote: RemoteObject, path: Path, store: Any, stop: threading.Event) -> None:
        self._object, self._path, self._store, self._stop = remote, path, store, stop
        self._lock, self._cursor = threading.Lock(), threading.Lock()
        self._is_complete = False
        self._left = remote.size
        self._handle: int | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _BINARY, 0o600)
        except OSError as error:
            raise _no_room(path, error) from error
        if not remote.size:
            self.close()

    def copy(self, start: int) -> int:
        """Copy the range that begins here; its bytes."""
        end = min(start + CHUNK, self._object.size)
        if not self._is_complete:
            repeated(lambda: self._copy_range(start, end), self._object.address, stop=self._stop)
        with self._lock:
            self._left -= end - start
            if not self._left:
                self.close()  # so that no more files are open than are on their way
        return end - start

    def _copy_range(self, start: int, end: int) -> None:
        import obstore
        from obstore.exceptions import NotSupportedError

        tag = self._object.e_tag
        options: dict[str, object] = {"range": (start, end)}
        if tag is not None and not tag.startswith("W/"):  # a weak one never matches
            options["if_match"] = tag
        try:
            answer = obstore.get(self._store, self._object.address.key, options=options)
        except NotSupportedError:
            return self._copy_all()
        if answer.meta["size"] != self._object.size:
            raise changed(self._object.address)
        data = answer.bytes()
        if len(data) != end - start:
            raise Short
        self._write(memoryview(data), start)

    def _copy_all(self) -> None:
        """Copy all of it, from a server that gives no ranges."""
        import obstore

        with self._lock:
            if self._is_complete:
                return
            at = 0
            for piece in obstore.get(self._store, self._object.address.key).stream(min_chunk_size=1 << 20):
                self._write(memoryview(piece), at)
                at += len(piece)
            if at != self._object.size:
                raise Short
            self._is_complete = True

    def _write(self, data: memoryview, at: int) -> None:
        assert self._handle is not None
        try:
            while data:
                count = self._put(self._handle, data, at)
                data, at = data[count:], at + count
        except OSError as error:
            raise _no_room(self._path, error) from error

    def _put(self, handle: int, data: memoryview, at: int) -> int:
        if sys.platform != "win32":
            return os.pwrite(handle, data, at)
        with self._cursor:  # the file has one cursor there
            os.lseek(handle, at, os.SEEK_SET)
            return os.write(handle, data)

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _no_room(path: Path, error: OSError) -> InputError:
    return InputError(
        f"cannot copy from object storage to '{path.parent}': {error.strerror or error}; set TMPDIR (of what "
        "is kept, ORCHESTRACE_CACHE) to a folder with more room"
    )


def lent(remote: RemoteObject) -> Path:
    """A copy of an object as it was looked up, for the life of the process: a recording is read repeatedly.

    Raises
    ------
    InputError
        It cannot be read.
    """
    key = (remote.url, remote.size, remote.version)
    if key not in _LENT or not _LENT[key].is_file():
        folder = Path(tempfile.mkdtemp(prefix="orchestrace-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        ((_, path),) = targets = copies([remote], folder)
        fetch(targets)
        _LENT[key] = path
    return _LENT[key]


@contextmanager
def scratch(size: int, why: str) -> Iterator[Path]:
    """A folder for copies of this many bytes, gone at the end; in the folder that TMPDIR names.

    Raises
    ------
    InputError
        There is not room for them.
    """
    with tempfile.TemporaryDirectory(prefix="orchestrace-", ignore_cleanup_errors=True) as name:
        free = shutil.disk_usage(name).free
        if size > free:
            raise InputError(
                f"copies of {why} need {size / 2**30:,.1f} GiB, and '{Path(name).parent}' has "
                f"{free / 2**30:,.1f} GiB left: set TMPDIR to a folder with more room, or read fewer"
            )
        yield Path(name)


def copies(objects: Sequence[RemoteObject], folder: Path) -> list[Target]:
    """Files below a folder for objects, each named as the object is, since formats take ids from names."""
    return [
        (remote, folder / f"{place:06}" / _local_name(remote.address)) for place, remote in enumerate(objects)
    ]


def _local_name(address: Address) -> str:
    name = os.fsdecode(os.fsencode(address.name)[-240:]).replace("\0", "_")
    return name if name not in ("", ".", "..") else "object"
