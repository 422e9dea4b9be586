"""How often a gate errs over many pairs of sides, and whether it sees what it announces."""

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from orchestrace.evaluation.gate_metrics import GateMetric, gate_metrics
from orchestrace.evaluation.gate_pairs import SUCCESS_RANGE, Design, Paired
from orchestrace.evaluation.gate_plan import planned
from orchestrace.evaluation.gate_verdicts import OneSidedTests, p_values, rows_of
from orchestrace.statistics.sequential import nominal_levels

Floats = NDArray[np.float64]
PAIRS = 10_000
ALPHA, POWER = 0.05, 0.8
RESULTS = Path(__file__).resolve().parents[2] / "benches" / "results" / "gate_errors.json"


def most(rate: float, n: int) -> float:
    """A share that is exceeded once in a thousand, if the rate is this."""
    return float(stats.binom.ppf(0.999, n, rate)) / n


def least(rate: float, n: int) -> float:
    return float(stats.binom.ppf(0.001, n, rate)) / n


def passes(
    rng: np.random.Generator, n: int, tasks: int, attempts: int, worse: float
) -> tuple[Floats, Floats]:
    """Tasks of very different difficulty; a worsening fails each success with one chance."""
    rates = rng.beta(1.0, 1.0, (n, tasks))
    base, new = rng.binomial(attempts, rates), rng.binomial(attempts, rates * max(0.0, 1.0 - 2.0 * worse))
    return base / attempts, new / attempts


def tokens(
    rng: np.random.Generator, n: int, tasks: int, attempts: int, worse: float
) -> tuple[Floats, Floats]:
    """One task in ten takes 20 times as much; a worsening multiplies every task."""
    sizes = np.where(rng.random((n, tasks)) < 0.1, 20.0, 1.0)
    runs = sizes[:, :, None] * rng.lognormal(0.0, 0.6, (n, tasks, 2 * attempts))
    return runs[:, :, :attempts].mean(axis=2), (1.0 + worse) * runs[:, :, attempts:].mean(axis=2)


POPULATIONS = {"success": passes, "tokens": tokens}


def gains(metric: GateMetric, base: Floats, new: Floats) -> Floats:
    return metric.sign * (np.log(new / base) if metric.scale == "ratio" else new - base)


def paired(metric: GateMetric, base: Floats, new: Floats, attempts: int) -> Paired:
    """The first pair of many, as the gate has it."""
    within = SUCCESS_RANGE if metric.is_success else None
    counts, names = np.full(base.shape[1], attempts), [str(at) for at in range(base.shape[1])]
    return Paired(metric, base[0], new[0], within, names, (counts, counts))


def verdicts(metric: GateMetric, base: Floats, new: Floats, design: Design) -> tuple[float, float]:
    within = SUCCESS_RANGE if metric.is_success else None
    tests = OneSidedTests(*(p[None, :] for p in p_values(gains(metric, base, new), metric, within)))
    passed, failed = tests.verdicts(design)
    return float(passed.mean()), float(failed.mean())


@pytest.mark.parametrize("n_tasks", [8, 25, 80])
@pytest.mark.parametrize("name", POPULATIONS)
def test_false_verdicts_are_as_rare_as_alpha(name: str, n_tasks: int) -> None:
    # a margin that so many tasks cannot rule out: what fails is not taken back by passing
    [metric] = gate_metrics(name, 0.01)
    design = Design(ALPHA, POWER, 1, 1, 1)
    rng = np.random.default_rng([n_tasks, len(name)])
    _, failed = verdicts(metric, *POPULATIONS[name](rng, PAIRS, n_tasks, 3, 0.0), design)
    assert least(0.042, PAIRS) <= failed <= most(ALPHA, PAIRS)
    [metric] = gate_metrics(name, 0.1)
    passed, _ = verdicts(metric, *POPULATIONS[name](rng, PAIRS, n_tasks, 3, 0.1), design)
    assert passed <= most(ALPHA + 0.006, PAIRS)


