"""Sums by cluster, and correlations, whatever order the rows come in."""

import numpy as np
from hypothesis import given, strategies as st

from orchestrace.statistics.resampling import centered_correlation_of
from orchestrace.statistics.sums import sums_of
from samples.examples import examples

ROWS = st.lists(st.tuples(st.floats(-1e6, 1e6), st.integers(0, 3)), min_size=1, max_size=40)


@examples(200)
@given(ROWS, st.randoms(use_true_random=False))
def test_sums_of_other_orders_and_signs(rows, chance) -> None:
    """The same bits in any order, and of the opposite column the opposite ones."""
    values, clusters = (np.array(column) for column in zip(*rows, strict=True))
    sums = sums_of(values, clusters, 4)
    assert np.allclose(sums, [values[clusters == n].sum() for n in range(4)], rtol=1e-9, atol=1e-6)
    order = np.array(chance.sample(range(len(rows)), len(rows)))
    assert sums_of(values[order], clusters[order], 4).tobytes() == sums.tobytes()
    assert (sums_of(-values, clusters, 4) == -sums).all()


@examples(200)
@given(ROWS)
def test_a_correlation_is_no_more_than_one(rows) -> None:
    values, clusters = (np.array(column) for column in zip(*rows, strict=True))
    means = sums_of(values, clusters, 4) / np.maximum(np.bincount(clusters, minlength=4), 1)
    centered = values - means[clusters]
    for sign in (1.0, -3.0):
        found = centered_correlation_of(centered, sign * centered, clusters, 4)(np.ones((1, 4)))
        assert np.isnan(found).all() or (np.abs(found) <= 1.0).all()
