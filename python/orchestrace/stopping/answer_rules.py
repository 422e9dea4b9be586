"""Rules of stopping for callers: the list, a fitted rule, regret, rows for training."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl

from .. import _core
from ..base.arguments import Folds, Seed
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.taxonomy import concerns
from ..base.text import in_json
from ..base.verbs import verb
from ..statistics.learners import in_one_order
from .answer_evaluation import held_out, named
from .answers import Answers, Layout, Price, Problem, answers, laid_out
from .censoring import FOLDS, Estimand, claimed
from .continuation import regressed_by
from .epochs import REASON
from .runs import check_epochs
from .stopping_rules import METHODS, Fitted

REGRETS: Final = pl.Schema(
    {
        "trace": pl.UInt32(),
        "trace_id": pl.String(),
        "task_id": pl.String(),
        "k": pl.UInt32(),
        "k_best": pl.UInt32(),
        "regret": pl.Float64(),
        "over_run": pl.Boolean(),
        "under_run": pl.Float64(),
        "termination_lag": pl.Float64(),
        "reason": REASON,
        "lag_reason": REASON,
    }
)
"""Columns and types of what `regret` returns."""

_SURELY: Final = 1e-9
"""How far below 1 a quality may be that passes."""


@verb
def list_rules() -> pl.DataFrame:
    """List the rules that `evaluate` compares.

    Returns
    -------
    DataFrame
        A row per rule: ``method summary reference`` (String), ``learned`` (Boolean: it says what going on is
        worth, so that `evaluate` gives an upper bound) and ``peeks`` (Boolean: it sees what no rule can
        know).

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.stopping.list_rules().filter("learned")["method"].to_list()
    ['tabular', 'lsm', 'tvr', 'fqi']
    """
    rows = [
        {"method": name, "summary": rule.summary, "reference": rule.reference, "learned": rule.learned}
        | {"peeks": rule.peeks}
        for name, rule in METHODS.items()
    ]
    return pl.DataFrame(rows)


@dataclass(frozen=True, eq=False)
class StoppingRule:
    """A fitted rule that decides at each epoch whether to stop, from what is known by then.

    ``method`` is its name in `rules`, ``constant`` the number that a simple rule found, which its
    summary in `rules` names, ``params`` what it was fitted with, as JSON.
    """

    method: str
    constant: float | None
    params: str
    _fitted: Fitted = field(repr=False)
    _options: dict[str, Any] = field(repr=False)

    @verb
    @in_one_order
    def apply(self, epochs: pl.DataFrame) -> pl.DataFrame:
        """Say at every epoch whether the rule stops there.

        Parameters
        ----------
        epochs
            Epochs of any runs, with the columns that the rule was fitted on; a run that goes on still is
            given as far as it has come.

        Returns
        -------
        DataFrame
            The rows of `epochs` in order of ``trace`` and ``k``: ``trace trace_id k``, ``payoff`` (Float64,
            of stopping here), ``continuation`` (Float64: of learned rules, what going on is worth; null
            beyond the deepest epoch that was fitted), ``stop`` (Boolean: the rule says so here).

        Raises
        ------
        ParameterError
            A feature that the rule looks at is missing.
        SchemaError
            Epochs that contradict each other, or lack what the rule needs.
        """
        rows = check_epochs(epochs)
        runs = laid_out(rows, Layout(**self._options))
        worth = np.full(len(runs.k), np.nan) if self._fitted.worth is None else self._fitted.worth(runs)
        return rows.select("trace", "trace_id", "k").with_columns(
            payoff=pl.Series(runs.g),
            continuation=pl.Series(np.where(np.isfinite(worth), worth, np.nan)).fill_nan(None),
            stop=pl.Series(self._fitted.stop(runs)),
        )


@verb
@in_one_order
def fit(
    epochs: pl.DataFrame,
    method: str = "lsm",
    *,
    problem: Problem = "answer",
    estimand: Estimand = "capped",
    price: Price = 0.0,
    cost: str = "epochs",
    features: Sequence[str] | None = None,
    trees: bool = False,
) -> StoppingRule:
    """Fit a stopping rule to all runs, to apply it to others.

    Parameters
    ----------
    epochs
        Epochs, as `epochs` or `epochs_from_frame` makes them, with features in columns ``x_...``.
    method
        A name of `rules`, ``oracle`` left out.
    problem, estimand, price, cost, features, trees
        As in `evaluate`, which says what the rule is worth on runs that it has not seen.

    Returns
    -------
    StoppingRule
        Its method `apply` takes epochs.

    Raises
    ------
    ParameterError
        As `evaluate`, or no run to fit on.
    SchemaError
        As `evaluate`.

    Notes
    -----
    O(Σ K · p²) for p columns. Sources: `rules`.

    Examples
    --------
    >>> import orchestrace as ot
    >>> epochs, truth = ot.synthetic.stops(runs=400, seed=0)
    >>> rule = ot.stopping.fit(epochs, "fixed", price=truth.price)
    >>> rule.constant
    4.0
    >>> rule.apply(epochs.head(8)).columns
    ['trace', 'trace_id', 'k', 'payoff', 'continuation', 'stop']
    """
    names = [name for name, rule in METHODS.items() if not rule.peeks]
    if method not in names:
        raise ParameterError(unknown_name("rule of stopping", str(method), names))
    options: dict[str, Any] = {"problem": problem, "price": price, "cost": cost}
    options["features"] = None if features is None else tuple(features)
    runs = claimed(answers(epochs, folds=FOLDS, seed=0, **options, by_name=True), estimand, problem).runs
    if not len(runs):
        raise ParameterError("epochs have no run to fit on")
    options["features"] = runs.names
    fitted = METHODS[method].fit(runs, np.arange(len(runs)), regressed_by(trees))
    params = {
        **options,
        "features": list(runs.names),
        "method": method,
        "estimand": estimand,
        "trees": trees,
        "version": _core.VERSION,
    }
    return StoppingRule(
        method, fitted.constant, json.dumps(params, sort_keys=True, default=in_json), fitted, options
    )


@concerns("O5")
@verb
def regret(
    epochs: pl.DataFrame, *, problem: Problem = "answer", price: Price = 0.0, cost: str = "epochs"
) -> pl.DataFrame:
    """Compute for every run how much better the best stop would have been, in hindsight.

    Parameters
    ----------
    epochs
        Epochs, as `epochs` or `epochs_from_frame` makes them.
    problem, price, cost
        As in `evaluate`.

    Returns
    -------
    DataFrame
        One row per run: ``trace trace_id task_id``, ``k`` (UInt32: where it stopped) ``k_best`` (UInt32: the
        first epoch with the greatest payoff) ``regret`` (Float64, 0 or more: payoff there less payoff at the
        end) ``over_run`` (Boolean: ``k_best`` is earlier) ``under_run`` (Float64: mean over longer runs of
        the same group, without groups of the task, of max(0, their best payoff beyond k less this run's
        payoff); null without one) ``termination_lag`` (Float64: the share of what the run cost, in `cost`,
        that came after the first epoch whose quality is 1, at which a verifier would have passed it)
        ``reason`` (``siblings.absent`` where ``under_run`` is null) ``lag_reason`` (``field.absent`` where
        the lag is null since quality or cost is not recorded, ``ratio.empty`` where no epoch passes or
        nothing was spent).

    Raises
    ------
    ParameterError
        As `evaluate`.
    SchemaError
        As `evaluate`.

    Notes
    -----
    It peeks at the future, so that it overstates what any rule could gain: never train on it. O(rows · longer
    runs of the group). Source: prophet inequality, Krengel & Sucheston 1977; docs/reference/definitions.md,
    D29.

    Examples
    --------
    >>> import orchestrace as ot
    >>> epochs, truth = ot.synthetic.stops(runs=50, seed=0)
    >>> table = ot.stopping.regret(epochs, price=truth.price)
    >>> table["regret"].min() >= 0
    True
    """
    rows = check_epochs(epochs)
    runs = laid_out(rows, Layout(problem, price, cost, features=()))
    if not len(runs):
        return pl.DataFrame(schema=REGRETS)
    most = np.maximum.reduceat(runs.g, runs.start)
    best = runs.stops(runs.g >= most[runs.run])
    at_end = runs.g[runs.end]
    first = rows[runs.start]
    table = first.select("trace", "trace_id", "task_id").with_columns(
        k=pl.Series(runs.length),
        k_best=pl.Series(runs.k[best]),
        regret=pl.Series(most - at_end),
        over_run=pl.Series(best < runs.end),
    )
    under = _under_run(runs, rows, first)
    return (
        table.hstack(_termination_lag(runs))
        .join(under, on="trace", how="left", maintain_order="left")
        .with_columns(reason=pl.when(pl.col("under_run").is_null()).then(pl.lit("siblings.absent")))
        .cast(REGRETS)
    )


def _termination_lag(runs: Answers) -> pl.DataFrame:
    """Of each run the share of its cost after the first epoch that passes: ``termination_lag lag_reason``."""
    passes = np.nan_to_num(runs.q) >= 1.0 - _SURELY
    ever = np.logical_or.reduceat(passes, runs.start)
    at, total = runs.c[runs.stops(passes)], runs.c[runs.end]
    is_recorded = (
        np.isfinite(at) & np.isfinite(total) & ~np.logical_and.reduceat(np.isnan(runs.q), runs.start)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        lag = (total - at) / total
    is_lag = is_recorded & ever & (total > 0)
    reasons = np.where(is_recorded, "ratio.empty", "field.absent")
    return pl.DataFrame({"termination_lag": lag, "lag_reason": reasons}).select(
        pl.when(pl.Series(is_lag)).then("termination_lag"), pl.when(~pl.Series(is_lag)).then("lag_reason")
    )


def _under_run(runs: Answers, rows: pl.DataFrame, first: pl.DataFrame) -> pl.DataFrame:
    """Of each run with longer siblings the mean of what these reached beyond its end."""
    # the best payoff from each row on, run by run, backward
    ahead = runs.g.copy()
    for k in range(int(runs.length.max()) - 1, 0, -1):
        at = np.flatnonzero((runs.k == k) & ~runs.last)
        ahead[at] = np.maximum(ahead[at], ahead[at + 1])
    group = pl.coalesce("group_id", "task_id")
    paid = pl.Series(runs.g[runs.end])
    heads = first.select("trace", "task_id", group=group, k=pl.Series(runs.length), paid=paid)
    after = rows.select("trace", "task_id", group=group, k=pl.col("k").cast(pl.Int64) - 1).with_columns(
        best=pl.Series(ahead)
    )
    both = heads.join(after, on=["task_id", "group", "k"], how="inner", suffix="_other")
    gained = (pl.col("best") - pl.col("paid")).clip(lower_bound=0.0).mean()
    return both.group_by("trace").agg(under_run=gained)


@verb
@in_one_order
def export(
    epochs: pl.DataFrame,
    method: str = "lsm",
    *,
    problem: Problem = "answer",
    price: Price = 0.0,
    cost: str = "epochs",
    features: Sequence[str] | None = None,
    trees: bool = False,
    folds: Folds = 5,
    seed: Seed = 0,
) -> pl.DataFrame:
    """Make training rows for a stopping head, each valued by a fit that leaves its task out.

    Parameters
    ----------
    epochs, problem, price, cost, features, trees, folds, seed
        As in `evaluate`.
    method
        A learned rule of `rules`.

    Returns
    -------
    DataFrame
        One row per epoch: ``trace trace_id task_id k``, the features, ``action`` (``continue``, or ``stop``
        at the recorded end), ``payoff`` g_k, ``continuation`` C_k (null at the last epoch, which has no
        choice), ``value`` U_k = max(g_k, C_k), ``margin`` C_k - g_k, ``advantage_stop`` g_k - U_k and
        ``advantage_continue`` C_k - U_k (0 or less) and ``potential`` U_k, for shaping; all Float64.

    Raises
    ------
    ParameterError
        A rule that does not say what going on is worth, or as `evaluate`.
    SchemaError
        As `evaluate`.

    Notes
    -----
    O(Σ K · p² · folds). Source: docs/reference/definitions.md, D29; potentials, Ng, Harada & Russell 1999.

    Examples
    --------
    >>> import orchestrace as ot
    >>> epochs, truth = ot.synthetic.stops(runs=200, seed=0)
    >>> rows = ot.stopping.export(epochs, price=truth.price)
    >>> rows["advantage_stop"].max() <= 0
    True
    """
    named([method])
    if not METHODS[method].learned:
        learned = [name for name, rule in METHODS.items() if rule.learned]
        raise ParameterError(
            f"rule '{method}' does not say what going on is worth: take {', '.join(learned)}"
        )
    chosen = None if features is None else tuple(features)
    rows = check_epochs(epochs)
    runs = laid_out(rows, Layout(problem, price, cost, folds, seed, chosen))
    worth = held_out(runs, method, regressed_by(trees)).worth if len(runs) else np.zeros(0)
    assert worth is not None
    is_valued = ~runs.last & np.isfinite(worth)
    going = pl.Series(np.where(is_valued, worth, np.nan), dtype=pl.Float64).fill_nan(None)
    payoff = pl.Series(runs.g, dtype=pl.Float64)
    value = pl.select(pl.max_horizontal(payoff, going).alias("value")).to_series()
    return rows.select("trace", "trace_id", "task_id", "k", *runs.names).with_columns(
        action=pl.Series(np.where(runs.last, "stop", "continue").tolist(), dtype=pl.String),
        payoff=payoff,
        continuation=going,
        value=value,
        margin=going - payoff,
        advantage_stop=payoff - value,
        advantage_continue=going - value,
        potential=value,
    )
