"""Weights of rows in logistic regression: a row that counts twice is two rows."""

import numpy as np
from hypothesis import given, strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from orchestrace.statistics.regression import logistic
from samples.examples import examples


@examples(40)
@given(st.integers(0, 1000), st.sampled_from([0.3, 5.0]))
def test_a_row_that_counts_twice_is_two_rows(seed: int, penalty: float) -> None:
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(30), rng.normal(size=(30, 2))])
    d = np.concatenate([[0.0, 1.0], rng.integers(0, 2, 28)])
    times = rng.integers(0, 4, 30)
    times[:2] = 1
    again = np.repeat(np.arange(30), times)
    weighed = logistic(x, d, penalty, times.astype(np.float64))
    assert_allclose(weighed, logistic(x[again], d[again], penalty), rtol=1e-6, atol=1e-8)


def test_rows_that_count_once_change_no_bit() -> None:
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(50), rng.normal(size=(50, 3))])
    d = (rng.random(50) < 0.4).astype(np.float64)
    assert_array_equal(logistic(x, d, 1.0), logistic(x, d, 1.0, np.ones(50)))
