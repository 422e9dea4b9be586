"""Files of one step of a corpus on disk: written under another name, published together.

A crash at any point leaves the manifest of before or of after. Files that it does not list are leftovers,
which the next ingest removes.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

import polars as pl

from ..base.durable import sync_file, sync_folder, temporary
from ..base.errors import InputError
from ..base.publication import written
from .home import Home
from .integrity import fingerprint, note_written
from .manifest import Fingerprint, Manifest

ROW_GROUP: Final = 1 << 16
"""Rows of a Parquet row group: what a reader that wants one trace has to decode."""


@contextmanager
def translate_write_errors(folder: Path) -> Iterator[None]:
    """Turn an error of writing into an `InputError` that says what to do."""
    try:
        yield
    except InputError:
        raise
    except (OSError, RuntimeError, pl.exceptions.PolarsError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error).partition("\n")[0]
        if type(error) is RuntimeError:
            if "new thread" not in reason:
                raise
            reason += " (a limit on memory or processes, see 'ulimit -a', leaves no room for one)"
        raise InputError(
            f"cannot write to '{folder}': {reason}; what is published is safe; the same call resumes from it"
        ) from error


class Staging:
    """Files of one step: none has its name before all are on disk."""

    def __init__(self, folder: Path, home: Home | None = None) -> None:
        self._folder = folder
        self._home = home
        self._files: list[Path] = []
        self._written: dict[Path, tuple[Fingerprint, dict[str, pl.Schema]]] = {}

    def write(self, frame: pl.DataFrame, name: str) -> Fingerprint:
        """Write a frame to a temporary file; its fingerprint."""
        with self.begun(name, {Path(name).parent.name: frame.schema}) as file:
            frame.write_parquet(file, compression="zstd", compression_level=1, row_group_size=ROW_GROUP)
        return self.fingerprint(name)

    @contextmanager
    def begun(self, name: str, columns: dict[str, pl.Schema]) -> Iterator[BinaryIO]:
        """A temporary file to write; `columns` are those of the tables in it, known when it is closed.

        Its fingerprint is computed then, while the system has it in memory.
        """
        path = self._folder / name
        if not path.parent.is_dir():
            path.parent.mkdir(parents=True, exist_ok=True)
        aside = temporary(path)
        self._files.append(path)
        with written(aside, "xb") as file:
            yield file
        self._written[path] = fingerprint(aside), columns

    def fingerprint(self, name: str) -> Fingerprint:
        """The fingerprint of a file that was written."""
        return self._written[self._folder / name][0]

    def publish(self, manifest: Manifest | None = None) -> None:
        """Make all files durable under their names; `manifest` notes what need not be looked up again."""
        folders = {
            parent for path in self._files for parent in path.parents if parent.is_relative_to(self._folder)
        }
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(sync_file, map(temporary, self._files)))
            if self._home is not None:
                names = [(temporary(path), path.relative_to(self._folder).as_posix()) for path in self._files]
                for path, tag in zip(self._files, self._home.upload(names), strict=True):
                    self._written[path][0].etag = tag
            for path in self._files:
                os.replace(temporary(path), path)
            list(pool.map(sync_folder, folders))
        if manifest is not None and self._home is None:
            for path in self._files:
                name = path.relative_to(self._folder).as_posix()
                note_written(manifest, name, path, self._written[path][1])
        self._files.clear()
        self._written.clear()

    def discard(self) -> None:
        """Remove what was not published, as far as that is possible."""
        for path in self._files:
            temporary(path).unlink(missing_ok=True)


@contextmanager
def staging(folder: Path, home: Home | None = None) -> Iterator[Staging]:
    """Files that are published together or not at all; with a `home` there too."""
    files = Staging(folder, home)
    try:
        with translate_write_errors(folder):
            yield files
    except BaseException:
        with suppress(OSError):  # what stays is removed by the next ingest
            files.discard()
        raise
