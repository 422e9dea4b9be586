"""Plans from their text. The file lies where others write, so every field is judged before it is used."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..base.errors import SchemaError
from ..base.text import briefly, plain
from .tasks import PLAN_VERSION, Call, Divided, Plan, Runs, planned

_CALL: Final = tuple(Call.__annotations__)
_MOST_NUMBER: Final = 2**32 - 1
"""Of pieces and of traces, as the tables count them."""
_MOST_BYTES: Final = 2**63 - 1


@dataclass(frozen=True)
class Field:
    """A value of a plan, and where it stands.

    Parameters
    ----------
    place
        The file.
    name
        The field in it, such as ``tasks[3].pieces[0]``.
    value
        As JSON has it.
    """

    place: str
    name: str
    value: Any

    def refused(self, expected: str) -> SchemaError:
        """The error that says what was expected here."""
        return SchemaError(
            f"{plain(self.place)} is not a plan: {plain(self.name)} is {briefly(self.value)}, expected"
            f" {expected}; plan again"
        )

    def fields(self, names: tuple[str, ...]) -> Mapping[str, "Field"]:
        """The fields of an object that has these and no others."""
        if not isinstance(self.value, dict):
            raise self.refused("an object")
        if wrong := sorted(set(names) ^ self.value.keys()):
            fault = "has no" if wrong[0] in names else "has an unknown"
            raise SchemaError(
                f"{plain(self.place)} is not a plan: {plain(self.name)} {fault} field {briefly(wrong[0])};"
                " plan again"
            )
        prefix = "" if self.name == "it" else f"{self.name}."
        return {name: Field(self.place, f"{prefix}{name}", self.value[name]) for name in names}

    def items(self, length: int | None = None) -> list["Field"]:
        """The items of a list, of some length if one is named."""
        if not isinstance(self.value, list) or length not in (None, len(self.value)):
            raise self.refused("a list" if length is None else f"a list of {length}")
        return [Field(self.place, f"{self.name}[{at}]", item) for at, item in enumerate(self.value)]

    def text(self) -> str:
        """A text that can be a name of a file."""
        if isinstance(self.value, str) and "\0" not in self.value:
            try:
                os.fsencode(self.value)
            except UnicodeEncodeError:
                pass
            else:
                return self.value
        raise self.refused("a text")

    def number(self, least: int = 0, most: int = _MOST_BYTES) -> int:
        """A whole number of a range."""
        if type(self.value) is not int or not least <= self.value <= most:
            raise self.refused(f"a whole number from {least:,} to {most:,}")
        return self.value

    def flag(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self.refused("true or false")
        return self.value


def parsed_plan(text: str, place: str, folder: str) -> Plan:
    """The plan that `Plan.text` wrote, with `folder` as its place.

    Raises
    ------
    SchemaError
        It is none, of another version, or not what was written; names the file and the field.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{plain(place)} is not JSON ({error}): restore it, or plan again") from None
    if not isinstance(value, dict):
        raise SchemaError(f"{plain(place)} is not a plan: it is not a JSON object; plan again")
    version = Field(place, "version", value.get("version"))
    if type(version.value) is not int or version.value != PLAN_VERSION:
        raise SchemaError(
            f"{plain(place)} has version {briefly(version.value)} of plans, and this engine knows"
            f" {PLAN_VERSION}: install the version of orchestrace that planned it, or plan again"
        )
    fields = Field(place, "it", value).fields(("id", "version", "call", "tasks"))
    call = _call(fields["call"])
    plan = planned(call, [_divided(field) for field in fields["tasks"].items()], folder)
    if plan.id != fields["id"].text():
        raise SchemaError(
            f"{plain(place)} is damaged: its content is not what its id says; restore it, or plan again"
        )
    return plan


def _call(field: Field) -> Call:
    fields = field.fields(_CALL)
    texts = ("engine", "schema", "verb", "arguments", "asked", "corpus", "manifest")
    return Call(
        **{name: fields[name].text() for name in texts},
        modules=tuple(_module(item) for item in fields["modules"].items()),
        memory=fields["memory"].number(1),
        verify=fields["verify"].flag(),
        channels=tuple(item.text() for item in fields["channels"].items()),
    )


def _module(field: Field) -> str:
    if not all(part.isidentifier() for part in field.text().split(".")):
        raise field.refused("the name of a module")
    return field.text()


def _divided(field: Field) -> Divided:
    fields = field.fields(("pieces", "events", "kept"))
    pieces = [_piece(item) for item in fields["pieces"].items()]
    if not pieces:
        raise fields["pieces"].refused("at least one piece")
    return tuple(pieces), fields["events"].number(), _traces(fields["kept"])


def _piece(field: Field) -> tuple[str, int]:
    name, number = field.items(2)
    return name.text(), number.number(most=_MOST_NUMBER)


def _traces(field: Field) -> Runs | None:
    if field.value is None:
        return None
    runs: list[tuple[int, int]] = []
    for item in field.items():
        first, last = (number.number(most=_MOST_NUMBER) for number in item.items(2))
        if last < first or (runs and first <= runs[-1][1]):
            raise item.refused("traces in ascending order")
        runs.append((first, last))
    if not runs:
        raise field.refused("null or at least one trace")
    return tuple(runs)
