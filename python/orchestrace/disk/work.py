"""One ingest into one folder: the inputs to read, and their batches as shards."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import polars as pl

from .. import _core
from ..base.errors import InputError
from ..corpus.reading import ErrorBudget
from ..corpus.skipped import lossy_counts
from ..storage.addresses import is_address
from .inputs import InputFiles
from .integrity import find_damage
from .manifest import GATHERED, Gathering, Input, KeyCount, Manifest
from .memory import BATCH_SHARE, LEAST_BATCH, OVERHEAD
from .merging import merge
from .repair import inputs_to_repeat
from .shards import INDEX, clear_leftovers, current_index, scan_index, write_shard
from .staging import ROW_GROUP, staging, translate_write_errors

_Part = tuple[int, int, int, int, int, tuple[int, int, int, bool]]
"""Records of a batch: read, used, ignored, quarantined, duplicates; and where the input is taken up again."""


class IngestWork:
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
        files: InputFiles,
        verify: bool = True,
    ) -> None:
        self._files = files
        self._verify = verify
        self._folder = folder
        self._manifest = manifest
        self._room = room
        self._threads = threads
        self._options = options
        self._budget = budget
        self._callback = callback
        self._index = _core.TraceIndex()
        self._along: set[int] = set()  # inputs that this call does not name
        self._seen, self._rejected = 0, 0  # records of this call
        self.repaired: list[str] = []
        """Files that were damaged, and whose rows are in others now."""
        self.skipped: list[pl.DataFrame] = []
        """`lossy_counts` of each batch."""

    def run(self, files: list[str]) -> dict[int, str]:
        """Read the files into the corpus; the status of each input, by its number."""
        manifest = self._manifest
        with translate_write_errors(self._folder):
            clear_leftovers(self._folder, manifest)
        before = hash(repr(manifest))  # a copy of it would be held as long as the call lasts
        manifest.memory = self._room
        damages = find_damage(self._folder, manifest, content=self._verify)
        paths = {self._files.identity(name) for name in files}
        again = inputs_to_repeat(self._folder, manifest, damages, paths, self._files)
        if any(damage.file.table == "index" for damage in damages):
            manifest.restart()
            with translate_write_errors(self._folder):
                manifest.save(self._folder)
        status = self._status(files)
        status |= {number: "repaired" for number in again if status.get(number) != "replaced"}
        # Inputs that are known come first, so that a trace stays theirs when a new one repeats it.
        todo = sorted(number for number, word in status.items() if word not in ("unchanged", "missing"))
        if todo or damages or not manifest.complete:
            fresh = {number for number in todo if status[number] in ("replaced", "repaired")}
            if todo:
                self._read(todo, fresh)
            # Records that repeat a trace that is gone were left out, and are read now.
            while repeating := self._repeating():
                gone = [
                    number for number in repeating if not self._files.exists(manifest.inputs[number].path)
                ]
                status |= dict.fromkeys(gone, "missing")
                for number in gone:
                    # Not taken for unchanged when it comes back.
                    manifest.inputs[number].size, manifest.inputs[number].blake3 = 0, None
                todo = [number for number in repeating if number not in gone]
                if not todo:
                    break
                status |= dict.fromkeys(todo, "replaced")
                self._read(todo, set(todo))
            self._fingerprint()
            # All of their rows are in other parts now, or are of no trace any more.
            manifest.drop([damage.file for damage in damages])
            with translate_write_errors(self._folder):
                merge(self._folder, manifest)
                manifest.complete = True
        if hash(repr(manifest)) != before:
            with translate_write_errors(self._folder):
                manifest.save(self._folder)
        if damages:
            self.repaired = [damage.file.name for damage in damages]
            with translate_write_errors(self._folder):
                clear_leftovers(self._folder, manifest)
        return status

    def gone(self, status: dict[int, str]) -> pl.DataFrame:
        """Files of earlier calls that are not there any more, and what the corpus still has of them.

        ``input`` (String), ``used`` (records, Int64), ``traces`` (Int64; null where traces are put together
        from several inputs). Objects in storage are not looked for: each would be a request.
        """
        numbers = [
            number
            for number, entry in enumerate(self._manifest.inputs)
            if number not in status and not is_address(entry.path) and self._is_gone(entry.path)
        ]
        entries = [self._manifest.inputs[number] for number in numbers]
        rows = pl.DataFrame(
            {
                "number": numbers,
                "input": [entry.name for entry in entries],
                "used": [entry.used for entry in entries],
                "gathered": [entry.gathered for entry in entries],
            },
            schema={"number": pl.UInt32, "input": pl.String, "used": pl.Int64, "gathered": pl.Boolean},
        )
        if not numbers:
            return rows.select("input", "used", traces=pl.lit(None, pl.Int64))
        index = current_index(self._folder, self._manifest).filter(~pl.col("duplicate"))
        counts = index.group_by(number="input").agg(n=pl.len().cast(pl.Int64)).collect(engine="streaming")
        counted = rows.join(counts, on="number", how="left", maintain_order="left")
        held = pl.when(~pl.col("gathered")).then(pl.col("n").fill_null(0))
        return counted.select("input", "used", traces=held)

    def _is_gone(self, path: str) -> bool:
        with suppress(InputError):
            return not self._files.exists(path)
        return False  # it may be there

    def _is_settled(self, number: int) -> bool:
        """Whether an input keeps its format, whatever this call says: the call does not name the input, or
        the mapping of the corpus gave the format, and the call need not name that again."""
        importer = self._manifest.inputs[number].importer
        detected = self._options.get("format", "auto") == "auto"
        return importer is not None and (number in self._along or (importer == "mapping" and detected))

    def _formats(self, todo: list[int]) -> None:
        """Note which formats inputs are of."""
        inputs = [self._manifest.inputs[number] for number in todo if not self._is_settled(number)]
        self._files.copy(entry.path for entry in inputs)
        named = [(self._files.local(entry.path), entry.name) for entry in inputs]
        formats = _core.formats(named, threads=self._threads, **self._options)
        for entry, (importer, gathered) in zip(inputs, formats, strict=True):
            entry.importer, entry.gathered = importer, gathered

    def _gathering(self, todo: list[int], fresh: set[int]) -> Gathering | None:
        """The inputs that traces have to be put together from, and how far that is done; null where there is
        nothing to do. Inputs that are read anew are added to `fresh`."""
        manifest = self._manifest
        now = manifest.gathering or Gathering()
        touched = any(manifest.inputs[number].gathered or number in now.inputs for number in todo)
        if not touched and (now.done or not now.inputs):
            return None
        members = [number for number, entry in enumerate(manifest.inputs) if entry.gathered]
        # In order of their paths: a trace is the same whichever of its files came first to the corpus.
        members.sort(key=lambda number: manifest.inputs[number].path)
        for number in members:
            entry = manifest.inputs[number]
            if not self._files.exists(entry.path):
                raise InputError(
                    f"{entry.path}: the file is gone, but its traces have to be gathered again with those of "
                    "the new inputs: restore it, or ingest into another folder"
                )
            if number not in todo and not self._files.is_as_read(entry):
                fresh.add(number)
        begun = now.taken > 0 or now.done
        if members == now.inputs and not now.done and fresh.isdisjoint(members):
            return now
        if begun:
            fresh |= {number for number in members if manifest.inputs[number].done} | {GATHERED}
        return Gathering(members, now.since)

    def _status(self, files: list[str]) -> dict[int, str]:
        """The status of each file, which says what is to be done with it; new files become inputs."""
        manifest = self._manifest
        numbers = {entry.path: number for number, entry in enumerate(manifest.inputs)}
        status = {}
        taken = {entry.name for entry in manifest.inputs}
        named = {self._files.identity(name): name for name in files}
        for entry in manifest.inputs:
            # Reading it anew was cut short: it lacks traces that it had, whether this call names it or not.
            if entry.since and not entry.done:
                named.setdefault(entry.path, entry.path)
        paths = {self._files.identity(name) for name in files}
        self._along = {number for number, entry in enumerate(manifest.inputs) if entry.path not in paths}
        for path, name in named.items():
            if path in numbers and not self._files.exists(path):
                status[numbers[path]] = "missing"
                continue
            now = self._files.content(name)
            if path not in numbers:
                numbers[path] = len(manifest.inputs)
                manifest.inputs.append(Input(unique_name(name, path, taken), path, *now))
                taken.add(manifest.inputs[-1].name)
                status[numbers[path]] = "new"
                continue
            number = numbers[path]
            entry = manifest.inputs[number]
            same = (entry.size, entry.mtime_ns) == now
            if not same and entry.size == now.size and entry.done and entry.blake3 is not None:
                same = _core.fingerprint(self._files.local(path), entry.size) == entry.blake3
                entry.mtime_ns = now.mtime_ns if same else entry.mtime_ns
            left = manifest.gathering is not None and manifest.gathering.taken and entry.gathered
            begun = entry.offset or entry.records or entry.done or left
            if same:
                status[number] = "unchanged" if entry.done else "resumed" if begun else "new"
            elif begun:
                status[number] = "replaced"
            else:
                manifest.inputs[number] = Input(entry.name, path, *now)
                status[number] = "new"
        return status

    def _read(self, todo: list[int], fresh: set[int]) -> None:
        """Read inputs into shards, those in `fresh` from their beginning."""
        manifest, folder = self._manifest, self._folder
        self._formats(todo)
        gathering = self._gathering(todo, fresh)
        members = [] if gathering is None else gathering.inputs
        # Inputs that this call does not name keep their format, whatever it says of those that it names.
        named = {number for number in todo if not self._is_settled(number)}
        todo = [number for number in todo if not manifest.inputs[number].gathered]
        todo += members
        formats = [None if number in named else manifest.inputs[number].importer for number in todo]
        self._load_index([*todo, GATHERED], fresh)
        inputs = [manifest.inputs[number] for number in todo]
        for place, number in enumerate(todo):
            if number in fresh:
                inputs[place] = inputs[place].restarted(0, *self._files.content(inputs[place].path))
        self._files.copy(entry.path for entry in inputs)
        reader = _core.TraceReader(
            [(self._files.local(entry.path), entry.name, entry.place) for entry in inputs],
            gathered=0 if gathering is None else gathering.taken,
            formats=formats,
            **self._options,
        )
        numbers = pl.Series("input", [*todo, GATHERED], pl.UInt32)
        together = False
        total, before = sum(entry.size for entry in inputs), 0
        while True:
            left = self._room - OVERHEAD - self._index.nbytes
            limit = max(int(left * BATCH_SHARE), LEAST_BATCH)
            if left < self._room // 8 and self._index.nbytes > self._room // 4:
                raise InputError(
                    f"the index of {self._index.next_number:,} traces takes {self._index.nbytes >> 20:,} MiB:"
                    f" give ingest a memory of at least {2 * self._index.nbytes >> 20:,} MiB to continue"
                )
            gauge = _Gauge(self._callback, before, total)
            batch = reader.next(limit, index=self._index, threads=self._threads, progress=gauge)
            if batch is None:
                break
            before = gauge.done
            store, parts, rows = batch
            self.skipped.append(lossy_counts(pl.LazyFrame(store.table("record_counts"))))
            index = pl.DataFrame(rows)
            index = index.with_columns(input=numbers.gather(index["input"])).with_columns(
                shard=pl.lit(manifest.next_shard, pl.UInt32)
            )
            with staging(folder, manifest.home) as files:
                self._enter(todo, fresh, inputs, parts[:-1])
                if gathering is not None:
                    entries = dict(zip(todo, inputs, strict=True))
                    self._enter_gathered(gathering, fresh, entries, parts[-1][-1])
                self._seen += sum(part[0] for part in parts)
                self._rejected += sum(part[3] for part in parts)
                self._budget.check(self._rejected, self._seen, pl.DataFrame(store.table("quarantine")))
                # What comes in one batch is written as it stays. What comes in many is merged: large parts
                # from files of their own, which costs less than writing every row once more.
                is_one = all(place[-1] for *_, place in parts)
                together = together or (not is_one and store.n_events < ROW_GROUP * manifest.partitions)
                write_shard(files, manifest, store, index, together=together)
                if (counts := store.mapping_counts) is not None:
                    manifest.mapping_counts = [KeyCount(*row) for row in counts[0]]
                manifest.next_trace = self._index.next_number
                files.publish(manifest)
                manifest.save(folder)
            del store, batch, index, rows

    def _enter(self, todo: list[int], fresh: set[int], inputs: list[Input], parts: list[_Part]) -> None:
        """Count what a batch has of each input; an input that is read anew takes the place of what it was."""
        manifest = self._manifest
        manifest.complete = False
        for number, entry, (records, used, ignored, quarantined, duplicates, place) in zip(
            todo, inputs, parts, strict=True
        ):
            if number in fresh and (place != entry.place or records):
                fresh.discard(number)
                entry.since = manifest.next_shard
            if number not in fresh:
                entry.records += records
                entry.used += used
                entry.ignored += ignored
                entry.quarantined += quarantined
                entry.duplicates += duplicates
                entry.offset, entry.lines, entry.blocks, entry.done = place
                manifest.inputs[number] = entry

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
        keys = ["id", "content"]
        repeats = rows.filter("duplicate").select("input", *keys).collect(engine="streaming")
        originals = rows.filter(~pl.col("duplicate")).select(keys)
        present = originals.join(repeats.lazy(), on=keys, how="semi").collect(engine="streaming")
        numbers = repeats.join(present, on=keys, how="anti")["input"].unique().to_list()
        # Traces that are put together repeat none: they are known by more than their bytes.
        return sorted(number for number in numbers if number != GATHERED)

    def _fingerprint(self) -> None:
        """Note the checksums of inputs that were read to their end."""
        manifest, is_changed = self._manifest, False
        for entry in manifest.inputs:
            if entry.done and entry.blake3 is None and self._files.is_as_read(entry):
                digest = _core.fingerprint(self._files.local(entry.path), entry.size)
                # A file that changes meanwhile gets no checksum.
                entry.blake3 = digest if self._files.is_as_read(entry) else None
                is_changed = True
        if is_changed:
            with translate_write_errors(self._folder):
                manifest.save(self._folder)


def unique_name(name: str, path: str, taken: set[str]) -> str:
    """The name of a new input in the tables: that of the caller, unless another input has it."""
    # A name need not be UTF-8, the tables are.
    for candidate, errors in ((name, "replace"), (path, "replace"), (path, "backslashreplace")):
        text = os.fsencode(candidate).decode("utf-8", errors)
        if text not in taken:
            break
    return text


class _Gauge:
    """Progress of one batch as progress of the call."""

    def __init__(self, callback: Callable[[int, int], object] | None, before: int, total: int) -> None:
        self._callback, self._before, self._total = callback, before, total
        self.done = before

    def __call__(self, done: int, _total: int) -> None:
        self.done = self._before + done
        if self._callback is not None:
            self._callback(self.done, self._total)
