"""The verb `ingest`: recordings of any size to a corpus on disk, within a memory budget, resumable."""

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Unpack

import polars as pl

from .. import _core
from ..base.arguments import Count, Integer, Share, Threads
from ..base.errors import InputError, ParameterError, SchemaError
from ..base.locks import lock, open_folder
from ..base.paths import expanded
from ..base.progress import Progress, reporting
from ..base.text import counted
from ..base.verbs import verb
from ..corpus.on_disk import MANIFEST as NAME
from ..corpus.reading import ErrorBudget, OnError, ReadOptions, Source, checked_options, input_files
from ..corpus.skipped import warn_of_skipped
from ..storage.addresses import Address, address_of, is_address
from ..storage.objects import RemoteObject
from .home import Home
from .inputs import InputFiles, opened_inputs
from .manifest import Input, Manifest, load, load_home
from .memory import bounded, memory_bytes, partitions_of
from .staging import translate_write_errors
from .work import IngestWork

GONE: Final = pl.Schema({"input": pl.String(), "used": pl.Int64(), "traces": pl.Int64()})
"""Columns and types of files that are gone."""
_EXPANSION: Final = 8
"""Guess of how much compressed recordings grow."""


@dataclass(frozen=True)
class IngestReport:
    """What an ingest did, and what the corpus then holds."""

    path: Path | str
    """The folder, or the address in object storage."""
    inputs: pl.DataFrame
    """One row per input of this call: ``input importer status size records used ignored duplicate
    quarantined``; status is ``new``, ``resumed``, ``replaced``, ``unchanged``, ``repaired``: it was read
    anew, since files with its rows were damaged, or ``missing``: it should have been read anew and is not
    there."""
    records: dict[str, int]
    """Over the whole corpus: ``read`` is ``used`` + ``ignored`` + ``duplicate`` + ``quarantined``. A record
    is what its format counts: a trace, a line of a session, a span."""
    skipped: int = 0
    """Files of folders that were not read, since their names are not those of recordings."""
    repaired: tuple[str, ...] = ()
    """Files of the corpus that were damaged, and whose rows were read again."""
    gone: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=GONE))
    """Files of earlier calls that are not there any more, and what the corpus keeps of them: ``input used
    traces``, records and traces; ``traces`` is null where they are put together from several inputs."""

    @property
    def gone_line(self) -> str:
        """What there is to say of the files that are gone, in one line; empty without any."""
        if self.gone.is_empty():
            return ""
        files = counted(self.gone.height, "file")
        traces = int(self.gone["traces"].sum())
        parts = [counted(traces, "trace")] if traces or not self.gone["traces"].null_count() else []
        if self.gone["traces"].null_count():
            spread = int(self.gone.filter(pl.col("traces").is_null())["used"].sum())
            parts.append(f"{counted(spread, 'record')} of traces that are put together")
        verb_of = "is" if self.gone.height == 1 else "are"
        return (
            f"{files} of earlier calls {verb_of} gone, the corpus keeps what was in there: {', '.join(parts)}"
        )

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in self.records.items())
        status = self.inputs.group_by("status").len().sort("status").rows()
        inputs = ", ".join(f"{count:,} {word}" for word, count in status)
        skipped = f"\n{self.skipped:,} other files of folders were skipped" if self.skipped else ""
        repaired = f"\ndamaged files, rebuilt: {', '.join(self.repaired)}" if self.repaired else ""
        gone = f"\n{self.gone_line}" if self.gone_line else ""
        read = f"Corpus in '{self.path}': records {counts}\ninputs of this call: {inputs}"
        return f"{read}{skipped}{repaired}{gone}"


