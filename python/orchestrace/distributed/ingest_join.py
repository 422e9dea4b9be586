"""The corpora of the tasks of an ingest as one, the same that one machine makes.

A corpus is appended as it is, its traces numbered on from those before. Where one of its traces has the id of
another, the files are read again instead, with the ids of all before: only then are repeats left out, and
findings numbered, as on one machine. Each step leaves a corpus that the next call, or `ingest`, goes on with.
"""

from pathlib import Path

import polars as pl

from ..base.errors import InputError, ParameterError
from ..corpus.skipped import lossy_counts, warn_of_skipped
from ..disk.ingesting import owned
from ..disk.manifest import PARTITIONED, SIDE, Gathering, KeyCount, Manifest, Part, load
from ..disk.shards import (
    clear_leftovers,
    current_side,
    present_schema,
    scan,
    scan_index,
    stage,
    stage_side,
)
from ..disk.staging import staging, translate_write_errors
from .ingest_plan import Settings, input_of, settings_of
from .ingest_task import begun, check_unchanged, corpus_folder, read_inputs, sound, table_of_inputs
from .tasks import Plan, Task


def joined(plan: Plan) -> pl.DataFrame:
    """Make the corpus of a planned ingest whose tasks are done; a row per input.

    Raises
    ------
    InputError
        The corpus of a task is damaged, an input that has to be read again has changed, or the folder cannot
        be written.
    ParameterError
        The folder is of something else.
    """
    out, settings = Path(plan.call.corpus), settings_of(plan.call)
    pieces = sorted((number, piece) for task in plan.tasks for piece, number in task.pieces)
    inputs = [input_of(piece) for _, piece in pieces]
    with owned(out, None):
        manifest = load(out)
        if manifest is None:
            manifest = begun(out, settings, inputs)
        _check_same(out, manifest, [entry.path for entry in inputs])
        if manifest.complete and all(entry.done for entry in manifest.inputs):
            return table_of_inputs(manifest.inputs)
        with translate_write_errors(out):
            clear_leftovers(out, manifest)
        for task in plan.tasks:
            _join(out, manifest, settings, task)
        read_inputs(out, manifest, settings, [], None)  # nothing is left to read: merges
        warn_of_skipped([lossy_counts(current_side(out, manifest, "record_counts"))])
    return table_of_inputs(manifest.inputs)


def _check_same(out: Path, manifest: Manifest, paths: list[str]) -> None:
    if [entry.path for entry in manifest.inputs] != paths:
        raise ParameterError(
            f"the corpus in '{out}' has other inputs than the plan: move it away, or plan with another out="
        )


def _join(out: Path, manifest: Manifest, settings: Settings, task: Task) -> None:
    numbers = [number for _, number in task.pieces]
    if all(manifest.inputs[number].done for number in numbers):
        return
    folder = corpus_folder(task)
    source = sound(folder)
    if source is None:
        raise InputError(
            f"the corpus of task {task.number} in '{folder}' is gone or damaged; make it again:"
            f" orchestrace run-task {task.folder} {task.number} --again"
        )
    partly = any(manifest.inputs[number].records or manifest.inputs[number].done for number in numbers)
    if partly or _meets(out, manifest, folder, source):
        planned = [input_of(piece) for piece, _ in task.pieces]
        check_unchanged(planned)
        read_inputs(out, manifest, settings, [entry.path for entry in planned], None)
    else:
        with translate_write_errors(out):
            _append(out, manifest, folder, source, numbers)


def _meets(out: Path, manifest: Manifest, folder: Path, source: Manifest) -> bool:
    """Whether a trace has the id of one that is there, or a finding the number of another trace."""
    if not manifest.next_trace:
        return False
    ids = scan_index(out, manifest, manifest.index).select("id")
    source_ids = scan_index(folder, source, source.index).select("id")
    if source_ids.join(ids, on="id", how="semi").head(1).collect(engine="streaming").height:
        return True
    parts = [(name, part) for name, of in source.parts.items() for part in of]
    findings = scan(folder, source, "findings", parts, present_schema(folder, source, "findings", parts))
    reused = findings.filter(pl.col("code").cast(pl.String) == "trace.id_reused")
    return bool(reused.select("trace").head(1).collect().height)


def _append(out: Path, manifest: Manifest, folder: Path, source: Manifest, numbers: list[int]) -> None:
    """Append a corpus in one step: a crash leaves all of it or nothing."""
    shard, first = manifest.next_shard, manifest.next_trace
    places = list(range(len(numbers)))
    with staging(out) as files:
        for partition, parts in sorted(source.parts.items()):
            for at, part in enumerate(parts):
                frames = (
                    (table, _moved(folder, source, table, partition, part, first)) for table in PARTITIONED
                )
                appended = stage(files, partition, f"{shard:06}-{at:03}", shard, frames)
                manifest.parts.setdefault(partition, []).append(appended)
        for table in SIDE:
            frame = current_side(folder, source, table).collect(engine="streaming")
            if table == "index":
                input_numbers = pl.col("input").replace(places, numbers)
                frame = frame.with_columns(
                    trace=pl.col("trace") + first, input=input_numbers, shard=pl.lit(shard, pl.UInt32)
                )
            if frame.height:
                manifest.side(table).append(stage_side(files, table, f"{shard:06}", shard, frame))
        for number, entry in zip(numbers, source.inputs, strict=True):
            entry.since = 0
            manifest.inputs[number] = entry
        if source.gathering is not None:
            gathered = source.gathering
            manifest.gathering = Gathering(
                [numbers[at] for at in gathered.inputs], 0, gathered.taken, gathered.done
            )
        manifest.mapping_counts = _counted(manifest.mapping_counts, source.mapping_counts)
        manifest.next_shard, manifest.next_trace = shard + 1, first + source.next_trace
        manifest.complete = False
        files.publish()
        manifest.save(out)


def _moved(
    folder: Path, source: Manifest, table: str, partition: str, part: Part, first: int
) -> pl.DataFrame:
    """A table of a part, its traces numbered on."""
    named = [(partition, part)]
    frame = scan(folder, source, table, named, present_schema(folder, source, table, named))
    if table != "labels":
        frame = frame.with_columns(pl.col("trace") + first)
    return frame.collect(engine="streaming")


def _counted(before: list[KeyCount], more: list[KeyCount]) -> list[KeyCount]:
    """The counts of both for each key of the mapping."""
    if not before:
        return more
    by_key = {(count.key, count.pointer): count for count in more}
    return [
        KeyCount(
            count.key,
            count.pointer,
            count.matched + other.matched,
            count.of + other.of,
            count.type or other.type,
        )
        for count in before
        if (other := by_key[count.key, count.pointer])
    ]
