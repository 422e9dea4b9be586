"""Addresses of objects: ``s3://bucket/key`` and their like."""

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from .. import _core
from ..base.errors import ParameterError
from ..base.text import plain

SCHEMES: Final = ("s3", "gs", "az", "http", "https")
_BEGINNING: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_COLLAPSED: Final = re.compile(r"(s3|gs|az|https?):/[^/]")
_OTHERS: Final = {
    "s3a": "s3",
    "s3n": "s3",
    "gcs": "gs",
    "azure": "az",
    "abfs": "az",
    "abfss": "az",
    "adl": "az",
}
"""What other programs call the same storage."""


@dataclass(frozen=True)
class Address:
    """Where an object, or all below a prefix, lies."""

    scheme: str
    place: str
    """Bucket, container, or host with its port."""
    key: str
    """Without a slash at either end; empty for all of the place."""
    query: str = field(default="", repr=False, compare=False)
    """Query of a web address. It may hold a signature, so it is never shown."""
    user: str = field(default="", repr=False, compare=False)
    """Name and password before the host, never shown either."""

    @property
    def url(self) -> str:
        """The address as tables and messages show it: without credentials and query."""
        return f"{self.scheme}://{self.place}" + (f"/{self.key}" if self.key else "")

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.key.rpartition("/")[2]

    def at(self, key: str) -> "Address":
        """Another key of the same place."""
        return Address(self.scheme, self.place, key, self.query, self.user)

    def below(self, name: str) -> "Address":
        """A key below this one."""
        return self.at(f"{self.key}/{name}" if self.key else name)


def is_address(path: object) -> bool:
    """Whether a path is the address of something in object storage, or was meant to be.

    Examples
    --------
    >>> from orchestrace.storage.addresses import is_address
    >>> [is_address(path) for path in ("s3://runs/a.jsonl", "runs/a.jsonl", "C://runs", "ftp://runs/a")]
    [True, False, True, True]
    """
    return isinstance(path, str) and _BEGINNING.match(path) is not None


def is_collapsed(path: str) -> bool:
    """Whether a path looks like an address that lost a slash, as in `pathlib.Path`."""
    return _COLLAPSED.match(path) is not None


def address_of(path: str) -> Address:
    """An address from its text.

    Raises
    ------
    ParameterError
        Its scheme is not one of `SCHEMES`, or it names no bucket, container or host.

    Examples
    --------
    >>> from orchestrace.storage.addresses import address_of
    >>> address_of("s3://lab/runs/a.jsonl").key
    'runs/a.jsonl'
    >>> address_of("https://me:secret@host.org/runs/a.jsonl?signature=x").url
    'https://host.org/runs/a.jsonl'
    """
    match = _BEGINNING.match(path)
    scheme = match[1].lower() if match else ""
    if scheme not in SCHEMES:
        expected = ", ".join(f"{name}://" for name in SCHEMES)
        near = _OTHERS.get(scheme) or _core.nearest(scheme, SCHEMES)
        hint = f"; did you mean {near}://?" if near else ""
        raise ParameterError(
            f"unknown scheme '{scheme}://', expected {expected} or a path on this machine{hint}"
        )
    rest = path[len(scheme) + 3 :]
    if scheme in ("http", "https"):
        try:
            parts = urlsplit(f"{scheme}://{rest}")
            place = (parts.hostname or "") + (f":{parts.port}" if parts.port else "")
        except ValueError as error:
            raise ParameterError(f"the web address is invalid: {error}") from None
        user = parts.netloc.rpartition("@")[0]
        key, query = unquote(parts.path).strip("/"), parts.query
    else:
        place, _, key = rest.partition("/")
        if "@" in place:
            raise ParameterError(
                f"the address begins with credentials: leave out all before the @, and set them where "
                f"{scheme}:// clients look for them (docs/object-storage.md)"
            )
        user = query = ""
        key = key.strip("/")
    if not place:
        kind = {"az": "container", "http": "host", "https": "host"}.get(scheme, "bucket")
        raise ParameterError(f"the address '{plain(scheme)}://{plain(key)}' names no {kind}")
    return Address(scheme, place, key, query, user)
