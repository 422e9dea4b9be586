"""Writing and removal of objects: files in parallel, and small ones on a condition."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from ..base.errors import InputError
from .addresses import Address
from .objects import content, version_of
from .repeating import Short, repeated
from .stores import Unlike

PART: Final = 8 << 20
"""Bytes of a part of an object that is written in parts."""
AT_ONCE: Final = 4
"""Files, and of each two parts, that are on their way at a time."""


class Overtaken(InputError):
    """Somebody else has written the object meanwhile."""


def upload(files: Sequence[tuple[Path, Address]], store: Any) -> list[str | None]:
    """Write files as objects, which are there completely when it returns; the tag of each.

    Raises
    ------
    InputError
        One cannot be written.
    """
    import obstore

    def upload_file(file: tuple[Path, Address]) -> str | None:
        path, address = file

        def write() -> str | None:
            try:
                answer = obstore.put(store, address.key, path, chunk_size=PART, max_concurrency=2)
            except FileNotFoundError as error:
                if "NoSuchUpload" not in str(error):
                    raise
                # The answer to the last request was lost, and its repetition finds no upload to complete.
                raise Short from None
            tag: str | None = answer["e_tag"]
            return tag

        return repeated(write, address, doing="write")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(upload_file, files))


def replace(address: Address, data: bytes, version: dict[str, Any] | None, store: Any) -> dict[str, Any]:
    """Write a small object in place of the version that is known, or where none is; its new version.

    An answer may be lost after the object was written. So if the condition fails, and what is there is what
    was to be written, it is taken for written.

    Raises
    ------
    Overtaken
        There is another version.
    InputError
        It cannot be written.
    """
    import obstore
    from obstore.exceptions import AlreadyExistsError, PreconditionError

    def put() -> dict[str, Any]:
        mode = "create" if version is None else version
        try:
            return version_of(obstore.put(store, address.key, data, mode=mode, use_multipart=False))
        except (AlreadyExistsError, PreconditionError):
            current = content(address, store)
            if current is not None and current[0] == data:
                return current[1]
            raise Overtaken(f"'{address.url}' was written by another process in the meantime") from None

    return repeated(put, address, doing="write")


def remove(addresses: Sequence[Address], store: Any) -> None:
    """Remove objects; one that is gone already is no error.

    Raises
    ------
    InputError
        One cannot be removed.
    """
    import obstore

    for address in addresses:
        with suppress(Unlike):
            repeated(partial(obstore.delete, store, address.key), address, doing="remove")