@verb
def ingest(
    source: Source | Iterable[Source],
    out: str | os.PathLike[str],
    *,
    memory: int | str = "2GiB",
    threads: Threads = None,
    resume: bool = True,
    verify: bool = True,
    group: str | Iterable[str] | None = None,
    partitions: Annotated[int | None, Integer(1, 999)] = None,
    on_error: OnError = "quarantine",
    max_errors: Count | None = None,
    max_error_ratio: Share | None = None,
    progress: Progress = None,
    **options: Unpack[ReadOptions],
) -> IngestReport:
    """Read recordings of any size into a corpus on disk, which `read_corpus` opens.

    Parameters
    ----------
    source
        Files, globs and folders as in `read_traces`. Streams are not allowed, because an interrupted call
        reads its input again.
    out
        The folder of the corpus, which is created if it is absent; an existing corpus is added to. Or its
        address in object storage (``s3://``, ``gs://``, ``az://``): docs/object-storage.md.
    memory
        The memory budget, in bytes or as ``"1GiB"``; at least 64 MiB. The process grows by at most this and
        192 MiB, whatever the recordings are.
    threads, progress
        As in `read_traces`.
    resume
        ``True`` resumes where an earlier call stopped and adds what is new. An input with the same size and
        time, or the same content, is not read again. An input that changed replaces its traces, which keep
        their numbers. ``False`` refuses a folder that already holds a corpus.
    verify
        Compare all files of the corpus with the BLAKE3 in its manifest first. ``False`` compares sizes, and
        the contents of files that the call reads. Either way, damaged files are rebuilt from the inputs whose
        rows they held.
    group
        Columns of `traces`; traces with equal values stay in one partition. The default is ``group_id``. The
        first call decides.
    partitions
        Number of partitions; the default follows from the size of the first inputs and the budget. The first
        call decides.
    on_error
        ``"quarantine"`` continues after rejected records. ``"raise"`` stops at the first batch that has one
        and keeps what was published before.
    max_errors, max_error_ratio
        Stop if more records than this number, and also more than this share, were rejected. If only one of
        the two is given, it decides alone.
    **options
        ``format mapping extras excerpt fields time_basis trace_by reward_scores null_values max_record
        max_depth max_string max_expansion max_decompressed`` as in `read_traces`. ``max_record`` is at most a
        quarter of the budget, ``max_string`` a tenth; 16 and 8 MiB are always allowed. The first call decides
        about ``fields``, ``trace_by``, ``reward_scores``, ``null_values`` and the mapping, whose text the
        corpus keeps.

    Returns
    -------
    IngestReport
        What became of each input, and the counts of the corpus.

    Raises
    ------
    InputError
        Nothing matches, a file cannot be read, the folder cannot be written or belongs to a running ingest. A
        file of the corpus is damaged, and an input whose rows it held is gone, or has changed and is not
        among those of this call; nothing was changed then.
    ParameterError
        An option has a value that does not exist, contradicts the corpus, or is more than the budget has
        room for.
    QuarantineError
        More records failed than the call allows.
    SchemaError
        A later version wrote the corpus, or its manifest is damaged.

    Warns
    -----
    UserWarning
        Entries of archives show no recording and were skipped; the warning names some.

    Notes
    -----
    One pass over the bytes and one for their BLAKE3, and one over the files that the corpus has. Repeated
    exports, that is records with the same bytes and the same ``trace_id``, are counted as duplicates and
    left out. What came of a file that is gone by now stays; the report counts it. Traces of formats that
    spread them over records and files (sessions, spans) are put together from all inputs of the corpus: if
    one is new or has changed, all inputs of such formats are read again, so all have to be there. Whatever
    stops the call, a full disk or a kill, what is published stays, and the same call resumes from there and
    gives the same rows. The index takes some 70 bytes of the budget per trace.

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
    budget = ErrorBudget(on_error, max_errors, max_error_ratio)
    room = memory_bytes(memory)
    key = group_key(group)
    read_options = bounded(checked_options(options), room)
    home = Home(_written(address_of(expanded(out)))) if is_address(expanded(out)) else None
    folder = Path(expanded(out)) if home is None else home.folder
    read_options["spill_folder"] = os.fspath(folder)
    try:
        str(folder).encode()
    except UnicodeEncodeError:
        raise ParameterError(
            f"the name of the folder {str(folder)!r} is not UTF-8, and Parquet files need one that is"
        ) from None
    named, skipped = named_files(source, folder, home)
    objects = [file for file in named if isinstance(file, RemoteObject)]
    with owned(folder, home), opened_inputs(objects) as files:
        manifest = load(folder) if home is None else load_home(home)
        names = [file.url if isinstance(file, RemoteObject) else file for file in named]
        if manifest is None:
            count = partitions or fitting_partitions(names, files, room)
            manifest = begin(folder, home, count, key or ["group_id"], room, read_options)
        else:
            _check_settled(folder, manifest, resume, key, partitions, read_options)
            if home is not None:
                # From here on an ingest that began before cannot publish any more, and names of files that
                # it may still write are not given again.
                manifest.next_shard += 1
                manifest.save(folder)
        with reporting(progress, "ingesting", in_bytes=True) as callback:
            work = IngestWork(folder, manifest, room, threads, read_options, budget, callback, files, verify)
            status = work.run(names)
        gone = work.gone(status)
    warn_of_skipped(work.skipped, stacklevel=3)
    numbers = list(status)
    rows = [manifest.inputs[number] for number in numbers]
    inputs = pl.DataFrame(
        {
            "input": [row.name for row in rows],
            "importer": [row.importer for row in rows],
            "status": [status[number] for number in numbers],
            "size": [row.size for row in rows],
            "records": [row.records for row in rows],
            "used": [row.used for row in rows],
            "ignored": [row.ignored for row in rows],
            "duplicate": [row.duplicates for row in rows],
            "quarantined": [row.quarantined for row in rows],
        },
        schema_overrides={"input": pl.String, "importer": pl.String, "status": pl.String},
    )
    return IngestReport(
        folder if home is None else home.url, inputs, manifest.records(), skipped, tuple(work.repaired), gone
    )


def group_key(group: object) -> list[str] | None:
    """Names of the columns that keep traces together; null where the caller leaves them open."""
    if group is None or isinstance(group, str):
        return None if group is None else [group]
    key = list(group) if isinstance(group, Iterable) else []
    if not key or not all(isinstance(name, str) for name in key):
        raise ParameterError(f"group is {group!r}, expected a column of traces or several")
    return key


def _written(address: Address) -> Address:
    """The address of a corpus that can be written."""
    if address.scheme in ("http", "https"):
        raise ParameterError(
            f"a corpus cannot be written to {address.scheme}://: give a folder, or s3://, gs:// or az://"
        )
    return address


def named_files(
    source: Source | Iterable[Source], folder: Path, home: Home | None
) -> tuple[list[str | RemoteObject], int]:
    """Paths of the inputs, each once, without the corpus; and how many files of folders are no inputs."""
    prefix = os.path.realpath(folder) + os.sep
    with ExitStack() as opened:
        listing = input_files(source, opened)
    files: dict[str, str | RemoteObject] = {}
    for file in listing.inputs:
        if isinstance(file, RemoteObject):
            if home is None or not f"{file.url}/".startswith(f"{home.url}/"):
                files.setdefault(file.url, file)
            continue
        if not isinstance(file, str):
            raise ParameterError(
                "ingest reads files that it can come back to; read_traces takes streams and pipes"
            )
        path = os.path.realpath(file)
        if not path.startswith(prefix):
            files.setdefault(os.path.abspath(file), file)
    if not files:
        raise InputError("no recording beside the corpus itself")
    return list(files.values()), listing.skipped


@contextmanager
def owned(folder: Path, home: Home | None) -> Iterator[None]:
    """The folder, locked against other processes for as long as this one lives."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"'{folder}' is a file, expected a folder for the corpus")
    try:
        with translate_write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            handle = open_folder(folder)
    except InputError as error:
        raise InputError(str(error).partition("; ")[0]) from error
    try:
        if not lock(handle):
            raise InputError(
                f"another ingest is writing to '{home.url if home else folder}': wait for it, or choose "
                "another folder"
            )
        yield
    finally:
        os.close(handle)


