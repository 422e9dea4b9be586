"""Integrity of a corpus on disk: files compared with the manifest.

A file is compared once by everyone who opens the corpus, when it is first scanned: its size, then its BLAKE3.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import polars as pl

from .. import _core
from ..base.errors import InputError, OrchestraceError, SchemaError
from ..storage.stores import Unlike
from .home import Wanted
from .manifest import Fingerprint, Manifest, StoredFile


class Damage(NamedTuple):
    """A file that is not what it was."""

    file: StoredFile
    fault: str
    """What is wrong with it."""


def fingerprint(path: Path) -> Fingerprint:
    """What a file is now."""
    size = path.stat().st_size
    return Fingerprint(size, _core.fingerprint(os.fspath(path), size))


def verify(folder: Path, manifest: Manifest, files: Iterable[StoredFile]) -> None:
    """Compare files with the manifest, those that were compared before by what the system says of them.

    Raises
    ------
    InputError
        Names the file that differs, what it holds, how it differs, and what repairs it.
    """
    new, states = [], {}
    files = list(files)
    copied(folder, manifest, files)
    for one in files:
        found = _state(folder / one.name)
        if found is None or manifest.verified.get(one.name) != found:
            new.append(one)
            states[one.name] = found
    faults = _compared(folder, new, content=manifest.verify)
    if faults and manifest.home is not None:
        # A copy may be damaged where the object is not.
        copied(folder, manifest, [damage.file for damage in faults], anew=True)
        faults = _compared(folder, [damage.file for damage in faults], content=manifest.verify)
        states = {one.name: _state(folder / one.name) for one in new}
    for damage in faults:
        raise damaged(folder, manifest, damage)
    manifest.verified |= {name: state for name, state in states.items() if state is not None}


def note_written(manifest: Manifest, name: str, path: Path, columns: pl.Schema) -> None:
    """Note a file that this process has just written: as long as nobody touches it, it is what it was.

    An ingest has tens of thousands of small files, which merging would otherwise hash and open once more.
    """
    state = _state(path)
    if state is not None:
        manifest.verified[name] = state
        # Most files of a table have the same columns: one object stands for all of them.
        alike = (name.rpartition("/")[0].rpartition("/")[2], *columns)
        manifest.columns[name] = manifest.alike.setdefault(alike, columns)


def copied(folder: Path, manifest: Manifest, files: list[StoredFile], *, anew: bool = False) -> None:
    """Have copies of files of a corpus in object storage; of one on disk there is nothing to do.

    Raises
    ------
    InputError
        An object is gone or has another size, or cannot be read.
    """
    if manifest.home is None:
        return
    wanted = [Wanted(one.name, None if one.expected is None else one.expected.size) for one in files]
    try:
        manifest.home.fetch(wanted, anew=anew)
    except Unlike:
        for damage in _unlisted(manifest, files):
            raise damaged(folder, manifest, damage) from None
        raise


def _unlisted(manifest: Manifest, files: list[StoredFile]) -> list[Damage]:
    """Files whose objects are gone or have another size."""
    assert manifest.home is not None
    there, found = manifest.home.listing(), []
    for one in files:
        expected = "" if one.expected is None else f", expected {one.expected.size:,} bytes"
        if one.name not in there:
            found.append(Damage(one, "it is gone" + expected))
        elif one.expected is not None and there[one.name].size != one.expected.size:
            found.append(Damage(one, f"it has {there[one.name].size:,} bytes{expected}"))
    return found


def _find_in_storage(folder: Path, manifest: Manifest, content: bool) -> list[Damage]:
    """The same for objects; fetches and compares only those whose tags do not prove them equal."""
    assert manifest.home is not None
    files = list(manifest.stored())
    there = manifest.home.listing()
    found = _unlisted(manifest, files)
    gone = {damage.file.name for damage in found}
    doubtful = [
        one
        for one in files
        if one.name not in gone
        and (one.expected is None or one.expected.etag is None or there[one.name].e_tag != one.expected.etag)
    ]
    if not content:
        doubtful = [one for one in doubtful if one.expected is None]
    for one in doubtful:  # one by one, so that no more copies are held than there is room for
        copied(folder, manifest, [one], anew=True)
        path = folder / one.name
        fault = _fault(path, one.expected, content=True)
        if fault is None and one.expected is None:
            fault = _unreadable(path, one)
        if fault is not None:
            found.append(Damage(one, fault))
            continue
        made = one.expected or one.part.files.setdefault(one.table, fingerprint(path))
        made.etag = there[one.name].e_tag
    return found


def find_damage(folder: Path, manifest: Manifest, *, content: bool = True) -> list[Damage]:
    """All files that are not what the manifest lists; those that it has no checksum of are given one.

    Without `content` the sizes of those that have one are compared, no more. A file without a checksum has
    to be readable, every page of it, with as many rows as are listed.
    """
    if manifest.home is not None:
        return _find_in_storage(folder, manifest, content)
    known = [one for one in manifest.stored() if one.expected is not None]
    unknown = [one for one in manifest.stored() if one.expected is None]
    states = {one.name: _state(folder / one.name) for one in known}
    found = _compared(folder, known, content=content)
    if content:
        gone = {damage.file.name for damage in found}
        manifest.verified |= {
            name: state for name, state in states.items() if state is not None and name not in gone
        }
    for one in unknown:
        path = folder / one.name
        if (fault := _fault(path, None, content=False) or _unreadable(path, one)) is not None:
            found.append(Damage(one, fault))
        else:
            one.part.files[one.table] = fingerprint(path)
    return found


def damaged(folder: Path, manifest: Manifest, damage: Damage, hindrance: str | None = None) -> InputError:
    """The one line about a file that is not what it was; `hindrance` is why an ingest does not repair it."""
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
    """Turns what Polars makes of a damaged file into the one line about it.

    That happens where nothing was compared: the caller skips it, the manifest has no checksums, or the file
    changed after it was compared.
    """
    try:
        yield
    except OrchestraceError:
        raise
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        files = list(files)
        for damage in _compared(folder, files, content=True):
            raise damaged(folder, manifest, damage) from error
        for one in files:
            if (fault := _unreadable(folder / one.name, one)) is not None:
                raise damaged(folder, manifest, Damage(one, fault)) from error
        if manifest.is_newer:
            raise SchemaError(
                f"'{manifest.shown(folder)}' has schema version {manifest.schema_version!r}, newer than "
                f"{_core.SCHEMA_VERSION!r}, which this engine reads, and not all of it can be read: upgrade "
                "orchestrace, or ingest the recordings into another folder"
            ) from error
        raise


def _compared(folder: Path, files: list[StoredFile], *, content: bool) -> list[Damage]:
    """Those that differ, in order; of several the contents are hashed side by side."""

    def fault(one: StoredFile) -> str | None:
        return _fault(folder / one.name, one.expected, content=content)

    threads = min(len(files), os.cpu_count() or 1, 8)
    if threads > 1 and content:
        with ThreadPoolExecutor(threads) as pool:
            faults = list(pool.map(fault, files))
    else:
        faults = list(map(fault, files))
    return [Damage(one, what) for one, what in zip(files, faults, strict=True) if what is not None]


def _state(path: Path) -> tuple[int, ...] | None:
    """What the system says of a file that changes whenever somebody writes to it."""
    try:
        known = path.stat()
    except OSError:
        return None
    return known.st_ino, known.st_size, known.st_mtime_ns, known.st_ctime_ns


def _fault(path: Path, expected: Fingerprint | None, *, content: bool) -> str | None:
    """What is wrong with a file, if anything is."""
    try:
        known = path.stat()
        if not stat.S_ISREG(known.st_mode):
            return "it is not a file"
        if expected is None:
            return None
        if known.st_size != expected.size:
            return f"it has {known.st_size:,} bytes, expected {expected.size:,}"
        if content and (found := fingerprint(path).blake3) != expected.blake3:
            return f"its BLAKE3 is {found[:16]}…, expected {expected.blake3[:16]}… (of 64 digits)"
    except FileNotFoundError:
        return "it is gone" + ("" if expected is None else f", expected {expected.size:,} bytes")
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    return None


def _unreadable(path: Path, one: StoredFile) -> str | None:
    """Why a file without a checksum cannot be what was written, as far as decoding it shows."""
    try:
        scanned = pl.scan_parquet(path, glob=False, hive_partitioning=False)
        rows = scanned.select(pl.len()).collect().item()
        if rows == one.part.rows[one.table]:
            scanned.select(pl.all().count()).collect(engine="streaming")
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        return f"it is not a Parquet file that can be read ({str(error).partition(chr(10))[0]})"
    if rows != one.part.rows[one.table]:
        return f"it has {rows:,} rows, expected {one.part.rows[one.table]:,}"
    return None
