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
from .manifest import BATCHES, GATHERED, Input, Manifest
from .shards import scan, scan_index


def inputs_to_repeat(
    folder: Path, manifest: Manifest, damages: list[Damage], paths: set[str], files: InputFiles
) -> set[int]:
    """Numbers of the inputs that have to be read anew, so that what damaged files held is there again.

    `paths` are those of the inputs of this call.

    Raises
    ------
    InputError
        One of them cannot give its rows again; names it and a damaged file.
    """
    gathered = set() if manifest.gathering is None else set(manifest.gathering.inputs)
    read = {number for number, entry in enumerate(manifest.inputs) if entry.records}
    again: set[int] = set()
    divided = [
        damage for damage in damages if damage.file.partition is not None or damage.file.table == BATCHES
    ]
    for damage in damages:
        if damage in divided:
            continue
        if damage.file.table == "index":
            sources = read
        elif damage.file.table == "quarantine":
            sources = {number for number in read if manifest.inputs[number].quarantined}
        elif damage.file.table == "record_counts" or not gathered:
            sources = read
        else:
            sources = gathered  # labels of no partition come from traces that are put together
        _refuse_lost(folder, manifest, damage, sources, paths, files)
        again |= sources
    if divided and not any(damage.file.table == "index" for damage in damages):
        sources = _inputs_of_parts(folder, manifest, divided)
        _refuse_lost(folder, manifest, divided[0], sources - {GATHERED}, paths, files)
        again |= sources
    if GATHERED in again or again & gathered:
        # They are put together anew from all or from none.
        _refuse_lost(folder, manifest, damages[0], gathered, paths, files)
        again = (again - {GATHERED}) | gathered
    return again


def _inputs_of_parts(folder: Path, manifest: Manifest, damages: list[Damage]) -> set[int]:
    """The inputs of the traces that the index lists and no sound part has."""
    broken = manifest.held_by(damage.file for damage in damages)
    sound = [
        (partition, part) for partition, of in manifest.parts.items() for part in of if id(part) not in broken
    ]
    index = scan_index(folder, manifest, manifest.index).filter(~pl.col("duplicate"))
    rows = index.select("trace", "id", "input", valid=pl.col("shard") >= pl.col("since"))
    listed = rows.collect(engine="streaming")
    sound_traces = scan(folder, manifest, "traces", sound, SCHEMAS["traces"]).select("trace")
    lost = listed.filter("valid").join(sound_traces.collect(engine="streaming"), on="trace", how="anti")
    # A repair that was cut short has read some of its inputs in part.
    begun = [number for number, entry in enumerate(manifest.inputs) if entry.since and not entry.done]
    numbers = pl.concat([lost["input"], pl.Series(begun, dtype=pl.UInt32)]).unique()
    while True:
        # Findings and labels of a trace depend on which of the traces with its id came first.
        ids = listed.filter(pl.col("input").is_in(numbers.implode()))["id"].unique()
        wider = listed.filter(pl.col("id").is_in(ids.implode()))["input"].unique()
        if wider.len() == numbers.len():
            return set(numbers)
        numbers = wider


def _refuse_lost(
    folder: Path, manifest: Manifest, damage: Damage, numbers: set[int], paths: set[str], files: InputFiles
) -> None:
    """Refuse to go on where an input cannot give its rows again."""
    for number in sorted(numbers):
        entry = manifest.inputs[number]
        if not files.exists(entry.path):
            why = f"its rows came from '{entry.path}' too, which is gone: put it back"
        elif entry.path not in paths and not _is_same(entry, files):
            why = (
                f"its rows came from '{entry.path}' too, which has changed since and is not among the inputs "
                "of this call: name it, and its rows become those that it has now"
            )
        else:
            continue
        raise damaged(folder, manifest, damage, why)


def _is_same(entry: Input, files: InputFiles) -> bool:
    """Whether an input has the content that it had when it was read."""
    now = files.content(entry.path)
    if now.size != entry.size:
        return False
    same_time = now.mtime_ns == entry.mtime_ns
    return same_time or (
        entry.blake3 is not None and _core.fingerprint(files.local(entry.path), entry.size) == entry.blake3
    )
