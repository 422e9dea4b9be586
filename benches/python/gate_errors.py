"""How often a gate errs, and how often it finds what it announces: the tables of docs/reference/gate.md.

    python benches/python/gate_errors.py [--pairs 10000] [--json FILE]

Pairs of sides are drawn from populations of tasks, several attempts at each. Without a difference a gate that
fails is a false alarm; with a worsening as large as the margin one that passes is. The announced effect is
what `detectable` says of a first pair; the share is of second pairs, with tasks of their own and that effect:
one for each tenth pair. Two standard errors are 0.4 % for a rate of 5 % of 10,000 pairs, 2.5 % for one of
80 % of 1,000. Everything is seeded. Some two minutes.
"""

import argparse
import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orchestrace.evaluation.gate_metrics import GateMetric, gate_metrics
from orchestrace.evaluation.gate_pairs import SUCCESS_RANGE, Design, Paired
from orchestrace.evaluation.gate_plan import planned
from orchestrace.evaluation.gate_verdicts import OneSidedTests, p_values
from orchestrace.statistics.sequential import nominal_levels

Floats = NDArray[np.float64]
Draw = Callable[[np.random.Generator, tuple[int, int], Floats], tuple[Floats, Floats]]
"""Both sides of (pairs, tasks), from a worsening of (pairs, 1)."""

TASKS = (10, 30, 100)
ALPHA, POWER = 0.05, 0.8


def success(a: float, b: float, attempts: int) -> Draw:
    """Passes of tasks whose rates are beta; a worsening takes the same share of every rate."""

    def draw(rng: np.random.Generator, size: tuple[int, int], effect: Floats) -> tuple[Floats, Floats]:
        rates = rng.beta(a, b, size)
        worse = np.clip(rates * (1.0 - effect * (a + b) / a), 0.0, 1.0)
        return rng.binomial(attempts, rates) / attempts, rng.binomial(attempts, worse) / attempts

    return draw


