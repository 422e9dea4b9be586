"""Abort rules on held-out runs: false alarms, cost saved, and paired differences between rules."""

import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from ..base.arguments import Confidence, Resamples, Seed, Success
from ..base.arrays import Bools, Floats, Ints
from ..base.errors import ParameterError, SchemaError
from ..base.schema import unknown_name
from ..base.verbs import verb
from ..decisions.rows import params_text
from ..statistics.influence import mean_interval
from ..statistics.rankings import midranks, segment_starts, sums
from ..statistics.resampling import draws, percentiles
from .abort_rule import AbortRule, alarms_of, check_scores
from .epochs import REASON
from .runs import Cost, Runs

Rules = AbortRule | pl.DataFrame | Mapping[str, AbortRule | pl.DataFrame]

_RATES: Final = ("far", "power", "early", "lost")
EVALUATED: Final[dict[str, Any]] = {
    "rule": pl.String(),
    "alpha": pl.Float64(),
    "validity": pl.String(),
    **{name: pl.UInt32() for name in ("n", "n_success", "n_failed", "n_tasks", "n_alarms")},
    **{
        f"{name}{end}": pl.Float64()
        for name in ("far", "power", "early", "saved", "saved_failed", "lost", "gain")
        for end in ("", "_lower", "_upper")
    },
    "reason": REASON,
    "params": pl.String(),
}
"""Columns of what `evaluate_abort` returns."""
LOOKS: Final = pl.Schema(
    {
        "k": pl.UInt32(),
        **{name: pl.UInt32() for name in ("n", "n_success", "n_failed")},
        "far_look": pl.Float64(),
        "auc": pl.Float64(),
        "reason": REASON,
        "params": pl.String(),
    }
)
"""Columns of what `power_by_epoch` returns."""


@verb
def evaluate_abort(
    epochs: pl.DataFrame,
    rules: Rules,
    *,
    against: str | None = None,
    cost: Cost = "auto",
    success: Success = 1.0,
    confidence: Confidence = 0.95,
    n_boot: Resamples = 2000,
    seed: Seed = 0,
) -> pl.DataFrame:
    """Evaluate abort rules on runs that they were not fitted on.

    Parameters
    ----------
    epochs
        Epochs of finished runs. Runs without an outcome are left out.
    rules
        A rule, or rules by name. In place of a rule, a frame with ``trace``, ``k`` and ``alarm`` says where
        somebody else's rule gives alarms; the first one of a run counts.
    against
        The name of the rule that the others are compared with; None takes the first.
    cost
        What is saved, as in `features`.
    success
        A run is a success if its ``y`` is at least this.
    confidence
        Coverage of the intervals, between 0 and 1.
    n_boot
        How often tasks are resampled.
    seed
        Of the resampling.

    Returns
    -------
    DataFrame
        One row per rule: ``rule``, ``alpha`` and ``validity`` (null for frames), ``n n_success n_failed
        n_tasks n_alarms`` (UInt32), and with ``_lower`` and ``_upper``: ``far``, the share of successful runs
        with an alarm; ``power``, that of failed ones; ``early``, the share of failed runs with an alarm
        before their last epoch; ``saved``, the share of all cost that the aborted rest of runs has;
        ``saved_failed``, the part of it from failed runs; ``lost``, successful runs that are cut before
        their end, as a share of all runs; ``gain``, ``saved_failed`` less that of `against`. ``reason``:
        ``class.single`` if successes or failures are absent, whose shares are then null; ``ratio.empty`` if
        nothing costs anything; ``support.absent`` if there are too few tasks for an interval. ``params``.

    Raises
    ------
    SchemaError
        As of `features`; an alarm of a frame is at an epoch that is not there.
    ParameterError
        An unknown rule or cost, or a number out of range.

    Notes
    -----
    An alarm at the last epoch of a run saves nothing: compare ``saved_failed``, not ``power``. Stopping
    earlier than recorded is observed, so no model enters.

    Shares of runs have Wilson's interval over tasks (docs/reference/definitions.md, D23). ``saved``,
    ``saved_failed`` and ``gain`` have percentiles over resampled tasks, the same ones for all rules.
    O(epochs rules + tasks rules n_boot).

    Source: docs/reference/definitions.md, D27.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> steps = pl.DataFrame([{"run": f"r{i}", "step": k, "score": 0.5, "success": i > 1}
    ...                       for i in range(4) for k in (1, 2)])
    >>> epochs = ot.stopping.epochs_from_frame(steps)
    >>> alarms = pl.DataFrame({"trace": [0, 2], "k": [1, 2], "alarm": True})
    >>> table = ot.stopping.evaluate_abort(epochs, {"mine": alarms}, n_boot=100)
    >>> table.select("far", "power", "early", "saved_failed", "lost").row(0)
    (0.5, 0.5, 0.5, 0.125, 0.0)
    """
    named = _named(rules)
    if against is not None and against not in named:
        raise ParameterError(unknown_name("rule", str(against), list(named)))
    runs = Runs.of(epochs, cost, float(success))
    runs = runs.take(runs.has_outcome)
    _, tasks = np.unique(runs.tasks, return_inverse=True) if len(runs) else ([], np.zeros(0, np.int64))
    tasks = np.asarray(tasks, np.int64)
    stops = {name: _stops(runs, rule, name) for name, rule in named.items()}
    options = {"confidence": confidence, "n_boot": n_boot, "seed": seed, "cost": runs.cost}
    options |= {"success": float(success), "against": against or next(iter(named))}
    table = []
    for name, stop in stops.items():
        rule = named[name]
        settings = {"rule": name, **options}
        row: dict[str, Any] = {"rule": name}
        if isinstance(rule, AbortRule):
            row |= {"alpha": rule.alpha, "validity": rule.validity}
            settings |= {"fit": json.loads(params_text(rule.params))}
        table.append(row | _rates(runs, tasks, stop, confidence) | {"params": params_text(settings)})
    _costs(table, runs, tasks, list(stops.values()), list(named).index(str(options["against"])), options)
    return pl.DataFrame(table, schema=EVALUATED)


