"""Plans, their tasks and their results: plain frozen values, which pickle and JSON keep."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final

from .. import _core
from ..base.arguments import Count, Integer, Size
from ..base.errors import ParameterError, SchemaError
from ..base.typed_json import reader_of

PLAN_VERSION: Final = 1
"""Of the layout of plans and of results. Another one is refused, not guessed."""


class _FileText:
    """A text that can be a name of a file."""

    def has(self, value: object) -> bool:
        try:
            return isinstance(value, str) and b"\0" not in os.fsencode(value)
        except UnicodeEncodeError:
            return False

    def expected(self, value: object) -> str:
        return "a text"


class _ModuleName(_FileText):
    """A name as import takes it."""

    def has(self, value: object) -> bool:
        return isinstance(value, str) and all(part.isidentifier() for part in value.split("."))

    def expected(self, value: object) -> str:
        return "the name of a module"


@dataclass(frozen=True)
class Some:
    """A list that is not empty."""

    of: str

    def has(self, value: object) -> bool:
        return bool(value)

    def expected(self, value: object) -> str:
        return f"at least one {self.of}"


Text = Annotated[str, _FileText()]
"""A text that can be a name of a file."""

Place = Annotated[int, Integer(0, 2**32 - 1)]
"""The number of a piece or of a trace, as the tables count them."""

Runs = tuple[tuple[Place, Place], ...]
"""Ascending numbers as ranges, both ends included."""

Pieces = tuple[tuple[Text, Place], ...]
"""Partition and number of each piece, in the order of the corpus."""


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

    engine: Text
    schema: Text
    verb: Text
    arguments: Text
    asked: Text
    modules: tuple[Annotated[str, _ModuleName()], ...]
    corpus: Text
    manifest: Text
    memory: Size
    verify: bool
    channels: tuple[Text, ...]


@dataclass(frozen=True)
class Share:
    """Consecutive pieces of a corpus: what only one task of a plan has.

    Parameters
    ----------
    pieces
        Partition and number of each piece; of an ingest, each input as text and its number.
    events
        About how many events they have; of an ingest, how many bytes.
    kept
        Traces of these partitions that the corpus was filtered to; None for all.
    """

    pieces: Annotated[Pieces, Some("piece")]
    events: Count
    kept: Annotated[Runs, Some("trace")] | None


@dataclass(frozen=True)
class Task(Share):
    """Consecutive pieces of a corpus, and the computation to run on them.

    Parameters
    ----------
    pieces, events, kept
        As of its share.
    version
        `PLAN_VERSION` of the engine that planned it.
    plan
        The id of its plan.
    number, of
        Its place among the tasks of the plan, from 0, and how many there are.
    folder
        Of the plan, where its part is written.
    call
        What it has in common with the others.
    """

    version: int
    plan: str
    number: int
    of: int
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


def planned(call: Call, shares: Sequence[Share], folder: str) -> Plan:
    """A plan of a call over the share of each task."""
    name = _id(_body(call, shares))
    tasks = (
        Task(share.pieces, share.events, share.kept, PLAN_VERSION, name, number, len(shares), folder, call)
        for number, share in enumerate(shares)
    )
    return Plan(name, folder, call, tuple(tasks))


def parsed_result(text: str) -> TaskResult | None:
    """The result that `TaskResult.text` wrote; None where it is no such text."""
    try:
        result: TaskResult = reader_of(TaskResult, exact=True)(json.loads(text))
    except (ValueError, RecursionError):
        return None
    return result if result.version == PLAN_VERSION else None


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


def _body(call: Call, shares: Sequence[Share]) -> dict[str, Any]:
    parts = [{"pieces": share.pieces, "events": share.events, "kept": share.kept} for share in shares]
    return {"version": PLAN_VERSION, "call": asdict(call), "tasks": parts}


def _id(body: dict[str, Any]) -> str:
    # the folder of the corpus may be another one where a task runs; its manifest is what counts
    call = {**body["call"], "corpus": ""}
    text = json.dumps({**body, "call": call}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
