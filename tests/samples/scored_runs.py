"""Runs with step scores whose distribution is known: frames of steps, strategies, the true ratio."""

from typing import Any

import numpy as np
import polars as pl
from hypothesis import strategies as st

from orchestrace.stopping.ratio import Ratio, StepModel
from reference.stopping import Run

GRID = [0.0, 0.25, 0.5, 0.75, 1.0]
END = {True: 0.4, False: 0.15}
"""The chance that a run ends after an epoch, of successes and of failures."""
SHIFT = 0.8
"""Scores are normal with deviation 1, around 0 for successes and around -SHIFT for failures."""
LONGEST = 12


def steps(runs: list[Run]) -> pl.DataFrame:
    """A row per step, with tokens of the step."""
    rows: list[dict[str, Any]] = []
    for run in runs:
        before = 0.0
        for k, (score, cost) in enumerate(zip(run.scores, run.costs, strict=True), 1):
            rows.append(
                {
                    "run": run.name,
                    "task": run.task,
                    "step": k,
                    "score": score,
                    "tokens": cost - before,
                    "success": run.success,
                }
            )
            before = cost
    kinds = {"run": pl.String, "task": pl.String, "step": pl.Int64, "score": pl.Float64}
    return pl.DataFrame(rows, schema=kinds | {"tokens": pl.Float64, "success": pl.Boolean})


@st.composite
def scored(draw: st.DrawFn, least: int = 1, on_grid: bool = False) -> list[Run]:
    """Runs of a few epochs, some of one task."""
    value = st.sampled_from(GRID) if on_grid else st.floats(-2.0, 2.0, allow_nan=False, width=16)
    runs = []
    for at in range(draw(st.integers(least, 12))):
        scores = draw(st.lists(value, min_size=1, max_size=5))
        each = draw(st.lists(st.integers(0, 9), min_size=len(scores), max_size=len(scores)))
        costs = [float(sum(each[: k + 1]) + 1) for k in range(len(scores))]
        runs.append(Run(f"r{at:02}", scores, costs, draw(st.booleans()), f"t{draw(st.integers(0, 20))}"))
    return runs


def drawn(rng: np.random.Generator, n: int, success: bool) -> list[np.ndarray]:
    """Scores of n runs with one outcome."""
    length = np.minimum(rng.geometric(END[success], n), LONGEST)
    center = 0.0 if success else -SHIFT
    return [rng.normal(center, 1.0, size) for size in length]


def planted(rng: np.random.Generator, n: int, share: float = 0.6) -> list[Run]:
    """Runs of which a share succeed, each a task of its own; every epoch costs 1."""
    won = rng.random(n) < share
    found = []
    for at, success in enumerate(won):
        (scores,) = drawn(rng, 1, bool(success))
        costs = [float(k + 1) for k in range(len(scores))]
        found.append(Run(f"r{at:05}", scores.tolist(), costs, bool(success), f"r{at:05}"))
    return found


def true_ratio(survival: bool) -> Ratio:
    """The ratio of `drawn` runs, for equal shares of both outcomes: it is linear in the scores."""
    models, going = {}, {}
    for k in range(1, LONGEST + 1):
        # ln of the ratio of the normals is -SHIFT s - SHIFT²/2 per epoch, of reaching k that of survivals
        reach = (k - 1) * np.log((1.0 - END[False]) / (1.0 - END[True]))
        weights = np.concatenate([[reach - k * SHIFT**2 / 2.0], np.full(k, -SHIFT)])
        models[k] = StepModel(np.zeros(k), np.ones(k), weights)
        on = np.log((1.0 - END[False]) / END[False])
        if survival and k < LONGEST:
            going[k] = StepModel(np.zeros(k), np.ones(k), np.concatenate([[on], np.zeros(k)]))
    return Ratio(0.0, models, going)
