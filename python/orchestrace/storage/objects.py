"""Objects and their listings."""

import hashlib
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from ..base.errors import InputError
from .addresses import Address
from .repeating import Short, repeated
from .stores import Unlike, is_passing, open_store

_MAGIC: Final = re.compile(r"[*?\[]")
_PIECES: Final = re.compile(r"\[!?\]?[^\]]*\]|.", re.DOTALL)
"""A class of characters, or a character."""


class RemoteObject(NamedTuple):
    """An object as a listing shows it."""

    address: Address
    size: int
    modified: datetime
    e_tag: str | None

    @property
    def url(self) -> str:
        """As tables and messages show it."""
        return self.address.url

    @property
    def version(self) -> int:
        """A number that changes with the content, in place of a file's time.

        Whole seconds of the last change, since listings and answers differ in what they give below, and in
        their place a hash of the tag, which shows changes within a second.
        """
        tag = hashlib.blake2b((self.e_tag or "").encode(), digest_size=8).digest()
        return int(self.modified.timestamp()) * 10**9 + int.from_bytes(tag) % 10**9


def described(address: Address, meta: Any) -> RemoteObject:
    """An object from the metadata that the client gives."""
    return RemoteObject(address, int(meta["size"]), meta["last_modified"], meta.get("e_tag"))


def look_up(address: Address, store: Any = None) -> RemoteObject | None:
    """The object at an address; None if it does not exist.

    Raises
    ------
    InputError
        It cannot be looked up.
    """
    import obstore

    store = open_store(address) if store is None else store
    if not address.key:
        return None

    def ask() -> RemoteObject:
        try:
            return described(address, obstore.head(store, address.key))
        except FileNotFoundError:
            raise
        except Exception as error:
            if address.scheme in ("http", "https") and not is_passing(error):
                # A signature, or a server, may allow reading alone.
                return described(address, obstore.get(store, address.key).meta)
            raise

    try:
        return repeated(ask, address)
    except Unlike:
        return None


def listed(address: Address, store: Any = None) -> list[RemoteObject]:
    """All objects below an address, by key.

    Raises
    ------
    InputError
        They cannot be listed.
    """
    import obstore

    if address.scheme in ("http", "https"):
        raise InputError(
            f"no such object: '{address.url}'; {address.scheme}:// has no listings: name each file"
        )
    store = open_store(address) if store is None else store

    def pages() -> list[RemoteObject]:
        listing = obstore.list(store, address.key or None, chunk_size=1000)
        return [described(address.at(meta["path"]), meta) for page in listing for meta in page]

    objects = repeated(pages, address, doing="list")
    return sorted(objects, key=lambda remote: remote.address.key)


def content(address: Address, store: Any = None) -> tuple[bytes, dict[str, Any]] | None:
    """A small object and its version, from one answer; None if it does not exist.

    Raises
    ------
    InputError
        It cannot be read.
    """
    import obstore

    store = open_store(address) if store is None else store

    def read() -> tuple[bytes, dict[str, Any]]:
        answer = obstore.get(store, address.key)
        data, meta = bytes(answer.bytes()), answer.meta
        if len(data) != meta["size"]:
            raise Short
        return data, version_of(meta)

    try:
        return repeated(read, address)
    except Unlike:
        return None


def version_of(meta: Any) -> dict[str, Any]:
    """The tag and version of an object, by which a conditional write names its content."""
    return {name: meta[name] for name in ("e_tag", "version") if meta.get(name) is not None}


def has_magic(address: Address) -> bool:
    """Whether a key is a pattern; never that of a web address, where ``?`` begins the query."""
    return address.scheme not in ("http", "https") and _MAGIC.search(address.key) is not None


def matching(address: Address, store: Any = None) -> list[RemoteObject]:
    """Objects whose keys match a pattern, in which ``**`` is any folders and no wildcard matches a slash.

    Raises
    ------
    InputError
        They cannot be listed.
    """
    parts = address.key.split("/")
    plain_parts = [*_until_magic(parts)]
    objects = listed(address.at("/".join(plain_parts)), store)
    pattern = _pattern(parts)
    return [remote for remote in objects if pattern.fullmatch(remote.address.key)]


def _until_magic(parts: list[str]) -> Iterator[str]:
    for part in parts[:-1]:
        if _MAGIC.search(part):
            return
        yield part


def _pattern(parts: list[str]) -> re.Pattern[str]:
    """The regular expression of a glob; as on disk, no wildcard matches a dot that begins a name."""
    text = ""
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        if part == "**":
            text += r"(?:[^/.][^/]*/)*" + (r"[^/.][^/]*" if last else "")
        else:
            hidden = r"(?!\.)" if _MAGIC.match(part) else ""
            text += hidden + "".join(map(_piece, _PIECES.findall(part))) + ("" if last else "/")
    return re.compile(text, re.DOTALL)


def _piece(piece: str) -> str:
    """One wildcard or character of a glob as a regular expression."""
    if piece == "*":
        return "[^/]*"
    if piece == "?":
        return "[^/]"
    if len(piece) == 1:
        return re.escape(piece)
    inner = piece[1:-1].replace("\\", "\\\\").replace("[", "\\[")
    return f"(?!/)[^{inner[1:]}]" if inner.startswith("!") else f"(?!/)[{inner}]"


def beginning(remote: RemoteObject, size: int, store: Any = None) -> bytes:
    """The first bytes of an object.

    Raises
    ------
    InputError
        It cannot be read.
    """
    import obstore

    if not remote.size:
        return b""
    store = open_store(remote.address) if store is None else store
    end = min(size, remote.size)
    return repeated(
        lambda: bytes(obstore.get_range(store, remote.address.key, start=0, end=end)), remote.address
    )
