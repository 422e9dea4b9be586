"""Plans of one-sided tests against SciPy's noncentral t, and what they promise on average."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from orchestrace.statistics.planning import expected_power, largest_missed, least_effect, tasks_to_find


@pytest.mark.parametrize(("effect", "n", "pilot"), [(2.6, 20, 5), (1.0, 8, 8), (3.5, 100, 12), (-1.0, 6, 6)])
def test_the_power_is_the_mean_over_the_deviation(effect: float, n: int, pilot: int) -> None:
    critical = stats.t.ppf(0.95, n - 1)

    def weighted(ratio: float) -> float:
        density = 2.0 * ratio * (pilot - 1) * stats.chi2.pdf(ratio * ratio * (pilot - 1), pilot - 1)
        return float(stats.nct.sf(critical, n - 1, effect * ratio) * density)

    wanted, _ = integrate.quad(weighted, 1e-9, 4.0, limit=200)
    got = expected_power(effect, n, level=0.05, estimated_from=pilot)
    assert got == pytest.approx(wanted, abs=1e-3)


@pytest.mark.parametrize("n", [2, 5, 30, 400])
def test_plans_reach_the_power_and_no_more(n: int) -> None:
    options = {"level": 0.05, "estimated_from": n}
    assert expected_power(least_effect(n, level=0.05, power=0.8), n, **options) == pytest.approx(
        0.8, abs=1e-6
    )
    missed = largest_missed(n, level=0.05, power=0.8)
    assert expected_power(missed, n, **options) == pytest.approx(0.2, abs=1e-6)
    needed = tasks_to_find(0.4, estimated_from=n, level=0.05, power=0.8)
    assert needed is not None
    powers = [expected_power(math.sqrt(m) * 0.4, m, **options) for m in (needed - 1, needed)]
    assert powers[0] < 0.8 <= powers[1]


def test_a_known_deviation_gives_the_textbooks_number() -> None:
    # one-sided 5 %, 80 %, half a deviation: 27 tasks (Cohen 1988, noncentral t)
    assert tasks_to_find(0.5, estimated_from=10**6, level=0.05, power=0.8) == 27


def test_what_cannot_be_planned() -> None:
    assert tasks_to_find(1e-9, estimated_from=30, level=0.05, power=0.8) is None
    assert np.isinf(least_effect(2, level=1e-9, power=0.999))
