"""A corpus on disk: its Parquet tables, and every verb slice by slice within a memory budget."""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from .. import _core
from ..base.arguments import Threads
from ..base.batched_scans import scan_batches
from ..base.errors import InputError, ParameterError, SchemaError
from ..base.paths import expanded
from ..base.progress import Progress, reporting
from ..base.publication import published
from ..base.schema import MAPPING_COUNTS, SCHEMAS, dtype_of
from ..base.text import plain
from ..base.verbs import verb
from ..corpus.assemble import Table, frame_of
from ..corpus.coded_frames import store_of_frames
from ..corpus.corpus import Corpus
from ..corpus.measures import Measures, measures_of
from ..corpus.on_disk import MANIFEST as NAME
from ..corpus.parts import store_of, stored_table, table_of
from ..corpus.pieces import empty_tables
from ..storage.addresses import address_of, is_address
from ..storage.objects import look_up
from .home import Home
from .integrity import reading, verify
from .manifest import (
    PARTITIONED,
    SIDE,
    TRACE_TABLES,
    Manifest,
    Part,
    StoredFile,
    load,
    load_home,
    stored,
)
from .memory import memory_bytes
from .shards import EVENT_BYTES, current_side, present_schema, scan

Step = Callable[[Corpus], Corpus]


@dataclass(frozen=True)
class OnDisk:
    """Folder, files, budget and filter of a corpus on disk, for plans, sinks and exports.

    Parameters
    ----------
    folder, manifest
        Its folder, or the folder of copies of a corpus in object storage; the list of its files.
    memory
        The budget in bytes.
    chosen
        The traces that a filter has left, ascending; None for all.
    is_changed
        Whether tables differ from the files.
    """

    folder: Path
    manifest: Manifest
    memory: int
    chosen: pl.Series | None
    is_changed: bool


