"""Regressions of stopping against dense ones, and constants of simple rules against trying every value."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from orchestrace.statistics.regression import ridge
from orchestrace.stopping.answers import Answers, answers
from orchestrace.stopping.continuation import PENALTY, of_ridge, regressed_by
from orchestrace.stopping.designs import PENALTY_OF_CELLS, Basis, Cells, at_shares, of_cells
from orchestrace.stopping.stopping_rules import METHODS
from samples.examples import examples


def rows_of(seed: int, n: int, absent: float) -> tuple[np.ndarray, np.ndarray]:
    """Features of several kinds: numbers, few values, one that does not vary; and what depends on them."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.normal(size=n), rng.integers(0, 3, n) * 1.0, np.full(n, 2.0), rng.random(n)])
    y = np.abs(x[:, 0]) + x[:, 1] + 0.1 * rng.normal(size=n)
    x[rng.random(x.shape) < absent] = np.nan
    x[:, 2] = 2.0
    return x, y


def smooth(x: np.ndarray) -> np.ndarray:
    """Intercept, standardized columns, squares, flags of nulls; from the definition."""
    columns, flags = [], []
    for column in x.T:
        known = column[~np.isnan(column)]
        if known.std() <= 1e-12 * max(abs(known.mean()), 1.0):
            continue
        z = (column - known.mean()) / known.std()
        columns.append(np.where(np.isnan(z), 0.0, z))
    for column in x.T:
        if 0 < np.isnan(column).sum() < len(column):
            flags.append(np.isnan(column) * 1.0)
    return np.column_stack([np.ones(len(x)), *columns, *[z * z for z in columns], *flags])


@examples(30)
@given(st.integers(0, 2**31), st.integers(60, 300), st.sampled_from([0.0, 0.2]))
def test_ridge_is_that_of_a_dense_design(seed: int, n: int, absent: float) -> None:
    x, y = rows_of(seed, n, absent)
    design = smooth(x)
    expected = design @ ridge(design, y, PENALTY * n)
    solved = of_ridge(x, np.full(n, 3.0))(y)
    assert solved.inside == pytest.approx(expected, abs=1e-9)
    assert solved.predict(x) == pytest.approx(expected, abs=1e-9)


@examples(30)
@given(st.integers(0, 2**31), st.integers(60, 300))
def test_a_row_that_counts_twice_is_two_rows(seed: int, n: int) -> None:
    x, y = rows_of(seed, n, 0.2)
    times = np.random.default_rng(seed).integers(1, 3, n)
    design = smooth(x)
    mean = times.mean()  # the penalty is per row that is there
    expected = design @ ridge(np.repeat(design, times, axis=0), np.repeat(y, times), PENALTY * n * mean)
    assert of_ridge(x, times * 1.0)(y).predict(x) == pytest.approx(expected, abs=1e-9)


@examples(30)
@given(st.integers(0, 2**31), st.integers(60, 400), st.sampled_from([0.0, 0.2]))
def test_sums_over_cells_are_those_of_a_dense_design(seed: int, n: int, absent: float) -> None:
    x, y = rows_of(seed, n, absent)
    cells = Cells.of(x)
    steps = [
        (x[:, column][:, None] >= cuts[None, :]) * 1.0
        for column, cuts in zip(cells.basis.varying, cells.cuts, strict=True)
    ]
    design = np.column_stack([smooth(x), *steps])
    expected = design @ ridge(design, y, PENALTY_OF_CELLS * n)
    assert of_cells(x, y)(x) == pytest.approx(expected, abs=1e-6)


@examples(30)
@given(st.integers(0, 2**31), st.integers(1, 600), st.integers(1, 7), st.sampled_from([0.0, 0.3]))
def test_sums_over_several_cells_are_those_over_each(seed: int, n: int, columns: int, absent: float) -> None:
    """Column by column, pair by pair: numbers, few values, null in places or throughout."""
    rng = np.random.default_rng(seed)
    few = rng.random(columns) < 0.5
    x = np.where(few, rng.integers(0, 4, (n, columns)), rng.normal(size=(n, columns)))
    x[rng.random(x.shape) < absent] = np.nan
    x[:, rng.random(columns) < 0.1] = np.nan
    y = rng.normal(size=n) + np.nan_to_num(x[:, 0])
    assert of_cells(x, y)(x) == pytest.approx(each_cell(x, y), abs=1e-8)


