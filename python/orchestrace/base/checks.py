"""Checks of single arguments: numbers within bounds, flags, shares, ranges of rewards."""

import math
import operator
from collections.abc import Iterable
from typing import Final

from .arguments import Range
from .errors import ParameterError
from .text import briefly

_BOUNDS: Final[dict[str, tuple[int, int]]] = {
    "threads": (1, 1024),
    "partitions": (1, 999),
    "steps": (1, 10_000),
    "orders": (1, 100_000),
    "traces": (0, 10**12),
    "events": (0, 10**12),
    "k_folds": (2, 2**63 - 1),
    "n_boot": (1, 10**7),
}


def check_numbers(**options: object) -> None:
    """Refuse numbers that the core cannot take, before it is asked. None stands for a default."""
    for name, value in options.items():
        if value is None:
            continue
        least, most = _BOUNDS.get(name, (0, 2**63 - 1))
        try:
            number = operator.index(value)  # type: ignore[arg-type]  # that is the question
        except TypeError:
            raise ParameterError(f"{name} is {briefly(value)}, expected a whole number") from None
        if not least <= number <= most:
            raise ParameterError(f"{name} is {_short(number)}, expected {least:,} to {most:,}")


def check_flags(**options: object) -> None:
    """Refuse what is neither true nor false, which Python would take for one of them."""
    for name, value in options.items():
        if not isinstance(value, bool):
            raise ParameterError(f"{name} is {briefly(value)}, expected True or False")


def _short(number: int) -> str:
    return str(number) if number.bit_length() <= 128 else f"a number of {number.bit_length()} bits"


def check_share(value: object, name: str, low: float, high: float) -> float:
    """A number strictly inside of bounds.

    Raises
    ------
    ParameterError
        It is none.
    """
    if not isinstance(value, bool) and isinstance(value, int | float) and low < value < high:
        return float(value)
    raise ParameterError(f"{name} is {value!r}, expected a number between {low:g} and {high:g}")


def check_range(bounds: object, low: float, high: float, what: str = "rewards") -> tuple[float, float]:
    """The least and the greatest that values from `low` to `high` can be, as a caller gives them.

    Raises
    ------
    ParameterError
        No two finite numbers in order, or values that are beyond them.
    """
    if not (isinstance(bounds, tuple | list) and len(bounds) == 2):
        raise ParameterError(f"bounds is {bounds!r}, expected two numbers, least and greatest reward")
    a, b = bounds
    for end in (a, b):
        if isinstance(end, bool) or not isinstance(end, int | float) or not math.isfinite(end):
            raise ParameterError(f"bounds has {end!r}, expected a finite number")
    if not a < b:
        raise ParameterError(f"bounds is ({a}, {b}), expected the least reward first")
    if low < a or high > b:
        raise ParameterError(f"{what} are from {low:g} to {high:g}, beyond bounds ({a:g}, {b:g})")
    return float(a), float(b)


def expect(name: str, value: object, within: Range) -> None:
    """Refuse a value that a concept does not have: one by name among others, or one of no verb.

    Raises
    ------
    ParameterError
        Names the argument, the value and what is expected.
    """
    if not within.has(value):
        raise ParameterError(f"{name} is {briefly(value)}, expected {within.expected(value)}")


def expect_each(name: str, values: Iterable[object], within: Range) -> None:
    """Refuse the first of several values that a concept does not have.

    Raises
    ------
    ParameterError
        Names the argument, the value and what is expected.
    """
    for value in values:
        if not within.has(value):
            raise ParameterError(f"{name} has {briefly(value)}, expected {within.expected(value)}")


def held_within(
    bounds: tuple[float, float], low: float, high: float, what: str = "rewards"
) -> tuple[float, float]:
    """Bounds as floats, once values from `low` to `high` are within them.

    Raises
    ------
    ParameterError
        Values are beyond them.
    """
    a, b = map(float, bounds)
    if low < a or high > b:
        raise ParameterError(f"{what} are from {low:g} to {high:g}, beyond bounds ({a:g}, {b:g})")
    return a, b
