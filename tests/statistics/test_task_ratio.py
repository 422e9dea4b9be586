"""The ratio of two sides of the same tasks: against SciPy on logarithms, and a reason where there is none."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st
from scipy import stats

import orchestrace as ot
from orchestrace.statistics.log_ratio import task_ratio
from samples.examples import examples

ENDS = ("task_ratio", "task_ratio_lower", "task_ratio_upper")


def side(values: list[float], rollouts: int = 1) -> pl.DataFrame:
    """A table of metrics: so many traces of each task, with its value on average."""
    rows = [
        (f"task {task}", value * (1.0 + (rollout - (rollouts - 1) / 2) / 10))
        for task, value in enumerate(values)
        for rollout in range(rollouts)
    ]
    names, measured = zip(*rows, strict=True)
    return pl.DataFrame({"trace": range(len(rows)), "task_id": names, "parallelism": measured})


def compared(a: list[float], b: list[float], rollouts: int = 1) -> dict[str, object]:
    return ot.evaluation.compare_metrics(side(a, rollouts), side(b, rollouts)).row(0, named=True)


@examples(60)
@given(st.integers(2, 30), st.integers(1, 3), st.integers(0, 2**32))
def test_it_is_students_t_interval_of_the_log_ratios(n: int, rollouts: int, seed: int) -> None:
    a, b = np.random.default_rng(seed).lognormal(sigma=2.0, size=(2, n))
    row = compared(a.tolist(), b.tolist(), rollouts)
    logs = np.log(b / a)
    low, high = stats.t.interval(0.95, n - 1, loc=logs.mean(), scale=stats.sem(logs))
    assert [row[name] for name in ENDS] == pytest.approx([stats.gmean(b / a), math.exp(low), math.exp(high)])
    assert row["task_ratio_reason"] is None


@examples(60)
@given(st.integers(2, 9), st.floats(-200.0, 200.0), st.integers(0, 2**32))
def test_units_change_nothing_and_sides_that_are_swapped_give_the_inverse(
    n: int, power: float, seed: int
) -> None:
    a, b = np.random.default_rng(seed).lognormal(size=(2, n))
    usual = task_ratio(a, b, confidence=0.9)
    scaled = task_ratio(a * 10.0**power, b * 10.0**power, confidence=0.9)
    assert scaled[:3] == pytest.approx(usual[:3], rel=1e-9)
    turned = task_ratio(b, a, confidence=0.9)
    ends = (usual.estimate, usual.upper, usual.lower)
    assert turned[:3] == pytest.approx([1.0 / one for one in ends if one is not None])


@pytest.mark.parametrize(
    ("a", "b", "ratio", "reason"),
    [
        ([2.0], [6.0], 3.0, "support.absent"),
        ([2.0, 7.0, 1e-9], [2.6, 9.1, 1.3e-9], 1.3, "group.degenerate"),
        ([2.0, 5.0], [2.0, 5.0], 1.0, "group.degenerate"),
        ([2.0, 0.0, 1.0], [1.0, 4.0, 1.0], None, "ratio.empty"),
        ([2.0, 1.0, 1.0], [1.0, -4.0, 1.0], None, "ratio.empty"),
        ([1e-300, 1e300], [1e300, 1e-300], None, "result.range"),
        ([1e-300, 1e-300], [1e300, 2e300], None, "result.range"),
    ],
)
def test_it_is_null_with_a_reason(a: list[float], b: list[float], ratio: float | None, reason: str) -> None:
    row = compared(a, b)
    assert row["task_ratio"] == (None if ratio is None else pytest.approx(ratio))
    assert (row["task_ratio_lower"], row["task_ratio_upper"]) == (None, None)
    assert row["task_ratio_reason"] == reason


def test_tasks_of_one_side_only_do_not_count() -> None:
    both = compared([1.0, 2.0, 4.0], [3.0, 5.0])
    assert both["task_ratio"] == pytest.approx(math.sqrt(3.0 * 2.5))
    table = ot.evaluation.compare_metrics(side([1.0]), side([1.0]).with_columns(task_id=pl.lit("another")))
    assert table[0, "task_ratio"] is None and table[0, "task_ratio_reason"] == "support.absent"