def _named(rules: object) -> dict[str, AbortRule | pl.DataFrame]:
    named: dict[Any, Any] = dict(rules) if isinstance(rules, Mapping) else {"rule": rules}
    if not named:
        raise ParameterError("rules is empty, expected a rule of fit_abort, or a dict of them by name")
    for name, rule in named.items():
        if not isinstance(name, str) or not isinstance(rule, AbortRule | pl.DataFrame):
            raise ParameterError(
                f"rules has a {type(rule).__name__} for {str(name)[:40]!r}, expected rules of fit_abort or"
                " frames with trace, k and alarm, by name"
            )
    return named


def _stops(runs: Runs, rule: AbortRule | pl.DataFrame, name: str) -> Ints:
    """The row of each run's first alarm, -1 without one."""
    if isinstance(rule, AbortRule):
        return runs.first(alarms_of(rule, runs)["over"].to_numpy())
    for column in ("trace", "k", "alarm"):
        if column not in rule.columns:
            raise SchemaError(f"alarms of rule '{name}' have no column '{column}'")
    if not (rule["trace"].dtype.is_integer() and rule["k"].dtype.is_integer()):
        raise SchemaError(f"alarms of rule '{name}' have trace or k that are not whole numbers")
    if rule["alarm"].dtype != pl.Boolean:
        raise SchemaError(f"alarms of rule '{name}' are {rule['alarm'].dtype}, expected true or false")
    alarms = rule.filter("alarm").select(pl.col("trace", "k").cast(pl.Int64)).unique()
    rows = runs.rows.select(pl.col("trace", "k").cast(pl.Int64))
    beyond = alarms.join(rows, on=["trace", "k"], how="anti").join(rows, on="trace", how="semi").height
    if beyond or alarms.null_count().sum_horizontal()[0]:
        raise SchemaError(f"alarms of rule '{name}' are at epochs that the runs do not have")
    hit = rows.join(alarms.with_columns(hit=True), on=["trace", "k"], how="left", maintain_order="left")
    return runs.first(hit["hit"].fill_null(False).to_numpy())


def _rates(runs: Runs, tasks: Ints, stop: Ints, confidence: float) -> dict[str, Any]:
    alarm = stop >= 0
    early = alarm & (runs.k[np.maximum(stop, 0)] < runs.length) if len(runs) else alarm
    won, failed = runs.success, runs.failed
    everybody = np.ones(len(runs), bool)
    row: dict[str, Any] = {
        "n": len(runs),
        "n_success": int(won.sum()),
        "n_failed": int(failed.sum()),
        "n_tasks": len(np.unique(tasks)),
        "n_alarms": int(alarm.sum()),
        "reason": None if won.any() and failed.any() else "class.single",
    }
    for name, event, among in zip(
        _RATES, (alarm, alarm, early, early & won), (won, failed, failed, everybody), strict=True
    ):
        mean = mean_interval(
            event[among].astype(np.float64), tasks[among], confidence=confidence, within=(0.0, 1.0)
        )
        row |= {name: mean.estimate, f"{name}_lower": mean.around.lower, f"{name}_upper": mean.around.upper}
    return row


