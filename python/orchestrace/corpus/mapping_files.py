"""Mapping files of custom formats: TOML or JSON, converted for the core."""

import json
import math
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

from .. import _core
from ..base.errors import InputError, ParameterError
from ..base.paths import expanded, expect_an_end
from ..base.text import plain

MappingFile = str | os.PathLike[str] | Mapping[str, object]


def read_mapping(mapping: MappingFile) -> tuple[str, str]:
    """A mapping as the core takes it: its JSON, in one spelling, and what messages call it.

    Raises
    ------
    InputError
        The file cannot be read.
    ParameterError
        It is no mapping: one line with the file, the key, what was found and what is expected.
    """
    value: object
    if isinstance(mapping, Mapping):
        name, value = "mapping", mapping
    elif isinstance(mapping, str | os.PathLike):
        name, value = _loaded(Path(expanded(mapping)))
    else:
        raise ParameterError(
            f"mapping is of type {type(mapping).__name__}, expected the path of a TOML or JSON file,"
            " or a dict"
        )
    try:
        for key, kind in _foreign(value, ""):
            raise ParameterError(f"{name}: {key} is {kind}, expected a text, a number, a flag or a table")
        text = json.dumps(_spelt(value), ensure_ascii=False, allow_nan=False, sort_keys=True)
        text.encode()
    except RecursionError:
        raise ParameterError(
            f"{name}: found tables within tables without end, expected a few levels"
        ) from None
    except UnicodeEncodeError:
        raise ParameterError(f"{name}: found half a surrogate pair, expected texts of Unicode") from None
    _core.read([], format="mapping", mapping=(text, name))
    return text, name


def _loaded(path: Path) -> tuple[str, object]:
    name = plain(str(path))
    if path.suffix not in (".toml", ".json"):
        raise ParameterError(f"mapping '{name}' ends in '{plain(path.suffix)}', expected .toml or .json")
    expect_an_end(path)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ParameterError(f"{name}: found bytes that are not UTF-8, expected a text") from None
    except ValueError as error:  # a zero byte in the name
        raise InputError(f"{name}: {plain(str(error))}") from error
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from error
    try:
        return name, tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParameterError(f"{name}: {plain(str(error))}") from None


def _foreign(value: object, at: str) -> Iterable[tuple[str, str]]:
    """Values that JSON does not have, such as the dates of TOML."""
    if isinstance(value, Mapping):
        for key, member in value.items():
            place = f"{at}.{plain(str(key))}".lstrip(".")
            if not isinstance(key, str):
                yield place, f"of type {type(key).__name__} as a key"
            yield from _foreign(member, place)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _foreign(member, at)
    elif isinstance(value, float) and not math.isfinite(value):
        yield at, f"{value}, which is not finite"
    elif value is not None and not isinstance(value, str | int | float | bool):
        yield at, f"of type {type(value).__name__}"


def _spelt(value: object) -> object:
    """A value with dicts and lists in place of other mappings and sequences, for `json.dumps`."""
    if isinstance(value, Mapping):
        return {key: _spelt(member) for key, member in value.items()}
    return [_spelt(member) for member in value] if isinstance(value, list | tuple) else value
