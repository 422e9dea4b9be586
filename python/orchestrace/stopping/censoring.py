"""Stops of the recorded policy as censoring: weighted values of runs beyond them.

    W_k = Π_{j<k} 1 / (1 - ĥ_j(x_j))        ĥ_j(x_j) = P(K = j | K >= j, x_j)

A run that was recorded up to epoch k stands for W_k runs that the recorded policy would never have stopped.
That holds if its stop depends on nothing but x_j, and if no x_j makes it certain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import polars as pl

from ..base.arguments import Folds, Seed
from ..base.arrays import Bools, Floats, Ints
from ..base.errors import ParameterError
from ..base.verbs import verb
from ..statistics.learners import in_one_order
from ..statistics.regression import logistic, sigmoid
from .answers import Answers, answers
from .designs import Basis
from .epochs import REASON

Estimand = Literal["capped", "uncapped"]
Needs = Literal["nothing", "stop", "next", "end"]
"""Which part of a run must be recorded for the payoff of a rule to be known."""

FOLDS: Final = 5
PULL: Final = 1.0
"""Penalty of the logistic regression, on standardized columns."""
QUANTILE: Final = 0.99
"""Weights of an epoch are cut here."""
FEWEST_RUNS: Final = 30
"""Effective runs that an epoch needs for a claim about it."""
MOST_CERTAIN: Final = 0.99
"""Above this probability of a stop, too few runs go on to represent the others."""

OVERLAP: Final = pl.Schema(
    {
        "k": pl.UInt32(),
        "n_runs": pl.UInt32(),
        "n_stopped": pl.UInt32(),
        "hazard": pl.Float64(),
        "hazard_max": pl.Float64(),
        "weight_max": pl.Float64(),
        "ess": pl.Float64(),
        "claimed": pl.Boolean(),
        "reason": REASON,
    }
)
"""Columns and types of what `support` returns."""


@dataclass(frozen=True, eq=False)
class Claim:
    """Runs up to the last epoch that something can be said of, and whether that is the last one recorded."""

    runs: Answers
    horizon: int | None
    reason: str | None


@verb
@in_one_order
def support(
    epochs: pl.DataFrame, *, features: Sequence[str] | None = None, folds: Folds = 5, seed: Seed = 0
) -> pl.DataFrame:
    """Report up to which epoch recordings support claims about runs that go on past their recorded stop.

    Parameters
    ----------
    epochs
        Epochs, as `epochs` or `epochs_from_frame` makes them, with features in columns ``x_...``.
    features
        Columns that the recorded stop may depend on; None is every ``x_...``.
    folds, seed
        Parts of the tasks: the chance of a stop is fitted without the task. The seed of the parts.

    Returns
    -------
    DataFrame
        One row per epoch: ``k`` (UInt32) ``n_runs n_stopped`` (UInt32: runs recorded up to it, and those that
        the recorded policy stopped there) ``hazard hazard_max`` (Float64: mean and greatest fitted chance of
        such a stop; null where no run could go on) ``weight_max`` (Float64: runs that one recorded run stands
        for at most) ``ess`` (Float64: effective runs, (Σ W)² / Σ W²) ``claimed`` (Boolean: `evaluate` with
        ``estimand="uncapped"`` goes up to it) ``reason`` (``overlap.absent`` where not).

    Raises
    ------
    ParameterError
        An unknown feature, or a number out of range.
    SchemaError
        Epochs that contradict each other, or without a quality.

    Notes
    -----
    A run ends by itself at the greatest k of all runs, and where ``end`` is ``error``; every other end is a
    stop of the recorded policy. O(Σ K · p² · folds) for p columns. Source: inverse probability of censoring
    weights, Robins & Rotnitzky 1992; docs/reference/definitions.md, D29.

    Examples
    --------
    >>> import orchestrace as ot
    >>> epochs, _ = ot.synthetic.stops(runs=400, seed=0)
    >>> ot.stopping.support(epochs).filter("claimed")["k"].to_list()
    [1, 2, 3, 4, 5, 6, 7, 8]
    """
    chosen = None if features is None else tuple(features)
    runs = answers(
        epochs,
        problem="answer",
        price=0.0,
        cost="epochs",
        folds=folds,
        seed=seed,
        features=chosen,
        by_name=True,
    )
    return _weighted(runs)[1] if len(runs) else pl.DataFrame(schema=OVERLAP)


def claimed(runs: Answers, estimand: Estimand, problem: str) -> Claim:
    """Runs with the weights of an estimand, and how far a claim goes.

    Raises
    ------
    ParameterError
        A problem whose stops cannot be lifted.
    """
    if estimand == "uncapped" and problem != "answer":
        raise ParameterError(
            f"estimand is 'uncapped' with problem '{problem}', expected problem 'answer':"
            " no recording contains the outcome of a continued run"
        )
    deepest = int(runs.length.max(initial=0))
    if estimand == "capped" or not len(runs):
        return Claim(runs, deepest or None, None)
    weighted, table = _weighted(runs)
    horizon = int(table["claimed"].sum())
    return Claim(weighted, horizon, None if horizon == deepest else "overlap.absent")


def stopped(runs: Answers) -> Bools:
    """Runs that the recorded policy stopped: they neither reached the greatest k nor failed."""
    short: Bools = (runs.length < runs.length.max(initial=0)) & ~runs.failed
    return short


def hazards(runs: Answers, censored: Bools) -> Floats:
    """The chance that the recorded policy stops at each row, fitted without its task; 0 at natural ends.

    Pooled logistic regression on k, the features and their squares, ridge of `PULL`. O(rows · columns² ·
    folds).
    """
    chances = np.zeros(len(runs.k))
    choice = _choices(runs, censored)
    stop = (runs.last & choice).astype(np.float64)
    x = np.concatenate([runs.k.astype(np.float64)[:, None], runs.features], axis=1)
    fold = runs.fold[runs.run]
    for part in np.unique(runs.fold):
        judged, learnt = choice & (fold == part), choice & (fold != part)
        if not (fold != part).any():  # one task: nothing could be held out
            learnt = choice
        if not stop[learnt].any():
            continue
        with np.errstate(over="ignore", invalid="ignore"):  # squares of features may be beyond the floats
            basis = Basis.of(x[learnt])
            weights = logistic(_with_intercept(basis, x[learnt]), stop[learnt], PULL)
            fitted = sigmoid(_with_intercept(basis, x[judged]) @ weights)
        # where nothing can be said of a stop, nothing says that the run could have gone on
        chances[judged] = np.where(np.isnan(fitted), 1.0, fitted)
    return chances


def _with_intercept(basis: Basis, x: Floats) -> Floats:
    """The design of a regression, (rows, 1 + columns) float64."""
    return np.concatenate([np.ones((1, len(x))), basis.columns(x)]).T


def _choices(runs: Answers, censored: Bools) -> Bools:
    """Rows at which the recorded policy could stop the run or go on: all but natural ends."""
    choices = ~runs.last
    choices[runs.end[censored]] = True
    return choices


def _weighted(runs: Answers) -> tuple[Answers, pl.DataFrame]:
    censored = stopped(runs)
    return weighted(runs, censored, hazards(runs, censored))


def weighted(runs: Answers, censored: Bools, hazard: Floats) -> tuple[Answers, pl.DataFrame]:
    """Runs up to the last epoch that a claim may go to, with their weights; and the table of `support`.

    A claim ends before the first epoch with fewer than `FEWEST_RUNS` effective runs, where some run was
    stopped before, and at the first one with a row whose stop was all but certain.
    """
    deepest = int(runs.length.max())
    uncut = np.ones(len(runs))  # W of each run at the epoch of the loop, before it is cut
    weight = np.ones(len(runs.k))
    choices = _choices(runs, censored)
    horizon, is_open, table = deepest, True, []
    for k in range(1, deepest + 1):
        of = np.flatnonzero(runs.length >= k)
        rows = runs.start[of] + k - 1
        stops = int((censored & (runs.length == k)).sum())
        row: dict[str, object] = {"k": k, "n_runs": len(of), "n_stopped": stops}
        if is_open:
            now = np.minimum(uncut[of], np.quantile(uncut[of], QUANTILE, method="inverted_cdf"))
            ess = float(now.sum() ** 2 / np.square(now).sum())
            row |= {"weight_max": float(now.max()), "ess": ess}
            if (censored & (runs.length < k)).any() and ess < FEWEST_RUNS:
                horizon, is_open = k - 1, False
        if is_open:
            weight[rows] = now
            chance = hazard[rows]
            if choices[rows].any():
                row |= {"hazard": float(chance[choices[rows]].mean()), "hazard_max": float(chance.max())}
            row["claimed"] = True
            if (chance > MOST_CERTAIN).any():
                horizon, is_open = k, False
            else:
                uncut[of] /= 1.0 - chance
        table.append({"claimed": False, "reason": None if "claimed" in row else "overlap.absent"} | row)
    return _up_to(runs, horizon, weight, censored), pl.DataFrame(table, schema=OVERLAP)


def _up_to(runs: Answers, horizon: int, weight: Floats, censored: Bools) -> Answers:
    """The runs as if every one ended at the horizon at the latest."""
    inside = runs.k <= horizon
    length = np.minimum(runs.length, horizon)
    return replace(
        runs,
        start=np.cumsum(length) - length,
        length=length,
        cut=censored & (runs.length < horizon),
        weight=weight[inside],
        x=runs.x[:, : runs.layers.begin[horizon]],
        **{name: getattr(runs, name)[inside] for name in ("k", "q", "s", "c", "g")},
    )


def seen(runs: Answers, stop: Bools, at: Ints, needs: Needs) -> Floats:
    """How many runs each one stands for when a rule stops it at the rows `at`, (runs,) float64.

    0 where the recording ends before the rule stops, so that its payoff is unknown.
    """
    if needs == "nothing":  # the recorded stop is there, whatever it depends on
        return np.ones(len(runs))
    last = at == runs.end
    if needs == "stop":
        return np.where(runs.cut & last & ~stop[at], 0.0, runs.weight[at])
    if needs == "next":  # it stops because of what the next epoch costs
        return np.where(runs.cut & last, 0.0, runs.weight[np.minimum(at + 1, runs.end)])
    return np.where(runs.cut, 0.0, runs.weight[runs.end])
