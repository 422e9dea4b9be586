"""Slopes over training: Theil and Sen's, with intervals over tasks."""

from typing import Any, Final

import numpy as np
import polars as pl

from ...base.arrays import Floats, Ints
from ...statistics.resampling import draws, percentiles
from ...statistics.sums import sums_of
from .detectors import FEWEST_TASKS, FEWEST_TRACES, Resampling

FEWEST_STEPS: Final = 5
"""Steps of training that a slope over them needs."""

_CHUNK: Final = 1 << 22  # cells of a block of slopes


def slope(
    family: str,
    name: str,
    column: str,
    frame: pl.DataFrame,
    resampling: Resampling,
    reward: str | None = None,
) -> dict[str, Any]:
    """The row of the slope of a column over steps of training, but for its bound and ``params``."""
    rows = frame.drop_nulls(["train_step", column]).sort("train_step", "task", maintain_order=True)
    row: dict[str, Any] = {"family": family, "detector": name, "reward": reward, "unit_id": None}
    row |= {"train_step": None, "value": None, "lower": None, "upper": None, "alarm": False}
    row |= {"n_traces": rows.height, "n_tasks": rows["task"].n_unique(), "reason": None}
    parts = rows.partition_by("train_step", maintain_order=True)
    if len(parts) < 2:
        return row | {"reason": "field.absent"}
    steps = np.array([part["train_step"][0] for part in parts])
    sides = [_sums(part["task"], part[column].cast(pl.Float64).to_numpy()) for part in parts]
    means = np.array([[total.sum() / count.sum()] for total, count in sides])
    row["value"] = float(theil_sen(steps, means)[0])
    fewest = min(count.size for _, count in sides)
    if len(parts) < FEWEST_STEPS or rows.height < FEWEST_TRACES or fewest < FEWEST_TASKS:
        return row | {"reason": "support.absent"}
    drawn = np.stack(
        [
            np.concatenate(
                [
                    (times @ total) / (times @ count)
                    for times in draws(count.size, resampling["n_boot"], resampling["seed"], stream=at + 1)
                ]
            )
            for at, (total, count) in enumerate(sides)
        ]
    )
    lower, upper = percentiles(theil_sen(steps, drawn), fewest, resampling["confidence"])
    if lower is None or upper is None:
        return row | {"reason": "support.absent"}
    return row | {"lower": lower, "upper": upper}


def _sums(task: pl.Series, values: Floats) -> tuple[Floats, Floats]:
    """Of each task the sum of its values, and their number."""
    _, tasks = np.unique(task.to_numpy(), return_inverse=True)
    n = int(tasks.max()) + 1
    return sums_of(values, tasks, n), sums_of(np.ones(tasks.size), tasks, n)


def theil_sen(steps: Floats, means: Floats) -> Floats:
    """The median over pairs of steps of the slope between them, by column of `means` (steps, columns)."""
    first: Ints
    second: Ints
    first, second = np.triu_indices(steps.size, 1)
    apart = (steps[second] - steps[first])[:, None]
    columns = max(1, _CHUNK // apart.size)
    medians = [
        np.median((means[second, at : at + columns] - means[first, at : at + columns]) / apart, axis=0)
        for at in range(0, means.shape[1], columns)
    ]
    return np.concatenate(medians) if medians else np.zeros(0)
