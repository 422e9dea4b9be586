"""The base of all interventions: plain values, and `a & b` for both at once."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from ..base.errors import ParameterError
from ..base.schema import SCHEMAS, unknown_name

Spec = dict[str, Any]
"""An intervention in plain values: its ``kind``, and its arguments by name."""


@runtime_checkable
class Specified(Protocol):
    """Whatever can say itself in plain values."""

    def spec(self) -> Spec:
        """The ``kind`` and the arguments."""


class Composable:
    """What can be put together with `&`."""

    def __and__(self, other: object) -> "Together":
        if not isinstance(other, Specified):
            return NotImplemented
        return Together((*parts_of(self), *parts_of(other)))

    def __rand__(self, other: object) -> "Together":
        if not isinstance(other, Specified):
            return NotImplemented
        return Together((*parts_of(other), *parts_of(self)))


@dataclass(frozen=True, repr=False)
class Together(Composable):
    """Several interventions at once, in their order."""

    parts: tuple[Any, ...]

    def spec(self) -> Spec:
        return {"kind": "together", "parts": [part.spec() for part in self.parts]}

    def __repr__(self) -> str:
        return " & ".join(str(part) for part in self.parts)


def parts_of(one: object) -> tuple[Any, ...]:
    """The interventions that one is made of; itself, if it is none of several."""
    return one.parts if isinstance(one, Together) else (one,)


def expect_event_type(name: str) -> None:
    """Refuse what is no type of events.

    Raises
    ------
    ParameterError
        Names the nearest type.
    """
    known = SCHEMAS["events"]["type"].categories.to_list()  # type: ignore[attr-defined]
    if name not in known:
        raise ParameterError(unknown_name("word for type", name, known))
