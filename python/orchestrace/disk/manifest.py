"""The manifest of a corpus on disk: its inputs, its files, how far each input was read.

It is one JSON file, replaced as a whole, so that it is always that before or that after a step.
"""

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

import polars as pl

from .. import _core
from ..base.durable import replace, sync_folder
from ..base.errors import InputError, SchemaError
from ..base.schema import Lifted, TraceBy
from ..base.typed_json import Misfit, reader_of
from ..corpus.on_disk import MANIFEST
from .home import Home

EXPORTED: Final = "<export>"
"""The name of the only input of a corpus that `export` wrote."""

_FILE: Final = re.compile(
    r"(part=[0-9]{3}/(traces|events|edges|agents|measures|findings|labels)|index|quarantine|record_counts|labels)"
    r"/[0-9]{6,}(-[0-9]{3,})?\.parquet"
    r"|batches/[0-9]{6,}-[0-9]{2,}\.arrows"
)
"""Files of a corpus; nothing else is opened or removed because a manifest says so."""

TRACE_TABLES: Final = ("traces", "events", "edges", "agents", "measures", "findings")
"""Tables with a column `trace`."""

PARTITIONED: Final = (*TRACE_TABLES, "labels")
"""Tables that are divided by trace."""

SIDE: Final = ("index", "quarantine", "record_counts", "labels")
"""Tables with files of no partition. Labels lie there if their trace was not read with them."""

BATCHES: Final = "batches"
"""The folder of files with rows of several partitions, until these are merged; stands for their table."""

_RESTORE: Final = "restore it, or ingest the recordings into another folder"
_PARTITION: Final = re.compile(r"[0-9]{3}")
_SEAL: Final = re.compile(rb',"blake2b":"([0-9a-f]{64})"\}\n?\Z')
"""How the text of a manifest ends: the hash of all that is before. Manifests of before have none."""

_VERSION: Final = re.compile(r"[0-9]+(\.[0-9]+)*")
_BLAKE3: Final = re.compile(r"[0-9a-f]{64}")

GATHERED: Final = 2**32 - 1
"""Stands for the input of traces that are spread over records, perhaps of several inputs."""


@dataclass
class Input:
    """One file that was read, in part or to its end."""

    name: str
    """As the tables name it."""
    path: str
    """Absolute."""
    size: int
    mtime_ns: int
    blake3: str | None = None
    """Of its first `size` bytes; null until it was read to its end."""
    since: int = 0
    """The shard with which its present content begins; rows of earlier shards are no longer valid."""
    offset: int = 0
    lines: int = 0
    blocks: int = 0
    done: bool = False
    records: int = 0
    used: int = 0
    """Records in traces that are held."""
    ignored: int = 0
    quarantined: int = 0
    duplicates: int = 0
    importer: str | None = None
    gathered: bool = False
    """Whether its traces are spread over records: they are put together from all such inputs."""

    @property
    def place(self) -> tuple[int, int, int, bool]:
        """Where reading goes on."""
        return self.offset, self.lines, self.blocks, self.done

    def restarted(self, since: int, size: int, mtime_ns: int) -> "Input":
        """The same input with other content, not read yet."""
        fresh = Input(self.name, self.path, size, mtime_ns, since=since)
        fresh.importer, fresh.gathered = self.importer, self.gathered
        return fresh


@dataclass
class KeyCount:
    """How often a value was found on one way of one key of the mapping."""

    key: str
    pointer: str
    matched: int
    of: int
    type: str


@dataclass
class Gathering:
    """Traces that are put together from several inputs."""

    inputs: list[int] = field(default_factory=list)
    """Those inputs, in the order in which they are read."""
    since: int = 0
    """As of an input."""
    taken: int = 0
    """Traces that were published, in the order in which the inputs have them."""
    done: bool = False


@dataclass
class Fingerprint:
    """Size and checksum of the bytes of a file."""

    size: int
    blake3: str
    etag: str | None = None
    """What object storage calls this content, so that a listing shows whether an object still has it."""


