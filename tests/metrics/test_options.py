"""Options of comparisons of metrics, and lists of names in arguments: what is refused, in one line."""

from typing import Any

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from orchestrace.corpus.names import names_of


@pytest.fixture(scope="module")
def table() -> pl.DataFrame:
    return ot.metrics(ot.generate(traces=8, seed=0))


@pytest.mark.parametrize(
    "given",
    [["a", "b"], ("a", "b"), {"a": 1, "b": 2}, pl.Series(["a", "b"]), np.array(["a", "b"]), iter("ab")],
)
def test_whatever_lists_names_is_a_list_of_them(given: Any) -> None:
    names = names_of("names", given)
    assert names == ["a", "b"] and {type(name) for name in names} == {str}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("ab", "names is 'ab', expected a list of names: ['ab']"),
        (3, "names is 3, expected a list of names"),
        (None, "names is None, expected a list of names"),
        (["a", 3], "names has 3, expected names"),
        (["a", None], "names has None, expected names"),
        ([["a"]], "names has ['a'], expected names"),
        (np.array("a"), "names is a value of type ndarray, expected a list of names"),
        (pl.LazyFrame({"a": ["b"]}), "names is a value of type LazyFrame, expected a list of names"),
        # of many lines, were it shown
        (pl.DataFrame({"a": ["b"]}), "names has a value of type Series, expected names"),
        ([list(range(100))], "names has a value of type list, expected names"),
    ],
)
def test_what_lists_no_names_is_told_in_one_line(given: object, said: str) -> None:
    with pytest.raises(ot.ParameterError) as error:
        names_of("names", given)
    assert str(error.value) == said


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ("parallelism", r"names is 'parallelism', expected a list of names: \['parallelism'\]"),
        ([3], "names has 3, expected names"),
        (3, "names is 3, expected a list of names"),
        (["paralelism"], "unknown metric 'paralelism'; did you mean 'parallelism'"),
    ],
)
def test_names_of_metrics_are_checked(table: pl.DataFrame, names: Any, said: str) -> None:
    with pytest.raises(ot.ParameterError, match=said):
        ot.evaluation.compare_metrics(table, table, names=names)


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        (3, "errors is 3, expected the name of a column"),
        (["n_turns"], r"errors is \['n_turns'\], expected the name of a column"),
        ("n_turn", "unknown column of team 'n_turn'; did you mean 'n_turns'"),
        ("trace_id", "errors names the column 'trace_id' of type String, expected one of numbers"),
    ],
)
def test_the_column_of_errors_is_checked(table: pl.DataFrame, errors: Any, said: str) -> None:
    with pytest.raises(ot.ParameterError, match=said):
        ot.evaluation.against_single_agent(table, table, errors=errors)


def test_errors_may_be_missing_on_one_side(table: pl.DataFrame) -> None:
    team = table.with_columns(errors=pl.lit(0.5))
    with pytest.raises(ot.ParameterError, match="unknown column of single 'errors'"):
        ot.evaluation.against_single_agent(team, table, errors="errors")
    # nobody judged the single agent: the column is there, without a value or a type
    told = ot.evaluation.against_single_agent(team, table.with_columns(errors=pl.lit(None)), errors="errors")
    assert told["relative_error_amplification"].null_count() == told.height > 0
    assert set(told["reason"].cast(pl.String)) == {"field.absent"}
