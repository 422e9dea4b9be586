"""Intervals over tasks: against SciPy and linear algebra, what holds at any scale, how often they cover.

Coverage is counted over samples of a fixed seed; a count is held to what a binomial of the promised rate can
be, 999 times in 1000. Where no interval of a mean can keep its promise (few tasks of a skewed population,
Bahadur & Savage 1956) the rate is that of docs/intervals.md, and has to be above that of percentiles.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import stats

from orchestrace.statistics import rankings
from orchestrace.statistics.influence import (
    NO_INTERVAL,
    Interval,
    correlation_interval,
    interval,
    mean_interval,
    spanning_interval,
)
from orchestrace.statistics.resampling import FEWEST_CLUSTERS, draws, percentiles
from reference.intervals import by_matrices, score
from samples.examples import examples

Floats = np.ndarray[Any, np.dtype[np.float64]]
TASKS = (3, 5, 10, 30)


# --- against other ways to the same numbers -----------------------------------------------------------


@pytest.mark.parametrize("rollouts", [1, 4])
@pytest.mark.parametrize("n", [2, 3, 5, 10, 30])
def test_equal_tasks_have_the_interval_of_students_t(n: int, rollouts: int) -> None:
    rng = np.random.default_rng(n)
    for confidence in (0.5, 0.95, 0.99):
        values = rng.exponential(size=(n, rollouts)) + rng.normal(size=(n, 1))
        found = mean_interval(values.ravel(), np.repeat(np.arange(n), rollouts), confidence=confidence)
        means = values.mean(axis=1)
        assert (found.estimate, found.n_clusters) == (pytest.approx(means.mean()), n)
        assert found.around.stderr == pytest.approx(stats.sem(means))
        ends = stats.t.interval(confidence, n - 1, loc=means.mean(), scale=stats.sem(means))
        assert found.around[1:3] == pytest.approx(ends) and found.around.reason is None


@examples(60)
@given(st.lists(st.integers(1, 9), min_size=2, max_size=8), st.integers(0, 2**32))
def test_unequal_tasks_have_the_error_and_freedom_of_bell_and_mccaffrey(sizes: list[int], seed: int) -> None:
    task = np.repeat(np.arange(len(sizes)), sizes)
    values = np.random.default_rng(seed).normal(size=task.size) + 0.1 * task
    error, df = by_matrices(values, task)
    ends = stats.t.interval(0.9, df, loc=values.mean(), scale=error)
    found = mean_interval(values, task, confidence=0.9).around
    assert found.stderr == pytest.approx(error, rel=1e-9)
    assert found[1:3] == pytest.approx(ends, rel=1e-7)
    influence = (values - values.mean()) / values.size
    assert interval(values.mean(), influence, task, confidence=0.9)[:3] == pytest.approx(found[:3])


@examples(60)
@given(st.lists(st.integers(1, 5), min_size=2, max_size=7), st.integers(0, 2**32))
def test_a_known_range_gives_the_roots_of_the_score(sizes: list[int], seed: int) -> None:
    task = np.repeat(np.arange(len(sizes)), sizes)
    values = np.random.default_rng(seed).beta(0.5, 0.8, size=task.size)
    ends = score(values, task, 0.9)
    assert mean_interval(values, task, confidence=0.9, within=(0.0, 1.0)).around[1:3] == pytest.approx(ends)
    moved = mean_interval(6 * values - 4, task, confidence=0.9, within=(-4.0, 2.0)).around
    assert moved[1:3] == pytest.approx([6 * end - 4 for end in ends])
    assert -4.0 <= moved.lower < 6 * values.mean() - 4 < moved.upper <= 2.0  # type: ignore[operator]


@pytest.mark.parametrize("n", [2, 3, 10, 100])
def test_tasks_that_all_agree_are_trials_that_all_agree(n: int) -> None:
    for confidence, value in itertools.product((0.8, 0.95), (0.0, 1.0)):
        exact = stats.binomtest(int(value * n), n).proportion_ci(confidence, "exact")
        for rollouts in (1, 5):  # which do not count
            task = np.repeat(np.arange(n), rollouts)
            values = np.full(task.size, value)
            found = mean_interval(values, task, confidence=confidence, within=(0.0, 1.0)).around
            assert found == (0.0, pytest.approx(exact.low), pytest.approx(exact.high), None)
    # any other value in common: what the tasks that were not seen could do to it
    found = mean_interval(np.full(n, 0.25), np.arange(n), confidence=0.95, within=(0.0, 1.0)).around
    unseen = 1 - 0.025 ** (1 / n)
    assert found[1:3] == pytest.approx((0.25 * (1 - unseen), 0.25 + 0.75 * unseen))


# --- what holds of any of them ------------------------------------------------------------------------

rows = st.lists(st.tuples(st.integers(0, 5), st.floats(-10, 10)), min_size=2, max_size=30)


@examples(80)
@given(rows, st.sampled_from([1e-9, 0.5, 3.0, 1e9]), st.floats(-5, 5), st.randoms(use_true_random=False))
def test_scale_shift_and_order_change_nothing_else(
    drawn: list[tuple[int, float]], scale: float, shift: float, random: Any
) -> None:
    task, values = (np.array(column) for column in zip(*drawn, strict=True))
    values = values.astype(np.float64)
    one = mean_interval(values, task, confidence=0.9)
    two = mean_interval(scale * (values + shift), task, confidence=0.9)
    assert (one.around.reason is None) or one.around.lower is None
    if one.around.stderr is None or one.around.stderr < 1e-6:
        return  # rounding decides which of them is 0
    assert two.around.stderr == pytest.approx(scale * one.around.stderr, rel=1e-6)
    for a, b in zip(one.around[1:3], two.around[1:3], strict=True):
        assert b == pytest.approx(scale * (a + shift), rel=1e-6, abs=1e-5 * scale)
    order = list(range(len(values)))
    random.shuffle(order)
    again = mean_interval(values[order], 7 - task[order], confidence=0.9)
    assert again.around[:3] == pytest.approx(one.around[:3])
    within = mean_interval(values, task, confidence=0.9, within=(-10.0, 10.0)).around
    mirrored = mean_interval(-values, task, confidence=0.9, within=(-10.0, 10.0)).around
    assert (mirrored.lower, mirrored.upper) == pytest.approx((-within.upper, -within.lower))
    assert -10.0 <= within.lower < within.upper <= 10.0
    wider = mean_interval(values, task, confidence=0.99).around
    assert wider.lower < one.around.lower and one.around.upper < wider.upper


def test_huge_and_tiny_values_have_intervals() -> None:
    values = np.array([1.0, 2.0, 4.0])
    for scale in (1e-200, 1e200):
        found = mean_interval(scale * values, np.arange(3), confidence=0.95).around
        assert found.stderr == pytest.approx(scale * stats.sem(values))


def test_fewer_than_two_tasks_have_no_interval_and_say_so() -> None:
    none = Interval(None, None, None, "support.absent")
    for within in (None, (0.0, 1.0)):
        one = mean_interval(np.array([0.2, 0.4]), np.zeros(2), confidence=0.95, within=within)
        assert (one.estimate, one.around, one.n_clusters) == (pytest.approx(0.3), none, 1)
        empty = mean_interval(np.array([np.nan]), np.zeros(1), confidence=0.95, within=within)
        assert (empty.estimate, empty.around, empty.n_clusters) == (None, none, 0)
    assert none == NO_INTERVAL
    assert interval(1.0, np.zeros(3), np.zeros(3), confidence=0.95) == none
    assert correlation_interval(0.5, np.zeros(3), np.array([0.0, 2.0, 0.0]), confidence=0.95) == none
    lone = np.full(2, True)
    spanning = spanning_interval(1.0, np.zeros(2), np.arange(2), np.zeros(2), lone, confidence=0.95)
    assert spanning == none  # one bucket


def test_tasks_without_spread_have_no_interval_of_width_0() -> None:
    flat = mean_interval(np.full(9, 0.1), np.arange(9) // 2, confidence=0.95)
    assert flat.around == Interval(0.0, None, None, "group.degenerate")
    assert correlation_interval(1.0, np.zeros(4), np.ones(4), confidence=0.95).lower == pytest.approx(
        1.0 - 2.0 * (1.0 - 0.025**0.25)
    )


# --- coverage -------------------------------------------------------------------------------------------

SAMPLES = 5000
Population = Callable[[np.random.Generator, tuple[int, ...]], Floats]
POPULATIONS: dict[str, tuple[Population, float]] = {
    "normal": (lambda rng, size: rng.normal(size=size), 0.0),
    "exponential": (lambda rng, size: rng.exponential(size=size), 1.0),
    "lognormal": (lambda rng, size: rng.lognormal(size=size), math.exp(0.5)),
    "difference": (lambda rng, size: rng.lognormal(size=size) - rng.lognormal(size=size), 0.0),
    "0 or 1, half": (lambda rng, size: (rng.random(size) < 0.5).astype(float), 0.5),
    "0 or 1, a fifth": (lambda rng, size: (rng.random(size) < 0.2).astype(float), 0.2),
    "beta": (lambda rng, size: rng.beta(2.0, 8.0, size=size), 0.2),
}


def within_chance(rate: float, samples: int = SAMPLES) -> tuple[float, float]:
    """What a share of samples can be at this rate, 999 times in 1000."""
    low, high = stats.binom.ppf([0.0005, 0.9995], samples, rate) / samples
    return float(low), float(high)


def covered(name: str, n: int, within: tuple[float, float] | None = None) -> tuple[float, float]:
    """Shares of samples of n tasks whose interval covers, and whose percentiles of resampled means do."""
    draw, truth = POPULATIONS[name]
    sampled = draw(np.random.default_rng([n, len(name)]), (SAMPLES, n))
    task, hits = np.arange(n), 0
    for values in sampled:
        around = mean_interval(values, task, confidence=0.95, within=within).around
        if around.lower is not None and around.upper is not None:
            hits += around.lower <= truth <= around.upper
    times = np.concatenate(list(draws(n, 1000, 0)))
    low, high = np.quantile(sampled @ times.T / n, [0.025, 0.975], axis=1)
    return hits / SAMPLES, float(((low <= truth) & (truth <= high)).mean())


@pytest.mark.statistical
@pytest.mark.parametrize("n", TASKS)
def test_means_of_normal_tasks_are_covered_as_often_as_promised(n: int) -> None:
    ours, percentile = covered("normal", n)
    low, high = within_chance(0.95)
    assert low <= ours <= high
    assert percentile < 0.94


# docs/intervals.md: what no interval from so few values can know is how long the tail is.
SHORT = {
    "exponential": {3: 0.881, 5: 0.885, 10: 0.903, 30: 0.926},
    "lognormal": {3: 0.835, 5: 0.817, 10: 0.836, 30: 0.884},
}


@pytest.mark.statistical
@pytest.mark.parametrize("n", TASKS)
@pytest.mark.parametrize("name", SHORT)
def test_means_of_skewed_tasks_fall_short_by_what_is_published(name: str, n: int) -> None:
    ours, percentile = covered(name, n)
    assert ours >= within_chance(SHORT[name][n])[0]
    assert ours > percentile


@pytest.mark.statistical
@pytest.mark.parametrize("n", TASKS)
def test_paired_differences_of_skewed_tasks_are_covered(n: int) -> None:
    """What `compare_metrics` takes the mean of: the skew of both sides cancels."""
    ours, percentile = covered("difference", n)
    assert ours >= within_chance(0.95)[0]
    assert ours > percentile


@pytest.mark.statistical
@pytest.mark.parametrize("n", TASKS)
@pytest.mark.parametrize("name", ["0 or 1, half", "0 or 1, a fifth", "beta"])
def test_means_in_a_known_range_are_covered(name: str, n: int) -> None:
    ours, percentile = covered(name, n, (0.0, 1.0))
    assert ours >= within_chance(0.95)[0]
    assert ours >= percentile


SIZES = {
    "1 to 9": lambda n: np.linspace(1, 9, n).round().astype(int),
    "one has half": lambda n: np.array([4 * (n - 1), *[4] * (n - 1)]),
}


@pytest.mark.statistical
@pytest.mark.parametrize("shared", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("n", TASKS)
def test_unequal_tasks_are_covered(name: str, n: int, shared: float) -> None:
    """Rows that share from nothing to all of their value with their task, in tasks of unequal size."""
    sizes, samples = SIZES[name](n), 2000
    rng, task = np.random.default_rng([n, len(name)]), np.repeat(np.arange(n), sizes)
    hits = 0
    for _ in range(samples):
        values = math.sqrt(shared) * rng.normal(size=n)[task]
        values += math.sqrt(1.0 - shared) * rng.normal(size=task.size)
        around = mean_interval(values, task, confidence=0.95).around
        hits += around.lower <= 0.0 <= around.upper  # type: ignore[operator]  # there are ends
    # the freedom is Satterthwaite's, an approximation: what was measured is in docs/intervals.md
    assert hits / samples >= within_chance(0.94, samples)[0]
    assert hits / samples <= 0.99


@pytest.mark.parametrize("n", TASKS)
def test_pooled_correlations_are_covered(n: int) -> None:
    """Tasks of a dozen units each, centered in their task."""
    rng, samples, hits = np.random.default_rng(n), 2000, 0
    for _ in range(samples):
        x = rng.normal(size=(n, 12))
        y = 0.4 * x + math.sqrt(1 - 0.4**2) * rng.normal(size=(n, 12))
        x, y = (v - v.mean(axis=1, keepdims=True) for v in (x, y))
        xy, xx, yy = ((a * b).sum(axis=1) for a, b in ((x, y), (x, x), (y, y)))
        scale = math.sqrt(xx.sum() * yy.sum())
        rho, weight = xy.sum() / scale, (xx / xx.sum() + yy / yy.sum()) / 2
        around = correlation_interval(rho, xy / scale - rho * weight, weight, confidence=0.95)
        hits += around.lower <= 0.4 <= around.upper  # type: ignore[operator]  # there are ends
    low, high = within_chance(0.95, samples)
    assert low <= hits / samples <= high


@pytest.mark.nightly
@pytest.mark.statistical
def test_percentiles_of_resampled_tasks_begin_where_they_cover() -> None:
    """One ranking of all units of a corpus, whose correlation no formula gives an error of."""
    n, units, n_boot, samples = FEWEST_CLUSTERS, 12, 1000, 400
    rng, hits, plain = np.random.default_rng(0), 0, 0
    times = np.concatenate(list(draws(n, n_boot, 0))).astype(int)
    picks = np.stack([np.repeat(np.arange(n), own) for own in times])
    starts = np.arange(n_boot) * n * units
    truth = 6 / math.pi * math.asin(0.5 / 2)  # Spearman's, of normal numbers that correlate by a half
    for _ in range(samples):
        x, z = rng.normal(size=(2, n, units))
        y = 0.5 * x + math.sqrt(0.75) * z
        boot = rankings.spearman(x[picks].ravel(), y[picks].ravel(), starts)
        low, high = percentiles(boot, n, 0.95)
        hits += low <= truth <= high  # type: ignore[operator]  # there are ends
        low, high = np.quantile(boot, [0.025, 0.975])
        plain += low <= truth <= high
    assert hits / samples >= within_chance(0.94, samples)[0] > plain / samples
    assert percentiles(boot, n - 1, 0.95) == (None, None)