@dataclass
class Part:
    """Files of one partition that were published together: one a table, named alike."""

    name: str
    shard: int
    """The shard that it was made with; of a merged part, the next at that time."""
    rows: dict[str, int]
    """By table; a table without rows has no file."""
    first: int
    last: int
    """Range of its trace numbers."""
    files: dict[str, Fingerprint] = field(default_factory=dict)
    """By table; what was written before there were fingerprints has none."""
    batch: str | None = None
    """The file of a batch that its rows lie in; null where it has files of its own."""
    pieces: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Where in the file of the batch, by table: the first byte, and how many."""


class StoredFile(NamedTuple):
    """One file that a manifest lists, or the piece of the file of a batch that holds a table of a part."""

    name: str
    """Its path below the folder."""
    table: str
    partition: str | None
    part: Part
    piece: tuple[int, int] | None = None
    """First byte and length, where it is a piece."""

    @property
    def content(self) -> str:
        """What it holds, for an error."""
        if self.table == BATCHES:
            return f"rows of batch {self.part.shard}"
        return self.table if self.partition is None else f"{self.table} of partition {self.partition}"

    @property
    def expected(self) -> Fingerprint | None:
        """Its fingerprint, if the manifest has one."""
        return self.part.files.get(self.table)


def stored(table: str, partition: str | None, part: Part) -> StoredFile:
    """The file of a table of a part; of a side table without a partition."""
    if part.batch is not None:
        return StoredFile(batch_file(part.batch), table, partition, part, part.pieces[table])
    side = partition is None
    name = side_file(table, part.name) if side else file_of(str(partition), table, part.name)
    return StoredFile(name, table, partition, part)


@dataclass
class Manifest:
    """What a corpus on disk consists of."""

    partitions: int
    key: list[str]
    memory: int
    fields: dict[str, Lifted]
    """Kinds of lifted columns of events, by name."""
    schema_version: str = _core.SCHEMA_VERSION
    engine_version: str = _core.VERSION
    complete: bool = False
    """Whether the last ingest came to its end, merging included."""
    next_shard: int = 0
    next_trace: int = 0
    """No trace ever had this number or a higher one; those of traces that are gone are not given again."""
    inputs: list[Input] = field(default_factory=list)
    parts: dict[str, list[Part]] = field(default_factory=dict)
    """By partition."""
    index: list[Part] = field(default_factory=list)
    quarantine: list[Part] = field(default_factory=list)
    record_counts: list[Part] = field(default_factory=list)
    labels: list[Part] = field(default_factory=list)
    batches: list[Part] = field(default_factory=list)
    """Files of batches, as long as a part lies in them."""
    gathering: Gathering | None = None
    mapping: str | None = None
    """The mapping of its custom format, as JSON."""
    mapping_counts: list[KeyCount] = field(default_factory=list)
    """What its keys found when all records of the format were last read."""
    trace_by: TraceBy = "trace"
    """What became one trace."""
    reward_scores: list[str] = field(default_factory=list)
    """Scores that became rewards."""
    null_values: dict[str, list[float]] = field(default_factory=dict)
    """Numbers of measures and of columns that say that the value is not known."""

    def __post_init__(self) -> None:
        # These belong to the process that opened it, not to the folder: they are neither saved nor compared.
        self.verify = True
        """Whether files are compared with their checksums when they are first scanned."""
        self.verified: dict[str, tuple[int, ...]] = {}
        """Files that were compared, and what the system said of them then."""
        self.columns: dict[str, dict[str, pl.Schema]] = {}
        """Columns of files that this process wrote, by table."""
        self.alike: dict[tuple[str, ...], pl.Schema] = {}
        """Those columns, each set of them once."""
        self.home: Home | None = None
        """Of a corpus in object storage; its folder holds copies."""

    def stored(self) -> Iterator[StoredFile]:
        """All files, the manifest itself excepted; of a batch the file, not its pieces."""
        for partition, parts in self.parts.items():
            for part in parts:
                if part.batch is None:
                    yield from (stored(table, partition, part) for table in part.rows)
        yield from map(stored_batch, self.batches)
        for table in SIDE:
            yield from (stored(table, None, part) for part in self.side(table))

    def files(self) -> Iterator[str]:
        """Paths of all files below the folder, the manifest itself excepted."""
        return (file.name for file in self.stored())

    def each_once(self, files: Iterable[StoredFile]) -> list[StoredFile]:
        """Files each once, where several of these may be pieces of one."""
        batches = {batch.name: batch for batch in self.batches}
        by_name: dict[str, StoredFile] = {}
        for file in files:
            if file.name not in by_name:
                batch = file.part.batch
                by_name[file.name] = file if batch is None else stored_batch(batches[batch])
        return list(by_name.values())

    def held_by(self, files: Iterable[StoredFile]) -> set[int]:
        """The parts that lie in these files, in whole or in part, by `id`."""
        listed = list(files)
        batches = {file.part.name for file in listed if file.table == BATCHES}
        pieces = (part for parts in self.parts.values() for part in parts if part.batch in batches)
        return {id(file.part) for file in listed} | {id(part) for part in pieces}

    @property
    def is_newer(self) -> bool:
        """Whether a later engine wrote it, in a layout that may have more than this one knows."""
        return _numbers(self.schema_version) > _numbers(_core.SCHEMA_VERSION)

    @property
    def is_exported(self) -> bool:
        """Whether `export` wrote it, so that no ingest can add to it."""
        return any(entry.name == EXPORTED for entry in self.inputs)

    def reading(self) -> dict[str, Any]:
        """The options of reading that its first ingest settled, as the core takes them."""
        return {
            "fields": self.fields,
            "trace_by": self.trace_by,
            "reward_scores": self.reward_scores,
            "null_values": self.null_values,
        }

    def restart(self) -> None:
        """Drop all rows, and mark all inputs unread; names of files are not used again."""
        self.parts, self.batches, self.gathering, self.mapping_counts = {}, [], None, []
        for table in SIDE:
            setattr(self, table, [])
        self.next_trace, self.complete = 0, False
        self.inputs = [entry.restarted(self.next_shard, entry.size, entry.mtime_ns) for entry in self.inputs]

    def drop(self, parts: list[StoredFile]) -> None:
        """Stop listing the parts that these files belong to."""
        gone = self.held_by(parts)
        left = {name: [part for part in of if id(part) not in gone] for name, of in self.parts.items()}
        self.parts = {name: of for name, of in left.items() if of}
        self.drop_batches()
        for table in SIDE:
            setattr(self, table, [part for part in self.side(table) if id(part) not in gone])

    def drop_batches(self) -> list[StoredFile]:
        """Stop listing the files of batches that no part lies in; those files."""
        used = {part.batch for parts in self.parts.values() for part in parts}
        empty = [batch for batch in self.batches if batch.name not in used]
        self.batches = [batch for batch in self.batches if batch.name in used]
        return list(map(stored_batch, empty))

    def forget(self, name: str) -> None:
        """Forget what a file was when it was written or compared."""
        self.verified.pop(name, None)
        self.columns.pop(name, None)

    def side(self, table: str) -> list[Part]:
        """Parts of a table that are of no partition."""
        parts: list[Part] = getattr(self, table) if table in SIDE else []
        return parts

    def rows(self, table: str) -> int:
        """Rows of a table in all partitions, those included that are no longer valid."""
        parts = [*self.side(table), *itertools.chain.from_iterable(self.parts.values())]
        return sum(part.rows.get(table, 0) for part in parts)

    def records(self) -> dict[str, int]:
        """Counts over all inputs: what was read is the sum of the others."""
        return {
            "read": sum(entry.records for entry in self.inputs),
            "used": sum(entry.used for entry in self.inputs),
            "ignored": sum(entry.ignored for entry in self.inputs),
            "duplicate": sum(entry.duplicates for entry in self.inputs),
            "quarantined": sum(entry.quarantined for entry in self.inputs),
        }

    def since(self) -> dict[int, int]:
        """Of each input the shard with which its present content begins."""
        shards = {number: entry.since for number, entry in enumerate(self.inputs)}
        return shards if self.gathering is None else shards | {GATHERED: self.gathering.since}

    def outdated(self, part: Part) -> list[int]:
        """Inputs whose rows in this part are no longer valid, by number."""
        return [number for number, since in self.since().items() if part.shard < since]

    def save(self, folder: Path) -> None:
        """Write it in place of the manifest that is there."""
        # Object by object: with many inputs, a copy of all would take more memory than reading them.
        text = json.dumps(self, default=_members, ensure_ascii=False, separators=(",", ":"))
        body = text.removesuffix("}")
        sealed = f'{body},"blake2b":"{_digest(body.encode("utf-8", "surrogateescape"))}"}}\n'
        data = sealed.encode("utf-8", errors="surrogateescape")
        if self.home is not None:
            self.home.publish(data)
            return
        replace(folder / MANIFEST, lambda file: file.write(data))
        sync_folder(folder)

    def shown(self, folder: Path) -> str:
        """Where the corpus lies, for messages: the folder, or the address of which it holds copies."""
        return str(folder) if self.home is None else self.home.url


def _members(value: Any) -> dict[str, object]:
    """The fields of an object, which are saved; what belongs to the process is not a field."""
    members = {member.name: getattr(value, member.name) for member in fields(value)}
    if isinstance(value, Fingerprint) and value.etag is None:
        del members["etag"]  # files on disk have no etag
    if isinstance(value, Part):
        if value.batch is None:
            del members["batch"], members["pieces"]
        else:
            del members["files"]
    return members


def _digest(raw: bytes) -> str:
    return hashlib.blake2b(raw, digest_size=32).hexdigest()


def is_of_corpus(name: str) -> bool:
    """Whether a path below a corpus is that of a file that it may have."""
    return _FILE.fullmatch(name) is not None


def file_of(partition: str, table: str, name: str) -> str:
    """Path of a file of a partition, below the folder."""
    return f"part={partition}/{table}/{name}.parquet"


def batch_file(name: str) -> str:
    """Path of the file of a batch, below the folder."""
    return f"{BATCHES}/{name}.arrows"


def stored_batch(batch: Part) -> StoredFile:
    """The file of a batch."""
    return StoredFile(batch_file(batch.name), BATCHES, None, batch)


def side_file(table: str, name: str) -> str:
    """Path of a file of no partition, below the folder."""
    return f"{table}/{name}.parquet"


def load_home(home: Home) -> Manifest | None:
    """The manifest of a corpus in object storage, if it has one.

    Raises
    ------
    InputError
        It cannot be read.
    SchemaError
        As `load`.
    """
    _core.check_process()
    raw = home.manifest()
    if raw is None:
        return None
    manifest = _sealed(raw, home.address.below(MANIFEST).url)
    manifest.home = home
    return manifest


def load(folder: Path) -> Manifest | None:
    """The manifest of a folder, if it has one.

    Raises
    ------
    SchemaError
        It is not one of ours, of another major version, or not what was written.
    """
    _core.check_process()
    path = folder / MANIFEST
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        raise InputError(
            f"'{folder}' is a file, expected the folder of a corpus; make one of it with ingest"
        ) from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    return _sealed(raw, str(path))


def _sealed(raw: bytes, place: str) -> Manifest:
    """A manifest from its bytes, which have to be what was written."""
    manifest = parse(raw.decode("utf-8", errors="surrogateescape"), place)
    seal = _SEAL.search(raw)
    if seal is not None and _digest(raw[: seal.start()]) != seal[1].decode():
        raise SchemaError(f"{place} is damaged: its text is not what its checksum says; {_RESTORE}")
    return manifest


def parse(text: str, place: str) -> Manifest:
    """A manifest from its JSON text; whatever the text is, a manifest or one clear error.

    Raises
    ------
    SchemaError
        Says what is wrong, and where.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{place} is not JSON ({error}): {_RESTORE}") from None
    version = value.get("schema_version") if isinstance(value, dict) else None
    if not isinstance(version, str):
        raise SchemaError(f"{place} is not the manifest of a corpus: it has no 'schema_version'")
    if refused := _refused_version(version):
        raise SchemaError(f"{place} has schema version {version!r}, {refused}")
    try:
        manifest: Manifest = reader_of(Manifest)(value)
    except Misfit as error:
        raise SchemaError(f"{place}: {error}") from None
    if wrong := next(_faults(manifest), None):
        raise SchemaError(f"{place}: {wrong}")
    return manifest


