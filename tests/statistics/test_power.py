"""Power of the paired t test: against its definition as an integral, simulated tests, a count of tasks."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import integrate, stats

from orchestrace.statistics.power import detectable, power_of, tasks_needed
from samples.examples import examples


def by_integral(noncentrality: float, n_tasks: int, alpha: float) -> float:
    """The chance of |Z + noncentrality| > t s, over the distribution of s."""
    df = n_tasks - 1
    critical = stats.t.ppf(1 - alpha / 2, df)

    def rejected(scale: float) -> float:
        reach = critical * scale
        chance = stats.norm.sf(reach - noncentrality) + stats.norm.cdf(-reach - noncentrality)
        return float(chance * stats.chi.pdf(scale * math.sqrt(df), df) * math.sqrt(df))

    middle = math.sqrt((df - 0.5) / df)
    return float(integrate.quad(rejected, 0.0, middle)[0] + integrate.quad(rejected, middle, np.inf)[0])


@pytest.mark.parametrize("n_tasks", [2, 3, 5, 12, 60])
@pytest.mark.parametrize("alpha", [0.001, 0.05, 0.2])
def test_power_is_the_integral_of_its_definition(n_tasks: int, alpha: float) -> None:
    for noncentrality in (0.0, 0.5, 2.0, 4.0, 7.75, 16.0, 38.0):
        expected = by_integral(noncentrality, n_tasks, alpha)
        assert power_of(noncentrality, n_tasks, alpha=alpha) == pytest.approx(expected, abs=1e-6)


def test_few_tasks_need_more_than_normal_quantiles_say() -> None:
    factors = [detectable(n, alpha=0.05, power=0.8) for n in (5, 10, 20, 30, 100, 10**6)]
    assert factors == pytest.approx([3.761, 3.150, 2.954, 2.899, 2.829, 2.802], abs=6e-4)
    assert power_of(2.801585, 5, alpha=0.05) == pytest.approx(0.56, abs=0.01)  # with the factor of 10**6


@pytest.mark.parametrize("n_tasks", [3, 10, 50])
def test_simulated_tests_have_the_power(n_tasks: int) -> None:
    at = detectable(n_tasks, alpha=0.05, power=0.8)
    differences = np.random.default_rng(n_tasks).normal(at / math.sqrt(n_tasks), 1.0, (20_000, n_tasks))
    share = float((stats.ttest_1samp(differences, 0.0, axis=1).pvalue < 0.05).mean())
    assert share == pytest.approx(0.8, abs=0.012)  # four errors


@examples(30)
@given(st.floats(0.2, 3.0), st.floats(0.01, 0.3), st.floats(0.4, 0.95))
def test_no_smaller_number_of_tasks_is_enough(effect: float, alpha: float, power: float) -> None:
    needed = tasks_needed(effect, 1.0, alpha=alpha, power=power)
    assert needed is not None
    enough = [n >= needed for n in range(2, needed + 20)]
    assert enough == [power_of(effect * math.sqrt(n), n, alpha=alpha) >= power for n in range(2, needed + 20)]
    assert effect * math.sqrt(needed) >= detectable(needed, alpha=alpha, power=power) - 1e-9


def test_what_no_float_holds() -> None:
    assert detectable(2, alpha=1e-300, power=0.8) == math.inf
    assert tasks_needed(1e-12, 1.0, alpha=0.05, power=0.8) is None
    assert tasks_needed(1e300, 1e-300, alpha=0.05, power=0.8) == 2
