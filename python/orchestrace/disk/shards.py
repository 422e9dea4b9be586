"""Tables of a corpus on disk: divided by partition and written, and scanned over the files of their parts."""

import itertools
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import polars as pl

from .. import _core
from ..base.schema import SCHEMAS
from .batches import (
    WRITERS,
    columns_of_piece,
    read_pieces,
    scan_pieces,
    stage_batch,
    trace_range,
)
from .integrity import verify
from .manifest import (
    BATCHES,
    GATHERED,
    PARTITIONED,
    SIDE,
    Manifest,
    Part,
    StoredFile,
    file_of,
    is_of_corpus,
    side_file,
    stored,
)
from .staging import Staging

INDEX: Final = pl.Schema(
    {
        "trace": pl.UInt32,
        "input": pl.UInt32,
        "id": pl.UInt64,
        "content": pl.UInt64,
        "duplicate": pl.Boolean,
        "shard": pl.UInt32,
    }
)
"""For each trace: its input, its shard, and the hashes of its id and content."""

EVENT_BYTES: Final = 1_000
"""Memory for an event while a slice is worked on: its row in a frame, in a store, and in a result."""


def write_shard(
    files: Staging,
    manifest: Manifest,
    store: _core.Store,
    index: pl.DataFrame,
    counts: pl.DataFrame | None = None,
    *,
    together: bool = False,
) -> None:
    """Stage the tables of a batch, divided by partition, and enter them into the manifest.

    `counts` replace those of the store. `together` writes few files for all partitions, which are there until
    they are merged.
    """
    shard = manifest.next_shard
    division = _core.Partition(store, manifest.key, manifest.partitions)
    parts = (
        stage_batch(files, manifest, division, shard) if together else _stage_parts(files, division, shard)
    )
    for number, part in parts:
        manifest.parts.setdefault(f"{number:03}", []).append(part)
    side = {
        "index": index,
        "quarantine": pl.DataFrame(store.table("quarantine")),
        "record_counts": pl.DataFrame(store.table("record_counts")) if counts is None else counts,
        "labels": pl.DataFrame(division.loose_labels().table("labels")),
    }
    for table, frame in side.items():
        if frame.height:
            manifest.side(table).append(stage_side(files, table, f"{shard:06}", shard, frame))
    manifest.next_shard = shard + 1


def _stage_parts(files: Staging, division: _core.Partition, shard: int) -> Iterator[tuple[int, Part]]:
    def staged(number: int) -> tuple[int, Part]:
        piece = division.part(number)
        frames = ((table, pl.DataFrame(piece.table(table))) for table in PARTITIONED)
        return number, stage(files, f"{number:03}", f"{shard:06}", shard, frames)

    # A file of few rows takes the time of its calls, not of its bytes.
    with ThreadPoolExecutor(WRITERS) as pool:
        yield from pool.map(staged, division.present)


def stage(
    files: Staging, partition: str, name: str, shard: int, frames: Iterable[tuple[str, pl.DataFrame]]
) -> Part:
    """Stage the tables of a part."""
    part = Part(name, shard, {}, 0, 0)
    for table, frame in frames:
        if table == "traces":
            part.first, part.last = trace_range(frame)
        if frame.height:
            part.rows[table] = frame.height
            part.files[table] = files.write(frame, file_of(partition, table, name))
    return part


def stage_side(files: Staging, table: str, name: str, shard: int, frame: pl.DataFrame) -> Part:
    """Stage a part of a table that no partition has."""
    written_as = files.write(frame, side_file(table, name))
    return Part(name, shard, {table: frame.height}, 0, 0, {table: written_as})


def clear_leftovers(folder: Path, manifest: Manifest) -> None:
    """Remove the files of ours that the manifest does not list: those of a step that was cut short."""
    listed = set(manifest.files())
    paths = [*folder.glob("part=*/*/*"), *folder.glob("part=*/*/.*"), *folder.glob(".*.tmp")]
    for table in (*SIDE, BATCHES):
        paths += [*folder.glob(f"{table}/*"), *folder.glob(f"{table}/.*")]
    for path in paths:
        ours = path.suffix in (".parquet", ".arrows") or path.name.endswith(".tmp")
        if ours and path.relative_to(folder).as_posix() not in listed and path.is_file():
            path.unlink()
    if manifest.home is not None:
        objects = manifest.home.listing()
        manifest.home.remove(name for name in objects if is_of_corpus(name) and name not in listed)


