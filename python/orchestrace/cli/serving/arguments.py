"""Arguments of tools: what a client may send, as a schema, and what is said of anything else."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from ...base.errors import ParameterError
from ...base.schema import unknown_name
from ...base.text import briefly, plain

_KINDS: Final[Mapping[str, tuple[str, str]]] = {
    "text": ("string", "text"),
    "whole": ("integer", "a whole number"),
    "number": ("number", "a number"),
}
_LONGEST: Final = 20_000
"""Characters of a text."""
_BEYOND: Final = 1e300
"""No number is that large."""


@dataclass(frozen=True)
class Argument:
    """One argument of a tool.

    Parameters
    ----------
    name, kind, about
        Its name, what it is, and what it does.
    default
        What it is where a client leaves it out; None where it must be there.
    words
        The texts that it may be; empty for any.
    least, most
        The range of a number.
    """

    name: str
    kind: Literal["text", "whole", "number"]
    about: str
    default: str | int | float | None = None
    words: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None

    def schema(self) -> dict[str, object]:
        """As JSON Schema says it."""
        parts: dict[str, object] = {"type": _KINDS[self.kind][0], "description": self.about}
        parts |= {"enum": list(self.words)} if self.words else {}
        parts |= {"default": self.default} if self.default is not None else {}
        parts |= {"minimum": self.least} if self.least is not None else {}
        return parts | ({"maximum": self.most} if self.most is not None else {})

    def judged(self, value: object) -> str | int | float:
        """The value as the tool takes it.

        Raises
        ------
        ParameterError
            It is something else.
        """
        if self.kind == "text":
            if not isinstance(value, str) or len(value) > _LONGEST:
                raise self._refused(value)
            if self.words and value not in self.words:
                raise ParameterError(unknown_name(f"word for {self.name}", value, list(self.words)))
            return value
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _BEYOND:
            raise self._refused(value)
        if self.kind == "whole" and value != int(value):
            raise self._refused(value)
        if (self.least is not None and value < self.least) or (self.most is not None and value > self.most):
            raise self._refused(value)
        return int(value) if self.kind == "whole" else float(value)

    def _refused(self, value: object) -> ParameterError:
        expected = _KINDS[self.kind][1]
        if self.kind == "text":
            expected += f" of at most {_LONGEST:,} characters"
        elif self.least is not None and self.most is not None:
            expected += f" from {self.least} to {self.most}"
        return ParameterError(plain(f"{self.name} is {briefly(value)}, expected {expected}"))


def schema_of(arguments: tuple[Argument, ...]) -> dict[str, object]:
    """The schema of all arguments of a tool."""
    return {
        "type": "object",
        "properties": {argument.name: argument.schema() for argument in arguments},
        "required": [argument.name for argument in arguments if argument.default is None],
        "additionalProperties": False,
    }


def judged(
    tool: str, arguments: tuple[Argument, ...], sent: Mapping[str, object]
) -> dict[str, str | int | float]:
    """What a tool is called with.

    Raises
    ------
    ParameterError
        An argument is unknown, missing or not what it has to be; the first is said.
    """
    names = [argument.name for argument in arguments]
    for name in sent:
        if name not in names:
            raise ParameterError(unknown_name(f"argument of {tool}", str(name)[:100], names))
    values: dict[str, str | int | float] = {}
    for argument in arguments:
        if argument.name in sent:
            values[argument.name] = argument.judged(sent[argument.name])
        elif argument.default is not None:
            values[argument.name] = argument.default
        else:
            raise ParameterError(f"{tool} lacks the argument {argument.name}: {argument.about}")
    return values
