"""Division of an ingest into tasks: whole files each, and one task for traces that are spread over files."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from .. import _core
from ..base.arguments import Integer
from ..base.checks import expect
from ..base.division import Arguments
from ..base.errors import ParameterError, SchemaError
from ..base.misfits import checks_of
from ..base.paths import expanded, path_of
from ..base.text import plain
from ..corpus.reading import ReadOptions, Source, checked_options
from ..disk.ingesting import fitting_partitions, group_key, ingest, named_files, strangers
from ..disk.inputs import InputFiles, opened_inputs
from ..disk.manifest import Input
from ..disk.memory import bounded, memory_bytes
from ..disk.work import unique_name
from ..storage.addresses import is_address
from .arguments import arguments_of, text_of
from .folder import save_plan
from .parsing import Field
from .tasks import Call, Divided, Plan, planned

INGEST: Final = "ingest"
_TASK_BYTES: Final = 256 << 20
"""Recordings of a task, where the caller does not say how many tasks there are."""
_MOST: Final = 2**63 - 1
_OF_CORPUS: Final = ("out", "memory", "group", "partitions")


@dataclass(frozen=True)
class Settings:
    """What all tasks of an ingest and its reduction have in common."""

    partitions: int
    key: list[str]
    memory: int
    options: dict[str, Any]
    mapping: tuple[str, str] | None

    def reading(self, folder: Path) -> dict[str, Any]:
        """Options of reading as the core takes them, with `folder` for what does not fit into memory."""
        options = bounded(checked_options(cast(ReadOptions, self.options)), self.memory)
        if self.mapping is not None:
            options |= {"format": "mapping", "mapping": self.mapping}
        return {**options, "spill_folder": os.fspath(folder)}

    def text(self) -> str:
        """As JSON."""
        return json.dumps(vars(self))


def settings_of(call: Call) -> Settings:
    """The settings of a planned ingest."""
    values = json.loads(call.asked)
    mapping = values["mapping"]
    return Settings(**{**values, "mapping": None if mapping is None else tuple(mapping)})


def check_settings(call: Call, field: Field, pieces: Iterable[str]) -> None:
    """Refuse a planned ingest that `planned_ingest` would not have made; `field` is the call in its file.

    Raises
    ------
    SchemaError
        Names the file and the field.
    """
    fields = field.fields(tuple(vars(call)))
    for name, nothing in (("modules", ()), ("channels", ()), ("manifest", "")):
        if fields[name].value != nothing:
            raise fields[name].refused("nothing of an ingest")
    _check_reading(call, fields["asked"])
    for piece in pieces:
        _check_input(Field(field.place, "tasks.pieces", piece))
    settings = settings_of(call)
    of_corpus = {"out": call.corpus, "partitions": settings.partitions, "group": settings.key}
    if is_address(call.corpus) or not os.path.isabs(call.corpus):
        raise fields["corpus"].refused("the full path of a folder")
    try:
        same = arguments_of(call.arguments) == Arguments((), {**settings.options, **of_corpus})
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise fields["arguments"].refused("what call.asked and call.corpus say")


def _check_reading(call: Call, field: Field) -> None:
    try:
        value = json.loads(field.text())
    except (ValueError, RecursionError):
        raise field.refused("settings of an ingest as JSON") from None
    names = tuple(Settings.__annotations__)
    fields = Field(field.place, field.name, value).fields(names)
    key = [item.text() for item in fields["key"].items()]
    count = fields["partitions"].number(1)
    if fields["memory"].number() != call.memory:
        raise fields["memory"].refused(f"{call.memory:,}, the memory of the call")
    if fields["mapping"].value is not None:
        _ = [item.text() for item in fields["mapping"].items(2)]
    options = fields["options"]
    if not isinstance(options.value, dict) or "mapping" in options.value:
        raise options.refused("options of reading")
    try:
        expect("partitions", count, Integer(1, 999))
        memory_bytes(call.memory)
        _core.Partition(_core.read([]), key, count)
        _core.formats([], **settings_of(call).reading(Path(call.corpus)))
    except (ParameterError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise SchemaError(
            f"{plain(field.place)} is not a plan: {field.name} is not what an ingest takes"
            f" ({plain(error)}); plan again"
        ) from None


def _check_input(field: Field) -> None:
    try:
        value = json.loads(field.text())
    except (ValueError, RecursionError):
        raise field.refused("an input as JSON") from None
    name, path, size, changed = Field(field.place, field.name, value).items(4)
    name.text()
    size.number()
    changed.number(-_MOST)
    if is_address(path.text()) or not os.path.isabs(path.value):
        raise path.refused("the full path of a file")


def check_no_place(corpus: object) -> None:
    """Refuse a folder of the corpus where a plan is to make one.

    Raises
    ------
    ParameterError
        There is one.
    """
    if corpus is not None:
        raise ParameterError("corpus= is of plans on a corpus, and this plan makes one: leave it out")


def piece_of(entry: Input) -> str:
    """An input as the piece of a task: its name in the tables, its path, and its size and time when it was
    planned."""
    return json.dumps([entry.name, entry.path, entry.size, entry.mtime_ns])


def input_of(piece: str) -> Input:
    """The input that `piece_of` wrote, not read yet."""
    name, path, size, mtime_ns = json.loads(piece)
    return Input(name, path, size, mtime_ns)


def planned_ingest(
    source: Source | Iterable[Source],
    folder: str | os.PathLike[str],
    tasks: int | None,
    options: dict[str, Any],
) -> Plan:
    """The plan of an ingest, in its folder.

    Raises
    ------
    ParameterError
        There is no ``out``, it has something in it, an option is wrong, or something is in object storage.
    InputError
        Nothing matches, or an input cannot be read.
    """
    out = _out(options)
    checks_of(ingest).judge((), options)
    partitions = options.get("partitions")
    reading = {name: value for name, value in options.items() if name not in _OF_CORPUS}
    for name in ("on_error", "max_errors", "max_error_ratio", "resume", "threads", "progress"):
        if name in reading:
            raise ParameterError(
                f"{name} is not an option of a planned ingest, which always quarantines rejected records"
            )
    room = memory_bytes(options.get("memory", "2GiB"))
    checked = checked_options(cast(ReadOptions, reading))
    mapping = checked.get("mapping")
    plain = {name: value for name, value in reading.items() if name not in ("mapping", "fields")}
    plain |= {"fields": checked["fields"], "reward_scores": checked["reward_scores"]}
    plain = arguments_of(text_of(Arguments((), plain))).named  # values that a file can hold
    named, _ = named_files(source, out, None)
    names = [file for file in named if isinstance(file, str)]
    if len(names) < len(named):
        raise ParameterError("a planned ingest reads files, and a source is in object storage: use ot.ingest")
    key = group_key(options.get("group")) or ["group_id"]
    with opened_inputs([]) as files:
        inputs = _inputs(names, files)
        count = partitions or fitting_partitions(names, files, room)
    settings = Settings(count, key, room, plain, mapping)
    _core.Partition(_core.read([]), key, count)  # judges the names of columns
    formats = _core.formats([(entry.path, entry.name) for entry in inputs], **settings.reading(out))
    spread = [number for number, (_, gathered) in enumerate(formats) if gathered]
    arguments = text_of(Arguments((), {**plain, "out": os.fspath(out), "partitions": count, "group": key}))
    call = Call(
        engine=_core.VERSION,
        schema=_core.SCHEMA_VERSION,
        verb=INGEST,
        arguments=arguments,
        asked=settings.text(),
        modules=(),
        corpus=os.fspath(out),
        manifest="",
        memory=room,
        verify=True,
        channels=(),
    )
    plan = planned(call, _divided(inputs, spread, tasks), os.path.abspath(path_of(folder)))
    save_plan(plan)
    return plan


def _out(options: dict[str, Any]) -> Path:
    out = options.get("out")
    if not isinstance(out, str | os.PathLike):
        raise ParameterError("a planned ingest needs out=, the folder of the corpus that the reduction makes")
    if is_address(expanded(out)):
        raise ParameterError("out is in object storage, and a planned ingest writes a folder: use ot.ingest")
    place = Path(os.path.abspath(expanded(out)))
    if place.exists() and not place.is_dir():
        raise ParameterError(f"out='{place}' is a file, expected a folder")
    if place.is_dir() and (names := strangers(place, None)):
        raise ParameterError(
            f"out='{place}' has '{names[0]}' in it, and a planned ingest makes a new corpus: choose another"
            " folder, or add to the corpus with ot.ingest"
        )
    return place


def _inputs(names: list[str], files: InputFiles) -> list[Input]:
    """Inputs of a new corpus, numbered and named as `ingest` does."""
    taken: set[str] = set()
    inputs = []
    for name in names:
        path = files.identity(name)
        inputs.append(Input(unique_name(name, path, taken), path, *files.content(name)))
        taken.add(inputs[-1].name)
    return inputs


def _divided(inputs: list[Input], spread: list[int], tasks: int | None) -> list[Divided]:
    """Consecutive files, about as many bytes in each task; traces that are spread over files come last, as
    they do on one machine."""
    apart = set(spread)
    alone = [number for number in range(len(inputs)) if number not in apart]
    total = max(sum(inputs[number].size for number in alone), 1)
    if tasks == 1:
        groups = [list(range(len(inputs)))]
    else:
        most = -(-total // _TASK_BYTES) if tasks is None else tasks - bool(spread)
        by_place: dict[int, list[int]] = {}
        before = 0
        for number in alone:
            middle = before + inputs[number].size / 2
            by_place.setdefault(min(int(middle * most / total), most - 1), []).append(number)
            before += inputs[number].size
        groups = [*by_place.values(), *([spread] if spread else [])]
    return [
        (
            tuple((piece_of(inputs[number]), number) for number in group),
            sum(inputs[number].size for number in group),
            None,
        )
        for group in groups
    ]
