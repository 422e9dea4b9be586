"""Values of JSON as the types that dataclasses declare: a document is read whole, or one value is refused."""

import dataclasses
import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import MISSING
from functools import cache, partial
from itertools import repeat
from typing import Annotated, Any, get_args, get_origin

from .arguments import Count, Range
from .misfits import fault_of
from .text import briefly

Read = Callable[[Any], Any]


class Misfit(ValueError):
    """A value is not of its type: where it stands, and what is wrong with it."""

    def __init__(self, fault: str, place: str = "") -> None:
        super().__init__(f"{place.removeprefix('.') or 'it'} {fault}")
        self._fault, self._place = fault, place

    @classmethod
    def of(cls, value: object, expected: str, place: str = "") -> "Misfit":
        """The error about a value that is not what is expected."""
        return cls(f"is {briefly(value)}, expected {expected}", place)

    def below(self, place: str) -> "Misfit":
        """The same of a part of a value that stands at a place."""
        return Misfit(self._fault, place + self._place)


@cache
def reader_of(kind: Any, *, exact: bool = False) -> Read:
    """What makes a value of a type of one of JSON, where a dataclass is an object, and a tuple a list.

    Parameters
    ----------
    kind
        A type that a field may have. An ``int`` is a whole number from 0, if no range of ``Annotated`` says
        another one; ranges judge what was read.
    exact
        Whether an object may have no keys but the fields of its dataclass; otherwise a later version may have
        added some.

    Returns
    -------
    callable
        Raises `Misfit` for a value of another type. O(values).
    """
    origin, parts = get_origin(kind), get_args(kind)
    inner = partial(reader_of, exact=exact)
    if kind is Any:
        return lambda value: value
    if origin in (typing.Union, types.UnionType):
        (some,) = (inner(part) for part in parts if part is not type(None))
        return lambda value: None if value is None else some(value)
    if origin is Annotated and get_origin(parts[0]) is not None:
        return partial(_ranged, inner(parts[0]), [part for part in parts[1:] if isinstance(part, Range)])
    if origin is tuple and parts[1:] != (...,):
        return partial(_items, tuple, tuple(map(inner, parts)), len(parts))
    if origin in (list, tuple):
        return partial(_items, origin, repeat(inner(parts[0])), None)
    if origin is dict:
        return partial(_members, inner(parts[1]))
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        fields = dataclasses.fields(kind)
        reads = {field.name: inner(hints[field.name]) for field in fields}
        needed = [field.name for field in fields if field.default is field.default_factory is MISSING]
        return partial(_fields, kind, reads, needed, exact)
    return _count if kind is int else partial(_leaf, kind)


def _leaf(kind: Any, value: Any) -> Any:
    if type(value) is not kind and (fault := fault_of(value, kind)) is not None:
        raise Misfit(fault)
    return value


def _count(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**63 else _leaf(Count, value)


def _ranged(read: Read, ranges: list[Range], value: Any) -> Any:
    result = read(value)
    for within in ranges:
        if not within.has(result):
            raise Misfit.of(value, within.expected(result))
    return result


def _items(kind: Callable[[list[Any]], Any], reads: Iterable[Read], length: int | None, value: Any) -> Any:
    if not isinstance(value, list) or length not in (None, len(value)):
        raise Misfit.of(value, "a list" if length is None else f"a list of {length}")
    return kind(_each(reads, value, lambda at: f"[{at}]"))


def _members(read: Read, value: Any) -> dict[str, Any]:
    names = list(_object(value))
    return dict(zip(names, _each(repeat(read), value.values(), lambda at: _below(names[at])), strict=True))


def _fields(kind: Any, reads: dict[str, Read], needed: list[str], exact: bool, value: Any) -> Any:
    names = [name for name in reads if name in _object(value)]
    if missing := [name for name in needed if name not in value]:
        raise Misfit(f"has no field '{missing[0]}'")
    if exact and (unknown := sorted(value.keys() - reads.keys())):
        raise Misfit(f"has an unknown field {briefly(unknown[0])}")
    parts = _each(map(reads.__getitem__, names), map(value.__getitem__, names), lambda at: _below(names[at]))
    return kind(**dict(zip(names, parts, strict=True)))


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Misfit.of(value, "an object")
    return value


def _each(reads: Iterable[Read], values: Iterable[Any], place: Callable[[int], str]) -> list[Any]:
    parts: list[Any] = []
    try:
        for read, value in zip(reads, values, strict=False):
            parts.append(read(value))
    except Misfit as error:
        raise error.below(place(len(parts))) from None
    return parts


def _below(name: str) -> str:
    """A key of an object as a part of a place: in one line, whatever characters it has."""
    return f".{name if name.isprintable() else repr(name)}"
