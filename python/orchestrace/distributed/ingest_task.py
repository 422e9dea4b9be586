"""One task of an ingest: its files as a corpus of its own, which is there completely or not at all."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

import polars as pl

from ..base.durable import new_key, sync_folder, temporary
from ..base.errors import InputError, SchemaError
from ..base.publication import refusal
from ..corpus.reading import ErrorBudget
from ..disk.ingesting import begin
from ..disk.inputs import opened_inputs
from ..disk.integrity import find_damage
from ..disk.manifest import Input, Manifest, load
from ..disk.work import IngestWork
from .folder import CORPORA
from .ingest_plan import Settings, input_of, settings_of
from .tasks import Task


def corpus_folder(task: Task) -> Path:
    """Where the corpus of a task lies."""
    return Path(task.folder) / CORPORA / f"{task.number:06}"


def ingested(task: Task, threads: int | None, *, again: bool) -> pl.DataFrame:
    """Make the corpus of a task if it is not there; a row per input, the same whoever made it.

    Raises
    ------
    InputError
        An input is gone or has changed, or the folder cannot be written.
    """
    target = corpus_folder(task)
    if again:
        _remove(target)
    manifest = sound(target)
    if manifest is None:
        aside = temporary(target, new_key())
        try:
            aside.mkdir(parents=True)
        except OSError as error:
            raise InputError(refusal(aside, error)) from error
        try:
            manifest = _corpus(task, settings_of(task.call), aside, threads)
            manifest = _published(aside, target, manifest)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    return table_of_inputs(manifest.inputs)


def sound(folder: Path) -> Manifest | None:
    """The manifest of a corpus that is complete, every byte of it; null where there is none."""
    try:
        manifest = load(folder)
    except SchemaError:
        return None
    if manifest is None or not manifest.complete or find_damage(folder, manifest):
        return None
    return manifest


def begun(folder: Path, settings: Settings, inputs: list[Input]) -> Manifest:
    """The manifest of a new corpus that has these inputs to read."""
    reading = settings.reading(folder)
    return begin(folder, None, settings.partitions, settings.key, settings.memory, reading, inputs)


def read_inputs(
    folder: Path, manifest: Manifest, settings: Settings, paths: list[str], threads: int | None
) -> None:
    """Read inputs of a corpus as `ingest` does on one machine."""
    budget = ErrorBudget("quarantine", None, None)
    options = settings.reading(folder) | manifest.reading()
    with opened_inputs([]) as files:
        IngestWork(folder, manifest, settings.memory, threads, options, budget, None, files, False).run(paths)


def table_of_inputs(inputs: list[Input]) -> pl.DataFrame:
    """A row per input: what it is, and what became of its records."""
    names = ("input", "importer", "size", "records", "used", "ignored", "duplicate", "quarantined")
    rows = [
        (
            *(entry.name, entry.importer, entry.size, entry.records, entry.used),
            *(entry.ignored, entry.duplicates, entry.quarantined),
        )
        for entry in inputs
    ]
    texts = dict.fromkeys(names[:2], pl.String)
    return pl.DataFrame(rows, schema={name: texts.get(name, pl.Int64) for name in names}, orient="row")


def check_unchanged(planned: list[Input]) -> None:
    """Refuse inputs that are not as they were when they were planned.

    Raises
    ------
    InputError
        Names the first.
    """
    with opened_inputs([]) as files:
        for entry in planned:
            if not files.is_as_read(entry):
                change = "has changed since" if files.exists(entry.path) else "is gone, and was there when"
                raise InputError(
                    f"{entry.path}: the file {change} the ingest was planned: plan again, in another folder"
                )


def _corpus(task: Task, settings: Settings, folder: Path, threads: int | None) -> Manifest:
    planned = [input_of(piece) for piece, _ in task.pieces]
    check_unchanged(planned)
    manifest = begun(folder, settings, [input_of(piece) for piece, _ in task.pieces])
    read_inputs(folder, manifest, settings, [entry.path for entry in planned], threads)
    check_unchanged(planned)
    return manifest


def _published(aside: Path, target: Path, manifest: Manifest) -> Manifest:
    """Give a corpus its name. If two were made at the same time, the first one stays."""
    for _ in range(2):
        try:
            os.rename(aside, target)
            sync_folder(target.parent)
            return manifest
        except OSError as error:
            if not target.is_dir():
                raise InputError(refusal(target, error)) from error
        if (present := sound(target)) is not None:
            return present
        _remove(target)
    raise InputError(f"cannot put a corpus in place of '{target}': remove it, and run the task again")


def _remove(folder: Path) -> None:
    """Remove a corpus in one step, so that no reader sees half of it."""
    aside = temporary(folder, new_key())
    with suppress(OSError):
        os.rename(folder, aside)
    shutil.rmtree(aside, ignore_errors=True)