def fitting_partitions(names: list[str], files: InputFiles, room: int) -> int:
    """As many as let one of them fit its share of the budget."""
    size = sum(
        files.content(name).size * (_EXPANSION if name.endswith((".gz", ".zst")) else 1) for name in names
    )
    return partitions_of(size, room)


def begin(
    folder: Path,
    home: Home | None,
    partitions: int,
    key: list[str],
    room: int,
    options: dict[str, Any],
    inputs: Sequence[Input] = (),
) -> Manifest:
    """The manifest of a new corpus with these inputs to read, in a folder that has nothing else in it."""
    names = strangers(folder, home)
    if names:
        raise ParameterError(
            f"folder '{home.url if home else folder}' is not empty and is not a corpus: "
            f"it has '{names[0]}' and no {NAME}"
        )
    fields = options.get("fields") or {}
    manifest = Manifest(
        partitions=partitions,
        key=key,
        memory=room,
        fields=dict(fields),
        trace_by=options.get("trace_by") or "trace",
        reward_scores=options["reward_scores"],
        null_values=options["null_values"],
        inputs=list(inputs),
    )
    manifest.home = home
    _settle_mapping(folder, manifest, options)
    # Names of columns are judged before anything is written.
    _core.Partition(_core.read([]), key, partitions)
    with translate_write_errors(folder):
        manifest.save(folder)
    return manifest


