"""Merging of the small parts of batches into few large ones, in order of trace."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

import polars as pl

from ..base.schema import SCHEMAS
from .batches import group_of
from .manifest import BATCHES, PARTITIONED, SIDE, Manifest, Part, side_file, stored
from .memory import OVERHEAD
from .shards import current_side, present_schema, rows_of, stage, stage_side
from .staging import ROW_GROUP, Staging, staging

MERGED_EVENT_BYTES: Final = 1_600
"""Memory for an event while its part is merged: its piece, its row in the window, and that row encoded."""


def merge(folder: Path, manifest: Manifest) -> None:
    """Rewrite the partitions that have small, overlapping or outdated parts, some at a time.

    Afterwards the parts of a partition are in order of trace and, but for the last, as large as the budget
    allows. A part is put together in memory, windows of trace numbers at a time.
    """
    room = max(manifest.memory - OVERHEAD, manifest.memory // 2)
    target = max(room // MERGED_EVENT_BYTES, ROW_GROUP // 2)
    waiting = [
        (partition, parts)
        for partition, parts in sorted(manifest.parts.items())
        if not _is_merged(manifest, parts, target)
    ]
    for _, some in itertools.groupby(waiting, lambda item: group_of(int(item[0]))):
        _merge_partitions(folder, manifest, list(some), target)
    for table in SIDE:
        parts = manifest.side(table)
        if len(parts) > 1 or any(manifest.outdated(part) for part in parts):
            rows = current_side(folder, manifest, table)
            _merge_side(folder, manifest, table, _summed(rows) if table == "record_counts" else rows)


def _is_merged(manifest: Manifest, parts: list[Part], target: int) -> bool:
    if any(part.batch is not None for part in parts):
        return False
    ordered = all(a.last < b.first for a, b in itertools.pairwise(parts))
    events = [part.rows.get("events", 0) for part in parts]
    small = any(a + b <= target for a, b in itertools.pairwise(events))
    return ordered and not small and not any(manifest.outdated(part) for part in parts)


def _merge_partitions(
    folder: Path, manifest: Manifest, waiting: list[tuple[str, list[Part]]], target: int
) -> None:
    """Some partitions, published together, with which the files of their batches go."""
    merged: dict[str, list[Part]] = {}
    with staging(folder, manifest.home) as files:
        for shard, (partition, parts) in enumerate(waiting, manifest.next_shard):
            merged[partition] = _merged(files, folder, manifest, partition, parts, shard, target)
        files.publish(manifest)
        manifest.parts |= merged
        manifest.parts = {partition: parts for partition, parts in manifest.parts.items() if parts}
        old = [stored(table, name, part) for name, parts in waiting for part in parts for table in part.rows]
        old = [file for file in old if file.piece is None] + manifest.drop_batches()
        manifest.next_shard += len(waiting)
        manifest.save(folder)
    _remove(folder, manifest, [file.name for file in old])
    if not manifest.batches:
        with suppress(OSError):  # what does not belong to the corpus is left in it
            (folder / BATCHES).rmdir()


def _merged(
    files: Staging,
    folder: Path,
    manifest: Manifest,
    partition: str,
    parts: list[Part],
    shard: int,
    target: int,
) -> list[Part]:
    """The new parts of a partition, staged.

    One after the other: the names of a part are given up with it, and not while another part is there.
    """
    named = [(partition, part) for part in parts]
    columns = pl.Schema({name: SCHEMAS["traces"][name] for name in ("trace", "n_events")})
    sizes = rows_of(folder, manifest, "traces", named, columns)
    sizes = sizes.sort("trace").with_columns(events=pl.col("n_events").cast(pl.Int64).cum_sum())
    merged = []
    for window, numbers in enumerate(_windows(sizes, target)):
        name = f"{shard:06}-{window:03}"
        frames = ((table, _collect_window(folder, manifest, table, named, numbers)) for table in PARTITIONED)
        merged.append(stage(files, partition, name, shard, frames))
    return merged


def _windows(sizes: pl.DataFrame, target: int) -> list[tuple[int, int]]:
    """Ranges of trace numbers of about `target` events, cut between traces."""
    if sizes.height == 0:
        return []
    # A trace without events belongs to the window that it begins in.
    cut = sizes.group_by((pl.col("events") - 1).clip(0) // target, maintain_order=True)
    ranges = cut.agg(first=pl.col("trace").min(), last=pl.col("trace").max())
    return list(ranges.select("first", "last").iter_rows())


def _collect_window(
    folder: Path, manifest: Manifest, table: str, parts: list[tuple[str, Part]], window: tuple[int, int]
) -> pl.DataFrame:
    if table == "labels":
        return _collect_labels(folder, manifest, parts, window)
    here = [pair for pair in parts if pair[1].first <= window[1] and pair[1].last >= window[0]]
    schema = present_schema(folder, manifest, table, here)
    rows = rows_of(folder, manifest, table, here, schema, window)
    return rows if rows["trace"].is_sorted() else rows.sort("trace", maintain_order=True)


def _collect_labels(
    folder: Path, manifest: Manifest, parts: list[tuple[str, Part]], window: tuple[int, int]
) -> pl.DataFrame:
    """Labels of the traces of a window: each is of the first trace with its id, in whichever part it lies."""
    labels = rows_of(folder, manifest, "labels", parts, present_schema(folder, manifest, "labels", parts))
    if not labels.height:
        return labels
    ids = pl.Schema({name: SCHEMAS["traces"][name] for name in ("trace_id", "trace")})
    traces = rows_of(folder, manifest, "traces", parts, ids).sort("trace")
    first = traces.unique("trace_id", keep="first").filter(pl.col("trace").is_between(*window))
    rows = labels.join(first, on="trace_id", how="inner", maintain_order="left")
    return rows.sort("trace", maintain_order=True).drop("trace")


def _merge_side(folder: Path, manifest: Manifest, table: str, rows: pl.LazyFrame) -> None:
    shard = manifest.next_shard
    old = [side_file(table, part.name) for part in manifest.side(table)]
    with staging(folder, manifest.home) as files:
        frame = rows.collect(engine="streaming")
        parts = [stage_side(files, table, f"{shard:06}", shard, frame)] if frame.height else []
        files.publish(manifest)
        setattr(manifest, table, parts)
        manifest.next_shard = shard + 1
        manifest.save(folder)
    _remove(folder, manifest, old)


def _summed(counts: pl.LazyFrame) -> pl.LazyFrame:
    keys = [name for name in SCHEMAS["record_counts"] if name != "count"]
    return counts.group_by(keys, maintain_order=True).agg(pl.col("count").sum())


def _remove(folder: Path, manifest: Manifest, names: list[str]) -> None:
    """Remove files that the manifest has ceased to list."""

    def remove(name: str) -> None:
        (folder / name).unlink(missing_ok=True)

    # Each waits for the journal of the file system: one after the other took half of the time of merging.
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(remove, names))
    for name in names:
        manifest.forget(name)
    if manifest.home is not None:
        manifest.home.remove(names)
