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


def parts_of(intervention: object) -> tuple[Any, ...]:
    """The interventions that an intervention joins; itself, where it joins none."""
    return intervention.parts if isinstance(intervention, Together) else (intervention,)


def expect_event_type(name: str) -> None:
    """Refuse a name that is not a type of events.

    Raises
    ------
    ParameterError
        Names the nearest type.
    """
    types = SCHEMAS["events"]["type"].categories.to_list()  # type: ignore[attr-defined]
    if name not in types:
        raise ParameterError(unknown_name("word for type", name, types))
