"""Plans from their text. The file lies where others write, so every field is judged before it is used."""

import json
from dataclasses import dataclass
from itertools import pairwise

from ..base.errors import SchemaError
from ..base.text import briefly, plain
from ..base.typed_json import Misfit, reader_of
from .tasks import PLAN_VERSION, Call, Plan, Runs, Share, Text, planned


@dataclass(frozen=True)
class _File:
    id: Text
    version: int
    call: Call
    tasks: tuple[Share, ...]


def no_plan(place: str, fault: object) -> SchemaError:
    """The error about a file that is not what a plan is."""
    return SchemaError(f"{plain(place)} is not a plan: {plain(fault)}; plan again")


def parsed_plan(text: str, place: str, folder: str) -> Plan:
    """The plan that `Plan.text` wrote, with `folder` as its place.

    Raises
    ------
    SchemaError
        It is no plan, of another version, or not what was written; names the file and the field.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaError(
            f"{plain(place)} is not JSON ({error}): restore it, or plan again into another folder"
        ) from None
    if not isinstance(value, dict):
        raise no_plan(place, "it is not a JSON object")
    version = value.get("version")
    if type(version) is not int or version != PLAN_VERSION:
        raise SchemaError(
            f"{plain(place)} has version {briefly(version)} of plans, and this engine knows"
            f" {PLAN_VERSION}: install the version of orchestrace that planned it, or plan again"
        )
    try:
        file: _File = reader_of(_File, exact=True)(value)
        for number, task in enumerate(file.tasks):
            _check_order(f"tasks[{number}].kept", task.kept or ())
    except Misfit as error:
        raise no_plan(place, error) from None
    plan = planned(file.call, file.tasks, folder)
    if plan.id != file.id:
        raise SchemaError(
            f"{plain(place)} is damaged: its content is not what its id says; restore it, or plan again into"
            " another folder"
        )
    return plan


def _check_order(place: str, runs: Runs) -> None:
    for at, ((_, before), (first, last)) in enumerate(pairwise([(-1, -1), *runs])):
        if not before < first <= last:
            raise Misfit.of([first, last], "traces in ascending order", f"{place}[{at}]")
