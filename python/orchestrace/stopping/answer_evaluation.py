"""Values of stopping rules on held-out runs, and how much better any rule could be."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from .. import _core
from ..base.arguments import Confidence, Folds, Resamples, Seed
from ..base.arrays import Bools, Floats, Ints
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.side_by_side import side_by_side
from ..base.taxonomy import concerns
from ..base.text import in_json
from ..base.verbs import verb
from ..decisions.rows import TIER
from ..statistics.influence import mean_interval
from ..statistics.learners import in_one_order
from ..statistics.resampling import Statistic, ratio_of, resampled
from ..statistics.sums import sums_of
from .answers import Answers, Price, Problem, answers
from .censoring import Estimand, claimed, seen
from .continuation import Regress, of_trees, regressed_by
from .epochs import REASON
from .stopping_rules import METHODS

FEWEST_ROWS: Final = 30
"""Runs that an epoch needs for the test of the dual."""

VALUES: Final = pl.Schema(
    {
        "method": pl.String(),
        "value": pl.Float64(),
        "lower": pl.Float64(),
        "upper": pl.Float64(),
        "gain": pl.Float64(),
        "gain_lower": pl.Float64(),
        "gain_upper": pl.Float64(),
        "bound": pl.Float64(),
        "bound_lower": pl.Float64(),
        "bound_upper": pl.Float64(),
        "bound_kind": pl.Enum(["upper", "upper_approx"]),
        "mean_k": pl.Float64(),
        "quality": pl.Float64(),
        "cost": pl.Float64(),
        "early": pl.Float64(),
        "n_runs": pl.UInt32(),
        "n_tasks": pl.UInt32(),
        "ess": pl.Float64(),
        "horizon": pl.UInt32(),
        "estimand": pl.String(),
        "tier": TIER,
        "reason": REASON,
        "params": pl.String(),
    }
)
"""Columns and types of what `evaluate` returns."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Where a rule stops in each run, fitted without its task; of learned rules their values of rows.

    ``weight`` says how many runs each one stands for, 0 where it was recorded up to no stop of the rule.
    """

    stop: Ints
    weight: Floats
    worth: Floats | None
    expected: Floats | None


@concerns("O5")
@verb
@in_one_order
def evaluate(
    epochs: pl.DataFrame,
    methods: Sequence[str] | None = None,
    *,
    problem: Problem = "answer",
    estimand: Estimand = "capped",
    price: Price = 0.0,
    cost: str = "epochs",
    features: Sequence[str] | None = None,
    trees: bool = False,
    folds: Folds = 5,
    confidence: Confidence = 0.95,
    n_boot: Resamples = 2000,
    seed: Seed = 0,
) -> pl.DataFrame:
    """Evaluate stopping rules on runs that they have not seen.

    Parameters
    ----------
    epochs
        Epochs, as `epochs` or `epochs_from_frame` makes them, with features in columns ``x_...``.
    methods
        Names of `rules`; None is all of them.
    problem
        ``"answer"``: stop and hand over what there is, payoff q_k - price · cost. ``"abort"``: stop and give
        up, payoff - price · cost before the last epoch, y - price · cost at it.
    estimand
        ``"capped"``: the recorded stop is a cap that no rule lifts; every rule is observed. ``"uncapped"``:
        as if the recorded policy had never stopped a run, of the problem ``"answer"`` alone. Runs that went
        on stand for like ones that were stopped, which holds if stops depended on nothing but the features.
    price, cost
        What one unit of ``cost`` costs (``"epochs"``, ``"tokens"``, ``"seconds"``, ``"usd"``), in units of
        the quality; or prices by cost. ``cost`` is also what the rule ``budget`` counts.
    features
        Columns that learned rules look at; None is every ``x_...``.
    trees
        Boosted trees instead of ridge, for ``lsm tvr fqi``: they bend where they have to, and take longer
        (the extra ``fit``).
    folds, seed
        Parts of the tasks: the rule of a run is fitted without its task. The seed of the parts and resamples.
    confidence, n_boot
        Coverage of the intervals, resamples of tasks.

    Returns
    -------
    DataFrame
        One row per rule. ``value lower upper``: mean payoff per run, interval over tasks with the rules held
        fixed; in expectation no learned rule is above the optimum, whatever its fit. ``gain gain_lower
        gain_upper``: less that of ``fixed``, run by run. ``bound bound_lower bound_upper``: for learned rules
        a dual upper bound on every rule that sees no more than the features; ``bound_kind`` is
        ``upper_approx`` where the increments of its martingale are not 0 on average (a test at 5 %,
        Bonferroni over epochs). ``mean_k quality cost`` at the stop, ``early`` the share of runs cut before
        their end. ``ess``: effective runs behind the value, all of them if capped. ``horizon``: the last
        epoch that the claim goes to, at which every rule stops; if that is not the last one recorded,
        ``reason`` is ``overlap.absent`` and `support` says why. Beyond the floats a mean is null, with
        ``result.range``. ``tier`` is ``observed`` if capped: earlier
        stops are in the recording; else ``surrogate``. ``recorded`` is what was done, with either estimand;
        ``oracle`` looks into the future, so nobody can follow it.

    Raises
    ------
    ParameterError
        An unknown rule, feature or word, or a number out of range.
    SchemaError
        Epochs that contradict each other, or lack what the problem needs.

    Notes
    -----
    O(Σ K · p² · folds) for p columns. Source: Snell 1952; Longstaff & Schwartz 2001; Tsitsiklis & Van Roy
    2001; dual bound, Rogers 2002, Haugh & Kogan 2004; weights, Robins & Rotnitzky 1992, normalized, Hájek
    1971; docs/reference/definitions.md, D29.

    Examples
    --------
    >>> import orchestrace as ot
    >>> epochs, truth = ot.synthetic.stops(runs=200, seed=0)
    >>> table = ot.stopping.evaluate(epochs, ["recorded", "fixed", "lsm"], price=truth.price, n_boot=200)
    >>> table["method"].to_list()
    ['recorded', 'fixed', 'lsm']
    """
    names = named(methods)
    regress = regressed_by(trees)
    runs = answers(
        epochs,
        problem=problem,
        price=price,
        cost=cost,
        folds=folds,
        seed=seed,
        features=None if features is None else tuple(features),
        by_name=True,
    )
    claim = claimed(runs, estimand, problem)
    runs = claim.runs
    options = {
        "problem": problem,
        "estimand": estimand,
        "price": dict(price) if isinstance(price, Mapping) else price,
        "cost": cost,
        "features": list(runs.names),
        "trees": trees,
        "folds": folds,
        "confidence": confidence,
        "n_boot": n_boot,
        "seed": seed,
        "version": _core.VERSION,
    }
    same: dict[str, Any] = {
        "params": json.dumps(options, sort_keys=True, default=in_json),
        "estimand": estimand,
        "tier": "observed" if estimand == "capped" else "surrogate",
        "horizon": claim.horizon,
    }
    same |= {"n_runs": len(runs), "n_tasks": runs.n_tasks}
    rows = []
    with np.errstate(over="ignore", invalid="ignore"):  # what is beyond the floats has a reason
        base = held_out(runs, "fixed", regress) if len(runs) else None
        for name in names:
            if base is None:
                rows.append({"method": name, "reason": "support.absent", **same})
                continue
            out = base if name == "fixed" else held_out(runs, name, regress)
            row = _row(runs, out, base, confidence, n_boot, seed)
            row["reason"] = row["reason"] or claim.reason
            rows.append({"method": name, **same} | row)
    return pl.DataFrame(rows, schema=VALUES)


def named(methods: Sequence[str] | None) -> list[str]:
    """Names of rules, each once."""
    if methods is None:
        return list(METHODS)
    if isinstance(methods, str):
        raise ParameterError(f"methods is {methods!r}, expected a list of names: [{methods!r}]")
    for name in methods:
        if name not in METHODS:
            raise ParameterError(unknown_name("rule of stopping", str(name), list(METHODS)))
    return list(dict.fromkeys(methods))


def held_out(runs: Answers, name: str, regress: Regress) -> HeldOut:
    """A rule on every run, fitted without the tasks of its fold."""
    stop, weight = np.zeros(len(runs), np.int64), np.zeros(len(runs))
    learned = METHODS[name].learned
    worth, expected = (np.zeros(len(runs.k)) if learned else None for _ in range(2))
    if learned:
        _ = runs.payoffs  # made once, before the folds ask for it at the same time

    def of_fold(fold: int) -> None:
        inside = np.flatnonzero(runs.fold == fold)
        others = np.flatnonzero(runs.fold != fold)
        if not len(others):  # one task: nothing could be held out
            others = inside
        fitted = METHODS[name].fit(runs, others, regress)
        part, rows = runs.take(inside), runs.rows_of(inside)
        if worth is not None and fitted.worth is not None:
            worth[rows] = part_worth = fitted.worth(part)
            flags = part.g >= part_worth
            if expected is not None and fitted.expect is not None:
                expected[rows] = fitted.expect(part, part_worth)
        else:
            flags = fitted.stop(part)
        stops = part.stops(flags)
        stop[inside] = stops + runs.start[inside] - part.start
        weight[inside] = seen(part, flags, stops, METHODS[name].needs)

    # trees hold OpenMP while they are fitted, which is a thing of the process
    threads = 1 if regress is of_trees else None
    side_by_side(of_fold, np.unique(runs.fold).tolist(), len(runs.k), threads=threads)
    return HeldOut(stop, weight, worth, expected)


def _row(
    runs: Answers, out: HeldOut, base: HeldOut, confidence: float, n_boot: int, seed: int
) -> dict[str, Any]:
    n = runs.n_tasks

    def mean(values: Floats, times: Floats) -> Statistic:
        return ratio_of(sums_of(values * times, runs.task, n), sums_of(times, runs.task, n))

    def around(statistic: Statistic) -> tuple[float | None, float | None, float | None]:
        return resampled(statistic, n, n_boot=n_boot, confidence=confidence, seed=seed)

    paid, of_base = runs.g[out.stop], runs.g[base.stop]
    ours, theirs = mean(paid, out.weight), mean(of_base, base.weight)
    value, lower, upper = around(ours)
    alike = np.array_equal(out.weight, base.weight)
    gain, gain_lower, gain_upper = around(
        mean(paid - of_base, out.weight) if alike else lambda times: ours(times) - theirs(times)
    )
    means = {
        "mean_k": _mean_if_complete(runs.k[out.stop], out.weight),
        "quality": _mean_if_complete(runs.q[out.stop], out.weight),
        "cost": _mean_if_complete(runs.c[out.stop], out.weight),
        "early": _mean_if_complete(~runs.final[out.stop], out.weight),
    }
    beyond = np.inf in means.values() or (value is None and bool(out.weight.any()))
    row: dict[str, Any] = {
        "value": value,
        "lower": lower,
        "upper": upper,
        "gain": gain,
        "gain_lower": gain_lower,
        "gain_upper": gain_upper,
        **{name: None if number == np.inf else number for name, number in means.items()},
        "ess": float(out.weight.sum() ** 2 / max(np.square(out.weight).sum(), 1.0)),
        "reason": "result.range" if beyond else None if lower is not None else "support.absent",
    }
    if out.worth is not None and out.expected is not None:
        bound, approximate = dual(runs, out.worth, out.expected)
        # the best stop of a run that was cut is unknown
        bound_mean, low, high = around(mean(bound, np.where(runs.cut, 0.0, runs.weight[runs.end])))
        row |= {"bound": bound_mean, "bound_lower": low, "bound_upper": high}
        row |= {"bound_kind": "upper_approx" if approximate else "upper"}
    return row


def _mean_if_complete(values: Floats | Ints | Bools, times: Floats) -> float | None:
    """The weighted mean; None where a value is not known or nothing counts, infinite beyond the floats."""
    numbers = values.astype(np.float64)
    if np.isnan(numbers).any() or not times.any():
        return None
    mean = float(np.average(numbers, weights=times))
    return mean if np.isfinite(mean) else np.inf


def dual(runs: Answers, worth: Floats, expected: Floats) -> tuple[Floats, bool]:
    """max_k (g_k - M_k) of each run, M the martingale of the fitted values; and whether M fails a test.

    M_1 = 0, M_k = M_{k-1} + Û_k - Ê[Û_k | x_{k-1}], Û_k = max(g_k, Ĉ_k), Û_K = g_K, where Ê is a regression
    of its own, on cells of the features: increments have to be 0 on average given what is known, and are
    tested so among low, middle and high expectations. O(rows).
    """
    before = np.append(np.nan, expected[:-1])
    before[runs.start] = np.nan
    step = np.where(runs.final, runs.g, np.maximum(runs.g, worth))
    step -= before
    # beyond the deepest epoch that was fitted the value of going on is unknown: no increment
    step[~np.isfinite(before)] = 0.0
    sums = np.cumsum(step)
    sums -= np.repeat(sums[runs.start], runs.length)
    bound: Floats = np.maximum.reduceat(np.subtract(runs.g, sums, out=sums), runs.start)
    del sums
    task = np.repeat(runs.task, runs.length)

    def thirds(k: int) -> list[Ints]:
        rows = runs.layers.at(k)
        rows = rows[np.isfinite(before[rows])]
        if len(rows) < FEWEST_ROWS:
            return []
        low, high = np.quantile(before[rows], [1 / 3, 2 / 3], method="inverted_cdf")
        third = (before[rows] > low) * 1 + (before[rows] > high)
        return [rows[third == part] for part in range(3) if (third == part).sum() >= FEWEST_ROWS]

    parts = side_by_side(thirds, range(2, int(runs.length.max(initial=1)) + 1), len(step))
    tested = [rows for of_epoch in parts for rows in of_epoch]

    def is_off(rows: Ints) -> bool:
        around = mean_interval(step[rows], task[rows], confidence=1.0 - 0.05 / len(tested)).around
        if around.lower is None or around.upper is None:
            return False
        return not around.lower <= 0.0 <= around.upper

    return bound, any(side_by_side(is_off, tested, len(step)))