def strangers(folder: Path, home: Home | None) -> list[str]:
    """What lies where a corpus is to begin."""
    if home is None:
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    # What the folder of copies has is of another corpus, which lay there before.
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return sorted(home.listing())


def _check_settled(
    folder: Path,
    manifest: Manifest,
    resume: bool,
    key: list[str] | None,
    partitions: int | None,
    options: dict[str, Any],
) -> None:
    place = manifest.shown(folder)
    if not resume:
        raise ParameterError(f"folder '{place}' is a corpus already, and resume=False")
    if manifest.is_newer:
        raise SchemaError(
            f"the corpus in '{place}' has schema version {manifest.schema_version!r}, newer than "
            f"{_core.SCHEMA_VERSION!r}, which this engine writes: upgrade orchestrace to add to it, or "
            "ingest into another folder"
        )
    if manifest.is_exported:
        # recordings that are there already are recognized by the index, which an export lacks
        raise ParameterError(f"the corpus in '{place}' was written by export: ingest into another folder")
    fields = dict(options.get("fields") or {})
    for name, value, settled in (
        ("group", key, manifest.key),
        ("partitions", partitions, manifest.partitions),
        ("fields", fields or None, manifest.fields),
        ("trace_by", options.get("trace_by"), manifest.trace_by),
        ("reward_scores", options["reward_scores"] or None, manifest.reward_scores),
        ("null_values", options["null_values"] or None, manifest.null_values),
    ):
        if value is not None and value != settled:
            raise ParameterError(
                f"{name} is {value!r}, but the corpus in '{place}' was made with {settled!r}"
            )
    # What is not given is as before.
    options |= manifest.reading()
    _settle_mapping(folder, manifest, options)


def _settle_mapping(folder: Path, manifest: Manifest, options: dict[str, Any]) -> None:
    """One mapping for all of a corpus: its fields are read for later inputs too, whatever that call says."""
    place = manifest.shown(folder)
    mapping: tuple[str, str] | None = options.get("mapping")
    if mapping is None:
        if manifest.mapping is not None:
            options["mapping"] = (manifest.mapping, f"the mapping in {place}/{NAME}")
    elif manifest.mapping is None:
        manifest.mapping = mapping[0]
    elif manifest.mapping != mapping[0]:
        raise ParameterError(
            f"{mapping[1]} is not the mapping that the corpus in '{place}' was made with: use that one, "
            "or ingest into another folder"
        )
