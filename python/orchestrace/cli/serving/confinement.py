"""Paths of a client, confined to one folder: what lies elsewhere is refused, links included."""

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...base.errors import InputError, ParameterError
from ...base.text import briefly, plain

MOST_ENTRIES: Final = 200_000
"""Files and folders below a path that is read."""

_NAMED: Final = 300
"""Characters of a name that an error repeats."""

_ELSEWHERE: Final = re.compile(r"~|[/\\]|[A-Za-z]:|[A-Za-z][A-Za-z0-9+.-]*://")
"""Beginnings of paths that are not below a folder on some system: home, absolute, share, drive, address."""


@dataclass(frozen=True)
class Entry:
    """A file or folder below the root."""

    path: Path
    size: int
    is_folder: bool


class Root:
    """The folder that a client may read.

    Parameters
    ----------
    folder
        Its path; links in it are followed once, now.

    Raises
    ------
    InputError
        It is no folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(os.path.realpath(folder))
        if not self.folder.is_dir():
            raise InputError(f"'{plain(folder)}' is not a folder, expected one with recordings or corpora")

    def place(self, name: str) -> Path:
        """What a client names, with links followed.

        Raises
        ------
        ParameterError
            It is not below the root, or cannot be.
        InputError
            It is not there, or is neither a file nor a folder.
        """
        refused = f"path is {briefly(name)}, expected one below the root, such as 'runs.jsonl'"
        if "\0" in name or any("\ud800" <= c <= "\udfff" for c in name):
            raise ParameterError(f"{refused}, without NUL or halves of characters")
        if _ELSEWHERE.match(name) or ".." in re.split(r"[/\\]", name):
            raise ParameterError(f"{refused}: neither absolute nor with '..', '~', a drive or an address")
        place = Path(os.path.realpath(self.folder / name))
        if not place.is_relative_to(self.folder):
            raise ParameterError(f"{refused}: a link leads out of the root")
        self._check(place)
        return place

    def shown(self, place: Path) -> str:
        """A path as a client names it."""
        return place.relative_to(self.folder).as_posix()

    def without_folder(self, text: str) -> str:
        """A message in which paths are as a client names them."""
        return text.replace(f"{self.folder}{os.sep}", "").replace(str(self.folder), ".")

    def entries(self, place: Path) -> Iterator[Entry]:
        """All files and folders below a folder, in order of their paths; hidden ones and links that lead out
        are left out."""
        for entry in self._listed(place):
            path = Path(entry.path)
            if entry.name.startswith(".") or not self._is_inside(path):
                continue
            try:
                mode, size = entry.stat().st_mode, entry.stat().st_size
            except OSError:  # gone meanwhile, or a link to nothing or to itself
                continue
            is_folder = stat.S_ISDIR(mode)
            if is_folder or stat.S_ISREG(mode):
                yield Entry(path, 0 if is_folder else size, is_folder)
            if is_folder and not entry.is_symlink():
                yield from self.entries(path)

    def bytes_below(self, place: Path) -> int:
        """Bytes of what is read where a client names a path.

        Raises
        ------
        ParameterError
            A link below it leads out of the root, or to what is neither a file nor a folder.
        InputError
            There is too much below it.
        """
        if not place.is_dir():
            return place.stat().st_size
        total, count, folders, seen = 0, 0, [place], set()
        while folders:
            for entry in self._listed(folders.pop()):
                path = Path(entry.path)
                count += 1
                if count > MOST_ENTRIES:
                    raise InputError(
                        f"{self._quoted(place)} has more than {MOST_ENTRIES:,} entries: name a part"
                    )
                if entry.is_symlink() and not self._is_inside(path):
                    raise ParameterError(f"{self._quoted(path)} is a link that leads out of the root")
                real = Path(os.path.realpath(path))
                if not real.exists():
                    continue
                self._check(real)
                if not real.is_dir():
                    total += real.stat().st_size
                elif real not in seen:
                    seen.add(real)
                    folders.append(path if not entry.is_symlink() else real)
        return total

    def _quoted(self, place: Path) -> str:
        name = self.shown(place)
        return f"'{plain(name)}'" if len(name) <= _NAMED else f"'{plain(name[:_NAMED])}...'"

    def leads_out(self, path: Path) -> bool:
        """Whether a path is a link to elsewhere."""
        return not self._is_inside(path)

    def _is_inside(self, path: Path) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(self.folder)

    def _check(self, place: Path) -> None:
        try:
            mode = place.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"there is no {self._quoted(place)} below the root") from None
        except OSError as error:
            raise InputError(f"{self._quoted(place)}: {error.strerror or error}") from None
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise InputError(f"{self._quoted(place)} is neither a file nor a folder")

    def _listed(self, folder: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(folder) as listed:
                return sorted(listed, key=lambda entry: entry.name)
        except OSError as error:
            raise InputError(f"{self._quoted(folder)}: {error.strerror or error}") from None
