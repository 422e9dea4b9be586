"""Hints for names that a package does not have."""

from collections.abc import Iterable
from importlib import import_module
from types import ModuleType

from .. import _core


def missing_name(package: ModuleType, name: str, spaces: Iterable[str]) -> AttributeError:
    """The error about ``ot.<name>``, with the namespace that has the name, or the nearest name there is.

    `spaces` are the modules of the package that are namespaces; they are loaded for the hint.

    A name that begins with an underscore gets no hint: tools ask for such names of every module.

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.drop
    Traceback (most recent call last):
        ...
    AttributeError: orchestrace has no 'drop'; did you mean ot.interventions.drop?
    >>> ot.read_trace
    Traceback (most recent call last):
        ...
    AttributeError: orchestrace has no 'read_trace'; did you mean ot.read_traces?
    """
    public_names: list[str] = package.__all__
    hint = ""
    if not name.startswith("_"):
        rooms = {space: _names_of(import_module(f"{package.__name__}.{space}")) for space in sorted(spaces)}
        places = [f"{room}.{name}" for room, names in rooms.items() if name in names]
        if not places:
            within = {word: f"{room}.{word}" for room, names in rooms.items() for word in names}
            nearest = _core.nearest(name, [*public_names, *within])
            places = [within.get(nearest, nearest)] if nearest else []
        hint = f"; did you mean {' or '.join(f'ot.{place}' for place in places)}?" if places else ""
    return AttributeError(f"{package.__name__} has no '{name}'{hint}")


def _names_of(space: ModuleType) -> list[str]:
    return list(getattr(space, "__all__", ()))
