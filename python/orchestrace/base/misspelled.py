"""Hints for names that a package does not have."""

from collections.abc import Sequence
from types import ModuleType

from .. import _core


def missing_name(name: str, known: Sequence[str], namespaces: Sequence[ModuleType]) -> AttributeError:
    """The error about ``ot.<name>``, with the namespace that has the name, or the nearest name there is.

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
    rooms = {space.__name__.rpartition(".")[2]: list(getattr(space, "__all__", ())) for space in namespaces}
    there = [f"{room}.{name}" for room, names in rooms.items() if name in names]
    if not there:
        within = {one: f"{room}.{one}" for room, names in rooms.items() for one in names}
        nearest = _core.nearest(name, [*known, *within])
        there = [within.get(nearest, nearest)] if nearest else []
    hint = f"; did you mean {' or '.join(f'ot.{one}' for one in there)}?" if there else ""
    return AttributeError(f"orchestrace has no '{name}'{hint}")
