"""Arguments of a verb as JSON text, and back."""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from ..base.division import Arguments
from ..base.errors import ParameterError
from ..base.text import briefly
from ..costs.price_list import PlannedPrices
from ..interventions import content, timing
from ..interventions.composition import Together

KINDS: Final[dict[str, type[Any]]] = {
    kind.__name__: kind
    for kind in (
        *(content.Drop, content.SetValue, content.Truncate, content.AggregateBy),
        *(timing.Concurrency, timing.SpeedUp, timing.CapStragglers, timing.Remove),
        *(timing.Merge, timing.Split, timing.Serialize, Together, PlannedPrices),
    )
}
_TUPLE, _INTERVENTION, _MAP = "$tuple", "$intervention", "$map"


def text_of(arguments: Arguments) -> str:
    """Arguments as JSON.

    Raises
    ------
    ParameterError
        A file cannot hold a value.
    """
    positional = [_plain(item, f"argument {at + 1}") for at, item in enumerate(arguments.positional)]
    named = {name: _plain(arguments.named[name], name) for name in sorted(arguments.named)}
    return json.dumps({"positional": positional, "named": named})


def arguments_of(text: str) -> Arguments:
    """The arguments that `text_of` wrote."""
    value = json.loads(text)
    return Arguments(
        tuple(_parsed(item) for item in value["positional"]),
        {name: _parsed(item) for name, item in value["named"].items()},
    )


def _plain(value: Any, where: str) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _plain(value.item(), where)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if type(value) is KINDS.get(type(value).__name__):
        members = {name: _plain(item, where) for name, item in vars(value).items()}
        return {_INTERVENTION: type(value).__name__, **members}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: _plain(item, where) for key, item in value.items()}
        return {_MAP: [[_plain(key, where), _plain(item, where)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {_TUPLE: [_plain(item, where) for item in value]}
    if isinstance(value, set | frozenset):
        return sorted((_plain(item, where) for item in value), key=repr)
    if isinstance(value, pl.DataFrame | pl.LazyFrame | pl.Expr) or callable(value):
        raise _refused(value, where)
    if isinstance(value, Iterable):
        return [_plain(item, where) for item in value]
    raise _refused(value, where)


def _refused(value: object, where: str) -> ParameterError:
    return ParameterError(
        f"{where} is {briefly(value)}, and tasks are files of plain values, which hold numbers, texts, lists,"
        " dicts and interventions: give it to the verb on one machine"
    )


def _parsed(value: Any) -> Any:
    if isinstance(value, list):
        return [_parsed(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _TUPLE in value:
        return tuple(_parsed(item) for item in value[_TUPLE])
    if _MAP in value:
        return {_parsed(key): _parsed(item) for key, item in value[_MAP]}
    if _INTERVENTION in value:
        return KINDS[value[_INTERVENTION]](
            **{name: _parsed(item) for name, item in value.items() if name != _INTERVENTION}
        )
    return {key: _parsed(item) for key, item in value.items()}
