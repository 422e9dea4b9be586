"""Checks beyond one argument of a verb: values in a list, and bounds that data have to keep."""

from collections.abc import Iterable

from .arguments import Range
from .errors import ParameterError
from .text import briefly


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


def expect_within(
    bounds: tuple[float, float], low: float, high: float, label: str = "rewards"
) -> tuple[float, float]:
    """Bounds as floats, once values from `low` to `high` are within them.

    Raises
    ------
    ParameterError
        Values are beyond them.
    """
    a, b = map(float, bounds)
    if low < a or high > b:
        raise ParameterError(f"{label} are from {low:g} to {high:g}, beyond bounds ({a:g}, {b:g})")
    return a, b
