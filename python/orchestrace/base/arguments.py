"""What an argument of a verb may be: every concept once, as a type with its range, flag and sentence.

A verb takes these types in its signature. `verb` then refuses any other value before the verb runs, and the
command line takes an option from the same place (`option` in `cli/options.py`).
"""

import math
import operator
from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Final, Protocol, runtime_checkable

from .errors import ParameterError
from .text import briefly

_LARGEST: Final = 2**63 - 1


@runtime_checkable
class Range(Protocol):
    """What values of one concept have in common, beside their Python type."""

    def check(self, name: str, value: object) -> None:
        """Refuse a value that the concept does not have.

        Raises
        ------
        ParameterError
            Names the argument, the value and what was expected.
        """


@dataclass(frozen=True)
class Whole:
    """A whole number, both bounds included."""

    least: int = 0
    most: int = _LARGEST

    def check(self, name: str, value: object) -> None:
        try:
            number = operator.index(value)  # type: ignore[arg-type]  # that is the question
        except TypeError:
            raise ParameterError(f"{name} is {briefly(value)}, expected a whole number") from None
        if not self.least <= number <= self.most:
            short = str(number) if number.bit_length() <= 128 else f"a number of {number.bit_length()} bits"
            raise ParameterError(f"{name} is {short}, expected {self.least:,} to {self.most:,}")


@dataclass(frozen=True)
class Number:
    """A finite number within bounds: ``low`` and ``high`` included, ``above`` and ``below`` not."""

    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf
    below: float = math.inf

    def check(self, name: str, value: object) -> None:
        is_number = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
        if not is_number or not self._has(float(value)):  # type: ignore[arg-type]  # a number by now
            raise ParameterError(f"{name} is {briefly(value)}, expected {self.expected}")

    def _has(self, number: float) -> bool:
        return self.low <= number <= self.high and self.above < number < self.below

    @property
    def expected(self) -> str:
        """What messages ask for."""
        if math.isfinite(self.above) and math.isfinite(self.below):
            return f"a number between {self.above:g} and {self.below:g}"
        least = f"from {self.low:g}" if math.isfinite(self.low) else ""
        least = f"above {self.above:g}" if math.isfinite(self.above) else least
        most = f"to {self.high:g}" if math.isfinite(self.high) else ""
        most = f"to below {self.below:g}" if math.isfinite(self.below) else most
        return " ".join(
            part for part in ("a number" if least or most else "a finite number", least, most) if part
        )


@dataclass(frozen=True)
class Flag:
    """The option of the command line for a concept, and what it says of it."""

    name: str
    help: str = ""


Threads = Annotated[int | None, Whole(1, 1024), Flag("--threads", "Default: all cores.")]
"""How many threads compute; the result does not depend on it."""
Seed = Annotated[int, Whole(), Flag("--seed")]
"""What random draws begin from: the same seed gives the same bits."""
Confidence = Annotated[float, Number(above=0, below=1), Flag("--confidence", "Coverage of intervals.")]
"""How often an interval covers what it estimates."""
Alpha = Annotated[float, Number(above=0, below=1), Flag("--alpha")]
"""The rate of false alarms that is accepted."""
Resamples = Annotated[int, Whole(1, 10**7), Flag("--n-boot", "Resamples for intervals.")]
"""How many bootstrap samples an interval rests on."""
Folds = Annotated[int, Whole(2), Flag("--folds")]
"""Parts that a corpus is divided into by tasks, each judged by a model of the others."""
Share = Annotated[float, Number(0, 1)]
"""A part of a whole."""
Finite = Annotated[float, Number()]
"""Any number that is not infinite."""
Count = Annotated[int, Whole()]
"""A whole number that is not negative."""
