"""Recordings of any size to a corpus on disk: within a memory budget, resumable at every moment."""

import fcntl
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Unpack

import polars as pl

from . import _core
from .corpus import check_numbers
from .errors import InputError, ParameterError
from .io import ErrorBudget, OnError, ReadOptions, Source, checked_options, input_files
from .manifest import EXPORTED, GATHERED, NAME, Gathering, Input, Manifest, load
from .progress import Progress, reporting
from .shards import INDEX, clear_leftovers, current_index, merge, scan_index, staging, told, write_shard

_UNITS: Final = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12} | {
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_MOST_PARTITIONS: Final = 256
_BATCH_SHARE: Final = 0.33
"""Of the budget, what the tables of one batch may take: beside them are blocks, a partition, and what is
written."""
_GATHER_SHARE: Final = 0.25
"""Of the budget, what the texts of traces may take that are put together from several records; what is more
goes to a temporary file in the folder of the corpus."""
_OVERHEAD: Final = 56 << 20
"""Of the budget, what the threads and buffers of the libraries take however little there is to do."""
_LEAST_BATCH: Final = 8 << 20
_PARTITION_SHARE: Final = 0.125
"""Of the budget, what one partition should take, so that whatever is computed on it has room."""
_EXPANSION: Final = 8
"""Guess of how much compressed recordings grow."""


_Part = tuple[int, int, int, int, int, tuple[int, int, int, bool]]
"""Records of a batch: read, used, ignored, quarantined, duplicates; and where the input is taken up again."""


@dataclass(frozen=True)
class IngestReport:
    """What an ingest did, and what the corpus then holds."""

    path: Path
    inputs: pl.DataFrame
    """One row per input of this call: ``input importer status size records used ignored duplicate
    quarantined``; status is ``new``, ``resumed``, ``replaced``, ``unchanged``, or ``missing``: it should
    have been read anew and is not there."""
    records: dict[str, int]
    """Over the whole corpus: ``read`` is ``used`` + ``ignored`` + ``duplicate`` + ``quarantined``. A record
    is what its format counts: a trace, a line of a session, a span."""
    skipped: int = 0
    """Files of folders that were not read, since their names are not those of recordings."""

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {what}" for what, count in self.records.items())
        status = self.inputs.group_by("status").len().sort("status").rows()
        inputs = ", ".join(f"{count:,} {what}" for what, count in status)
        skipped = f"\n{self.skipped:,} other files of folders were skipped" if self.skipped else ""
        return f"Corpus in '{self.path}': records {counts}\ninputs of this call: {inputs}{skipped}"


def ingest(
    source: Source | Iterable[Source],
    out: str | os.PathLike[str],
    *,
    memory: int | str = "2GiB",
    threads: int | None = None,
    resume: bool = True,
    group: str | Iterable[str] | None = None,
    partitions: int | None = None,
    on_error: OnError = "quarantine",
    max_errors: int | None = None,
    max_error_ratio: float | None = None,
    progress: Progress = None,
    **options: Unpack[ReadOptions],
) -> IngestReport:
    """Read recordings of any size into a corpus on disk, which `read_corpus` opens.

    Parameters
    ----------
    source
        Files, globs and folders as in `read_traces`; no streams, since what was cut short is read again.
    out
        A folder of our own: made if it is absent, added to if it is a corpus.
    memory
        What the call may add to the resident size of the process, in bytes or as ``"1GiB"``; at least 64 MiB.
        Below 256 MiB the buffers of the libraries alone can take some 80 MiB more.
    threads, progress
        As in `read_traces`.
    resume
        ``True`` goes on where an earlier call stopped and adds what is new: an input of the same size and
        time, or content, is not read again; one that changed replaces its traces, which keep their numbers.
        ``False`` refuses a folder that is a corpus already.
    group
        Columns of `traces` whose values keep traces in one partition; default ``group_id``. Settled by the
        first call.
    partitions
        How many; the default follows from the size of the first inputs and the budget. Settled by the first
        call.
    on_error
        ``"quarantine"`` goes on; ``"raise"`` stops at the first batch with a rejected record and keeps what
        was published before.
    max_errors, max_error_ratio
        Stop when more records than this, and also more than this share of the records, were rejected. One
        that is not given does not hinder the other.
    **options
        ``format extras excerpt fields time_basis trace_by reward_scores max_record max_depth max_string
        max_expansion
        max_decompressed`` as in `read_traces`. ``max_record`` is at most half of the budget.

    Returns
    -------
    IngestReport
        What became of each input, and the counts of the corpus.

    Raises
    ------
    InputError
        Nothing matches, a file cannot be read, the folder cannot be written or belongs to a running ingest.
    ParameterError
        An option has a value that does not exist or contradicts the corpus.
    QuarantineError
        More records failed than the call allows.

    Notes
    -----
    One pass over the bytes and one for their BLAKE3. Repeated exports, that is records with the same bytes
    and the same ``trace_id``, are counted as duplicates and left out. Traces of formats that spread them over
    records and files (sessions, spans) are put together from all inputs of the corpus: where one is new or
    has changed, all inputs of such formats are read again, and all have to be there. Whatever stops the call,
    a full disk or a kill, what is published stays, and the same call goes on from there to the same rows. The
    index of traces takes some 70 bytes of the budget a trace.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> folder = tempfile.mkdtemp()
    >>> _ = ot.generate(f"{folder}/runs.jsonl", traces=5, seed=0)
    >>> ot.ingest(f"{folder}/runs.jsonl", f"{folder}/corpus").records
    {'read': 5, 'used': 5, 'ignored': 0, 'duplicate': 0, 'quarantined': 0}
    >>> len(ot.read_corpus(f"{folder}/corpus"))
    5
    """
    check_numbers(threads=threads, partitions=partitions)
    budget = ErrorBudget(on_error, max_errors, max_error_ratio)
    room = memory_bytes(memory)
    key = _key(group)
    read_options = checked_options(options)
    read_options["gather_budget"] = max(int(room * _GATHER_SHARE), _LEAST_BATCH)
    read_options["spill_folder"] = os.fspath(out)
    read_options["max_record"] = min(read_options.get("max_record") or (512 << 20), max(room // 2, 16 << 20))
    folder = Path(os.fspath(out))
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise ParameterError(
            f"the name of the folder {str(folder)!r} is not UTF-8, and Parquet files need one that is"
        ) from None
    files, skipped = _files(source, folder)
    with _owned(folder):
        manifest = load(folder)
        if manifest is None:
            count = partitions or _partitions(files, room)
            manifest = _begin(folder, count, key or ["group_id"], room, read_options)
        else:
            _check_settled(folder, manifest, resume, key, partitions, read_options)
        with reporting(progress, "ingesting", in_bytes=True) as callback:
            work = _Work(folder, manifest, room, threads, read_options, budget, callback)
            status = work.run(files)
    numbers = list(status)
    rows = [manifest.inputs[number] for number in numbers]
    inputs = pl.DataFrame(
        {
            "input": [one.name for one in rows],
            "importer": [one.importer for one in rows],
            "status": [status[number] for number in numbers],
            "size": [one.size for one in rows],
            "records": [one.records for one in rows],
            "used": [one.used for one in rows],
            "ignored": [one.ignored for one in rows],
            "duplicate": [one.duplicates for one in rows],
            "quarantined": [one.quarantined for one in rows],
        },
        schema_overrides={"input": pl.String, "importer": pl.String, "status": pl.String},
    )
    return IngestReport(folder, inputs, manifest.records(), skipped)


def memory_bytes(memory: int | str) -> int:
    """A budget in bytes, given as a number or as ``"1GiB"``."""
    if isinstance(memory, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", memory)
        unit = _UNITS.get(found[2].upper()) if found else None
        if found is None or unit is None:
            raise ParameterError(
                f"memory is '{memory}', expected a number of bytes or one like '512MiB', '2GiB'"
            )
        memory = int(min(float(found[1]) * unit, 2.0**63))
    check_numbers(memory=memory)
    return int(memory)


def _key(group: object) -> list[str] | None:
    """Names of the columns that keep traces together; null where the caller leaves them open."""
    if group is None or isinstance(group, str):
        return None if group is None else [group]
    key = list(group) if isinstance(group, Iterable) else []
    if not key or not all(isinstance(name, str) for name in key):
        raise ParameterError(f"group is {group!r}, expected a column of traces or several")
    return key


def _files(source: Source | Iterable[Source], folder: Path) -> tuple[list[str], int]:
    """Paths of the inputs, each once, the corpus itself excepted; how many files of folders are none."""
    own = os.path.realpath(folder) + os.sep
    with ExitStack() as opened:
        found = input_files(source, opened)
    files: dict[str, str] = {}
    for one in found.inputs:
        if not isinstance(one, str):
            raise ParameterError(
                "ingest reads files that it can come back to; read_traces takes streams and pipes"
            )
        path = os.path.realpath(one)
        if not path.startswith(own):
            files.setdefault(os.path.abspath(one), one)
    if not files:
        raise InputError("no recording beside the corpus itself")
    return list(files.values()), found.skipped


@contextmanager
def _owned(folder: Path) -> Iterator[None]:
    """The folder, locked against other processes for as long as this one lives."""
    try:
        with told(folder):
            folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(folder, os.O_RDONLY)
    except InputError as error:
        raise InputError(str(error).partition("; ")[0]) from error
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"another ingest is writing to '{folder}': wait for it, or choose another folder"
            ) from None
        yield
    finally:
        os.close(handle)


def _partitions(files: list[str], room: int) -> int:
    """As many as let one of them fit its share of the budget."""
    size = sum(
        os.path.getsize(path) * (_EXPANSION if path.endswith((".gz", ".zst")) else 1) for path in files
    )
    return max(1, min(_MOST_PARTITIONS, round(size / (room * _PARTITION_SHARE))))


def _begin(
    folder: Path, partitions: int, key: list[str], room: int, options: Mapping[str, object]
) -> Manifest:
    there = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    if there:
        raise ParameterError(
            f"folder '{folder}' is not empty and is no corpus: it has '{there[0]}' and no {NAME}"
        )
    fields = options.get("fields") or {}
    manifest = Manifest(partitions=partitions, key=key, memory=room, fields=dict(fields))  # type: ignore[call-overload]
    # Names of columns are judged before anything is written.
    _core.Partition(_core.read([]), key, partitions)
    with told(folder):
        manifest.save(folder)
    return manifest


def _check_settled(
    folder: Path,
    manifest: Manifest,
    resume: bool,
    key: list[str] | None,
    partitions: int | None,
    options: Mapping[str, object],
) -> None:
    if not resume:
        raise ParameterError(f"folder '{folder}' is a corpus already, and resume=False")
    if any(one.name == EXPORTED for one in manifest.inputs):
        # without an index nobody can tell which recordings are there already
        raise ParameterError(f"the corpus in '{folder}' was written by export: ingest into another folder")
    fields = dict(options.get("fields") or {})  # type: ignore[call-overload]
    for what, given, settled in (
        ("group", key, manifest.key),
        ("partitions", partitions, manifest.partitions),
        ("fields", fields or None, manifest.fields),
    ):
        if given is not None and given != settled:
            raise ParameterError(
                f"{what} is {given!r}, but the corpus in '{folder}' was begun with {settled!r}"
            )
    options["fields"] = manifest.fields  # type: ignore[index]


class _Work:
    """One ingest into one folder that is locked."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        room: int,
        threads: int | None,
        options: dict[str, Any],
        budget: ErrorBudget,
        callback: Callable[[int, int], object] | None,
    ) -> None:
        self._folder = folder
        self._manifest = manifest
        self._room = room
        self._threads = threads
        self._options = options
        self._budget = budget
        self._callback = callback
        self._index = _core.TraceIndex()
        self._seen, self._rejected = 0, 0  # records of this call

    def run(self, files: list[str]) -> dict[int, str]:
        """Bring the corpus up to the files; what became of each input, by its number."""
        manifest = self._manifest
        with told(self._folder):
            clear_leftovers(self._folder, manifest)
        before = asdict(manifest)
        manifest.memory = self._room
        status = self._status(files)
        # Inputs that are known come first, so that a trace stays theirs when a new one repeats it.
        todo = sorted(number for number, word in status.items() if word not in ("unchanged", "missing"))
        if todo or not manifest.complete:
            fresh = {number for number in todo if status[number] == "replaced"}
            if todo:
                self._read(todo, fresh)
            # What repeats a trace that is gone was left out, and has to come back.
            while repeating := self._repeating():
                gone = [one for one in repeating if not os.path.isfile(manifest.inputs[one].path)]
                status |= dict.fromkeys(gone, "missing")
                for number in gone:
                    # Not taken for unchanged when it comes back.
                    manifest.inputs[number].size, manifest.inputs[number].blake3 = 0, None
                todo = [one for one in repeating if one not in gone]
                if not todo:
                    break
                status |= dict.fromkeys(todo, "replaced")
                self._read(todo, set(todo))
            self._fingerprint()
            with told(self._folder):
                merge(self._folder, manifest)
                manifest.complete = True
        if asdict(manifest) != before:
            with told(self._folder):
                manifest.save(self._folder)
        return status

    def _formats(self, todo: list[int]) -> None:
        """Note which formats inputs are of."""
        inputs = [self._manifest.inputs[number] for number in todo]
        named = [(one.path, one.name) for one in inputs]
        found = _core.formats(named, threads=self._threads, **self._options)
        for one, (importer, gathered) in zip(inputs, found, strict=True):
            one.importer, one.gathered = importer, gathered

    def _gathering(self, todo: list[int], fresh: set[int]) -> Gathering | None:
        """The inputs that traces have to be put together from, and how far that is done; null where there is
        nothing to do. Inputs that are read anew are added to `fresh`."""
        manifest = self._manifest
        now = manifest.gathering or Gathering()
        touched = any(manifest.inputs[number].gathered or number in now.inputs for number in todo)
        if not touched and (now.done or not now.inputs):
            return None
        members = [number for number, one in enumerate(manifest.inputs) if one.gathered]
        # In order of their paths: a trace is the same whichever of its files came first to the corpus.
        members.sort(key=lambda number: manifest.inputs[number].path)
        for number in members:
            one = manifest.inputs[number]
            if not os.path.isfile(one.path):
                raise InputError(
                    f"{one.path}: the file is gone, and its traces are put together anew with those of the "
                    "inputs that came: put it back, or ingest into another folder"
                )
            if number not in todo and not _is_as_read(one):
                fresh.add(number)
        begun = now.taken > 0 or now.done
        if members == now.inputs and not now.done and fresh.isdisjoint(members):
            return now
        if begun:
            fresh |= {number for number in members if manifest.inputs[number].done} | {GATHERED}
        return Gathering(members, now.since)

    def _status(self, files: list[str]) -> dict[int, str]:
        """What has to be done with each file; files that the corpus does not know become inputs of it."""
        manifest = self._manifest
        known = {one.path: number for number, one in enumerate(manifest.inputs)}
        status = {}
        taken = {one.name for one in manifest.inputs}
        named = {os.path.abspath(name): name for name in files}
        for one in manifest.inputs:
            # Reading it anew was cut short: it lacks traces that it had, whether this call names it or not.
            if one.since and not one.done:
                named.setdefault(one.path, one.path)
        for path, name in named.items():
            if path in known and not os.path.isfile(path):
                status[known[path]] = "missing"
                continue
            stat = _stat(name)
            if path not in known:
                known[path] = len(manifest.inputs)
                manifest.inputs.append(Input(_unique(name, taken), path, stat.st_size, stat.st_mtime_ns))
                taken.add(manifest.inputs[-1].name)
                status[known[path]] = "new"
                continue
            number = known[path]
            one = manifest.inputs[number]
            same = (one.size, one.mtime_ns) == (stat.st_size, stat.st_mtime_ns)
            if not same and one.size == stat.st_size and one.done and one.blake3 is not None:
                same = _core.fingerprint(path, one.size) == one.blake3
                one.mtime_ns = stat.st_mtime_ns if same else one.mtime_ns
            left = manifest.gathering is not None and manifest.gathering.taken and one.gathered
            begun = one.offset or one.records or one.done or left
            if same:
                status[number] = "unchanged" if one.done else "resumed" if begun else "new"
            elif begun:
                status[number] = "replaced"
            else:
                manifest.inputs[number] = Input(one.name, path, stat.st_size, stat.st_mtime_ns)
                status[number] = "new"
        return status

    def _read(self, todo: list[int], fresh: set[int]) -> None:
        """Read inputs into shards, those in `fresh` from their beginning."""
        manifest, folder = self._manifest, self._folder
        self._formats(todo)
        gathering = self._gathering(todo, fresh)
        members = [] if gathering is None else gathering.inputs
        # Of those that only come along the format is known, whatever this call says of its own inputs.
        formats: list[str | None] = [
            None if number in todo else manifest.inputs[number].importer for number in members
        ]
        todo = [number for number in todo if not manifest.inputs[number].gathered]
        formats = [*([None] * len(todo)), *formats]
        todo += members
        self._load_index([*todo, GATHERED], fresh)
        inputs = [manifest.inputs[number] for number in todo]
        for place, number in enumerate(todo):
            if number in fresh:
                stat = _stat(inputs[place].path)
                inputs[place] = inputs[place].restarted(0, stat.st_size, stat.st_mtime_ns)
        reader = _core.TraceReader(
            [(one.path, one.name, one.place) for one in inputs],
            gathered=0 if gathering is None else gathering.taken,
            formats=formats,
            digests=True,
            **self._options,
        )
        numbers = pl.Series("input", [*todo, GATHERED], pl.UInt32)
        total, before = sum(one.size for one in inputs), 0
        while True:
            left = self._room - _OVERHEAD - self._index.nbytes
            limit = max(int(left * _BATCH_SHARE), _LEAST_BATCH)
            if left < self._room // 8 and self._index.nbytes > self._room // 4:
                raise InputError(
                    f"the index of {self._index.next_number:,} traces takes {self._index.nbytes >> 20:,} MiB:"
                    f" give ingest a memory of at least {2 * self._index.nbytes >> 20:,} MiB to go on"
                )
            gauge = _Gauge(self._callback, before, total)
            batch = reader.next(limit, index=self._index, threads=self._threads, progress=gauge)
            if batch is None:
                break
            before = gauge.done
            store, parts, rows = batch
            index = pl.DataFrame(rows)
            index = index.with_columns(input=numbers.gather(index["input"])).with_columns(
                shard=pl.lit(manifest.next_shard, pl.UInt32)
            )
            with staging(folder) as files:
                self._enter(todo, fresh, inputs, parts[:-1])
                if gathering is not None:
                    known = dict(zip(todo, inputs, strict=True))
                    self._enter_gathered(gathering, fresh, known, parts[-1][-1])
                self._seen += sum(part[0] for part in parts)
                self._rejected += sum(part[3] for part in parts)
                self._budget.check(self._rejected, self._seen, pl.DataFrame(store.table("quarantine")))
                write_shard(files, manifest, store, index)
                manifest.next_trace = self._index.next_number
                files.publish()
                manifest.save(folder)
            del store, batch, index, rows

    def _enter(self, todo: list[int], fresh: set[int], inputs: list[Input], parts: list[_Part]) -> None:
        """Count what a batch has of each input; an input that is read anew takes the place of what it was."""
        manifest = self._manifest
        manifest.complete = False
        for number, one, (records, used, ignored, quarantined, duplicates, place) in zip(
            todo, inputs, parts, strict=True
        ):
            if number in fresh and (place != one.place or records):
                fresh.discard(number)
                one.since = manifest.next_shard
            if number not in fresh:
                one.records += records
                one.used += used
                one.ignored += ignored
                one.quarantined += quarantined
                one.duplicates += duplicates
                one.offset, one.lines, one.blocks, one.done = place
                manifest.inputs[number] = one

    def _enter_gathered(
        self,
        gathering: Gathering,
        fresh: set[int],
        inputs: dict[int, Input],
        place: tuple[int, int, int, bool],
    ) -> None:
        """Count the traces that are put together; those of before are gone with the first of them."""
        manifest = self._manifest
        _, _, taken, done = place
        if taken == gathering.taken and not done:
            return
        gathering.taken, gathering.done = taken, done
        if GATHERED in fresh:
            fresh.discard(GATHERED)
            gathering.since = manifest.next_shard
            for number in fresh.intersection(gathering.inputs):
                fresh.discard(number)
                inputs[number].since = manifest.next_shard
                manifest.inputs[number] = inputs[number]
        manifest.gathering = gathering

    def _load_index(self, todo: list[int], fresh: set[int]) -> None:
        """The index of what stays, and the numbers of the traces that are read anew."""
        manifest = self._manifest
        self._index = _core.TraceIndex(manifest.next_trace)
        reading = pl.DataFrame(
            {"input": todo, "place": range(len(todo))}, schema={"input": pl.UInt32, "place": pl.UInt32}
        )
        former, again = [pl.DataFrame(schema=INDEX)], [pl.Series("trace", [], pl.UInt32)]
        for part in manifest.index:
            rows = scan_index(self._folder, manifest, [part]).collect()
            anew = rows["input"].is_in(list(fresh)) | (rows["shard"] < rows["since"])
            rows = rows.select(list(INDEX))
            self._index.insert(rows.filter(~anew))
            former.append(rows.filter(anew & ~pl.col("duplicate")).join(reading, on="input", how="semi"))
            again.append(rows.filter(~anew & ~pl.col("duplicate"))["trace"])
        old = pl.concat(former)
        if old.height:
            # An input that was replaced and cut short has given some of its numbers again.
            old = old.filter(~pl.col("trace").is_in(pl.concat(again).implode())).unique("trace", keep="last")
            old = old.sort("trace").join(reading, on="input", maintain_order="left")
            self._index.insert(old.with_columns(input="place"), former=True)

    def _repeating(self) -> list[int]:
        """Inputs with records that were left out as repeats of traces that are gone.

        Found from what is on disk, so that a call that was cut short leaves nothing out.
        """
        if not any(self._manifest.outdated(part) for part in self._manifest.index):
            return []
        rows = current_index(self._folder, self._manifest)
        known = ["id", "content"]
        repeats = rows.filter("duplicate").select("input", *known).collect(engine="streaming")
        originals = rows.filter(~pl.col("duplicate")).select(known)
        there = originals.join(repeats.lazy(), on=known, how="semi").collect(engine="streaming")
        found = repeats.join(there, on=known, how="anti")["input"].unique().to_list()
        # Traces that are put together repeat none: they are known by more than their bytes.
        return sorted(number for number in found if number != GATHERED)

    def _fingerprint(self) -> None:
        """Note what the inputs were, byte for byte, once they are read."""
        manifest, made = self._manifest, False
        for one in manifest.inputs:
            if one.done and one.blake3 is None and _is_as_read(one):
                digest = _core.fingerprint(one.path, one.size)
                # Of a file that changes meanwhile nothing is known but that it is another one.
                one.blake3 = digest if _is_as_read(one) else None
                made = True
        if made:
            with told(self._folder):
                manifest.save(self._folder)


def _unique(name: str, taken: set[str]) -> str:
    """What the tables call a new input: as the caller does, unless that is the name of another one."""
    path = os.path.abspath(name)
    # A name need not be UTF-8, the tables are.
    for one, errors in ((name, "replace"), (path, "replace"), (path, "backslashreplace")):
        text = os.fsencode(one).decode("utf-8", errors)
        if text not in taken:
            break
    return text


def _stat(name: str) -> os.stat_result:
    try:
        return os.stat(name)
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error


def _is_as_read(one: Input) -> bool:
    """Whether a file is still there as it was when reading began."""
    try:
        stat = os.stat(one.path)
    except OSError:
        return False
    return (stat.st_size, stat.st_mtime_ns) == (one.size, one.mtime_ns)


class _Gauge:
    """Progress of one batch as progress of the call."""

    def __init__(self, callback: Callable[[int, int], object] | None, before: int, total: int) -> None:
        self._callback, self._before, self._total = callback, before, total
        self.done = before

    def __call__(self, done: int, _total: int) -> None:
        self.done = self._before + done
        if self._callback is not None:
            self._callback(self.done, self._total)