def _costs(
    table: list[dict[str, Any]],
    runs: Runs,
    tasks: Ints,
    stops: list[Ints],
    against: int,
    options: Mapping[str, Any],
) -> None:
    """Fill in what depends on cost, with percentiles over the same resampled tasks for all rules."""
    total = float(runs.total.sum())
    if not len(runs) or total <= 0.0:
        for row in table:
            row["reason"] = row["reason"] or "ratio.empty"
        return
    parts = [runs.total]
    for stop in stops:
        rest = np.where(stop >= 0, runs.total - runs.c[np.maximum(stop, 0)], 0.0)
        parts += [rest, np.where(runs.failed, rest, 0.0)]
    n = int(tasks.max()) + 1
    of_task: Floats = np.stack([np.bincount(tasks, weights=part, minlength=n) for part in parts], axis=1)
    drawn = np.concatenate([times @ of_task for times in draws(n, options["n_boot"], options["seed"])])
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = drawn[:, 1:] / drawn[:, :1]
    estimates = of_task.sum(axis=0)[1:] / total
    for at, row in enumerate(table):
        base = 2 * against + 1
        measures = {
            "saved": (estimates[2 * at], shares[:, 2 * at]),
            "saved_failed": (estimates[2 * at + 1], shares[:, 2 * at + 1]),
            "gain": (estimates[2 * at + 1] - estimates[base], shares[:, 2 * at + 1] - shares[:, base]),
        }
        for name, (value, resampled) in measures.items():
            lower, upper = percentiles(resampled, n, options["confidence"])
            row |= {name: float(value), f"{name}_lower": lower, f"{name}_upper": upper}
        if any(row[f"{name}_lower"] is None for name in (*_RATES, "saved")):
            row["reason"] = row["reason"] or "support.absent"


@verb
def power_by_epoch(epochs: pl.DataFrame, rule: AbortRule, *, success: Success = 1.0) -> pl.DataFrame:
    """Report for every epoch k what a single look there would be worth.

    Parameters
    ----------
    epochs
        Epochs of finished runs. Runs without an outcome are left out.
    rule
        A rule of `fit_abort`.
    success
        A run is a success if its ``y`` is at least this.

    Returns
    -------
    DataFrame
        One row per k: ``k``, ``n n_success n_failed`` (UInt32) of runs that reach it; ``far_look``
        (Float64), the share of these successes whose evidence is above the threshold at k; ``auc``
        (Float64), the chance that the evidence of a failed run is above that of a successful one, ties
        counted half; ``reason``: ``class.single`` where one of the two is absent, with null for what it
        takes; ``params``.

    Raises
    ------
    SchemaError
        As of `features`.
    ParameterError
        Something other than a rule.

    Notes
    -----
    A threshold that keeps ``far_look`` at alpha for every k does not keep the false-alarm rate of runs, which
    are looked at K times. O(epochs log epochs).

    Source: area under the ROC curve as a rank statistic, Mann & Whitney 1947.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> steps = pl.DataFrame([{"run": f"r{i}", "step": k, "score": (i + k) / 12, "success": i > 4}
    ...                       for i in range(10) for k in (1, 2)])
    >>> epochs = ot.stopping.epochs_from_frame(steps)
    >>> rule = ot.stopping.fit_abort(epochs, evidence=-pl.col("s"), alpha=0.5)
    >>> ot.stopping.power_by_epoch(epochs, rule).select("k", "far_look", "auc").rows()
    [(1, 0.4, 1.0), (2, 0.2, 1.0)]
    """
    runs = Runs.of(epochs, "epochs", float(success))
    runs = runs.take(runs.has_outcome)
    check_scores(runs, rule.evidence)
    applied = alarms_of(rule, runs)
    by = np.argsort(runs.k, kind="stable")
    k, won = runs.k[by], runs.success[runs.run][by]
    starts = segment_starts(k)
    n_won = sums(won.astype(np.float64), starts)
    n_failed = sums((~won).astype(np.float64), starts)
    over = applied["over"].to_numpy()[by]
    with np.errstate(invalid="ignore", divide="ignore"):
        far = sums((over & won).astype(np.float64), starts) / n_won
        auc = _auc(applied["evidence"].fill_null(np.nan).to_numpy()[by], won, starts, n_won, n_failed)
    single = (n_won == 0) | (n_failed == 0)
    return pl.DataFrame(
        {
            "k": k[starts],
            "n": n_won + n_failed,
            "n_success": n_won,
            "n_failed": n_failed,
            "far_look": pl.Series(far).fill_nan(None),
            "auc": pl.Series(auc).fill_nan(None),
            "reason": ["class.single" if is_single else rule.reason for is_single in single],
            "params": params_text({**rule.params, "success": float(success)}),
        },
        schema_overrides={"reason": pl.String},
    ).cast(LOOKS)


def _auc(evidence: Floats, won: Bools, starts: Ints, n_won: Floats, n_failed: Floats) -> Floats:
    if not evidence.size or np.isnan(evidence).any():
        return np.full(len(starts), np.nan)
    ranks = sums(np.where(won, 0.0, midranks(evidence, starts)), starts)
    return (ranks - n_failed * (n_failed + 1.0) / 2.0) / (n_won * n_failed)
