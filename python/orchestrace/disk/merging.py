"""Merging of the small parts of batches into few large ones, in order of trace."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import polars as pl

from ..base.schema import SCHEMAS
from .manifest import SIDE, Manifest, Part, file_of, side_file
from .memory import OVERHEAD
from .shards import (
    EVENT_BYTES,
    PARTITIONED,
    ROW_GROUP,
    Staging,
    current_side,
    present_schema,
    scan,
    stage,
    stage_side,
    staging,
)

MERGED_AT_ONCE: Final = 16
"""Partitions whose new parts are published together: the whole manifest is written each time."""


def merge(folder: Path, manifest: Manifest) -> None:
    """Rewrite the partitions that have small, overlapping or outdated parts, some at a time.

    Afterwards the parts of a partition are in order of trace and, but for the last, as large as the budget
    allows. A part is put together in memory, windows of trace numbers at a time.
    """
    room = max(manifest.memory - OVERHEAD, manifest.memory // 2)
    target = max(room // EVENT_BYTES, ROW_GROUP)
    waiting = [
        (partition, parts)
        for partition, parts in sorted(manifest.parts.items())
        if not _is_merged(manifest, parts, target)
    ]
    for first in range(0, len(waiting), MERGED_AT_ONCE):
        _merge_partitions(folder, manifest, waiting[first : first + MERGED_AT_ONCE], target)
    for table in SIDE:
        parts = manifest.side(table)
        if len(parts) > 1 or any(manifest.outdated(part) for part in parts):
            rows = current_side(folder, manifest, table)
            _merge_side(folder, manifest, table, _summed(rows) if table == "record_counts" else rows)


def _is_merged(manifest: Manifest, parts: list[Part], target: int) -> bool:
    ordered = all(a.last < b.first for a, b in itertools.pairwise(parts))
    events = [part.rows.get("events", 0) for part in parts]
    small = any(a + b <= target for a, b in itertools.pairwise(events))
    return ordered and not small and not any(manifest.outdated(part) for part in parts)


def _merge_partitions(
    folder: Path, manifest: Manifest, waiting: list[tuple[str, list[Part]]], target: int
) -> None:
    """Some partitions, published together: each time the whole manifest is written."""
    merged: dict[str, list[Part]] = {}
    with staging(folder, manifest.home) as files:
        for shard, (partition, parts) in enumerate(waiting, manifest.next_shard):
            merged[partition] = _merged(files, folder, manifest, partition, parts, shard, target)
        files.publish(manifest)
        for partition, parts in merged.items():
            if parts:
                manifest.parts[partition] = parts
            else:
                del manifest.parts[partition]
        manifest.next_shard += len(waiting)
        manifest.save(folder)
    _remove(
        folder,
        manifest,
        [
            file_of(partition, table, part.name)
            for partition, parts in waiting
            for part in parts
            for table in part.rows
        ],
    )


def _merged(
    files: Staging,
    folder: Path,
    manifest: Manifest,
    partition: str,
    parts: list[Part],
    shard: int,
    target: int,
) -> list[Part]:
    """The new parts of a partition, staged."""
    named = [(partition, part) for part in parts]
    sizes = scan(folder, manifest, "traces", named, SCHEMAS["traces"]).select("trace", "n_events").collect()
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
    folder: Path, manifest: Manifest, table: str, parts: list[tuple[str, Part]], numbers: tuple[int, int]
) -> pl.DataFrame:
    # A label may lie in another part than the first trace with its id.
    labels = table == "labels"
    here = [pair for pair in parts if labels or (pair[1].first <= numbers[1] and pair[1].last >= numbers[0])]
    frame = scan(folder, manifest, table, here, present_schema(folder, manifest, table, here))
    window = pl.col("trace").is_between(*numbers)
    if table == "labels":
        # A label is of the first trace with its id, wherever that is.
        traces = scan(folder, manifest, "traces", parts, SCHEMAS["traces"]).select("trace_id", "trace")
        first = traces.sort("trace").unique("trace_id", keep="first").filter(window)
        frame = frame.join(first, on="trace_id", how="inner", maintain_order="left")
    else:
        frame = frame.filter(window)
    rows = frame.collect(engine="streaming")
    rows = rows if rows["trace"].is_sorted() else rows.sort("trace", maintain_order=True)
    return rows.drop("trace") if table == "labels" else rows


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
