"""Parameters of methods written in Python: declarations, given values, values in effect.

The wording is the core's (`rust/orchestrace-core/src/credit/params.rs`), so that a caller does not notice
where a method is written.
"""

import json
import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.text import briefly

Value = bool | int | float | str | None

_LARGEST = 1.7976931348623157e308
_INTEGERS = (-(2**63), 2**63 - 1)
_RESERVED = (
    *(
        "corpus",
        "method",
        "unit",
        "reward",
        "missing",
        "seed",
        "engine",
        "threads",
        "progress",
        "sink",
        "resume",
        "over",
    ),
    *("quality", "version"),
)
"""Arguments of `credit`, which it would not pass on, and what the column `params` holds beside parameters."""
_CONTROLS = {"b": "\\u0008", "t": "\\u0009", "n": "\\u000a", "f": "\\u000c", "r": "\\u000d"}


@dataclass(frozen=True)
class Param:
    """One parameter of a credit method.

    Parameters
    ----------
    name
        Lower-case letters, digits and underscores; no argument of `credit`.
    default
        Value where none is given. Callers may then pass None too, and ``kind`` has to be given.
    doc
        One line.
    kind
        ``bool``, ``int``, ``float`` or a tuple of words, of which one must be given; by default the type of
        the default value, which for text is not enough.
    low, high
        Bounds of a number, both included.

    Raises
    ------
    ParameterError
        The name is invalid or taken, or the default is not a value that the parameter takes.

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.Param("gamma", 0.99, "discount of a step", low=0, high=1).expected()
    'a number from 0.0 to 1.0'
    >>> ot.Param("fit", "count", "how", kind=("count", "logistic")).expected()
    'one of count, logistic'
    """

    name: str
    default: Value
    doc: str
    kind: type[bool] | type[int] | type[float] | tuple[str, ...] | None = None
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", self.name):
            raise ParameterError(
                f"name: {briefly(self.name)} is not a valid name of a parameter: expected a-z, 0-9 and _"
            )
        if self.name in _RESERVED:
            raise ParameterError(
                f"parameter '{self.name}' has a name that credit uses itself: choose another"
            )
        if self.kind is None:
            kind = type(self.default)
            if kind not in (bool, int, float):
                raise ParameterError(f"parameter '{self.name}' needs a kind: bool, int, float or its words")
            object.__setattr__(self, "kind", kind)
        if isinstance(self.kind, tuple) and not all(isinstance(word, str) for word in self.kind):
            raise ParameterError(f"kind is {briefly(self.kind)}, expected bool, int, float or words")
        for name, bound in (("low", self.low), ("high", self.high)):
            if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int | float)):
                raise ParameterError(f"{name} is {briefly(bound)}, expected a number or None")
        self.check(self.default)

    def check(self, argument: object) -> Value:
        """The value of what was given, in the type of the parameter.

        Raises
        ------
        ParameterError
            Says what would be right.
        """
        if argument is None and self.default is None:
            return None
        if isinstance(self.kind, tuple) and isinstance(argument, str):
            if argument not in self.kind:
                raise ParameterError(unknown_name(self.name, argument, list(self.kind)))
            return argument
        value = _plain(argument)
        if self.kind is bool and isinstance(value, bool):
            return value
        if self.kind is int and type(value) is int and self._inside(value):
            return value
        # A whole number beyond the floats has no float that it could stand for.
        if self.kind is float and type(value) in (int, float):
            try:
                number = float(value)  # type: ignore[arg-type]  # an int or a float
            except OverflowError:
                number = math.inf
            if math.isfinite(number) and self._inside(number):
                return number
        raise ParameterError(f"{self.name} must be {self.expected()}, found {shown(value)}")

    def expected(self) -> str:
        """What is expected, in words."""
        null = " or null" if self.default is None else ""
        if isinstance(self.kind, tuple):
            return f"one of {', '.join(self.kind)}{null}"
        if self.kind is bool:
            return f"true or false{null}"
        low, high = self._bounds()
        if self.kind is int:
            return f"a whole number from {int(low)} to {int(high)}{null}"
        return f"a number from {shown(float(low))} to {shown(float(high))}{null}"

    def described(self) -> dict[str, str]:
        """As a row of `methods`."""
        return {
            "name": self.name,
            "kind": self.expected(),
            "default": shown(self.default),
            "doc": self.doc,
        }

    def _bounds(self) -> tuple[float, float]:
        low, high = _INTEGERS if self.kind is int else (-_LARGEST, _LARGEST)
        return (low if self.low is None else self.low, high if self.high is None else self.high)

    def _inside(self, value: float) -> bool:
        low, high = self._bounds()
        return low <= value <= high


def check_params(params: Sequence[Param], settings: Mapping[str, object]) -> dict[str, Value]:
    """All parameters of a call, checked, defaults included.

    Raises
    ------
    ParameterError
        An unknown name, a wrong type or a value out of range; says what would be right.
    """
    of_name = {param.name: param for param in params}
    values = {param.name: param.default for param in params}
    for name, value in settings.items():
        if name not in of_name:
            raise ParameterError(unknown_name("parameter", name, list(of_name)))
        values[name] = of_name[name].check(value)
    return values


def shown(value: object) -> str:
    """A value as JSON; numbers are the shortest that read back, exponents as the core spells them."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return "null"
        return re.sub(r"e\+?(-?)0*", r"e\1", repr(value))
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        # The core has one spelling for what a terminal could act on.
        return re.sub(r"\\([bfnrt])", lambda control: _CONTROLS[control[1]], text)
    except (TypeError, ValueError):
        return f"a value of type {type(value).__name__}"


def _plain(value: object) -> object:
    """A number of NumPy as one of Python."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        item: object = value.item()  # type: ignore[attr-defined]  # a scalar of NumPy
        return item
    try:
        return operator.index(value)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        return value
