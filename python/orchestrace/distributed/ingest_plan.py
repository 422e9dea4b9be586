"""Division of an ingest into tasks: whole files each, and one task for traces that are spread over files."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, cast

from .. import _core
from ..base.arguments import Count, Integer, Size
from ..base.checks import expect
from ..base.division import Arguments
from ..base.errors import ParameterError, SchemaError
from ..base.misfits import checks_of
from ..base.paths import expanded, path_of
from ..base.typed_json import Misfit, reader_of
from ..corpus.reading import ReadOptions, Source, checked_options
from ..disk.ingesting import fitting_partitions, group_key, ingest, named_files, strangers
from ..disk.inputs import InputFiles, opened_inputs
from ..disk.manifest import Input
from ..disk.memory import bounded, memory_bytes
from ..disk.work import unique_name
from ..storage.addresses import is_address
from .arguments import arguments_of, text_of
from .folder import save_plan
from .parsing import no_plan
from .tasks import Call, Plan, Share, Text, planned

INGEST: Final = "ingest"
_TASK_BYTES: Final = 256 << 20
"""Recordings of a task, where the caller does not say how many tasks there are."""
_MOST: Final = 2**63 - 1
_OF_CORPUS: Final = ("out", "memory", "group", "partitions")


@dataclass(frozen=True)
class Settings:
    """What all tasks of an ingest and its reduction have in common."""

    partitions: Size
    key: list[Text]
    memory: Count
    options: dict[str, Any]
    mapping: tuple[Text, Text] | None

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
    """The settings of a planned ingest.

    Raises
    ------
    Misfit
        There is something else.
    """
    settings: Settings = _read(Settings, call.asked, "settings of an ingest as JSON")
    return settings


def _read(kind: Any, text: str, name: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise Misfit.of(text, name) from None
    return reader_of(kind, exact=True)(value)


def check_settings(call: Call, place: str, pieces: Iterable[str]) -> None:
    """Refuse a planned ingest that `planned_ingest` would not have made; `place` is its file.

    Raises
    ------
    SchemaError
        Names the file and the field.
    """

    def refused(name: str, expected: str) -> SchemaError:
        return no_plan(place, Misfit.of(vars(call)[name], expected, f"call.{name}"))

    for name in ("modules", "channels", "manifest"):
        if vars(call)[name]:
            raise refused(name, "nothing of an ingest")
    settings = _checked_settings(call, place)
    for piece in pieces:
        _check_input(piece, place)
    of_corpus = {"out": call.corpus, "partitions": settings.partitions, "group": settings.key}
    if is_address(call.corpus) or not os.path.isabs(call.corpus):
        raise refused("corpus", "the full path of a folder")
    try:
        same = arguments_of(call.arguments) == Arguments((), {**settings.options, **of_corpus})
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        same = False
    if not same:
        raise refused("arguments", "what call.asked and call.corpus say")


def _checked_settings(call: Call, place: str) -> Settings:
    try:
        settings = settings_of(call)
        if settings.memory != call.memory:
            raise Misfit.of(settings.memory, f"{call.memory:,}, the memory of the call", ".memory")
        if "mapping" in settings.options:
            raise Misfit.of(settings.options, "options of reading", ".options")
    except Misfit as error:
        raise no_plan(place, error.below("call.asked")) from None
    try:
        expect("partitions", settings.partitions, Integer(1, 999))
        memory_bytes(call.memory)
        _core.Partition(_core.read([]), settings.key, settings.partitions)
        _core.formats([], **settings.reading(Path(call.corpus)))
    except (ParameterError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise no_plan(place, f"call.asked is not what an ingest takes ({error})") from None
    return settings


def _check_input(piece: str, place: str) -> None:
    try:
        path = _read(
            tuple[Text, Text, Count, Annotated[int, Integer(-_MOST, _MOST)]], piece, "an input as JSON"
        )[1]
        if is_address(path) or not os.path.isabs(path):
            raise Misfit.of(path, "the full path of a file", "[1]")
    except Misfit as error:
        raise no_plan(place, error.below("tasks.pieces")) from None


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
    plain |= {name: checked[name] for name in ("fields", "reward_scores", "null_values")}
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


def _divided(inputs: list[Input], spread: list[int], tasks: int | None) -> list[Share]:
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
        Share(
            tuple((piece_of(inputs[number]), number) for number in group),
            sum(inputs[number].size for number in group),
            None,
        )
        for group in groups
    ]
