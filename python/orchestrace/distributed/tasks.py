"""Plans, their tasks and their results: plain frozen values, which pickle and JSON keep."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Final

from .. import _core
from ..base.errors import ParameterError, SchemaError

PLAN_VERSION: Final = 1
"""Of the layout of plans and of results. Another one is refused, not guessed."""

Runs = tuple[tuple[int, int], ...]
"""Ascending numbers as ranges, both ends included."""

Divided = tuple[tuple[tuple[str, int], ...], int, Runs | None]
"""Pieces, events and traces of a task."""


@dataclass(frozen=True)
class Call:
    """What all tasks of a plan have in common: a verb, its arguments, and a corpus as it was.

    Parameters
    ----------
    engine, schema
        Versions of the package and of its tables.
    verb
        A name of `distributed.list_verbs`.
    arguments
        As the caller gave them, as JSON.
    asked
        The same as a task hands them to the verb: patterns are names, and what needs all rows is left out.
    modules
        Modules that register the method of a caller. A task imports none of them: who runs it has.
    corpus
        Its folder, or its address in object storage; of an ingest, the folder that the reduction makes.
    manifest
        BLAKE2b of its manifest, in hexadecimal; of an ingest, empty.
    memory
        Its budget in bytes, which decides where the corpus is divided.
    verify
        Whether files are compared with the checksums of the manifest.
    channels
        Rewards that some trace of the whole corpus has, where the verb asks for them.
    """

    engine: str
    schema: str
    verb: str
    arguments: str
    asked: str
    modules: tuple[str, ...]
    corpus: str
    manifest: str
    memory: int
    verify: bool
    channels: tuple[str, ...]


@dataclass(frozen=True)
class Task:
    """Consecutive pieces of a corpus, and the computation to run on them.

    Parameters
    ----------
    version
        `PLAN_VERSION` of the engine that planned it.
    plan
        The id of its plan.
    number, of
        Its place among the tasks of the plan, from 0, and how many there are.
    pieces
        Partition and number of each piece; of an ingest, each input as text and its number.
    events
        About how many events they have; of an ingest, how many bytes.
    kept
        Traces of these partitions that the corpus was filtered to; None for all.
    folder
        Of the plan, where its part is written.
    call
        What it has in common with the others.
    """

    version: int
    plan: str
    number: int
    of: int
    pieces: tuple[tuple[str, int], ...]
    events: int
    kept: Runs | None
    folder: str
    call: Call


@dataclass(frozen=True)
class TaskResult:
    """The result of a task: a file and its checksum.

    Parameters
    ----------
    version, plan, task, of
        As of the task.
    folder, file
        The folder of the plan, and the Parquet file in it.
    rows, size
        Rows and bytes of the file.
    blake3
        Of its bytes, 64 hexadecimal digits.
    seconds
        What the task took; 0 where its part was there.
    """

    version: int
    plan: str
    task: int
    of: int
    folder: str
    file: str
    rows: int
    size: int
    blake3: str
    seconds: float

    def text(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))


@dataclass(frozen=True)
class Plan:
    """A call on a corpus on disk, divided into tasks; made by `distributed.plan`.

    Parameters
    ----------
    id
        BLAKE2b of everything in it but places: equal plans have equal ids.
    folder
        Where ``plan.json`` is, and the parts are written.
    call
        What all tasks have in common.
    tasks
        In the order of the corpus.
    """

    id: str
    folder: str
    call: Call
    tasks: tuple[Task, ...]

    def text(self) -> str:
        """As JSON: the call once, and of each task what only it has."""
        return json.dumps({"id": self.id, **_body(self.call, self.tasks)}, indent=1) + "\n"


def planned(call: Call, divided: Sequence[Divided], folder: str) -> Plan:
    """A plan of a call over pieces, events and traces of each task."""
    loose = tuple(
        Task(PLAN_VERSION, "", number, len(divided), pieces, events, traces, folder, call)
        for number, (pieces, events, traces) in enumerate(divided)
    )
    name = _id(_body(call, loose))
    tasks = tuple(
        Task(task.version, name, task.number, task.of, task.pieces, task.events, task.kept, folder, call)
        for task in loose
    )
    return Plan(name, folder, call, tasks)


def parsed_result(text: str) -> TaskResult | None:
    """The result that `TaskResult.text` wrote; None where it is no such text."""
    try:
        value = json.loads(text)
        kinds = {field.name: field.type for field in fields(TaskResult)}
        if not isinstance(value, dict) or value.keys() != kinds.keys():
            return None
        result = TaskResult(**value)
    except (TypeError, ValueError, RecursionError):
        return None
    numbers = (result.version, result.task, result.of, result.rows, result.size)
    texts = (result.plan, result.folder, result.file, result.blake3)
    is_result = all(type(number) is int for number in numbers) and all(
        isinstance(text, str) for text in texts
    )
    return result if is_result and result.version == PLAN_VERSION else None


def check_task(task: object) -> Task:
    """Refuse what this engine cannot run as it was planned.

    Raises
    ------
    ParameterError
        It is no task.
    SchemaError
        Another version planned it.
    """
    if not isinstance(task, Task):
        raise ParameterError(
            f"task is of type {type(task).__name__}, expected one of distributed.plan(...).tasks"
        )
    _check_version(task.version, f"task {task.number}")
    check_engine(task.call)
    return task


def check_engine(call: Call) -> None:
    """Refuse a call that another engine planned, which may compute something else.

    Raises
    ------
    SchemaError
        Names both versions.
    """
    theirs, ours = (call.engine, call.schema), (_core.VERSION, _core.SCHEMA_VERSION)
    if theirs != ours:
        raise SchemaError(
            f"orchestrace {theirs[0]} (tables {theirs[1]}) planned this, and here is {ours[0]} (tables"
            f" {ours[1]}): install the same version everywhere, or plan again"
        )


def runs_of(numbers: list[int]) -> Runs:
    """Ascending numbers as ranges."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return tuple(runs)


def _check_version(version: object, place: str) -> None:
    if version != PLAN_VERSION:
        raise SchemaError(
            f"{place} has version {version!r} of plans, and this engine knows {PLAN_VERSION}: install the"
            " version of orchestrace that planned it, or plan again"
        )


def _body(call: Call, tasks: tuple[Task, ...]) -> dict[str, Any]:
    parts = [{"pieces": task.pieces, "events": task.events, "kept": task.kept} for task in tasks]
    return {"version": PLAN_VERSION, "call": asdict(call), "tasks": parts}


def _id(body: dict[str, Any]) -> str:
    # the folder of the corpus may be another one where a task runs; its manifest is what counts
    call = {**body["call"], "corpus": ""}
    text = json.dumps({**body, "call": call}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
