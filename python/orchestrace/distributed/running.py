"""One task: its rows as a Parquet file that is there completely or not at all."""

import os
import time
from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path

import polars as pl

from .. import _core
from ..base.arguments import Threads
from ..base.errors import InputError, ParameterError
from ..base.publication import published_file, refusal
from ..base.verbs import verb
from ..disk.partitioned import PartitionedCorpus, read_corpus
from ..disk.staging import ROW_GROUP
from .arguments import arguments_of
from .folder import PARTS, corpus_place, manifest_digest, part_file, part_of, save_result
from .ingest_plan import INGEST, check_no_place
from .ingest_task import ingested
from .judging import absent_piece, judge_division, judge_task, refused_here
from .tasks import PLAN_VERSION, Call, Plan, Task, TaskResult, check_task, runs_of
from .verbs import run_verb, verb_of
from .views import PlannedCorpus, TaskCorpus, filtered


@verb
def run_task(
    task: Task,
    *,
    corpus: str | os.PathLike[str] | None = None,
    threads: Threads = None,
    again: bool = False,
) -> TaskResult:
    """Compute the part of one task and write it into the folder of its plan.

    A task whose part is there, with the bytes that its record says, is not computed again.

    Parameters
    ----------
    task
        One of ``plan(...).tasks``.
    corpus
        The folder or address of the corpus here, where it is not the one that the plan names. It must be the
        same corpus.
    threads
        As in `read_traces`. Of Polars, which reads the files, ``POLARS_MAX_THREADS`` sets them.
    again
        Compute the part even if it is there.

    Returns
    -------
    TaskResult
        The file, its rows, bytes and BLAKE3, some hundred bytes in all.

    Raises
    ------
    SchemaError
        Another version of orchestrace planned the task, or it is not what `plan` makes.
    ParameterError
        It needs a method of yours whose module is not imported. A plan imports nothing.
    InputError
        There is no corpus, it has changed since the plan was made, one of its files is damaged, or the part
        cannot be written.

    Notes
    -----
    The part is written under another name, made durable and renamed, then its record. A task that is killed
    leaves nothing that counts, and two that run at once write the same bytes.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> place = tempfile.mkdtemp()
    >>> _ = ot.generate(f"{place}/runs.jsonl", traces=20, seed=0)
    >>> _ = ot.ingest(f"{place}/runs.jsonl", f"{place}/corpus")
    >>> plan = ot.distributed.plan(f"{place}/corpus", "taint", folder=f"{place}/plan")
    >>> first, second = (ot.distributed.run_task(plan.tasks[0], again=True) for _ in range(2))
    >>> first.rows, first.blake3 == second.blake3
    (20, True)
    """
    task = check_task(task)
    judge_task(task)
    if not again and (part := part_of(task)).result is not None:
        return part.result
    start = time.perf_counter()
    if task.call.verb == INGEST:
        check_no_place(corpus)
        frame = ingested(task, threads, again=again)
    else:
        frame = _rows(task, opened(task.call, corpus), threads)
    folder = Path(task.folder)
    path = folder / part_file(task.number)
    try:
        (folder / PARTS).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(refusal(folder, error)) from error
    size, digest = _written(frame, path)
    result = TaskResult(
        version=PLAN_VERSION,
        plan=task.plan,
        task=task.number,
        of=task.of,
        folder=task.folder,
        file=part_file(task.number),
        rows=frame.height,
        size=size,
        blake3=digest,
        seconds=time.perf_counter() - start,
    )
    save_result(result)
    return result


def planned_corpus(plan: Plan, place: str | os.PathLike[str] | None) -> PartitionedCorpus:
    """The corpus that a plan was made of, filtered as it was.

    Raises
    ------
    InputError
        It is not there, or has changed.
    """
    corpus = opened(plan.call, place)
    if not plan.tasks:  # it has no trace
        return PlannedCorpus(corpus)
    if plan.tasks[0].kept is None:
        return corpus
    for task in plan.tasks:
        judge_division(task, corpus)
    numbers = {n for task in plan.tasks for first, last in task.kept or () for n in range(first, last + 1)}
    return filtered(corpus, runs_of(sorted(numbers)))


def opened(call: Call, place: str | os.PathLike[str] | None = None) -> PartitionedCorpus:
    """The corpus of a call, which has to be as it was planned.

    Raises
    ------
    InputError
        It is not there, or has changed.
    """
    where = call.corpus if place is None else corpus_place(place)
    _check_digest(where, call.manifest)
    return _open(where, call.manifest, call.memory, call.verify)


@lru_cache(maxsize=4)
def _open(where: str, digest: str, memory: int, verify: bool) -> PartitionedCorpus:
    """A corpus that stays open, so that the files that several tasks scan are compared once."""
    corpus = read_corpus(where, memory=memory, verify=verify)
    _check_digest(where, digest)  # the file did not change between the check and the reading
    return corpus


def _check_digest(where: str, expected: str) -> None:
    digest = manifest_digest(where)
    if digest != expected:
        raise InputError(
            f"the corpus in '{where}' is not as it was planned (its manifest has the digest {digest[:16]}…,"
            f" expected {expected[:16]}…): an ingest changed it, or it is another corpus; plan again"
        )


def _rows(task: Task, corpus: PartitionedCorpus, threads: int | None) -> pl.DataFrame:
    call = task.call
    wanted: dict[str, set[int]] = {}
    for partition, number in task.pieces:
        wanted.setdefault(partition, set()).add(number)
    judge_division(task, corpus)
    chosen: Mapping[str, frozenset[int]] = {name: frozenset(numbers) for name, numbers in wanted.items()}
    view = TaskCorpus(corpus, chosen, task.kept, call.channels, partial(absent_piece, task))
    try:
        return run_verb(verb_of(call.verb), view, arguments_of(call.asked), threads)
    except ParameterError as error:
        raise refused_here(task, error) from None


def _written(frame: pl.DataFrame, path: Path) -> tuple[int, str]:
    """Size and BLAKE3 of the part, as read back from the file system."""
    with published_file(path, overwrite=True) as file:
        # in one chunk, so that the same rows are the same bytes
        frame.rechunk().write_parquet(file, compression="zstd", compression_level=1, row_group_size=ROW_GROUP)
    size = path.stat().st_size
    return size, _core.fingerprint(os.fspath(path), size)