def _numbers(version: str) -> list[int]:
    # No version has numbers of more digits; those of a damaged one may be of any length.
    return [int(number[:18]) for number in version.split(".")]


def _refused_version(version: str) -> str | None:
    """Why a layout cannot be read, and what to do; null where it can."""
    ours = _core.SCHEMA_VERSION
    anew = "ingest the recordings into another folder"
    if not _VERSION.fullmatch(version):
        return f"which no engine has; this one reads {ours!r}: {anew}"
    their_major, our_major = _numbers(version)[0], _numbers(ours)[0]
    if their_major == our_major:
        return None
    if their_major > our_major:
        return f"newer than {ours!r}, which this engine reads: upgrade orchestrace, or {anew}"
    return f"older than {ours!r}, and this engine does not read it: {anew}"


def _faults(manifest: Manifest) -> Iterator[str]:
    """Faults that types alone do not show, so that no later step fails because of them."""
    if manifest.partitions == 0 or not manifest.key:
        yield "a corpus has at least one partition and a column that divides it"
    for number, entry in enumerate(manifest.inputs):
        accounted = entry.used + entry.ignored + entry.duplicates + entry.quarantined
        if entry.records != accounted:
            yield (
                f"inputs[{number}] has {entry.records} records and says of {accounted} what became of them: "
                "ingest the recordings again"
            )
    yield from _faults_of_batches(manifest)
    for name in manifest.files():
        if not _FILE.fullmatch(name):
            yield f"it names a file that is none of a corpus: {name!r}"
    side = [(table, part) for table in SIDE for part in manifest.side(table)]
    side += [(BATCHES, batch) for batch in manifest.batches]
    parts = [*itertools.chain.from_iterable(manifest.parts.values()), *(part for _, part in side)]
    numbers = [manifest.next_shard, manifest.next_trace, *manifest.since().values()]
    if max(numbers + [n for part in parts for n in (part.shard, part.first, part.last)]) >= 2**32:
        yield "it has a number of a shard or of a trace that no corpus can have"
    for file in manifest.stored():
        if file.expected is not None and not _BLAKE3.fullmatch(file.expected.blake3):
            yield f"the checksum of '{file.name}' is {file.expected.blake3!r}, expected 64 hexadecimal digits"
    for table, part in side:
        if part.rows.keys() != {table}:
            yield f"the rows of part '{part.name}' are not those of {table}"
    if manifest.gathering is not None and max(manifest.gathering.inputs, default=0) >= max(
        len(manifest.inputs), 1
    ):
        yield "it puts traces together from inputs that it does not list"


def _faults_of_batches(manifest: Manifest) -> Iterator[str]:
    """Faults of the files of batches and of the places of their pieces."""
    sizes = {batch.name: batch.files[BATCHES].size for batch in manifest.batches if BATCHES in batch.files}
    side = [part for table in SIDE for part in manifest.side(table)]
    if any(part.batch is not None for part in (*side, *manifest.batches)):
        yield "a file of no partition lies in a batch"
    if any(BATCHES not in batch.files for batch in manifest.batches):
        yield "the file of a batch has no checksum"
    for partition, parts in manifest.parts.items():
        for part in parts:
            if part.batch is None:
                continue
            if part.batch not in sizes or not _PARTITION.fullmatch(partition):
                yield f"part '{part.name}' of partition {partition!r} lies in a batch that is not listed"
            if part.pieces.keys() != part.rows.keys():
                yield f"part '{part.name}' of partition {partition!r} does not say where its tables lie"
            if any(offset + length > sizes.get(part.batch, 0) for offset, length in part.pieces.values()):
                yield f"part '{part.name}' of partition {partition!r} lies beyond the end of its batch"
