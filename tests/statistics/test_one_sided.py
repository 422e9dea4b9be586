"""One-sided tests against SciPy and against the intervals that they have to agree with; Holm's rule."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from orchestrace.statistics.influence import mean_interval
from orchestrace.statistics.one_sided import holm, holm_rejects, p_above, p_alike, p_below, p_rare_losses
from reference import gates

VALUES = st.lists(st.floats(-1, 1, width=16), min_size=2, max_size=12)
RANGES = st.sampled_from([None, (-1.0, 1.0)])


def both(values: list[float], bound: float, within: tuple[float, float] | None) -> tuple[float, float]:
    array = np.array(values)
    mean, stderr = array.mean(), array.std(ddof=1) / math.sqrt(array.size)
    stderr = stderr if np.ptp(array) > 1e-12 else 0.0
    sides = (
        p(np.array([mean]), np.array([stderr]), array.size, bound, within=within) for p in (p_above, p_below)
    )
    return tuple(float(side[0]) for side in sides)  # type: ignore[return-value]


@settings(deadline=None)
@given(VALUES, st.floats(-0.9, 0.9), RANGES)
def test_p_values_are_those_of_the_definition(
    values: list[float], bound: float, within: tuple[float, float] | None
) -> None:
    for got, wanted in zip(
        both(values, bound, within),
        (gates.p_above(values, bound, within), gates.p_below(values, bound, within)),
        strict=True,
    ):
        assert math.isnan(got) if wanted is None else got == pytest.approx(wanted, rel=1e-6, abs=1e-12)


@settings(deadline=None)
@given(VALUES, st.floats(-0.9, 0.9), RANGES, st.sampled_from([0.01, 0.05, 0.2]))
def test_a_p_value_is_small_where_the_interval_leaves_the_bound_out(
    values: list[float], bound: float, within: tuple[float, float] | None, level: float
) -> None:
    around = mean_interval(
        np.array(values), np.arange(len(values)), confidence=1.0 - 2.0 * level, within=within
    ).around
    if around.lower is None or around.upper is None:
        return
    above, below = both(values, bound, within)
    if abs(around.lower - bound) > 1e-9:
        assert (above <= level) == (around.lower > bound)
    if abs(around.upper - bound) > 1e-9:
        assert (below <= level) == (around.upper < bound)


def test_the_test_is_students() -> None:
    values = [0.1, 0.4, -0.2, 0.3, 0.25]
    wanted = stats.ttest_1samp(values, -0.02, alternative="greater").pvalue
    assert both(values, -0.02, None)[0] == pytest.approx(wanted, rel=1e-9)


def test_bounds_at_the_ends_of_the_range_are_certain() -> None:
    assert both([0.1, 0.2], -1.5, (-1.0, 1.0))[0] == 0.0
    assert both([0.1, 0.2], 1.0, (-1.0, 1.0))[0] == 1.0


@settings(deadline=None)
@given(st.lists(st.floats(0, 1) | st.none(), min_size=1, max_size=6), st.sampled_from([0.05, 0.2]))
def test_holms_rule_is_that_of_the_definition(p_values: list[float | None], alpha: float) -> None:
    array = np.array([math.nan if p is None else p for p in p_values])
    adjusted, wanted = holm(array), gates.holm(p_values)
    for got, p in zip(adjusted, wanted, strict=True):
        assert math.isnan(got) if p is None else got == pytest.approx(p)
    levels = alpha / np.arange(len(p_values), 0, -1)
    margin = np.nanmin(np.abs(np.append(adjusted, np.nan) - alpha)) if np.isfinite(adjusted).any() else 1.0
    if margin > 1e-9:
        assert (
            holm_rejects(array[:, None], levels)[:, 0] == (np.nan_to_num(adjusted, nan=2.0) <= alpha)
        ).all()


@settings(deadline=None)
@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.0, 0.0, 0.5, 1.0]), min_size=2, max_size=30))
def test_rare_losses_have_the_variance_of_the_null(values: list[float]) -> None:
    got = float(p_rare_losses(np.array([values]), 0.1)[0])
    steps = [abs(value) for value in values if value]
    if not steps:
        assert got == 0.0
        return
    better = [value for value in values if value > 0]
    variance = min(steps) * 0.09 + 2 * sum(value**2 for value in better) / len(values)
    distance = 0.1 + sum(values) / len(values) - min(steps) / (2 * len(values) * (1 + len(better)))
    assert got == pytest.approx(stats.norm.sf(distance / math.sqrt(variance / len(values))), abs=1e-12)


def test_signs_alone_judge_what_is_alike() -> None:
    assert p_alike(np.array([0.0, 0.1, -0.2]), 4, 0.0).tolist() == [1.0, 0.0625, 1.0]
