"""Concepts of arguments: which values each has, and the one line about any other."""

import math
from fractions import Fraction
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from orchestrace.base.arguments import (
    Bounds,
    Chance,
    ColumnName,
    Finite,
    Number,
    Pair,
    Positive,
    PositiveShare,
    Share,
    Size,
    Threads,
    TraceName,
)
from orchestrace.base.verbs import verb

Optional = Share | Literal["auto"] | None
Limits = Annotated[tuple[float, float], Pair(Number(above=0), may_be_one=True)]
Infinite = Annotated[float, Number(0, infinite=True)]
Frame = pl.DataFrame | pl.LazyFrame


def called(kind: Any, value: Any) -> Any:
    def taken(x):
        return x

    taken.__annotations__ = {"x": kind}
    return verb(taken)(value)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Size, [1, np.int8(3), np.uint64(7), 2**63 - 1]),
        (Threads, [None, 1, 1024]),
        (Finite, [0, -1.5, np.float32(0.5), np.int64(2), Fraction(1, 3)]),
        (Share, [0, 1, 0.5]),
        (PositiveShare, [1, 1e-300]),
        (Chance, [0, 0.999]),
        (Positive, [1e-9, 10**300]),
        (Infinite, [0, math.inf]),
        (Optional, [None, "auto", 0.5, 1]),
        (Bounds, [(0, 1), [-1.5, np.float64(2)]]),
        (Limits, [(1, 1), (0.1, 10)]),
        (TraceName, [0, np.int64(3), "run-1"]),
        (ColumnName | None, [None, "x"]),
        (bool, [True, np.bool_(False)]),
        (Literal[0, 1], [0, np.int64(1)]),
        (Frame, [pl.DataFrame(), pl.LazyFrame()]),
        (int, [True, 1.5]),  # numbers without a range are for the body
    ],
)
def test_values_of_a_concept_are_taken_as_they_are(kind: Any, values: list[Any]) -> None:
    for value in values:
        assert called(kind, value) is value


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        (Size, 0, "x is 0, expected a whole number from 1"),
        (Size, np.int8(-1), "x is -1, expected a whole number from 1"),
        (Size, True, "x is True, expected a whole number from 1"),
        (Size, 1.0, "x is 1.0, expected a whole number from 1"),
        (
            Size,
            2**63,
            "x is 9223372036854775808, expected a whole number from 1 to 9,223,372,036,854,775,807",
        ),
        (
            Size,
            2**5000,
            "x is a number of 5001 bits, expected a whole number from 1 to 9,223,372,036,854,775,807",
        ),
        (Threads, "2", "x is '2', expected a whole number from 1 to 1,024 or None"),
        (Finite, math.nan, "x is nan, expected a finite number"),
        (Finite, "1", "x is '1', expected a number"),
        (Finite, 10**400, "x is a number of 1329 bits, expected a number"),
        (Positive, math.inf, "x is inf, expected a finite number above 0"),
        (Positive, 0, "x is 0, expected a number above 0"),
        (Share, False, "x is False, expected a number from 0 to 1"),
        (PositiveShare, np.float32(0), "x is 0.0, expected a number above 0 to 1"),
        (Chance, 1, "x is 1, expected a number from 0 to below 1"),
        (Infinite, math.nan, "x is nan, expected a finite number from 0"),
        (Optional, 2, "x is 2, expected a number from 0 to 1, 'auto' or None"),
        (
            Optional,
            "atuo",
            "x is 'atuo', expected a number from 0 to 1, 'auto' or None; did you mean 'auto'?",
        ),
        (Bounds, (1, 0), "x is (1, 0), expected two numbers, the least first"),
        (Bounds, (1, 1), "x is (1, 1), expected two numbers, the least first"),
        (Bounds, (0, math.inf), "x is (0, inf), expected two finite numbers, the least first"),
        (Bounds, 3, "x is 3, expected two numbers, the least first"),
        (Limits, (0, 1), "x is (0, 1), expected two numbers above 0, the least first"),
        (TraceName, 0.5, "x is 0.5, expected a whole number from 0 or text"),
        (ColumnName, ["x"], "x is ['x'], expected the name of a column"),
        (bool, 1, "x is 1, expected True or False"),
        (Literal[0, 1], 2, "x is 2, expected 0 or 1"),
        (Frame, [1], "x is [1], expected a frame"),
        (ot.Corpus, "runs", "x is 'runs', expected a corpus"),
    ],
)
def test_any_other_value_is_refused_in_one_line(kind: Any, value: Any, message: str) -> None:
    with pytest.raises(ot.ParameterError) as refused:
        called(kind, value)
    assert str(refused.value) == message
