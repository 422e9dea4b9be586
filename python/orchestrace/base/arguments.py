"""What an argument of a verb may be: every concept once, as a type with its range, flag and sentence.

A verb takes these types in its signature. `verb` then refuses any other value before the verb runs, and the
command line takes an option from the same place (`option` in `cli/options.py`).
"""

import math
import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real
from typing import Annotated, Final, Protocol, runtime_checkable

_LARGEST: Final = 2**63 - 1


@runtime_checkable
class Range(Protocol):
    """What values of one concept have in common, beside their Python type."""

    def has(self, value: object) -> bool:
        """Whether a value is of the concept. O(1)."""

    def expected(self, value: object) -> str:
        """What a message about a value that is not of it asks for."""


@dataclass(frozen=True)
class Integer:
    """A whole number, both bounds included; True and False are refused."""

    least: int = 0
    most: int = _LARGEST

    def has(self, value: object) -> bool:
        number = _index_of(value)
        return number is not None and self.least <= number <= self.most

    def expected(self, value: object) -> str:
        open_ended = self.most == _LARGEST and (_index_of(value) or 0) <= _LARGEST
        return f"a whole number from {self.least:,}" + ("" if open_ended else f" to {self.most:,}")


def _index_of(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # that is the question
    except TypeError:
        return None


@dataclass(frozen=True)
class Number:
    """A number within bounds, ``low`` and ``high`` included, ``above`` and ``below`` not; no flags."""

    low: float = -math.inf
    high: float = math.inf
    above: float = -math.inf
    below: float = math.inf
    infinite: bool = False

    def has(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, Real):
            return False
        try:
            number = float(value)
        except OverflowError:  # a whole number beyond the floats
            return False
        inside = self.low <= number <= self.high and number > self.above
        return inside and (number < self.below or self.infinite)

    def expected(self, value: object) -> str:
        if math.isfinite(self.above) and math.isfinite(self.below):
            return f"a number between {self.above:g} and {self.below:g}"
        least = f" from {self.low:g}" if math.isfinite(self.low) else ""
        least = f" above {self.above:g}" if math.isfinite(self.above) else least
        most = f" to {self.high:g}" if math.isfinite(self.high) else ""
        most = f" to below {self.below:g}" if math.isfinite(self.below) else most
        finite = "finite " if isinstance(value, float) and not math.isfinite(value) else ""
        return f"a {finite}number{least}{most}"


@dataclass(frozen=True)
class Pair:
    """Two numbers of one kind, the first below the second, or as large where both may be one."""

    of: Number = Number()
    may_be_one: bool = False

    def has(self, value: object) -> bool:
        if not (isinstance(value, tuple | list) and len(value) == 2 and all(map(self.of.has, value))):
            return False
        first, second = map(float, value)
        return first < second or (self.may_be_one and first == second)

    def expected(self, value: object) -> str:
        ends = value if isinstance(value, tuple | list) else ()
        wrong = next((end for end in ends if not self.of.has(end)), None)
        kind = self.of.expected(wrong).removeprefix("a ").replace("number", "numbers")
        return f"two {kind}, the least first"


@dataclass(frozen=True)
class Name:
    """Text that names something; whether that is there, the verb says."""

    of: str

    def has(self, value: object) -> bool:
        return isinstance(value, str)

    def expected(self, value: object) -> str:
        return f"the name of {self.of}"


@dataclass(frozen=True)
class Listed:
    """The name of an entry of a registry, whose names are read when a value is judged."""

    names: Callable[[], Iterable[str]]

    def has(self, value: object) -> bool:
        return isinstance(value, str) and value in self.names()

    def expected(self, value: object) -> str:
        return ", ".join(map(repr, self.names()))


@dataclass(frozen=True)
class Flag:
    """The option of the command line for a concept, and what it says of it."""

    name: str
    help: str = ""


Threads = Annotated[int | None, Integer(1, 1024), Flag("--threads", "Default: all cores.")]
"""How many threads compute; the result does not depend on it."""
Seed = Annotated[int, Integer(), Flag("--seed")]
"""What random draws begin from: the same seed gives the same bits."""
Confidence = Annotated[float, Number(above=0, below=1), Flag("--confidence", "Coverage of intervals.")]
"""How often an interval covers what it estimates."""
Alpha = Annotated[float, Number(above=0, below=1), Flag("--alpha")]
"""The rate of false alarms that is accepted."""
Power = Annotated[float, Number(above=0, below=1)]
"""How often an effect that is there is found."""
Resamples = Annotated[int, Integer(1, 10**7), Flag("--n-boot", "Resamples for intervals.")]
"""How many bootstrap samples an interval rests on."""
Folds = Annotated[int, Integer(2), Flag("--folds")]
"""Parts that a corpus is divided into by tasks, each judged by a model of the others."""
Share = Annotated[float, Number(0, 1)]
"""A part of a whole."""
PositiveShare = Annotated[float, Number(above=0, high=1)]
"""A part of a whole that is not nothing: a quantile, a beginning of a trace."""
IntervalWidth = Annotated[float, Number(1e-6, 1)]
"""How wide an interval of a rate may be; of less, no count of trials is exact in floating point."""
Bounds = Annotated[tuple[float, float], Pair()]
"""The least and the greatest that a reward or a return can be."""
Finite = Annotated[float, Number()]
"""Any number that is not infinite."""
Positive = Annotated[float, Number(above=0)]
"""A number above zero: a width, a limit, a factor."""
Discount = Annotated[float, Number(0, 1)]
"""What a step later is worth of what it is worth now."""
Amount = Annotated[float, Number(0)]
"""A number that is not negative: a price, a spread, a tolerance."""
Chance = Annotated[float, Number(0, below=1)]
"""How likely it is that something ends or fails, which never is certain."""
Penalty = Annotated[float, Number(above=0)]
"""How strongly a regression is drawn towards the mean."""
Top = Annotated[int, Integer(1, 60)]
"""How many rows a chart has, of those that are largest."""
Success = Annotated[float, Number()]
"""The least reward of a success."""
Count = Annotated[int, Integer()]
"""A whole number that is not negative."""
ColumnName = Annotated[str, Name("a column")]
"""A column of a frame, of the events, or of what is known of a decision."""
Channel = Annotated[str, Name("a reward channel")]
"""A kind of reward that traces have."""
Size = Annotated[int, Integer(1)]
"""How many there are of something, one at least: runs, tasks, blocks, replicates."""
TraceName = Count | str
"""A trace: its number in the corpus, or its ``trace_id``."""
