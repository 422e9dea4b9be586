"""Integrity of a corpus on disk: files compared with the manifest.

A file is compared once by everyone who opens the corpus, when it is first scanned: its size, then its BLAKE3.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import polars as pl

from .. import _core
from ..base.errors import InputError, OrchestraceError, SchemaError
from ..storage.stores import Unlike
from .home import Wanted
from .manifest import BATCHES, Fingerprint, Manifest, StoredFile

_UNREAD: Final = "it cannot be read"
_STAYS: Final = (
    "run the same call again; if it says the same, remove the file, so that all inputs are read again and"
    " traces get new numbers"
)


class Damage(NamedTuple):
    """A file that differs from what the manifest lists."""

    file: StoredFile
    fault: str
    """What is wrong with it."""


def fingerprint(path: Path) -> Fingerprint:
    """Size and checksum of a file as it is now."""
    size = path.stat().st_size
    return Fingerprint(size, _core.fingerprint(os.fspath(path), size))


def verify(folder: Path, manifest: Manifest, files: Iterable[StoredFile]) -> None:
    """Compare files with the manifest. One that was compared before is hashed again only if it was touched.

    Raises
    ------
    InputError
        Names the file that differs, what it holds, how it differs, and what repairs it.
    """
    new, states = [], {}
    files = manifest.each_once(files)
    copied(folder, manifest, files)
    for file in files:
        state = _state(folder / file.name)
        if state is None or manifest.verified.get(file.name) != state:
            new.append(file)
            states[file.name] = state
    faults = _compared(folder, new, content=manifest.verify)
    if faults and manifest.home is not None:
        # A copy may be damaged where the object is not.
        copied(folder, manifest, [damage.file for damage in faults], anew=True)
        faults = _compared(folder, [damage.file for damage in faults], content=manifest.verify)
        states = {file.name: _state(folder / file.name) for file in new}
    for damage in faults:
        raise damaged(folder, manifest, damage)
    manifest.verified |= {name: state for name, state in states.items() if state is not None}


def note_written(manifest: Manifest, name: str, path: Path, columns: dict[str, pl.Schema]) -> None:
    """Note a file that this process has just written: until somebody touches it, it is not compared again.

    `columns` are those of each table that lies in it. Merging would hash and open all of them again.
    """
    state = _state(path)
    if state is not None:
        manifest.verified[name] = state
        # Most files of a table have the same columns: one object stands for all of them.
        manifest.columns[name] = {
            table: manifest.alike.setdefault((table, *schema), schema) for table, schema in columns.items()
        }


def copied(folder: Path, manifest: Manifest, files: list[StoredFile], *, anew: bool = False) -> None:
    """Copy files of a corpus in object storage to this machine; does nothing for a corpus on disk.

    Raises
    ------
    InputError
        An object is gone or has another size, or cannot be read.
    """
    if manifest.home is None:
        return
    wanted = [Wanted(file.name, None if file.expected is None else file.expected.size) for file in files]
    try:
        manifest.home.fetch(wanted, anew=anew)
    except Unlike:
        for damage in _unlisted(manifest, files):
            raise damaged(folder, manifest, damage) from None
        raise


def _unlisted(manifest: Manifest, files: list[StoredFile]) -> list[Damage]:
    """Files whose objects are gone or have another size."""
    assert manifest.home is not None
    objects, damages = manifest.home.listing(), []
    for file in files:
        expected = "" if file.expected is None else f", expected {file.expected.size:,} bytes"
        if file.name not in objects:
            damages.append(Damage(file, "it is gone" + expected))
        elif file.expected is not None and objects[file.name].size != file.expected.size:
            damages.append(Damage(file, f"it has {objects[file.name].size:,} bytes{expected}"))
    return damages


def _find_in_storage(folder: Path, manifest: Manifest, content: bool) -> list[Damage]:
    """`find_damage` in object storage: copies are compared only where tags do not prove objects equal."""
    assert manifest.home is not None
    files = list(manifest.stored())
    objects = manifest.home.listing()
    damages = _unlisted(manifest, files)
    gone = {damage.file.name for damage in damages}
    doubtful = [
        file
        for file in files
        if file.name not in gone
        and (
            file.expected is None
            or file.expected.etag is None
            or objects[file.name].e_tag != file.expected.etag
        )
    ]
    if not content:
        doubtful = [file for file in doubtful if file.expected is None]
    for file in doubtful:  # one by one, so that no more copies are held than there is room for
        copied(folder, manifest, [file], anew=True)
        path = folder / file.name
        fault = _fault(path, file.expected, content=True)
        if fault is None and file.expected is None:
            fault = _unreadable(path, file)
        if fault is not None:
            damages.append(Damage(file, fault))
            continue
        expected = file.expected or file.part.files.setdefault(file.table, fingerprint(path))
        expected.etag = objects[file.name].e_tag
    return damages


def find_damage(folder: Path, manifest: Manifest, *, content: bool = True) -> list[Damage]:
    """All files that differ from the manifest; a sound file without a checksum is given one.

    Without `content`, files with a checksum are compared by size only. A file without a checksum has to be
    readable, every page of it, with as many rows as are listed.

    Raises
    ------
    InputError
        The index cannot be read, which need not be damage. Without it, traces would get new numbers.
    """
    if manifest.home is not None:
        return _find_in_storage(folder, manifest, content)
    hashed = [file for file in manifest.stored() if file.expected is not None]
    unhashed = [file for file in manifest.stored() if file.expected is None]
    states = {file.name: _state(folder / file.name) for file in hashed}
    damages = _compared(folder, hashed, content=content)
    if doubtful := [damage.file for damage in damages if damage.fault.startswith(_UNREAD)]:
        # One read that fails says little of a file: the system may have had no descriptor left.
        again = {damage.file.name: damage for damage in _compared(folder, doubtful, content=content)}
        sound = {file.name for file in doubtful} - again.keys()
        damages = [again.get(damage.file.name, damage) for damage in damages if damage.file.name not in sound]
    for damage in damages:
        if damage.file.table == "index" and damage.fault.startswith(_UNREAD):
            raise damaged(folder, manifest, damage, _STAYS)
    if content:
        gone = {damage.file.name for damage in damages}
        manifest.verified |= {
            name: state for name, state in states.items() if state is not None and name not in gone
        }
    for file in unhashed:
        path = folder / file.name
        if (fault := _fault(path, None, content=False) or _unreadable(path, file)) is not None:
            damages.append(Damage(file, fault))
        else:
            file.part.files[file.table] = fingerprint(path)
    return damages


def damaged(folder: Path, manifest: Manifest, damage: Damage, hindrance: str | None = None) -> InputError:
    """The error for a damaged file; `hindrance` is why an ingest does not repair it."""
    if hindrance is not None:
        fix = f"{hindrance}, or restore the file; nothing was changed"
    elif manifest.is_exported:
        fix = "restore the file, or export the corpus again"
    else:
        place = manifest.shown(folder)
        fix = f"repair it with ingest(inputs, '{place}') from the same inputs, or restore the file"
        if manifest.home is not None:
            fix = f"open the corpus again, which an ingest may have changed since; else {fix}"
    path = f"{manifest.shown(folder)}/{damage.file.name}"
    return InputError(f"'{path}' is damaged ({damage.file.content}): {damage.fault}; {fix}")


@contextmanager
def reading(folder: Path, manifest: Manifest, files: Iterable[StoredFile]) -> Iterator[None]:
    """Turn an error of Polars about a damaged file into the error that names the file.

    Polars meets one where nothing was compared: the caller skips it, the manifest has no checksums, or the
    file changed after it was compared.
    """
    try:
        yield
    except OrchestraceError:
        raise
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        files = manifest.each_once(files)
        for damage in _compared(folder, files, content=True):
            raise damaged(folder, manifest, damage) from error
        for file in files:
            if (fault := _unreadable(folder / file.name, file)) is not None:
                raise damaged(folder, manifest, Damage(file, fault)) from error
        if manifest.is_newer:
            raise SchemaError(
                f"'{manifest.shown(folder)}' has schema version {manifest.schema_version!r}, newer than "
                f"{_core.SCHEMA_VERSION!r}, which this engine reads, and not all of it can be read: upgrade "
                "orchestrace, or ingest the recordings into another folder"
            ) from error
        raise


def _compared(folder: Path, files: list[StoredFile], *, content: bool) -> list[Damage]:
    """The files that differ from the manifest, in order; several are hashed in parallel."""

    def fault(file: StoredFile) -> str | None:
        return _fault(folder / file.name, file.expected, content=content)

    threads = min(len(files), os.cpu_count() or 1, 8)
    if threads > 1 and content:
        with ThreadPoolExecutor(threads) as pool:
            faults = list(pool.map(fault, files))
    else:
        faults = list(map(fault, files))
    return [Damage(file, reason) for file, reason in zip(files, faults, strict=True) if reason is not None]


def _state(path: Path) -> tuple[int, ...] | None:
    """Inode, size and times of a file, which change whenever somebody writes to it."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _fault(path: Path, expected: Fingerprint | None, *, content: bool) -> str | None:
    """What is wrong with a file, if anything is."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return "it is not a file"
        if expected is None:
            return None
        if status.st_size != expected.size:
            return f"it has {status.st_size:,} bytes, expected {expected.size:,}"
        if content and (digest := fingerprint(path).blake3) != expected.blake3:
            return f"its BLAKE3 is {digest[:16]}…, expected {expected.blake3[:16]}… (of 64 digits)"
    except FileNotFoundError:
        return "it is gone" + ("" if expected is None else f", expected {expected.size:,} bytes")
    except OSError as error:
        return f"{_UNREAD}: {error.strerror or error}"
    return None


def _unreadable(path: Path, file: StoredFile) -> str | None:
    """Why a file without a checksum cannot be what was written, as far as decoding it shows."""
    if file.table == BATCHES:
        return None  # it always has a checksum
    try:
        scanned = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        rows = scanned.select(pl.len()).collect().item()
        if rows == file.part.rows[file.table]:
            scanned.select(pl.all().count()).collect(engine="streaming")
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        return f"it is not a Parquet file that can be read ({str(error).partition(chr(10))[0]})"
    if rows != file.part.rows[file.table]:
        return f"it has {rows:,} rows, expected {file.part.rows[file.table]:,}"
    return None
