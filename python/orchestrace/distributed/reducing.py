"""The parts of a plan as one table, in the order of the corpus."""

import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any, overload

import polars as pl

from ..base.division import Arguments
from ..base.errors import InputError, ParameterError
from ..base.paths import path_of
from ..base.publication import published_file, refuse_existing
from ..base.text import plain
from ..base.verbs import Verb, verb
from .arguments import arguments_of
from .folder import Part, checked, corpus_place, load_plan, numbers_text, part_file, parts_of_plan, plan_of
from .ingest_join import joined
from .ingest_plan import INGEST
from .judging import judge_plan
from .running import planned_corpus
from .tasks import Plan, TaskResult
from .verbs import division_of, run_verb, verb_of

_LISTED = 4
"""Tasks whose fault an error shows; of more it shows the numbers."""

Work = Plan | str | os.PathLike[str] | Iterable[TaskResult]


@overload
def reduce(
    work: Work, *, corpus: str | os.PathLike[str] | None = ..., sink: None = ..., overwrite: bool = ...
) -> pl.DataFrame: ...
@overload
def reduce(
    work: Work,
    *,
    corpus: str | os.PathLike[str] | None = ...,
    sink: str | os.PathLike[str],
    overwrite: bool = ...,
) -> pl.LazyFrame: ...
@verb
def reduce(
    work: Work,
    *,
    corpus: str | os.PathLike[str] | None = None,
    sink: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> pl.DataFrame | pl.LazyFrame:
    """Join the parts of all tasks into the table that the verb gives on one machine.

    Parameters
    ----------
    work
        The plan, its folder, or the results of `run_task` in any order, each as often as it came. Of a plan
        or folder, results are those that were written beside the parts.
    corpus
        As in `run_task`; verbs that summarize all traces look at it again. Of an ingest, the folder ``out``
        that the plan names. Name it unless `work` is the plan itself: a file alone does not decide where a
        corpus is written.
    sink
        A Parquet file for the table; the call then returns a scan of it. Parts that follow each other in the
        table are copied one after the other, in little memory.
    overwrite
        Replace a file that exists.

    Returns
    -------
    DataFrame, or LazyFrame with `sink`
        Equal to what the verb returns on one machine with the same budget, columns, types, order and bits.

    Raises
    ------
    InputError
        Tasks lack a part, or a part is not what its task wrote; the message names the tasks to run again.
    ParameterError
        The results belong to several plans, or are not results; or the folder of an ingest is not named.
    SchemaError
        The plan is damaged, another version of orchestrace made it, or it is not what `plan` makes.

    Notes
    -----
    Every part is compared with its BLAKE3 before a row of it is read.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> place = tempfile.mkdtemp()
    >>> _ = ot.generate(f"{place}/runs.jsonl", traces=20, seed=0)
    >>> _ = ot.ingest(f"{place}/runs.jsonl", f"{place}/corpus", partitions=4)
    >>> plan = ot.distributed.plan(f"{place}/corpus", "metrics", folder=f"{place}/plan")
    >>> for task in plan.tasks[1:]:
    ...     _ = ot.distributed.run_task(task)
    >>> ot.distributed.reduce(plan)
    Traceback (most recent call last):
        ...
    orchestrace...InputError: 1 of ... tasks ... 0 (it has no part); run them: orchestrace run-task ... 0
    >>> _ = ot.distributed.run_task(plan.tasks[0])
    >>> ot.distributed.reduce(plan).height
    20
    """
    plan, parts = _gathered(work)
    judge_plan(plan)
    if plan.call.verb == INGEST:
        _check_out(plan, corpus, is_of_file=not isinstance(work, Plan))
    _refuse_incomplete(plan, parts)
    if plan.call.verb == INGEST:
        return _deliver(joined(plan), sink, overwrite)
    about, arguments = verb_of(plan.call.verb), arguments_of(plan.call.arguments)
    try:
        return _table(plan, about, arguments, corpus, sink, overwrite)
    except pl.exceptions.PolarsError as error:
        first = plain(error).partition("\\n")[0]
        raise InputError(
            f"the parts of the plan in '{plan.folder}' are not those of '{plan.call.verb}' ({first}): remove"
            f" them, and run its tasks again: {_again(plan, [task.number for task in plan.tasks])}"
        ) from None


def _check_out(plan: Plan, corpus: str | os.PathLike[str] | None, *, is_of_file: bool) -> None:
    """Refuse to make a corpus in a place that only a file names.

    Raises
    ------
    ParameterError
        The caller has named no folder, or another one than the plan.
    """
    out = plan.call.corpus
    if corpus is None:
        if is_of_file:
            raise ParameterError(
                f"the plan in '{plan.folder}' makes a corpus in '{out}', and a file alone does not decide"
                " where a corpus is written: name this folder as corpus= if it is the right one"
            )
    elif os.path.abspath(corpus_place(corpus)) != out:
        raise ParameterError(
            f"corpus is '{os.fspath(corpus)}', and the plan in '{plan.folder}' makes a corpus in '{out}':"
            " name that folder, or plan with another out="
        )


def _table(
    plan: Plan,
    about: Verb,
    arguments: Arguments,
    corpus: str | os.PathLike[str] | None,
    sink: str | os.PathLike[str] | None,
    overwrite: bool,
) -> pl.DataFrame | pl.LazyFrame:
    """The parts of all tasks as the table of the verb."""
    division = division_of(about)
    order = division.order(arguments)
    files = [Path(plan.folder) / part_file(task.number) for task in plan.tasks]
    target = None if sink is None else path_of(sink)
    if target is not None and not overwrite:
        refuse_existing(target)
    if not files:
        table = run_verb(about, planned_corpus(plan, corpus), arguments, None)
    else:
        scans = [pl.scan_parquet(file, glob=False, hive_partitioning=False) for file in files]
        if target is not None and order.is_of_corpus and not division.is_finished:
            with published_file(target, overwrite=overwrite) as out:
                pl.concat(scans).sink_parquet(out, compression="zstd", maintain_order=True)
            return pl.scan_parquet(target, glob=False, hive_partitioning=False)
        table = order.apply(pl.concat([scan.collect() for scan in scans]))
        if division.is_finished:
            table = division.finish(planned_corpus(plan, corpus), arguments, table)
    return _deliver(table, sink, overwrite)


def _deliver(
    table: pl.DataFrame, sink: str | os.PathLike[str] | None, overwrite: bool
) -> pl.DataFrame | pl.LazyFrame:
    """Write the table where a file is named: the table, or a scan of its file."""
    if sink is None:
        return table
    target = path_of(sink)
    with published_file(target, overwrite=overwrite) as out:
        table.write_parquet(out, compression="zstd")
    return pl.scan_parquet(target, glob=False, hive_partitioning=False)


@verb
def status(plan: Plan | str | os.PathLike[str]) -> pl.DataFrame:
    """Report for every task of a plan whether its part exists.

    Parameters
    ----------
    plan
        The plan, or its folder.

    Returns
    -------
    DataFrame
        A row per task: ``task`` (UInt32), ``state`` (Enum: ``done missing damaged``), ``fault`` (String: what
        is wrong with its part), ``events`` (UInt64: about how many it reads; of an ingest
        bytes), ``rows size`` (UInt64: rows and bytes of its part) and ``seconds`` (Float64: what it took).

    Raises
    ------
    InputError
        There is no plan.
    SchemaError
        The plan is damaged, or another version of orchestrace made it.

    Notes
    -----
    Reads every part, to compare it with its BLAKE3.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> place = tempfile.mkdtemp()
    >>> _ = ot.generate(f"{place}/runs.jsonl", traces=20, seed=0)
    >>> _ = ot.ingest(f"{place}/runs.jsonl", f"{place}/corpus")
    >>> plan = ot.distributed.plan(f"{place}/corpus", "taint", folder=f"{place}/plan")
    >>> ot.distributed.status(plan)["state"].to_list()
    ['missing']
    """
    loaded = plan_of(plan)
    rows = [
        (
            *(part.task, part.state, part.fault, task.events),
            *((None, None, None) if part.result is None else _facts(part.result)),
        )
        for task, part in zip(loaded.tasks, parts_of_plan(loaded), strict=True)
    ]
    schema: dict[str, Any] = {
        "task": pl.UInt32,
        "state": pl.Enum(["done", "missing", "damaged"]),
        "fault": pl.String,
        "events": pl.UInt64,
        "rows": pl.UInt64,
        "size": pl.UInt64,
        "seconds": pl.Float64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _facts(result: TaskResult) -> tuple[int, int, float]:
    return result.rows, result.size, result.seconds


def _gathered(work: object) -> tuple[Plan, list[Part]]:
    """The plan, and the state of every task of it."""
    if isinstance(work, Plan | str | os.PathLike):
        plan = plan_of(work)
        return plan, parts_of_plan(plan)
    if not isinstance(work, Iterable):
        raise ParameterError(
            f"work is of type {type(work).__name__}, expected a plan, its folder, or the results of its tasks"
        )
    results = list(work)
    if others := [result for result in results if not isinstance(result, TaskResult)]:
        raise ParameterError(
            f"a result is of type {type(others[0]).__name__}, expected what run_task returns"
        )
    if not results:
        raise ParameterError("there is no result: run the tasks of the plan, or give the plan itself")
    if len({result.plan for result in results}) > 1:
        raise ParameterError("the results are of several plans: reduce those of each on their own")
    plan = load_plan(results[0].folder)
    if plan.id != results[0].plan:
        raise ParameterError(
            f"the results are not of the plan in '{plan.folder}': plan again, and run its tasks"
        )
    by_task: dict[int, TaskResult] = {}
    for result in results:
        other = by_task.setdefault(result.task, result)
        if other.blake3 != result.blake3:
            raise InputError(
                f"task {result.task} gave two results (BLAKE3 {other.blake3[:16]}… and"
                f" {result.blake3[:16]}…): use the same version of orchestrace everywhere, and run it again:"
                f" {_again(plan, [result.task])}"
            )
    absent = [Part(task.number, "missing", "it has no result", None) for task in plan.tasks]
    return plan, [
        checked(task, by_task[task.number]) if task.number in by_task else absent[task.number]
        for task in plan.tasks
    ]


def _refuse_incomplete(plan: Plan, parts: list[Part]) -> None:
    undone = [part for part in parts if part.state != "done"]
    if not undone:
        return
    numbers = [part.task for part in undone]
    faults = ", ".join(f"{part.task} ({part.fault})" for part in undone[:_LISTED])
    more = f" and {len(undone) - _LISTED:,} more" if len(undone) > _LISTED else ""
    raise InputError(
        f"{len(undone):,} of {len(parts):,} tasks of the plan in '{plan.folder}' have no valid part:"
        f" {faults}{more}; run them: {_again(plan, numbers)}"
    )


def _again(plan: Plan, numbers: list[int]) -> str:
    return f"orchestrace run-task {shlex.quote(plan.folder)} {numbers_text(numbers)}"
