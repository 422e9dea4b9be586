"""What the library of failing calls has to do and what it did: a file that all processes have mapped."""

import mmap
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

KINDS: Final = (
    "open",
    "read",
    "write",
    "sync",
    "rename",
    "truncate",
    "unlink",
    "mkdir",
    "list",
    "map",
    "copy",
    "close",
    "lock",
    "stat",
    "memory",
    "change",
)
"""Kinds of calls, in the order of the library; the last is of all that change a file or a folder."""
ACTIONS: Final = ("count", "fail", "short", "torn", "kill", "drop")
"""What becomes of a call: torn is half of it and an error, drop is none of it and no error."""

_PLACES, _TEXT = 8192, 1024
_HEAD: Final = struct.Struct("<7q4q")
_COUNTS: Final = struct.Struct(f"<{len(KINDS)}q")
_SIZE: Final = _HEAD.size + _COUNTS.size + 2 * _TEXT + 8 * _PLACES

SOURCE: Final = Path(__file__).with_name("failing_calls.c")


@dataclass(frozen=True)
class Fault:
    """What is to happen, and to which call."""

    kind: str
    action: str
    error: int = 0
    lasting: bool = False
    """Whether all later calls of the kind fail too."""

    def __str__(self) -> str:
        words = [self.action, os.strerror(self.error) if self.error else "", "from then on" * self.lasting]
        return f"{self.kind}: {', '.join(filter(None, words))}"


class Control:
    """The mapped file."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_SIZE))
        with open(path, "r+b") as file:
            self._mapped = mmap.mmap(file.fileno(), _SIZE)

    def arm(self, folder: Path, fault: Fault, number: int, least: int = 1 << 62) -> None:
        """Let the call of this number fail, of those on paths below a folder, or of allocations of at least
        so many bytes; 0 only counts."""
        self._mapped[:_SIZE] = bytes(_SIZE)
        at = _HEAD.size + _COUNTS.size
        name = os.fsencode(folder)
        self._mapped[at : at + len(name)] = name
        kind, action = KINDS.index(fault.kind), ACTIONS.index(fault.action)
        _HEAD.pack_into(
            self._mapped, 0, 1, kind, number, action, fault.error, fault.lasting, least, 0, 0, 0, 0
        )

    def disarm(self) -> None:
        """Let all calls be as they are."""
        self._mapped[:8] = bytes(8)

    @property
    def counts(self) -> dict[str, int]:
        """How many calls of each kind there were."""
        return dict(zip(KINDS, _COUNTS.unpack_from(self._mapped, _HEAD.size), strict=True))

    @property
    def fired(self) -> int:
        """How many calls were made to fail."""
        return int(_HEAD.unpack_from(self._mapped)[7])

    @property
    def pid(self) -> int:
        """The process of the first of them."""
        return int(_HEAD.unpack_from(self._mapped)[8])

    @property
    def where(self) -> str:
        """The first of them, and its path."""
        at = _HEAD.size + _COUNTS.size + _TEXT
        return os.fsdecode(self._mapped[at : at + _TEXT].partition(b"\0")[0])

    @property
    def unsynced(self) -> set[int]:
        """Inodes of files with bytes that no fsync covers."""
        count = _HEAD.unpack_from(self._mapped)[9]
        return set(struct.unpack_from(f"<{count}q", self._mapped, _SIZE - 8 * _PLACES))


def hindrance() -> str | None:
    """Why calls cannot be made to fail here, if they cannot."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return "calls of the system are made to fail on 64-bit Linux only"
    if shutil.which(os.environ.get("CC", "cc")) is None:
        return "there is no C compiler"
    return None


def compiled(folder: Path) -> Path:
    """The library."""
    library = folder / "failing_calls.so"
    words = [os.environ.get("CC", "cc"), "-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*words, "-o", library, SOURCE, "-ldl"], check=True)
    return library
