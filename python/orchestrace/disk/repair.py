"""Repair of damaged files: the inputs whose rows lay in them are read again.

Nothing is given up before that: damaged parts stay listed until their rows are there again, so that a call
that is cut short leaves the next one to find the same damage. Only where the index is damaged, without which
rows cannot be traced to their inputs, the corpus begins again from nothing.
"""

from pathlib import Path

import polars as pl

from .. import _core
from ..base.schema import SCHEMAS
from .inputs import InputFiles
from .integrity import Damage, damaged
from .manifest import GATHERED, Input, Manifest
from .shards import scan, scan_index


def inputs_to_repeat(
    folder: Path, manifest: Manifest, damage: list[Damage], given: set[str], files: InputFiles
) -> set[int]:
    """Numbers of the inputs that have to be read anew, so that what damaged files held is there again.

    `given` are the paths of the inputs of this call.

    Raises
    ------
    InputError
        One of them cannot give its rows again; names it and a damaged file.
    """
    gathered = set() if manifest.gathering is None else set(manifest.gathering.inputs)
    read = {number for number, one in enumerate(manifest.inputs) if one.records}
    again: set[int] = set()
    for one in damage:
        if one.file.table == "index":
            found = read
        elif one.file.table == "quarantine":
            found = {number for number in read if manifest.inputs[number].quarantined}
        elif one.file.table == "record_counts" or (one.file.partition is None and not gathered):
            found = read
        elif one.file.partition is None:
            found = gathered  # labels of no partition come from traces that are put together
        else:
            continue
        _refuse_lost(folder, manifest, one, found, given, files)
        again |= found
    divided = [one for one in damage if one.file.partition is not None]
    if divided and not any(one.file.table == "index" for one in damage):
        found = _inputs_of_parts(folder, manifest, divided)
        _refuse_lost(folder, manifest, divided[0], found - {GATHERED}, given, files)
        again |= found
    if GATHERED in again or again & gathered:
        # They are put together anew from all or from none.
        _refuse_lost(folder, manifest, damage[0], gathered, given, files)
        again = (again - {GATHERED}) | gathered
    return again


def _inputs_of_parts(folder: Path, manifest: Manifest, damage: list[Damage]) -> set[int]:
    """The inputs of the traces that the index lists and no sound part has."""
    broken = {id(one.file.part) for one in damage}
    sound = [
        (partition, part) for partition, of in manifest.parts.items() for part in of if id(part) not in broken
    ]
    index = scan_index(folder, manifest, manifest.index).filter(~pl.col("duplicate"))
    rows = index.select("trace", "id", "input", valid=pl.col("shard") >= pl.col("since"))
    known = rows.collect(engine="streaming")
    there = scan(folder, manifest, "traces", sound, SCHEMAS["traces"]).select("trace")
    lost = known.filter("valid").join(there.collect(engine="streaming"), on="trace", how="anti")
    # A repair that was cut short has read some of its inputs in part.
    begun = [number for number, one in enumerate(manifest.inputs) if one.since and not one.done]
    found = pl.concat([lost["input"], pl.Series(begun, dtype=pl.UInt32)]).unique()
    while True:
        # What is said of a trace, and where its labels lie, depends on which of those with its id came first.
        ids = known.filter(pl.col("input").is_in(found.implode()))["id"].unique()
        wider = known.filter(pl.col("id").is_in(ids.implode()))["input"].unique()
        if wider.len() == found.len():
            return set(found)
        found = wider


def _refuse_lost(
    folder: Path, manifest: Manifest, damage: Damage, numbers: set[int], given: set[str], files: InputFiles
) -> None:
    """Refuse to go on where an input cannot give its rows again."""
    for number in sorted(numbers):
        one = manifest.inputs[number]
        if not files.is_there(one.path):
            why = f"its rows came from '{one.path}' too, which is gone: put it back"
        elif one.path not in given and not _is_same(one, files):
            why = (
                f"its rows came from '{one.path}' too, which has changed since and is not among the inputs "
                "of this call: name it, and its rows become those that it has now"
            )
        else:
            continue
        raise damaged(folder, manifest, damage, why)


def _is_same(one: Input, files: InputFiles) -> bool:
    """Whether an input has the content that it had when it was read."""
    now = files.content(one.path)
    if now.size != one.size:
        return False
    same_time = now.mtime_ns == one.mtime_ns
    return same_time or (
        one.blake3 is not None and _core.fingerprint(files.local(one.path), one.size) == one.blake3
    )
