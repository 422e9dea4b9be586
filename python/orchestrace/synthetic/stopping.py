"""Epochs whose best rule of stopping is known: quality on a ladder, and a cost for each epoch."""

from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
import polars as pl

from ..base.arguments import Chance, Finite, Number, Seed, Size
from ..base.arrays import Floats
from ..base.verbs import verb
from ..statistics.regression import sigmoid

#: Chances to climb a step and to fall one, by step: progress slows, and what is good may spoil.
UP: Final = np.array([0.55, 0.45, 0.6, 0.15, 0.0])
DOWN: Final = np.array([0.0, 0.05, 0.1, 0.2, 0.45])
BEGIN: Final = np.array([0.4, 0.3, 0.2, 0.1, 0.0])


@dataclass(frozen=True)
class StopTruth:
    """The exact values of stopping rules, in the mean over all runs that could be drawn.

    ``value`` of the best rule that sees the past, ``fixed`` of the best fixed k, ``recorded`` of never
    stopping early; all at the ``price`` of an epoch, in runs that end where the recorded policy stops them.
    ``uncapped`` and ``uncapped_fixed``: the same of the best rule and the best fixed k, had the recorded
    policy never stopped a run.
    """

    price: float
    value: float
    fixed: float
    recorded: float
    uncapped: float
    uncapped_fixed: float


@verb
def stops(
    runs: Size = 1000,
    *,
    deepest: Size = 8,
    price: Finite = 0.06,
    end: Chance = 0.1,
    lean: Annotated[float, Number(-20, 20)] = 0.0,
    runs_per_task: Size = 5,
    seed: Seed = 0,
) -> tuple[pl.DataFrame, StopTruth]:
    """Draw runs of epochs for which the value of the best rule of stopping is known.

    Parameters
    ----------
    runs
        Runs, 1 or more.
    deepest
        The most epochs of a run.
    price
        What an epoch costs, in units of the quality.
    end
        The chance that the recorded policy stops a run at an epoch; with `lean`, at a quality of ½.
    lean
        How much the log-odds of that stop rise from a quality of 0 to one of 1; 0 is whatever the quality.
    runs_per_task
        Runs that share a task; they are independent of each other all the same.
    seed
        The same seed draws the same bits.

    Returns
    -------
    tuple of DataFrame and StopTruth
        Epochs: ``trace`` (UInt32) ``trace_id task_id`` (String) ``k`` (UInt32) ``q s`` (Float64: quality, one
        of 0, ¼, ½, ¾, 1) ``tokens`` (Float64: 100 per epoch) ``last`` (Boolean) ``y`` (Float64: 1 where the
        last quality is 1) and the features ``x_k x_q x_q_best x_q_delta`` (Float64); and what rules are
        worth.

    Raises
    ------
    ParameterError
        A number out of range.

    Notes
    -----
    Quality is a Markov chain, so that the best rule follows from (q, k) by exact backward induction, over at
    most 5 · `deepest` states: V_k(q) = h(q) · g + (1 - h(q)) · max(g, E V_{k+1}), g = q - price · k. h is the
    chance of the recorded stop, and 0 for the values that are uncapped.

    Examples
    --------
    >>> import orchestrace as ot
    >>> epochs, truth = ot.synthetic.stops(runs=10, seed=0)
    >>> truth.recorded < truth.fixed < truth.value
    True
    """
    hazard = _hazard(end, lean)
    rng = np.random.Generator(np.random.PCG64([seed, 1]))
    levels = np.zeros((runs, deepest), np.int64)
    levels[:, 0] = np.searchsorted(np.cumsum(BEGIN), rng.random(runs), side="right")
    for k in range(1, deepest):
        drawn, at = rng.random(runs), levels[:, k - 1]
        levels[:, k] = at + (drawn < UP[at]) - ((drawn >= UP[at]) & (drawn < UP[at] + DOWN[at]))
    goes_on = rng.random((runs, deepest - 1)) >= hazard[levels[:, : deepest - 1]]
    alive = np.cumprod(goes_on, axis=1)
    length = 1 + alive.sum(axis=1).astype(np.int64)
    run = np.repeat(np.arange(runs), length)
    k = np.arange(length.sum()) - np.repeat(np.cumsum(length) - length, length) + 1
    q = levels[run, k - 1] / 4.0
    end_q = levels[np.arange(runs), length - 1] / 4.0
    frame = pl.DataFrame(
        {
            "trace": run.astype(np.uint32),
            "k": k.astype(np.uint32),
            "q": q,
            "s": q,
            "tokens": 100.0 * k,
            "last": k == length[run],
            "y": (end_q[run] == 1.0).astype(np.float64),
        }
    ).with_columns(
        trace_id=pl.format("run-{}", "trace"),
        task_id=pl.format("task-{}", pl.col("trace") // runs_per_task),
        x_k=pl.col("k").cast(pl.Float64),
        x_q=pl.col("q"),
        x_q_best=pl.col("q").cum_max().over("trace"),
        x_q_delta=(pl.col("q") - pl.col("q").shift(1).over("trace")).fill_null(0.0),
    )
    columns = ("trace", "trace_id", "task_id", "k", "q", "s", "tokens", "last", "y")
    return frame.select(*columns, "^x_.*$"), _truth(deepest, price, hazard)


def _hazard(end: float, lean: float) -> Floats:
    """The chance of the recorded stop, by step of the ladder."""
    if not lean or not end:
        return np.full(5, end)
    return sigmoid(np.log(end / (1.0 - end)) + lean * (np.arange(5) / 4.0 - 0.5))


def _truth(deepest: int, price: float, hazard: Floats) -> StopTruth:
    """Exact values, by backward induction."""
    chain = np.diag(1.0 - UP - DOWN) + np.diag(UP[:-1], 1) + np.diag(DOWN[1:], -1)
    quality = np.arange(5) / 4.0

    def worth(hazard: Floats, stop: "np.ndarray[tuple[int], np.dtype[np.bool_]] | None") -> float:
        """Of the best rule, or of the one that stops at the epochs flagged."""
        value: Floats = quality - price * deepest
        for k in range(deepest - 1, 0, -1):
            now, later = quality - price * k, chain @ value
            go_on = np.maximum(now, later) if stop is None else now if stop[k - 1] else later
            value = hazard * now + (1.0 - hazard) * go_on
        return float(BEGIN @ value)

    never = np.zeros(deepest, bool)
    at = [np.arange(1, deepest + 1) >= k for k in range(1, deepest + 1)]
    free = np.zeros(5)
    return StopTruth(
        price=price,
        value=worth(hazard, None),
        fixed=max(worth(hazard, rule) for rule in at),
        recorded=worth(hazard, never),
        uncapped=worth(free, None),
        uncapped_fixed=max(worth(free, rule) for rule in at),
    )