def heavy(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    """20 for one task in ten, 1 for the rest."""
    return np.where(rng.random(size) < 0.1, 20.0, 1.0)


def skewed(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    """Lognormal tasks."""
    return rng.lognormal(0.0, 1.0, size)


def spent(sizes: Callable[[np.random.Generator, tuple[int, int]], Floats], attempts: int) -> Draw:
    """Tokens of runs that scatter by half around the size of their task; a worsening multiplies them."""

    def side(rng: np.random.Generator, tasks: Floats) -> Floats:
        runs = rng.lognormal(0.0, 0.5, (*tasks.shape, attempts))
        return tasks * runs.mean(axis=2)

    def draw(rng: np.random.Generator, size: tuple[int, int], effect: Floats) -> tuple[Floats, Floats]:
        tasks = sizes(rng, size)
        return side(rng, tasks), side(rng, tasks) * (1.0 + effect)

    return draw


def rewards(rng: np.random.Generator, size: tuple[int, int], effect: Floats) -> tuple[Floats, Floats]:
    """Rewards that scatter with the size of the task; a worsening takes the same of each."""
    tasks = heavy(rng, size)
    return tasks * 0.3 * rng.normal(size=size), tasks * 0.3 * rng.normal(size=size) - effect


POPULATIONS: dict[str, tuple[str, float, int, Draw]] = {
    "success, rates beta(2, 2), 1 attempt": ("success", 0.1, 1, success(2.0, 2.0, 1)),
    "success, rates beta(2, 2), 4 attempts": ("success", 0.1, 4, success(2.0, 2.0, 4)),
    "success, rates beta(.5, .5), 4 attempts": ("success", 0.1, 4, success(0.5, 0.5, 4)),
    "success, rates beta(9, 1), 4 attempts": ("success", 0.1, 4, success(9.0, 1.0, 4)),
    "tokens, lognormal tasks, 3 attempts": ("tokens", 0.2, 3, spent(skewed, 3)),
    "tokens, one task in ten 20 times the rest, 3 attempts": ("tokens", 0.2, 3, spent(heavy, 3)),
    "reward, one task in ten scatters 20 times": ("reward", 0.5, 1, rewards),
}


def gains_of(metric: GateMetric, base: Floats, new: Floats) -> Floats:
    """By how much each task is better in new."""
    return metric.sign * (np.log(new) - np.log(base) if metric.scale == "ratio" else new - base)


def announced(metric: GateMetric, base: Floats, new: Floats, attempts: int, design: Design) -> Floats:
    """What the gate announces for each pair, (pairs, 1); NaN where it announces nothing."""
    n_tasks = base.shape[1]
    within = SUCCESS_RANGE if metric.is_success else None
    counts = np.full(n_tasks, attempts)
    names = [str(task) for task in range(n_tasks)]
    each = [
        planned(Paired(metric, *sides, within, names, (counts, counts)), design).get("detectable")
        for sides in zip(base, new, strict=True)
    ]
    return np.array(each, dtype=np.float64)[:, None]


def rates(name: str, n_tasks: int, pairs: int, seed: int) -> dict[str, float]:
    """The errors and the power of one population."""
    subject, margin, attempts, draw = POPULATIONS[name]
    [metric] = gate_metrics(subject, margin)
    within = SUCCESS_RANGE if metric.is_success else None
    design = Design(ALPHA, POWER, 1, 1, 1)
    rng = np.random.Generator(np.random.PCG64([seed, n_tasks, *name.encode()]))

    def verdicts(effect: Floats) -> tuple[float, float]:
        gains = gains_of(metric, *draw(rng, (len(effect), n_tasks), effect))
        tests = OneSidedTests(*(p[None, :] for p in p_values(gains, metric, within)))
        passed, failed = tests.verdicts(design)
        return float(passed.mean()), float(failed.mean())

    few = max(pairs // 10, 1)
    effects = announced(metric, *draw(rng, (few, n_tasks), np.zeros((few, 1))), attempts, design)
    effects = effects[np.isfinite(effects)][:, None]
    return {
        "fail": verdicts(np.zeros((pairs, 1)))[1],
        "pass": verdicts(np.full((pairs, 1), metric.margin))[0],
        "found": verdicts(effects)[1] if len(effects) else math.nan,
        "announced": len(effects) / few,
        "effect": float(np.median(effects)) if len(effects) else math.nan,
    }


def looks(n_looks: int, n_tasks: int, pairs: int, seed: int) -> dict[str, float]:
    """How often at least one of several looks fails without a difference, with and without their levels."""
    _, margin, _, draw = POPULATIONS["success, rates beta(2, 2), 4 attempts"]
    [metric] = gate_metrics("success", margin)
    rng = np.random.Generator(np.random.PCG64([seed, n_looks, n_tasks]))
    gains = gains_of(metric, *draw(rng, (pairs, n_tasks), np.zeros((pairs, 1))))
    levels = nominal_levels(ALPHA, n_looks)
    alarmed = np.zeros((2, pairs), dtype=np.bool_)
    for look in range(1, n_looks + 1):
        p = p_values(gains[:, : n_tasks * look // n_looks], metric, SUCCESS_RANGE)[2]
        alarmed |= np.stack([p <= levels[look - 1], p <= ALPHA])
    return {"planned": float(alarmed[0].mean()), "unplanned": float(alarmed[1].mean())}


def family(n_tasks: int, pairs: int, seed: int) -> float:
    """How often any of three metrics of one pair fails without a difference."""
    rng = np.random.Generator(np.random.PCG64([seed, n_tasks]))
    chosen: list[tuple[GateMetric, Floats]] = []
    for name in ("success, rates beta(2, 2), 4 attempts", "tokens, lognormal tasks, 3 attempts"):
        subject, margin, _, draw = POPULATIONS[name]
        [metric] = gate_metrics(subject, margin)
        chosen.append((metric, gains_of(metric, *draw(rng, (pairs, n_tasks), np.zeros((pairs, 1))))))
    # seconds go with tokens
    [seconds] = gate_metrics("seconds", 0.2)
    chosen.append((seconds, chosen[1][1] + 0.2 * rng.normal(size=(pairs, n_tasks))))
    design = Design(ALPHA, POWER, 1, 1, len(chosen))
    each = [p_values(gains, metric, SUCCESS_RANGE if metric.is_success else None) for metric, gains in chosen]
    tests = OneSidedTests(*(np.array([p[which] for p in each]) for which in range(3)))
    return float(tests.verdicts(design)[1].any(axis=0).mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    table = {
        name: {str(n): rates(name, n, options.pairs, options.seed) for n in TASKS} for name in POPULATIONS
    }
    sequential = {str(k): looks(k, 100, options.pairs, options.seed) for k in (1, 3, 5)}
    together = {str(n): family(n, options.pairs, options.seed) for n in TASKS}
    header = ["population"]
    header += [f"{kind}, {n}" for kind in ("false fail", "false pass", "found as announced") for n in TASKS]
    lines = [header, ["---", *["---:"] * (len(header) - 1)]]
    for name, of in table.items():
        cells = [f"{of[str(n)][kind]:.3f}" for kind in ("fail", "pass", "found") for n in TASKS]
        lines.append([name, *cells])
    print("\n".join("| " + " | ".join(line) + " |" for line in lines))
    print("\nlooks at 100 tasks:", json.dumps(sequential))
    print("three metrics, any false fail:", json.dumps(together))
    if options.json is not None:
        result = {"pairs": options.pairs, "seed": options.seed, "populations": table}
        result |= {"looks": sequential, "three_metrics": together}
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
