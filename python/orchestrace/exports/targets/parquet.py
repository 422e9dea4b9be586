"""All tables of a corpus as a folder of Parquet files: a corpus on disk, as `ingest` makes it."""

from pathlib import Path
from typing import Final, cast

import polars as pl

from ... import _core
from ...base.schema import Lifted
from ...corpus.corpus import Corpus
from ...corpus.parts import sizes_of, store_of
from ...corpus.pieces import empty_tables
from ...disk.manifest import EXPORTED, Input, Manifest
from ...disk.memory import memory_bytes, partitions_of
from ...disk.merging import merge
from ...disk.partitioned import PartitionedCorpus, on_disk
from ...disk.shards import EVENT_BYTES, INDEX, write_shard
from ...disk.staging import staging, translate_write_errors
from ..format import Export, Request


def _write(corpus: Corpus, folder: Path, request: Request) -> None:
    room = memory_bytes(request.memory)
    key, fields = _division(corpus)
    sizes = sizes_of(corpus)
    # Pieces do not know what was read for them; it is reported once. What was not read has no other name.
    counts, done = corpus.record_counts.collect(engine="streaming"), 0
    rejects = corpus.quarantine.collect(engine="streaming")
    if request.anonymize is not None:
        counts, rejects, fields = counts.clear(), rejects.clear(), {}
    manifest = Manifest(partitions_of(sizes["events"] * EVENT_BYTES, room), key, room, fields)
    for piece in request.pieces(corpus):
        _add(folder, manifest, store_of(piece), counts)
        counts = counts.clear()
        done += len(piece)
        request.report(done, sizes["traces"])
    if counts.height or (
        rejects.height and not manifest.quarantine
    ):  # the pieces of a corpus on disk have none
        _add(folder, manifest, _core.Store.from_arrow(empty_tables() | {"quarantine": rejects}), counts)
    entry = Input(EXPORTED, "", 0, 0, done=True)
    if request.anonymize is None:
        entry.records, entry.used, entry.ignored, entry.duplicates, entry.quarantined = (
            corpus.records.values()
        )
    else:
        entry.records = entry.used = done
    manifest.inputs.append(entry)
    with translate_write_errors(folder):
        merge(folder, manifest)
        manifest.complete = True
        manifest.save(folder)


def _add(folder: Path, manifest: Manifest, store: _core.Store, counts: pl.DataFrame) -> None:
    """One more shard; trace numbers stay what they are."""
    highest = pl.DataFrame(store.table("traces"))["trace"].max()
    with staging(folder) as files:
        write_shard(files, manifest, store, pl.DataFrame(schema=INDEX), counts)
        files.publish()
    if isinstance(highest, int):
        manifest.next_trace = max(manifest.next_trace, highest + 1)


def _division(corpus: Corpus) -> tuple[list[str], dict[str, Lifted]]:
    """The columns that keep traces together, and the lifted columns."""
    if isinstance(corpus, PartitionedCorpus):
        manifest = on_disk(corpus).manifest
        return manifest.key, dict(manifest.fields)
    return ["group_id"], cast(dict[str, Lifted], dict(store_of(corpus).lifted))


PARQUET: Final = Export(
    "parquet",
    "All tables as a folder of Parquet files, a corpus on disk",
    "read_corpus, Polars, DuckDB, pandas",
    "",
    "corpus",
    ("trace_id", "memory", "anonymize"),
    _write,
    folder=True,
)