def scan(
    folder: Path, manifest: Manifest, table: str, parts: list[tuple[str, Part]], schema: pl.Schema
) -> pl.LazyFrame:
    """A table over the files of some parts, rows that are no longer valid left out.

    The columns are those of `schema`; one that a file does not have is null there. The files are verified
    first.
    """
    counted = table == "events" and manifest.schema_version == "1.0"
    if counted:
        schema = pl.Schema({**SCHEMAS["events"], **schema})
    here = [(partition, part) for partition, part in parts if table in part.rows]
    plain = [stored(table, *pair) for pair in here if not manifest.outdated(pair[1])]
    frames = []
    if plain:
        frames.append(_scan_files(folder, manifest, plain, schema))
    for partition, part in here:
        if manifest.outdated(part):
            frame = _scan_files(folder, manifest, [stored(table, partition, part)], schema)
            frames.append(_valid(frame, folder, manifest, partition, table, part))
    if not frames:
        return pl.LazyFrame(schema=schema)
    frame = frames[0] if len(frames) == 1 else pl.concat(frames)
    return _with_counts(frame) if counted else frame


def rows_of(
    folder: Path,
    manifest: Manifest,
    table: str,
    parts: list[tuple[str, Part]],
    schema: pl.Schema,
    window: tuple[int, int] | None = None,
) -> pl.DataFrame:
    """The rows of `scan`, in memory; of a window of traces, where one is given."""
    in_batches = {
        id(part): stored(table, partition, part)
        for partition, part in parts
        if part.batch is not None and table in part.rows and not manifest.outdated(part)
    }
    if manifest.schema_version == "1.0":
        in_batches.clear()  # `scan` knows what columns it lacked
    frames = []
    if rest := [pair for pair in parts if id(pair[1]) not in in_batches and table in pair[1].rows]:
        frame = scan(folder, manifest, table, rest, schema)
        frame = frame if window is None else frame.filter(pl.col("trace").is_between(*window))
        frames.append(frame.collect(engine="streaming"))
    if pieces := list(in_batches.values()):
        verify(folder, manifest, pieces)
        with_columns = [(piece, columns_of(folder, manifest, piece)) for piece in pieces]
        frames.append(read_pieces(folder, with_columns, schema, window))
    return pl.concat(frames) if frames else pl.DataFrame(schema=schema)


def _with_counts(events: pl.LazyFrame) -> pl.LazyFrame:
    """Events of layout 1.0 with the columns of today; rows that were written since stay as they are.

    It had parts of tokens in the extras, and no total beside input and output.
    """
    in_extras = {
        name: pl.coalesce(
            name, pl.col("extras").str.json_path_match(f"$.x_{name}").cast(pl.Int64, strict=False)
        )
        for name in ("tokens_cached", "tokens_cache_write", "tokens_reasoning")
    }
    cache = pl.sum_horizontal("tokens_cached", "tokens_cache_write")
    has_tokens = pl.any_horizontal(pl.col("tokens_in", "tokens_out").is_not_null())
    return events.with_columns(**in_extras).with_columns(
        tokens_fresh=pl.coalesce("tokens_fresh", (pl.col("tokens_in") - cache).clip(0)),
        tokens=pl.coalesce("tokens", pl.when(has_tokens).then(pl.sum_horizontal("tokens_in", "tokens_out"))),
    )


def _scan_files(
    folder: Path, manifest: Manifest, listed: list[StoredFile], schema: pl.Schema
) -> pl.LazyFrame:
    verify(folder, manifest, listed)
    frames = []
    for in_batches, some in itertools.groupby(listed, lambda file: file.piece is not None):
        if in_batches:
            pieces = [(file, columns_of(folder, manifest, file)) for file in some]
            frames.append(scan_pieces(folder, pieces, schema))
        else:
            frames.append(_scan_parquet([folder / file.name for file in some], schema))
    return frames[0] if len(frames) == 1 else pl.concat(frames)


def _scan_parquet(files: list[Path], schema: pl.Schema) -> pl.LazyFrame:
    if "code" not in schema:
        return _scan_alike(files, schema)
    # The vocabularies of codes grow: files of an earlier version have fewer words.
    frames = []
    for codes, alike in itertools.groupby(files, _codes_of):
        frame = _scan_alike(list(alike), pl.Schema({**schema, "code": codes}))
        frames.append(frame.with_columns(pl.col("code").cast(schema["code"])))
    return frames[0] if len(frames) == 1 else pl.concat(frames)


def _codes_of(file: Path) -> pl.DataType:
    return pl.scan_parquet(file, glob=False, hive_partitioning=False).collect_schema()["code"]


def _scan_alike(files: list[Path], schema: pl.Schema) -> pl.LazyFrame:
    return pl.scan_parquet(
        files,
        schema=schema,
        missing_columns="insert",
        extra_columns="ignore",
        glob=False,
        hive_partitioning=False,
    )


