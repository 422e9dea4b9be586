"""How often the two intervals of `evaluation.compare_metrics` hold the truth, where tasks are skewed.

The populations, and what is published of them, are those of docs/intervals.md, "How often they cover".
A rate is held to what a binomial of the published one can be, 999 times in 1000: where a page says that an
interval falls short, it has to.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import orchestrace as ot

Floats = np.ndarray[Any, np.dtype[np.float64]]
TASKS = (3, 5, 10, 30)
SEEDS = 400
NOISE = 0.2
"""Of a run, the deviation of its logarithm; its mean is 1."""


@dataclass(frozen=True)
class Population:
    """Two sides of one task before noise; the true mean difference and mean log ratio; published rates."""

    sides: Callable[[np.random.Generator, int], tuple[Floats, Floats]]
    difference: float
    log_ratio: float
    covers_difference: tuple[float, float, float, float]
    covers_ratio: tuple[float, float, float, float]


def halved(levels: Floats) -> tuple[Floats, Floats]:
    return levels, levels / 2


def rare(rng: np.random.Generator, n: int) -> Floats:
    return np.where(rng.random(n) < 0.1, 20.0, 1.0)


POPULATIONS = {
    "lognormal, sigma 1; b is half": Population(
        lambda rng, n: halved(rng.lognormal(0.0, 1.0, n)),
        -0.5 * math.exp(0.5),
        math.log(0.5),
        (0.823, 0.804, 0.822, 0.871),
        (0.949, 0.951, 0.948, 0.949),
    ),
    "lognormal, sigma 1.5; b is half": Population(
        lambda rng, n: halved(rng.lognormal(0.0, 1.5, n)),
        -0.5 * math.exp(1.125),
        math.log(0.5),
        (0.684, 0.665, 0.698, 0.775),
        (0.949, 0.951, 0.948, 0.949),
    ),
    "one task in ten is 20 times the rest; b is half": Population(
        lambda rng, n: halved(rare(rng, n)),
        -0.5 * 2.9,
        math.log(0.5),
        (0.333, 0.400, 0.631, 0.857),
        (0.951, 0.951, 0.950, 0.949),
    ),
    "all alike; b is half, in one task in ten 10 times": Population(
        lambda rng, n: (np.ones(n), rare(rng, n) / 2),
        0.5 * 2.9 - 1.0,
        math.log(0.5) + 0.1 * math.log(20.0),
        (0.310, 0.406, 0.653, 0.884),
        (0.858, 0.737, 0.705, 0.912),
    ),
}


def table_of(values: Floats) -> pl.DataFrame:
    tasks = [str(task) for task in range(len(values))]
    return pl.DataFrame({"trace": range(len(values)), "task_id": tasks, "tokens": values})


def drawn(population: Population, n: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([n, seed])
    a, b = (table_of(side * rng.lognormal(-(NOISE**2) / 2, NOISE, n)) for side in population.sides(rng, n))
    row: dict[str, Any] = ot.evaluation.compare_metrics(a, b, names=["tokens"]).row(0, named=True)
    return row


def within_chance(rate: float, samples: int = SEEDS) -> tuple[float, float]:
    low, high = stats.binom.ppf([0.0005, 0.9995], samples, rate) / samples
    return float(low), float(high)


@pytest.mark.parametrize("n", TASKS)
@pytest.mark.parametrize("name", POPULATIONS)
def test_both_intervals_hold_the_truth_as_often_as_published(name: str, n: int) -> None:
    population = POPULATIONS[name]
    rows = [drawn(population, n, seed) for seed in range(SEEDS)]
    ratio = math.exp(population.log_ratio)
    of_difference = np.mean([row["lower"] <= population.difference <= row["upper"] for row in rows])
    of_ratio = np.mean([row["task_ratio_lower"] <= ratio <= row["task_ratio_upper"] for row in rows])
    place = TASKS.index(n)
    for found, published in (
        (of_difference, population.covers_difference[place]),
        (of_ratio, population.covers_ratio[place]),
    ):
        low, high = within_chance(published)
        assert low <= found <= high, (found, published)


def test_the_ratio_of_tasks_is_not_that_of_totals_where_factors_differ() -> None:
    """b adds 1 to every task: the typical task doubles, the total grows by three fifths."""
    rng = np.random.default_rng(0)
    levels = rng.lognormal(0.0, 1.0, 4000)
    row = ot.evaluation.compare_metrics(table_of(levels), table_of(levels + 1.0)).row(0, named=True)
    # ln(1 + 1/a) of a lognormal a on average: the integral of ln(1 + e^-z) over the normal density
    assert row["task_ratio"] == pytest.approx(math.exp(0.8060592), rel=0.05)
    assert row["ratio"] == pytest.approx(1.0 + math.exp(-0.5), rel=0.05)
    assert row["task_ratio_lower"] > row["ratio"]


def test_a_side_whose_runs_scatter_more_has_a_lower_ratio_at_the_same_mean() -> None:
    rng = np.random.default_rng(1)
    quiet, loud = (rng.lognormal(-(sigma**2) / 2, sigma, 4000) for sigma in (0.2, 0.8))
    row = ot.evaluation.compare_metrics(table_of(quiet), table_of(loud)).row(0, named=True)
    assert row["lower"] < 0.0 < row["upper"]
    assert row["task_ratio"] == pytest.approx(math.exp(-(0.8**2 - 0.2**2) / 2), rel=0.05)
    assert row["task_ratio_upper"] < 1.0
