"""Levels of planned looks: published boundaries, SciPy's normal distribution, and repeated p-values."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats
from scipy.special import ndtri

from orchestrace.statistics.sequential import nominal_levels, repeated_p, spent

#: Lan & DeMets' spending close to O'Brien & Fleming's, one-sided 2.5 %: as gsDesign and East print them.
PUBLISHED = {
    2: (2.963, 1.969),
    3: (3.710, 2.511, 1.993),
    5: (4.877, 3.357, 2.680, 2.290, 2.031),
}


@pytest.mark.parametrize("looks", PUBLISHED)
def test_boundaries_are_the_published_ones(looks: int) -> None:
    bounds = [-float(ndtri(level)) for level in nominal_levels(0.025, looks)]
    assert bounds == pytest.approx(PUBLISHED[looks], abs=6e-4)


@pytest.mark.parametrize(("alpha", "looks"), [(0.05, 2), (0.05, 3), (0.2, 4)])
def test_what_is_spent_by_each_look_is_the_probability_of_the_normal_distribution(
    alpha: float, looks: int
) -> None:
    bounds = -ndtri(np.array(nominal_levels(alpha, looks)))
    shares = np.arange(1, looks + 1) / looks
    for until in range(1, looks + 1):
        correlation = np.array(
            [[math.sqrt(min(s, t) / max(s, t)) for t in shares[:until]] for s in shares[:until]]
        )
        inside = stats.multivariate_normal(np.zeros(until), correlation, seed=0).cdf(bounds[:until])
        assert 1.0 - inside == pytest.approx(spent(alpha, float(shares[until - 1])), abs=2e-4)


@settings(deadline=None, max_examples=25)
@given(st.floats(1e-6, 0.9), st.integers(1, 5), st.data())
def test_a_repeated_p_value_is_below_alpha_where_the_look_alarms(
    p: float, looks: int, data: st.DataObject
) -> None:
    look = data.draw(st.integers(1, looks))
    repeated = repeated_p(p, looks, look)
    for alpha in (0.01, 0.05, 0.3):
        level = nominal_levels(alpha, looks, look)[-1]
        if abs(p - level) > 1e-6 * max(p, level):
            assert (repeated <= alpha) == (p <= level)


def test_ends_of_repeated_p_values() -> None:
    assert math.isnan(repeated_p(math.nan, 3, 2)) and repeated_p(0.3, 1, 1) == 0.3
    assert repeated_p(1.0, 3, 1) == 1.0 and repeated_p(0.0, 3, 3) == 1e-9
