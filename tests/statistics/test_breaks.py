"""Jumps of series: against least squares in loops, and what may not change them."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose

import orchestrace as ot
from orchestrace.statistics import breaks as module
from orchestrace.statistics.breaks import breaks


def noise(seed: int, steps: int = 60) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(steps)


def one(y: np.ndarray, alpha: float = 0.05) -> module.Breaks:
    return breaks({"y": y}, alpha=alpha)["y"]


# --- against a reference ----------------------------------------------------------------------------------


def reference(y: np.ndarray, w: int) -> tuple[float, int, float, float]:
    """Statistic, place, size and correlation by least squares at every step."""
    steps = len(y)

    def around_lines(x: np.ndarray) -> np.ndarray:
        out = np.empty(steps)
        for s in range(steps):
            centre = min(max(s, w), steps - 1 - w)
            t = np.arange(centre - w, centre + w + 1)
            slope, level = np.polyfit(t, x[t], 1)
            # inside, a line through a symmetric window has its mean in the middle
            out[s] = x[s] - (level + slope * s)
        return out

    jump, deviation = {}, {}
    for s in range(w, steps - w + 1):
        t = np.arange(s - w, s + w)
        design = np.column_stack([np.ones(2 * w), t, t >= s])
        fit, rest, *_ = np.linalg.lstsq(design, y[t], rcond=None)
        jump[s], deviation[s] = fit[2], np.sqrt(rest[0] / (2 * w - 3))
    around = around_lines(y)
    for _ in range(2):
        wide = np.median(np.abs(around)) / 0.6745
        place = max(jump, key=lambda s: abs(jump[s]) / max(deviation[s], wide))
        around = around_lines(y - jump[place] * (np.arange(steps) >= place))
    wide = np.median(np.abs(around)) / 0.6745
    near = np.abs(np.arange(steps) - (place - 0.5)) < 2 * w
    scale = max(deviation[place], wide, float(np.sqrt(np.mean(around[near] ** 2))))
    u = np.clip(around / wide, -3, 3)
    return abs(jump[place]) / scale, place, jump[place], float(u[1:] @ u[:-1] / (u @ u))


@pytest.mark.parametrize(("steps", "w"), [(30, 5), (61, 10), (100, 15)])
@pytest.mark.parametrize("seed", range(4))
def test_the_largest_jump_is_that_of_least_squares(steps: int, w: int, seed: int) -> None:
    y = noise(seed, steps).cumsum() + 3.0 * (np.arange(steps) > steps // 2)
    found = module._largest(y[None], w)
    expected = reference(y, w)
    assert found.place[0] == expected[1]
    assert_allclose(
        [found.statistic[0], found.size[0], found.correlation[0]], np.take(expected, [0, 2, 3]), rtol=1e-9
    )


def test_p_values_are_adjusted_by_holms_rule() -> None:
    step = np.arange(60)
    series = {f"s{k}": noise(k) + k * 1.5 * (step >= 30) for k in range(6)}
    alone = {name: one(y).p_value for name, y in series.items()}
    found = breaks(series, alpha=0.05)
    ordered = sorted(alone.values())
    for name, p in alone.items():
        rank = ordered.index(p)
        expected = max(min(1.0, (6 - k) * ordered[k]) for k in range(rank + 1))
        assert found[name].p_value == pytest.approx(expected, rel=1e-12)


# --- what may not change them -----------------------------------------------------------------------------


@settings(deadline=None, max_examples=30)
@given(
    st.integers(0, 10_000),
    st.floats(0.0, 12.0),
    st.floats(-1e3, 1e3),
    st.floats(1e-6, 1e6),
    st.floats(-5, 5),
    st.booleans(),
)
def test_units_levels_trends_and_signs_change_nothing(
    seed: int, size: float, level: float, unit: float, slope: float, down: bool
) -> None:
    step = np.arange(50)
    y = noise(seed, 50) + size * (step >= 25)
    factor = -unit if down else unit
    plain, moved = one(y), one(factor * (y + level + slope * step))
    assert moved.p_value == plain.p_value
    assert moved.places.tolist() == plain.places.tolist()
    assert_allclose(moved.sizes, factor * plain.sizes, rtol=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_backwards_the_jump_is_the_same_with_the_other_sign(seed: int) -> None:
    y = noise(seed) + 9.0 * (np.arange(60) >= 22)
    forth, back = one(y), one(y[::-1].copy())
    assert forth.places.tolist() == [60 - place for place in back.places[::-1]]
    assert_allclose(forth.sizes, -back.sizes[::-1], rtol=1e-9)


def test_the_same_seed_gives_the_same_bits() -> None:
    series = {"a": noise(1), "b": noise(2, 45) + 8.0 * (np.arange(45) >= 20)}
    first = breaks(series, alpha=0.05, seed=3)
    module._simulated.cache_clear()
    second = breaks(dict(reversed(series.items())), alpha=0.05, seed=3)
    assert all(first[name].p_value == second[name].p_value for name in series)


@pytest.mark.parametrize(
    "y",
    [np.zeros(40), np.full(40, 1e300), np.arange(40.0), 1e9 + 1e-9 * noise(0, 40)],
    ids=["zeros", "vast", "line", "rounding"],
)
def test_what_does_not_vary_does_not_jump(y: np.ndarray) -> None:
    found = one(y)
    assert found.p_value == 1.0 or found.p_value > 0.05
    assert not found.places.size


def test_a_jump_without_any_noise_is_one() -> None:
    found = one(np.where(np.arange(40) < 17, 0.0, 1.0))
    assert found.places.tolist() == [17] and found.sizes == pytest.approx([1.0])


def test_each_of_several_jumps_has_its_place() -> None:
    step = np.arange(150)
    found = one(noise(4, 150) + 9.0 * ((step >= 50) & (step < 100)) + 0.1 * step)
    assert found.places.tolist() == [50, 100]
    assert_allclose(found.sizes, [9.0, -9.0], atol=1.5)


def test_an_alarm_that_cannot_be_is_refused() -> None:
    series = {str(k): noise(k, 30) for k in range(3)}
    with pytest.raises(
        ot.ParameterError, match=r"alpha is 0.0001, expected at least 0.00045 for 3 statistics"
    ):
        breaks(series, alpha=1e-4)
    assert all(found.p_value > 0.01 for found in breaks(series, alpha=0.01).values())