def _valid(
    frame: pl.LazyFrame, folder: Path, manifest: Manifest, partition: str, table: str, part: Part
) -> pl.LazyFrame:
    """Without the rows of inputs that were read anew since."""
    stale = replaced(folder, manifest, part)
    if table != "labels":
        return frame.filter(~pl.col("trace").is_in(stale.implode()))
    traces = _scan_files(folder, manifest, [stored("traces", partition, part)], SCHEMAS["traces"])
    trace_ids = traces.filter(~pl.col("trace").is_in(stale.implode())).select("trace_id")
    return frame.join(trace_ids, on="trace_id", how="semi", maintain_order="left")


def replaced(folder: Path, manifest: Manifest, part: Part) -> pl.Series:
    """Numbers of the traces whose rows in a part are no longer valid."""
    rows = scan_index(folder, manifest, manifest.index).filter(
        ~pl.col("duplicate"),
        pl.col("trace").is_between(part.first, part.last),
        pl.col("shard") < pl.col("since"),
        pl.col("since") > part.shard,
    )
    return rows.select("trace").collect()["trace"]


def scan_index(folder: Path, manifest: Manifest, parts: list[Part]) -> pl.LazyFrame:
    """Rows of the index with `since`, the shard from which rows of their input are valid."""
    first_shards = manifest.since()
    since = pl.LazyFrame(
        {"input": list(first_shards), "since": list(first_shards.values())},
        schema={"input": pl.UInt32, "since": pl.UInt32},
    )
    files = [stored("index", None, part) for part in parts]
    rows = _scan_files(folder, manifest, files, INDEX) if files else pl.LazyFrame(schema=INDEX)
    return rows.join(since, on="input", maintain_order="left")


def current_side(folder: Path, manifest: Manifest, table: str) -> pl.LazyFrame:
    """A table of no partition, without the rows of inputs that were read anew since."""
    if table == "index":
        return current_index(folder, manifest)
    frames = []
    for part in manifest.side(table):
        frame = scan_side(folder, manifest, table, part)
        if table == "labels":
            # They come from traces that are put together from several inputs, all read anew or none.
            frames += [] if GATHERED in manifest.outdated(part) else [frame]
            continue
        if stale := replaced_files(manifest, part, frame):
            frame = frame.filter(pl.col("file").cast(pl.String).is_in(stale).not_().fill_null(True))
        frames.append(frame)
    return pl.concat(frames) if frames else pl.LazyFrame(schema=SCHEMAS[table])


def scan_side(folder: Path, manifest: Manifest, table: str, part: Part) -> pl.LazyFrame:
    """A part of a table of no partition, as it lies in its file."""
    return _scan_files(folder, manifest, [stored(table, None, part)], SCHEMAS[table])


def replaced_files(manifest: Manifest, part: Part, frame: pl.LazyFrame) -> list[str]:
    """Names in `file` of inputs that were read anew since, and of entries of archives among them."""
    names = {manifest.inputs[number].name for number in manifest.outdated(part) if number != GATHERED}
    if not names:
        return []
    present = frame.select(pl.col("file").cast(pl.String).unique()).collect()["file"].drop_nulls().to_list()
    steps = (itertools.accumulate(name.split("/"), lambda a, b: f"{a}/{b}") for name in present)
    return [name for name, paths in zip(present, steps, strict=True) if not names.isdisjoint(paths)]


def present_schema(folder: Path, manifest: Manifest, table: str, parts: list[tuple[str, Part]]) -> pl.Schema:
    """The columns of a table that some of the parts have, in order."""
    dtypes: dict[str, pl.DataType] = {}
    listed = [stored(table, partition, part) for partition, part in parts if table in part.rows]
    verify(folder, manifest, listed)
    schemas = [columns_of(folder, manifest, file) for file in listed]
    for schema in {id(schema): schema for schema in schemas}.values():
        dtypes |= schema
    standard = [name for name in SCHEMAS[table] if name in dtypes]
    lifted = sorted(set(dtypes) - set(SCHEMAS[table]))
    required = {} if dtypes else dict(SCHEMAS[table])
    return pl.Schema(required or {name: dtypes[name] for name in [*standard, *lifted]})


def columns_of(folder: Path, manifest: Manifest, file: StoredFile) -> pl.Schema:
    """The columns of a table in a file; of one that this process wrote, as it wrote them."""
    schema = manifest.columns.get(file.name, {}).get(file.table)
    if schema is not None:
        return schema
    if file.piece is not None:
        # All pieces of a table in the file of a batch have the same.
        return manifest.columns.setdefault(file.name, {}).setdefault(
            file.table, columns_of_piece(folder, file)
        )
    # Not `read_parquet_schema`, which takes brackets in the name of a folder for a pattern.
    return pl.scan_parquet(folder / file.name, glob=False, hive_partitioning=False).collect_schema()


def current_index(folder: Path, manifest: Manifest) -> pl.LazyFrame:
    """The index, without the rows of inputs that were read anew since."""
    rows = scan_index(folder, manifest, manifest.index)
    return rows.filter(pl.col("shard") >= pl.col("since")).select(list(INDEX))