@pytest.mark.parametrize("n_tasks", [8, 25, 80])
@pytest.mark.parametrize("name", POPULATIONS)
def test_what_is_announced_is_seen(name: str, n_tasks: int) -> None:
    [metric] = gate_metrics(name, 0.05)
    design = Design(ALPHA, POWER, 1, 1, 1)
    rng = np.random.default_rng([n_tasks, len(name), 1])
    draw, n, attempts = POPULATIONS[name], 1000, 3
    seen = announced = 0
    for _ in range(n):
        first = paired(metric, *draw(rng, 1, n_tasks, attempts, 0.0), attempts)
        worse = planned(first, design).get("detectable")
        if worse is None:
            continue
        assert isinstance(worse, float)
        announced += 1
        seen += verdicts(metric, *draw(rng, 1, n_tasks, attempts, worse), design)[1] == 1.0
    assert announced > 0.7 * n and seen / announced >= least(0.79, announced)


def test_as_many_tasks_as_are_needed_let_no_effect_pass_and_the_margin_fail() -> None:
    [metric] = gate_metrics("success", 0.1)
    design = Design(ALPHA, POWER, 1, 1, 1)
    rng = np.random.default_rng(5)
    n, pilot = 400, 30
    passed = failed = 0
    for _ in range(n):
        first = paired(metric, *passes(rng, 1, pilot, 3, 0.0), 3)
        needed = planned(first, design)["tasks_needed"]
        assert isinstance(needed, int)
        passed += verdicts(metric, *passes(rng, 1, needed, 3, 0.0), design)[0] == 1.0
        failed += verdicts(metric, *passes(rng, 1, needed, 3, 0.1), design)[1] == 1.0
    assert min(passed, failed) / n >= least(0.79, n)


def test_planned_looks_keep_the_rate_and_others_do_not() -> None:
    [metric] = gate_metrics("success", 0.01)
    rng = np.random.default_rng(3)
    base, new = passes(rng, PAIRS, 100, 2, 0.0)
    levels, alarmed, unplanned = nominal_levels(ALPHA, 5), np.zeros(PAIRS, bool), np.zeros(PAIRS, bool)
    for look in range(1, 6):
        p = p_values(gains(metric, base, new)[:, : 20 * look], metric, SUCCESS_RANGE)[2]
        alarmed |= p <= levels[look - 1]
        unplanned |= p <= ALPHA
    assert least(0.042, PAIRS) <= alarmed.mean() <= most(ALPHA, PAIRS)
    assert unplanned.mean() > 0.1


def test_any_false_fail_of_three_metrics_is_as_rare_as_alpha() -> None:
    chosen = gate_metrics(["success", "tokens", "seconds"], 0.005)
    design = Design(ALPHA, POWER, 1, 1, 3)
    rng = np.random.default_rng(4)
    success, spent = passes(rng, PAIRS, 25, 3, 0.0), tokens(rng, PAIRS, 25, 3, 0.0)
    base, new = (side * rng.lognormal(0.0, 0.3, side.shape) for side in spent)
    slow = base, new
    each = [
        p_values(gains(metric, *pair), metric, SUCCESS_RANGE if metric.is_success else None)
        for metric, pair in zip(chosen, (success, spent, slow), strict=True)
    ]
    tests = OneSidedTests(*(np.array([p[which] for p in each]) for which in range(3)))
    failed = tests.verdicts(design)[1]
    assert failed.any(axis=0).mean() <= most(ALPHA, PAIRS)
    assert failed.any(axis=0).mean() > 0.02
    # the table of one pair says the same
    pairs = [paired(metric, *pair, 3) for metric, pair in zip(chosen, (success, spent, slow), strict=True)]
    assert [row["verdict"] == "fail" for row in rows_of(pairs, design)] == failed[:, 0].tolist()


def test_the_published_rates_are_within_what_the_page_says() -> None:
    results = json.loads(RESULTS.read_text())
    for name, sizes in results["populations"].items():
        for of in sizes.values():
            assert of["fail"] <= most(ALPHA, results["pairs"]), name
            assert of["pass"] <= ALPHA + 0.01, name
            if "scatters" not in name:
                assert of["found"] >= least(POWER, results["pairs"] // 10), name
    assert all(of["planned"] <= most(ALPHA, results["pairs"]) for of in results["looks"].values())