def each_cell(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Ridge on the basis and the steps, from products of columns that are laid out."""
    basis = Basis.of(x)
    smooth = basis.columns(x)
    if not len(smooth):
        return np.full(len(x), y.mean())
    many = int(min(12, len(x) // (10 * max(len(basis.varying), 1))))
    steps = []
    for column in basis.varying:
        known = x[~np.isnan(x[:, column]), column]
        shares = np.arange(1, many) / max(many, 1)
        cuts = np.unique(np.quantile(known, shares, method="inverted_cdf")) if many > 1 else known[:0]
        cell = np.searchsorted(cuts[cuts > known.min()], x[:, column], side="right")
        cell[np.isnan(x[:, column])] = 0
        steps += [(cell > below) * 1.0 for below in range((cuts > known.min()).sum())]
    design = np.concatenate([smooth, np.array(steps).reshape(-1, len(x))])
    around = design - design.mean(axis=1)[:, None]
    gram = around @ around.T + PENALTY_OF_CELLS * len(x) * np.eye(len(design))
    fitted: np.ndarray = y.mean() + np.linalg.solve(gram, around @ (y - y.mean())) @ around
    return fitted


@examples(60)
@given(
    st.lists(st.integers(-3, 3) | st.floats(-1e300, 1e300), min_size=1, max_size=60),
    st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12),
)
def test_quantiles_of_sorted_values_are_those_of_numpy(values: list[float], shares: list[float]) -> None:
    numbers = np.array(values, dtype=np.float64)
    expected = np.quantile(numbers, shares, method="inverted_cdf")
    assert np.array_equal(np.sort(numbers)[at_shares(len(numbers), np.array(shares))], expected)


def runs_of(seed: int, n: int) -> Answers:
    rng = np.random.default_rng(seed)
    rows = []
    for run in range(n):
        length = int(rng.integers(1, 7))
        quality = rng.integers(0, 5, length) / 4.0
        rows += [
            {"trace": run, "trace_id": f"r{run}", "task_id": f"t{run % 7}", "k": k, "q": float(q)}
            | {"s": 0.0, "tokens": 10.0 * k, "last": k == length, "y": 1.0, "x_k": float(k)}
            for k, q in enumerate(quality, 1)
        ]
    frame = pl.DataFrame(rows)
    return answers(frame, problem="answer", price=0.1, cost="tokens", folds=2, seed=0)


Walk = tuple[list[float], list[float], list[float]]
"""Quality, cost and payoff of a run at each of its epochs."""


@dataclass(frozen=True)
class OneNumber:
    """A rule that stops where a number of the run so far reaches a value, in plain Python."""

    level: Callable[[list[float], list[float]], list[float]]
    """The number at each epoch, of quality and cost."""
    values: Callable[[list[Walk]], list[float]]
    """The values that are tried."""
    above: bool = False
    """Whether it stops where the number is above the value only."""


def with_never(levels: Iterable[float]) -> list[float]:
    return [*sorted(set(levels)), math.inf]


SIMPLE = {
    "fixed": OneNumber(
        lambda q, c: [k + 1.0 for k in range(len(q))],
        lambda walks: [k + 1.0 for k in range(max(len(g) for _, _, g in walks))],
    ),
    "threshold": OneNumber(lambda q, c: q, lambda walks: with_never(one for q, _, _ in walks for one in q)),
    "patience": OneNumber(
        lambda q, c: [k - 1.0 - q.index(max(q[:k])) for k in range(1, len(q) + 1)],
        lambda walks: [float(m) for m in range(1, max(2, max(len(g) for _, _, g in walks)))],
    ),
    "plateau": OneNumber(
        lambda q, c: [-math.inf, *(before - after for before, after in pairwise(q))],
        lambda walks: with_never(before - after for q, _, _ in walks for before, after in pairwise(q)),
    ),
    "budget": OneNumber(
        lambda q, c: [max(c[k : k + 2]) for k in range(len(c))],
        lambda walks: with_never(one for _, c, _ in walks for one in c),
        above=True,
    ),
}


def tried(walks: list[Walk], rule: OneNumber) -> float:
    """The mean payoff of the best value of a rule, by walking every run with every value."""
    best = -math.inf
    for value in rule.values(walks):
        paid = 0.0
        for q, c, payoffs in walks:
            levels = rule.level(q, c)
            stops = [k for k, one in enumerate(levels) if one > value or (one == value and not rule.above)]
            paid += payoffs[stops[0] if stops else -1]
        best = max(best, paid / len(walks))
    return best


@pytest.mark.parametrize("method", SIMPLE)
@examples(20)
@given(st.integers(0, 2**31), st.integers(1, 40))
def test_constants_are_those_of_trying_every_value(method: str, seed: int, n: int) -> None:
    runs = runs_of(seed, n)
    fitted = METHODS[method].fit(runs, np.arange(len(runs)), regressed_by(False))
    bounds = [slice(start, start + length) for start, length in zip(runs.start, runs.length, strict=True)]
    walks = [(runs.q[of].tolist(), runs.c[of].tolist(), runs.g[of].tolist()) for of in bounds]
    paid = runs.g[runs.stops(fitted.stop(runs))].mean()
    assert paid == pytest.approx(tried(walks, SIMPLE[method]), abs=1e-9)


def test_every_rule_of_one_number_is_tried() -> None:
    runs = runs_of(0, 20)
    fits = {name: rule.fit(runs, np.arange(20), regressed_by(False)) for name, rule in METHODS.items()}
    assert {name for name, fit in fits.items() if fit.constant is not None} == set(SIMPLE)


def test_a_plateau_says_the_gain_that_is_too_small() -> None:
    gains = ((0.5, 0.125, 0.125), (0.5, 0.25, 0.25), (0.5, 0.125, 0.0))  # an epoch costs 0.1875
    rows = [
        {"trace": n, "trace_id": f"r{n}", "task_id": f"t{n}", "k": k, "q": sum(gains[n][:k])}
        | {"s": 0.0, "tokens": float(k), "last": k == 3, "y": 1.0, "x_k": float(k)}
        for n in range(3)
        for k in (1, 2, 3)
    ]
    runs = answers(pl.DataFrame(rows), problem="answer", price=0.1875, cost="tokens", folds=2, seed=0)
    fitted = METHODS["plateau"].fit(runs, np.arange(3), regressed_by(False))
    assert fitted.constant == 0.125
    assert fitted.stop(runs).tolist() == [False, True, True, False, False, False, False, True, True]
