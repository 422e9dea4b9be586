"""Alarms of jumps: as rare as promised on series without one, and there where one is."""

from types import ModuleType

import numpy as np
import pytest
from scipy.stats import binom

from orchestrace.statistics.breaks import breaks
from samples.scripts import loaded

SERIES = 300
"""Simulated series of each kind."""


@pytest.fixture(scope="module")
def worlds() -> ModuleType:
    return loaded("change_points")


@pytest.mark.parametrize("steps", [40, 120])
def test_series_without_a_jump_alarm_as_rarely_as_promised(worlds: ModuleType, steps: int) -> None:
    """No more often than 999 of 1,000 such experiments would show at a rate of 5 %."""
    for name, series in worlds.WITHOUT_A_JUMP.items():
        alarms = round(SERIES * worlds.rate(series, steps, 0.05, n=SERIES))
        assert alarms <= binom.ppf(0.999, SERIES, 0.05), (name, alarms)


def test_a_table_of_many_series_alarms_as_rarely_as_one(worlds: ModuleType) -> None:
    rng, tables, alarms = np.random.default_rng(5), 100, 0
    for _ in range(tables):
        series = {str(k): worlds.autoregressive(0.8)(rng, np.arange(40)) for k in range(10)}
        alarms += any(found.places.size for found in breaks(series, alpha=0.05).values())
    assert alarms <= binom.ppf(0.999, tables, 0.05)


@pytest.mark.parametrize("kind", ["independent steps", "line"])
def test_a_jump_of_eight_deviations_is_found_where_it_is(worlds: ModuleType, kind: str) -> None:
    rng, t = np.random.default_rng(6), np.arange(40)
    series = [worlds.WITHOUT_A_JUMP[kind](rng, t) + 8.0 * (t >= 20) for _ in range(100)]
    places = [breaks({"y": y}, alpha=0.05)["y"].places for y in series]
    hits = [place for place in places if place.size]
    assert len(hits) >= 90
    assert np.mean([np.abs(place - 20).min() <= 1 for place in hits]) >= 0.95
