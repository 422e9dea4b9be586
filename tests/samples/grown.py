"""Inputs that grow: what a small recording holds, many times in one run, side by side or in a chain."""

import copy
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ID = re.compile(r"(id|uuid|parent|ref|cause|call)s?$", re.IGNORECASE)
"""Names of members that hold ids, or what refers to them."""
OF_A_RUN = re.compile(
    r"(session|trace|thread|conversation|rollout|task|group|project|run_?name|instance|dataset)_?-?(id|uuid)?$",
    re.IGNORECASE,
)
"""Names of members that hold the id of a whole run: all copies are of one."""
PARENT = re.compile("parent", re.IGNORECASE)
OWN = ("uuid", "spanId", "span_id", "id", "event_id")
"""Names of members that hold the id of a record itself."""
LISTS = 40
"""So many lists of a document are tried."""


@dataclass(frozen=True)
class Form:
    """One way in which a file of a recording grows."""

    name: str
    path: Path
    unit: int
    """Bytes of what is repeated."""
    text: Callable[[int], str]
    """The file with so many copies."""


def forms(source: Path) -> Iterator[Form]:
    """All ways in which the files of a recording grow: whole records, and each list within them."""
    for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
        if path.is_file():
            yield from _forms_of(path)


def _forms_of(path: Path) -> Iterator[Form]:
    written, records = _read(path.read_text())
    if written is not _one and records:
        unit = len(json.dumps(records))
        for chained in (False, True):
            shape = "chain" if chained else "fan"

            def whole(copies: int, *, chained: bool = chained) -> str:
                return written(_grown(records, copies, chained=chained))

            yield Form(f"{path.name} {shape}", path, unit, whole)
    seen = set()
    for at, record in enumerate(records):
        for place in list(_lists(record, ()))[:LISTS]:
            names = tuple(step for step in place if isinstance(step, str))
            if names in seen:
                continue
            seen.add(names)

            def inner(copies: int, *, at: int = at, place: tuple[Any, ...] = place) -> str:
                others = copy.deepcopy(records)
                rows = _at(others[at], place)
                rows[:] = _grown(rows, copies, chained=False)
                return written(others)

            unit = len(json.dumps(_at(record, place)))
            yield Form(f"{path.name} {at}.{'.'.join(map(str, place))}", path, unit, inner)


def _one(records: list[Any]) -> str:
    return json.dumps(records[0])


def _lines(records: list[Any]) -> str:
    return "".join(f"{json.dumps(record)}\n" for record in records)


def _read(text: str) -> tuple[Callable[[list[Any]], str], list[Any]]:
    """How the records of a file are written, and those that are objects."""
    try:
        document = json.loads(text)
    except ValueError:
        records = []
        for line in text.splitlines():
            try:
                records.append(json.loads(line))
            except ValueError:
                continue
        return _lines, [record for record in records if isinstance(record, dict)]
    if isinstance(document, list):
        return json.dumps, [record for record in document if isinstance(record, dict)]
    return _one, [document] if isinstance(document, dict) else []


def _lists(value: Any, place: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, list):
        if value and all(isinstance(row, dict) for row in value):
            yield place
        for at, row in enumerate(value):
            yield from _lists(row, (*place, at))
    elif isinstance(value, dict):
        for key, member in value.items():
            yield from _lists(member, (*place, key))


def _at(value: Any, place: tuple[Any, ...]) -> Any:
    for step in place:
        value = value[step]
    return value


def _mapped(value: Any, key: str, change: Callable[[str, str], str]) -> Any:
    """A value with its texts changed, each given the name of its member."""
    if isinstance(value, dict):
        return {name: _mapped(member, name, change) for name, member in value.items()}
    if isinstance(value, list):
        return [_mapped(row, key, change) for row in value]
    return change(key, value) if isinstance(value, str) else value


def _ids(records: list[Any]) -> set[str]:
    """Ids of parts of a run: what most records hold is that of the run."""
    where: dict[str, set[int]] = defaultdict(set)
    for at, record in enumerate(records):

        def see(key: str, text: str, at: int = at) -> str:
            if text and ID.search(key) and not OF_A_RUN.search(key):
                where[text].add(at)
            return text

        _mapped(record, "", see)
    return {text for text, places in where.items() if len(places) <= max(2, len(records) / 2)}


def _renamed(text: str, copies: int) -> str:
    """An id of its own for each copy, of the same length where it is hexadecimal."""
    if copies == 0:
        return text
    if re.fullmatch("[0-9a-fA-F]{8,}", text):
        return f"{(int(text, 16) + 65_537 * copies) % 16 ** len(text):0{len(text)}x}"
    return f"{text}#{copies}"


def _grown(records: list[Any], copies: int, *, chained: bool) -> list[Any]:
    ids = _ids(records)
    rows: list[Any] = []
    last = None
    for number in range(copies):

        def change(_: str, text: str, number: int = number) -> str:
            return _renamed(text, number) if text in ids else text

        rows.extend(_mapped(record, "", change) for record in records)
        mine = rows[-len(records) :]
        if chained and last is not None:
            for row in mine:
                row.update({key: last for key in row if PARENT.search(key) and row[key] in (None, "")})
        if chained:
            own = [row[key] for row in mine for key in OWN if isinstance(row.get(key), str)]
            last = own[-1] if own else last
    return rows
