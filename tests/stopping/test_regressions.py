"""Regressions of stopping against dense ones, and constants of simple rules against trying every value."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

from orchestrace.statistics.regression import ridge
from orchestrace.stopping.answers import Answers, answers
from orchestrace.stopping.continuation import PENALTY, of_ridge, regressed_by
from orchestrace.stopping.designs import PENALTY_OF_CELLS, Cells, of_cells
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


def tried(runs: Answers, method: str) -> float:
    """The mean payoff of the best value of a simple rule, by walking every run with every value."""
    level = {
        "fixed": lambda q, c: list(range(1, len(q) + 1)),
        "threshold": lambda q, c: list(q),
        "patience": lambda q, c: [k - 1 - q.index(max(q[:k])) for k in range(1, len(q) + 1)],
        "budget": lambda q, c: [max(c[k : k + 2]) for k in range(len(c))],
    }[method]
    walks = []
    for start, length in zip(runs.start, runs.length, strict=True):
        own = slice(start, start + length)
        q, c = runs.q[own].tolist(), runs.c[own].tolist()
        walks.append((level(q, c), runs.g[own].tolist()))
    values = {
        "fixed": [float(k) for k in range(1, max(len(g) for _, g in walks) + 1)],
        "patience": [float(m) for m in range(1, max(2, max(len(g) for _, g in walks)))],
        "threshold": [*sorted(set(runs.q.tolist())), np.inf],
        "budget": [*sorted(set(runs.c.tolist())), np.inf],
    }[method]
    best = -np.inf
    for value in values:
        paid = 0.0
        for levels, payoffs in walks:
            stops = [
                k for k, one in enumerate(levels) if (one > value if method == "budget" else one >= value)
            ]
            paid += payoffs[stops[0] if len(stops) else -1]
        best = max(best, paid / len(walks))
    return best


@pytest.mark.parametrize("method", ["fixed", "patience", "threshold", "budget"])
@examples(20)
@given(st.integers(0, 2**31), st.integers(1, 40))
def test_constants_are_those_of_trying_every_value(method: str, seed: int, n: int) -> None:
    runs = runs_of(seed, n)
    fitted = METHODS[method].fit(runs, np.arange(len(runs)), regressed_by(False))
    most = tried(runs, method)
    paid = runs.g[runs.stops(fitted.stop(runs))].mean()
    assert paid == pytest.approx(most, abs=1e-9)
