"""The power of a gate on recorded runs: null pairs of the recorded ones, with a worsening put in."""

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from ..base.arrays import Bools, Floats, Ints
from ..base.schema import CREDITS
from .gate_pairs import Design, Paired
from .gate_verdicts import OneSidedTests, p_values

POWER: Final = pl.Schema(
    {
        "metric": pl.String(),
        "effect": pl.Float64(),
        "passed": pl.Float64(),
        "failed": pl.Float64(),
        "inconclusive": pl.Float64(),
        "stderr": pl.Float64(),
        "n_tasks": pl.UInt32(),
        "draws": pl.UInt32(),
        "reason": CREDITS["reason"],
    }
)
"""Columns and types of what `gate_power` returns."""

_CELLS: Final = 1 << 20
"""Of a block of draws by tasks."""


def injected(
    pairs: list[Paired], design: Design, *, effect: float, draws: int, seed: int
) -> list[dict[str, object]]:
    """Two rows per metric: how often the gate passes and fails without an effect, and with it."""
    rows: list[dict[str, object]] = []
    for size in (0.0, effect):
        reasons = [_reason(pair, size) for pair in pairs]
        counts = np.zeros((2, len(pairs)), dtype=np.int64)
        for block in _blocks(pairs, reasons, size, draws, seed):
            passed, failed = block.verdicts(design)
            counts += np.stack([passed.sum(axis=1), failed.sum(axis=1)])
        for pair, reason, (n_passed, n_failed) in zip(pairs, reasons, counts.T.tolist(), strict=True):
            row: dict[str, object] = {"metric": pair.metric.name, "effect": size, "reason": reason}
            row |= {"n_tasks": pair.n_tasks, "draws": draws}
            if reason is None:
                share = n_failed / draws
                row |= {"passed": n_passed / draws, "failed": share}
                row |= {"inconclusive": (draws - n_passed - n_failed) / draws}
                row |= {"stderr": math.sqrt(share * (1.0 - share) / draws)}
            rows.append(row)
    order = {pair.metric.name: at for at, pair in enumerate(pairs)}
    return sorted(rows, key=lambda row: order[str(row["metric"])])


def _reason(pair: Paired, effect: float) -> str | None:
    """Why a metric has no power; None where it has."""
    if pair.problem is not None:
        return pair.problem
    if pair.n_tasks < 2:
        return "support.absent"
    if pair.metric.is_success and effect > max(0.0, pair.rate):
        return "signal.absent"
    return None


def _blocks(
    pairs: list[Paired], reasons: list[str | None], effect: float, draws: int, seed: int
) -> Iterator[OneSidedTests]:
    """P-values of all metrics in blocks of draws; tasks of one draw are swapped for all metrics at once."""
    names = sorted({task for pair in pairs for task in pair.tasks})
    places = [
        np.searchsorted(np.array(names, dtype=object), np.array(pair.tasks, dtype=object)) for pair in pairs
    ]
    coins = np.random.Generator(np.random.PCG64([seed, 0]))
    flips = [np.random.Generator(np.random.PCG64([seed, 1 + at])) for at in range(len(pairs))]
    block = max(1, _CELLS // max(len(names), 1))
    for start in range(0, draws, block):
        size = min(block, draws - start)
        swapped = coins.random((size, len(names))) < 0.5
        each = []
        for pair, reason, at, rng in zip(pairs, reasons, places, flips, strict=True):
            if reason is not None:
                each.append((np.full(size, math.nan),) * 3)
                continue
            gains = _gains(pair, swapped[:, at], effect, rng)
            each.append(p_values(gains, pair.metric, pair.within))
        yield OneSidedTests(*(np.array([p[which] for p in each]) for which in range(3)))


def _gains(pair: Paired, swapped: Bools, effect: float, rng: np.random.Generator) -> Floats:
    """Oriented differences (draws, tasks) after a swap of sides, with the effect in the side that is new."""
    gains: Floats = np.where(swapped, -pair.gains, pair.gains)
    if effect == 0.0:
        return gains
    if pair.metric.scale == "ratio":
        return gains - math.log1p(effect)
    if not pair.metric.is_success:
        return gains - effect
    base, new = pair.attempts
    of_new = np.where(swapped, base, new)
    rates = np.where(swapped, pair.base, pair.new)
    successes: Ints = np.rint(rates * of_new).astype(np.int64)
    lost = rng.binomial(successes, min(effect / pair.rate, 1.0))
    return gains - lost / of_new