class PartitionedCorpus(Corpus):
    """A corpus on disk, which `read_corpus` opens: a `Corpus` whose tables are scans of Parquet files.

    Whatever `Corpus` offers works here too, and so does every verb that takes one, partition by partition
    within the memory budget. Rows are in order of partition, then trace.
    """

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        memory: int,
        *,
        chosen: pl.Series | None = None,
        steps: tuple[Step, ...] = (),
        computed: frozenset[str] = frozenset(),
    ) -> None:
        self._folder = folder
        self._manifest = manifest
        self._memory = memory
        self._chosen = chosen  # traces, ascending; None for all
        self._steps = steps  # what each slice goes through when it is loaded
        self._computed = computed  # tables that differ after the steps
        self._counted: dict[str, int] | None = None

    @property
    def records(self) -> dict[str, int]:
        return self._manifest.records()

    @property
    def mapping_counts(self) -> pl.DataFrame:
        rows = [
            (count.key, count.pointer, count.matched, count.of, count.type)
            for count in self._manifest.mapping_counts
        ]
        return pl.DataFrame(rows, schema=MAPPING_COUNTS, orient="row")

    @property
    def full_corpus(self) -> "PartitionedCorpus":
        """The corpus that this one is a part of; itself if it is complete."""
        return self

    def pieces(self) -> Iterator[tuple[str, Callable[[], Corpus]]]:
        """The corpus in memory, piece by piece: whole groups, about as many events as the budget has room
        for.

        Raises
        ------
        InputError
            A group alone has more events than the budget has room for; the message says what it needs.
        """
        for partition in sorted(self._manifest.parts):
            yield from ((name, loading) for name, _, loading in self.pieces_of(partition))

    def pieces_of(self, partition: str) -> Iterator[tuple[str, pl.Series | None, Callable[[], Corpus]]]:
        """The pieces of one partition: name, traces (None for all of the partition), and what loads it."""
        named = [(partition, part) for part in self._manifest.parts[partition]]
        for number, traces in enumerate(self._plan(partition, named)):
            name = f"part={partition}" if number == 0 else f"part={partition}-{number:03}"
            yield name, traces, partial(self._load, named, traces)

    @verb
    def filter(self, *predicates: pl.Expr | bool | list[bool]) -> "PartitionedCorpus":
        traces = self._collected(self.traces.filter(*predicates).select("trace"))["trace"]
        return self._changed(chosen=traces.sort())

    @verb
    def with_measures(self, frame: Measures) -> "PartitionedCorpus":
        # Names and values are checked now, not when the first slice is made.
        measures = measures_of(self, frame)
        return self._with({"measures"}, lambda corpus: corpus.with_measures(_of(measures, corpus)))

    @verb
    def with_fields(self, frame: Table) -> "PartitionedCorpus":
        fields = self._located(frame_of(frame, "fields"), "fields")
        if "group_id" in fields.columns:
            raise ParameterError(
                "a corpus on disk is divided by group already: ingest with group=, or use read_traces"
            )
        changed = {"events", "agents", "findings"}
        return self._with(changed, lambda corpus: corpus.with_fields(_of(fields, corpus)))

    @verb
    def write_jsonl(
        self,
        target: str | os.PathLike[str] | BinaryIO,
        *,
        overwrite: bool = False,
        threads: Threads = None,
        progress: Progress = None,
    ) -> int:
        with published(target, overwrite=overwrite) as sink, reporting(progress, "writing") as callback:
            return sum(
                store_of(c).write_jsonl(sink, threads=threads, progress=callback) for c in self.slices()
            )

    def _input(self, file: str) -> tuple[str, str]:
        for entry in self._manifest.inputs:
            if file != entry.name and not file.startswith(f"{entry.name}/"):
                continue
            path, place = super()._input(entry.path)
            now = _content(path, place)
            if now != (entry.size, entry.mtime_ns):
                raise InputError(f"'{place}' has changed since it was read: ingest it again")
            return path, entry.name
        return super()._input(file)

    def _read_options(self) -> dict[str, Any]:
        manifest = self._manifest
        options = {name: value for name, value in manifest.reading().items() if name != "fields"}
        if manifest.mapping is not None:
            options["mapping"] = (
                manifest.mapping,
                f"the mapping in {self._manifest.shown(self._folder)}/{NAME}",
            )
        return options

    def identity(self) -> dict[str, object] | None:
        """What a result depends on beside the call; None if that is unknown."""
        if self._steps:
            return None
        parts = {
            partition: [[part.name, sorted(part.rows.items()), part.first, part.last] for part in parts]
            for partition, parts in self._manifest.parts.items()
        }
        traces = None if self._chosen is None else self._chosen.to_list()
        state = json.dumps([parts, list(self._manifest.since().values()), traces], sort_keys=True)
        return {"corpus": hashlib.blake2b(state.encode(), digest_size=16).hexdigest(), "memory": self._memory}

    def __reduce__(self) -> tuple[Any, ...]:
        """Where it lies, and what it consists of: another process opens the same files."""
        if self._steps:
            raise TypeError(
                "a corpus on disk changed by with_measures or with_fields cannot be pickled: hand over what"
                " read_corpus opens, and change it in the other process"
            )
        traces = None if self._chosen is None else self._chosen.to_list()
        return _opened, (self._folder.absolute(), self._manifest, self._memory, traces)

    def __len__(self) -> int:
        return self._sizes()["traces"]

    def _with(self, changed: set[str], step: Step) -> "PartitionedCorpus":
        return self._changed(steps=(*self._steps, step), computed=self._computed | changed)

    def _changed(self, **changes: Any) -> "PartitionedCorpus":
        state = {"chosen": self._chosen, "steps": self._steps, "computed": self._computed, **changes}
        return PartitionedCorpus(self._folder, self._manifest, self._memory, **state)

    def _sizes(self) -> dict[str, int]:
        manifest = self._manifest
        if self._counted is None:
            side = (part for table in SIDE for part in manifest.side(table))
            parts = [*side, *(part for parts in manifest.parts.values() for part in parts)]
            valid = not any(manifest.outdated(part) for part in parts)
            counts = {}
            for name in SCHEMAS:
                if valid and self._chosen is None and name not in self._computed:
                    counts[name] = manifest.rows(name)
                else:
                    counts[name] = int(self._collected(self._table(name).select(pl.len())).item())
            self._counted = counts
        return self._counted

    def _streams(self, name: str) -> list[_core.Stream]:
        if name not in SIDE:
            return [store_of(piece).table(name) for piece in self.slices()]
        # No piece has it, or not all of it.
        tables = {name: self._table(name).collect(engine="streaming")}
        return [_core.Store.from_arrow(empty_tables() | tables).table(name)]

    def _lifted(self) -> Mapping[str, str]:
        return self._manifest.fields

    def _stored(self, name: str) -> pl.DataFrame:
        """The keys of all traces; no other table is held in memory."""
        return self._collected(self._table(name).select("trace", "trace_id"))

    def _collected(self, frame: pl.LazyFrame) -> pl.DataFrame:
        """The rows of a scan of the corpus's files."""
        with reading(self._folder, self._manifest, self._manifest.stored()):
            return frame.collect(engine="streaming")

    def _schema(self, name: str) -> pl.Schema:
        lifted = (
            {field: dtype_of(kind) for field, kind in sorted(self._manifest.fields.items())}
            if name == "events"
            else {}
        )
        return pl.Schema({**SCHEMAS[name], **lifted})

    def _table(self, name: str) -> pl.LazyFrame:
        _core.check_process()
        if name in SIDE and name != "labels":
            with reading(self._folder, self._manifest, self._manifest.stored()):
                return current_side(self._folder, self._manifest, name)
        if name in self._computed:
            return self._computing(name)
        frame = self._scan(name, sorted(self._manifest.parts))
        if name == "labels" and self._manifest.labels:
            frame = pl.concat([frame, current_side(self._folder, self._manifest, name)])
        if self._chosen is None or name in TRACE_TABLES:
            return frame
        return frame.join(
            self._table("traces").select("trace_id"), on="trace_id", how="semi", maintain_order="left"
        )

    def _scan(self, name: str, partitions: list[str]) -> pl.LazyFrame:
        """A table of some partitions as it lies in the files; where it has traces, those that are kept."""
        parts = [(partition, part) for partition in partitions for part in self._manifest.parts[partition]]
        with reading(self._folder, self._manifest, self._manifest.stored()):
            frame = scan(self._folder, self._manifest, name, parts, self._schema(name))
        if self._chosen is None or name not in TRACE_TABLES:
            return frame
        return frame.filter(pl.col("trace").is_in(self._chosen.implode()))

    def _divisions(self, name: str) -> Iterator[pl.LazyFrame]:
        if name in self._computed:
            yield from (table_of(corpus, name) for corpus in self.slices())
            return
        yield from (self._scan(name, [partition]) for partition in sorted(self._manifest.parts))

    def _computing(self, name: str) -> pl.LazyFrame:
        """A table of the slices after all steps."""
        schema = self._schema(name)

        def frames(columns: list[str], n_rows: int | None) -> Iterator[pl.DataFrame]:
            for corpus in self.slices():
                frame = _in_schema(table_of(corpus, name), schema).select(columns)
                yield (frame if n_rows is None else frame.head(n_rows)).collect()

        return scan_batches(frames, schema)

    def _plan(self, partition: str, parts: list[tuple[str, Part]]) -> Iterator[pl.Series | None]:
        """The traces of each slice of a partition; None stands for all of them."""
        # A step makes a corpus anew, beside the one that it changes.
        event_bytes = EVENT_BYTES * (2 if self._steps else 1)
        room = max(self._memory // event_bytes, 1)
        if self._chosen is None and sum(part.rows.get("events", 0) for _, part in parts) <= room:
            yield None
            return
        columns = ["trace", *self._manifest.key, "n_events"]
        traces = scan(self._folder, self._manifest, "traces", parts, SCHEMAS["traces"]).select(columns)
        if self._chosen is not None:
            traces = traces.filter(pl.col("trace").is_in(self._chosen.implode()))
        groups = (
            self._collected(traces.sort("trace"))
            .group_by(self._manifest.key, maintain_order=True)
            .agg("trace", events=pl.col("n_events").cast(pl.Int64).sum())
        )
        taken: list[pl.Series] = []
        held = 0
        for row in range(groups.height):
            events = groups["events"][row]
            if events > room:
                key = ", ".join(f"{name} {groups[name][row]!r}" for name in self._manifest.key)
                raise InputError(
                    f"the group with {key} has {events:,} events, which need a memory of about "
                    f"{-(-events * event_bytes >> 20):,} MiB: read_corpus(..., memory=...)"
                )
            if taken and held + events > room:
                yield pl.concat(taken).sort()
                taken, held = [], 0
            taken.append(groups["trace"][row])
            held += events
        if taken:
            yield pl.concat(taken).sort()

    def _load(self, parts: list[tuple[str, Part]], numbers: pl.Series | None) -> Corpus:
        """Some traces of a partition, in memory."""
        files = self._loaded_files(parts)
        verify(self._folder, self._manifest, files)  # together, so that they are hashed side by side
        with reading(self._folder, self._manifest, files):
            tables = self._load_tables(parts, numbers)
        store = store_of_frames(tables, judged=True, set_aside=True)
        if store.set_aside:
            self._warn_set_aside(store.set_aside)
        corpus = Corpus(store)
        for step in self._steps:
            corpus = step(corpus)
        return corpus

    def _loaded_files(self, parts: list[tuple[str, Part]]) -> list[StoredFile]:
        """Files that traces of some parts are loaded from."""
        tables = [name for name in PARTITIONED if name != "agents"]
        files = [stored(name, *pair) for pair in parts for name in tables if name in pair[1].rows]
        return files + [stored("labels", None, part) for part in self._manifest.labels]

    def _load_tables(
        self, parts: list[tuple[str, Part]], numbers: pl.Series | None
    ) -> dict[str, pl.DataFrame]:
        tables: dict[str, pl.DataFrame] = {}
        trace_ids: pl.LazyFrame | None = None
        for name in PARTITIONED:
            if name == "agents":
                continue  # derived
            schema = present_schema(self._folder, self._manifest, name, parts)
            frame = scan(self._folder, self._manifest, name, parts, schema)
            if name == "labels" and self._manifest.labels and trace_ids is not None:
                loose = current_side(self._folder, self._manifest, name)
                loose = loose.join(trace_ids.unique(), on="trace_id", how="semi", maintain_order="left")
                frame = pl.concat([frame, loose])
            if numbers is not None and name in TRACE_TABLES:
                low, high = numbers[0], numbers[-1]
                frame = frame.filter(
                    pl.col("trace").is_between(low, high), pl.col("trace").is_in(numbers.implode())
                )
            if numbers is not None and name == "labels" and trace_ids is not None:
                frame = frame.join(trace_ids, on="trace_id", how="semi", maintain_order="left")
            rows = frame.collect(engine="streaming")
            if "trace" in rows.columns and not rows["trace"].is_sorted():
                rows = rows.sort("trace", maintain_order=True)
            if name == "traces":
                trace_ids = rows.lazy().select("trace_id")
            tables[name] = rows
        return tables

    def _warn_set_aside(self, aside: list[tuple[int | None, str]]) -> None:
        """Warn of traces and labels that results leave out."""
        trace, message = aside[0]
        subject = "a label" if trace is None else f"trace {trace}"
        more = f", and {len(aside) - 1:,} more" if len(aside) > 1 else ""
        warnings.warn(
            f"the corpus in '{self._manifest.shown(self._folder)}' holds what no result can be computed "
            f"from; {subject} is left out{more}: {plain(message)}. Ingest its recording again, or name the "
            "traces to use with filter",
            UserWarning,
            stacklevel=2,
        )


@verb
def read_corpus(
    path: str | os.PathLike[str], *, memory: int | str | None = None, verify: bool = True
) -> PartitionedCorpus:
    """Open a corpus on disk, made by `ingest`.

    Parameters
    ----------
    path
        The folder, or its address in object storage (``s3://``, ``gs://``, ``az://``, ``http(s)://``). Files
        are then copied when they are first scanned, and the copies kept: docs/object-storage.md.
    memory
        The memory budget of a verb; the default is the budget of the last ingest.
    verify
        Compare each file once with the BLAKE3 in the manifest, when a verb or a table such as
        ``corpus.events`` first scans it. ``False`` compares sizes only.

    Raises
    ------
    InputError
        There is no corpus. A verb or a table raises it later if a file is damaged; the message says which
        file, how it differs and what repairs it.
    SchemaError
        Another major version wrote the corpus, or its manifest is damaged.

    Notes
    -----
    Reads the manifest only. A folder from a version without checksums is read as it is; the next `ingest`
    into it adds them. You can read a corpus while it is written: you see what was published when you opened
    it, until an ingest merges or replaces its files.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> folder = tempfile.mkdtemp()
    >>> _ = ot.generate(f"{folder}/runs.jsonl", traces=5, seed=0)
    >>> _ = ot.ingest(f"{folder}/runs.jsonl", f"{folder}/corpus")
    >>> corpus = ot.read_corpus(f"{folder}/corpus")
    >>> corpus.traces.select(pl.len()).collect().item()
    5
    >>> ot.credit(corpus, method="uniform", unit="team").height
    5
    """
    place = expanded(path)
    if is_address(place):
        home = Home(address_of(place))
        folder, manifest = home.folder, load_home(home)
        place = home.url
    else:
        folder = Path(place)
        manifest = load(folder)
    if manifest is None:
        raise InputError(f"no corpus in '{plain(place)}': it has no {NAME}; make one with ingest")
    manifest.verify = verify
    room = manifest.memory if memory is None else memory_bytes(memory)
    return PartitionedCorpus(folder, manifest, room)


def _opened(folder: Path, manifest: Manifest, memory: int, numbers: list[int] | None) -> PartitionedCorpus:
    """A corpus on disk as another process had it open."""
    traces = None if numbers is None else pl.Series("trace", numbers, pl.UInt32)
    if manifest.home is not None:
        folder = manifest.home.folder  # the copies of that process
    return PartitionedCorpus(folder, manifest, memory, chosen=traces)


def _content(path: str, place: str) -> tuple[int, int]:
    """Size and time of an input; for an object, its size and version."""
    if is_address(place) and (remote := look_up(address_of(place))) is not None:
        return remote.size, remote.version
    stat = os.stat(path)
    return stat.st_size, stat.st_mtime_ns


def on_disk(corpus: PartitionedCorpus) -> OnDisk:
    """Folder, files, budget and filter of a corpus on disk."""
    return OnDisk(corpus._folder, corpus._manifest, corpus._memory, corpus._chosen, bool(corpus._steps))


def check_groups(corpus: Corpus) -> None:
    """Refuse to judge rollouts against each other if their groups lie in several pieces.

    Raises
    ------
    SchemaError
        Names a group and what to do.
    """
    if not isinstance(corpus, PartitionedCorpus) or corpus._manifest.key == ["group_id"]:
        return
    home: dict[str, tuple[str, int]] = {}
    for partition, parts in sorted(corpus._manifest.parts.items()):
        named = [(partition, part) for part in parts]
        traces = scan(corpus._folder, corpus._manifest, "traces", named, SCHEMAS["traces"])
        for number, members in enumerate(corpus._plan(partition, named)):
            here = traces if members is None else traces.filter(pl.col("trace").is_in(members.implode()))
            for group in corpus._collected(here.select("group_id").unique())["group_id"]:
                if home.setdefault(group, (partition, number)) != (partition, number):
                    key = ", ".join(corpus._manifest.key)
                    raise SchemaError(
                        f"group {group!r} is divided, since the corpus was ingested with group=[{key}]"
                    )


def _in_schema(frame: pl.LazyFrame, schema: pl.Schema) -> pl.LazyFrame:
    """With the columns that other slices have."""
    present = frame.collect_schema()
    absent = [pl.lit(None, dtype).alias(name) for name, dtype in schema.items() if name not in present]
    return frame.with_columns(absent).select(list(schema))


def _of(rows: pl.DataFrame, corpus: Corpus) -> pl.DataFrame:
    """The rows of a frame that are about the traces of a slice."""
    return rows.join(
        stored_table(corpus, "traces").select("trace"), on="trace", how="semi", maintain_order="left"
    )
