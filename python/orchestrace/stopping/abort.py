"""Fit of abort rules: when a run may be given up, with a bound on the successful runs that this costs."""

import math
from dataclasses import replace
from typing import Annotated, Final, Literal

import numpy as np
import polars as pl

from ..base.arguments import Alpha, Confidence, Number, Penalty, Seed, Success
from ..base.arrays import Floats
from ..base.errors import ParameterError
from ..base.verbs import verb
from ..statistics.folds import keyed_hash
from ..statistics.learners import one_thread
from .abort_rule import AbortRule, CallerEvidence, Model, Validity, check_scores
from .crossed import Crossed
from .pooled import Pooled
from .ratio import Ratio, enough
from .runs import Cost, Runs, one_per_task, uniforms
from .thresholds import Method, calibration_wanted, refuse_confidence

Evidence = Literal["auto", "ratio", "survival", "log_odds", "savings"]
Unit = Literal["task", "run"]
Ties = Literal["strict", "random"]

_FIT_SHARE: Final = 0.4
_LEAST_SHARE: Final = 0.2
RATIOS: Final = ("ratio", "survival")
_VALIDITY: Final[dict[str, Validity]] = {"ville": "model", "conformal": "marginal", "pac": "confidence"}


@verb
def fit_abort(
    epochs: pl.DataFrame,
    *,
    method: Method = "conformal",
    evidence: Evidence | pl.Expr = "auto",
    alpha: Alpha = 0.1,
    confidence: Confidence | None = None,
    fit_share: Annotated[float, Number(above=0, below=1)] | None = None,
    unit: Unit = "task",
    cross: bool = False,
    ties: Ties = "strict",
    cost: Cost = "auto",
    success: Success = 1.0,
    penalty: Penalty = 1.0,
    seed: Seed = 0,
) -> AbortRule:
    """Fit a rule that aborts runs which will fail, and cuts at most a share `alpha` of the successful ones.

    Parameters
    ----------
    epochs
        Epochs of finished runs, as `epochs_from_frame` makes them. Runs without an outcome are left out.
    method
        How the threshold is set. ``conformal``: an order statistic of the largest evidence of successful
        calibration runs. ``pac``: a higher one, which holds for nearly every calibration, not on average
        over them. ``ville``: 1/alpha, which needs no calibration runs but the true ratio.
    evidence
        What speaks for failure at an epoch. ``ratio``: the likelihood ratio of all scores so far, one
        logistic regression per epoch. ``survival``: the ratio for failed runs that go on. ``log_odds``: one
        ridge regression over all epochs. ``savings``: the same, with failed runs weighted by the cost that
        an alarm would still save. ``auto``: ``survival`` for ``ville``, else ``savings``. Or an expression
        over columns of epochs, larger for failure, as in ``-pl.col("s")``: it must not look at later epochs.
    alpha
        The share of successful runs that may have an alarm, between 0 and 1.
    confidence
        Of ``conformal`` alone: the share of calibrations for which the bound is to hold by itself. None asks
        that it hold on average over calibrations, half of which are then above `alpha`.
    fit_share
        The share of tasks with a success on which evidence is fitted; the others set the threshold. Tasks
        without a success are all fitted on. None is 0.4, or as much less, down to 0.2, as leaves enough for a
        threshold that gives away less than a third of `alpha` for its confidence. Not used if `evidence` is
        an expression, by ``ville``, or with `cross`.
    unit
        What is exchangeable: ``task``, of which one successful run is drawn, or ``run``.
    cross
        Fit a model without each of 4 folds, and compare a run with the calibration runs of a fold by the
        model that did not see it. All successful runs calibrate. `guarantee` has a bound that is proven,
        about twice `alpha`, and measured rates are below `alpha` on average (docs/stopping.md).
    ties
        ``strict``: evidence equal to the threshold gives no alarm, so that scores on a grid stay below
        `alpha`. ``random``: one number per run, drawn by seed and id, decides between equal evidence.
    cost
        What ``savings`` counts, as in `features`.
    success
        A run is a success if its ``y`` is at least this.
    penalty
        The pull of the weights to 0 in ``ratio`` and ``survival``.
    seed
        Of the split into tasks that are fitted on and others, of the draw per task, of folds and ties.

    Returns
    -------
    AbortRule
        The rule, with its threshold, `validity` and `guarantee`. Without enough runs there is no threshold
        and a `reason`; such a rule never gives an alarm.

    Raises
    ------
    SchemaError
        As of `features`; a score is null.
    ParameterError
        An unknown word, a number out of range, an expression that cannot be computed, or ``ville`` with
        evidence that is not a ratio.

    Notes
    -----
    A run's false alarm is one alarm at any of its epochs. The largest evidence of a run is therefore what the
    calibration looks at. With A_(1) <= ... <= A_(n) of n successful calibration runs, ``conformal`` takes
    rank ⌈(n + 1)(1 - alpha)⌉ and ``pac`` the least r with P(Bin(n, 1 - 0.9 alpha) >= r) <= 0.1 alpha.
    `confidence` raises the rank of ``conformal`` to the least r with P(Bin(n, 1 - alpha) >= r) <= 1 -
    `confidence`.

    ``conformal`` is an e-process that bets all or nothing: E_k = 1/alpha once the evidence has passed the
    threshold, 0 before; its mean under success is at most 1 whenever you look.

    With `cross` the evidence of an epoch is the number of calibration runs whose largest evidence is below
    it, each compared by the model that did not see its fold: models have scales of their own. With n
    calibration runs in F folds and rank r, the share of false alarms over calibrations is at most 2 (n - r +
    F) / (n + F), since twice a weighted mean of valid p-values is valid.

    ``ville`` is right only with the true ratio. A fitted one may be far off, and nothing in the rule shows
    it. ``savings`` and ``log_odds`` fit 5 shapes in 4 folds and take the one that saves most out of fold.

    O(epochs features²), with ``ratio`` and ``survival`` O(runs K³) for runs of K epochs.

    Source: E-valuator, arXiv 2512.03109; Ville 1939; split conformal, Vovk et al. 2005, and Vovk 2012 for
    `confidence`; tolerance bounds, Wilks 1941; cross-conformal, Vovk 2015, and means of p-values, Vovk & Wang
    2020; docs/reference/definitions.md, D27.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> steps = pl.DataFrame([
    ...     {"run": f"r{i:03}", "step": k, "score": 0.9 - 0.2 * (i % 3 == 0) * k + i % 5 / 10,
    ...      "success": i % 3 != 0} for i in range(120) for k in (1, 2, 3)])
    >>> rule = ot.stopping.fit_abort(ot.stopping.epochs_from_frame(steps), alpha=0.1)
    >>> rule.guarantee
    'P(alarm at any epoch | success) <= 0.1, over calibration and a new run from the same source'
    """
    refuse_confidence(confidence, method)
    kind = _evidence(method, evidence)
    runs = Runs.of(epochs, cost, float(success))
    runs = runs.take(runs.has_outcome)
    check_scores(runs, kind)
    from_caller = isinstance(evidence, pl.Expr)
    crossed = cross and not from_caller and method != "ville"
    split = method != "ville" and not from_caller and not cross
    wanted = calibration_wanted(alpha, method, confidence)
    apart = _tasks_apart(runs, fit_share, wanted, int(seed))
    learn = np.array([not split or task not in apart for task in runs.tasks], dtype=bool)
    params: dict[str, object] = {
        **{"method": method, "evidence": kind, "alpha": alpha, "confidence": confidence},
        **{"fit_share": fit_share, "unit": unit},
        **{"cross": cross, "ties": ties, "cost": runs.cost, "success": float(success)},
        **{"penalty": float(penalty), "seed": int(seed)},
    }
    fitting = runs.take(learn)
    validity: Validity = "approximate" if crossed else _VALIDITY[method]
    empty = AbortRule(
        method=method,
        evidence=kind,
        alpha=alpha,
        threshold=None,
        rank=None,
        n_fit=0 if from_caller else len(fitting),
        n_calibration=0,
        validity=validity,
        reason="class.single",
        params=params,
        _model=None,
        _tie=None,
        _peaks=np.zeros(0),
        _draws=np.zeros(0),
    )
    if not from_caller and not enough(fitting):
        return empty

    def fit(learn: Runs) -> Model:
        return _model(learn, kind, float(penalty), int(seed))

    rest = runs if from_caller or cross else runs.take(~learn)
    counted = rest.success if unit == "run" else one_per_task(rest, rest.success, int(seed))
    with one_thread():
        if crossed:
            folds = Crossed.fitted(runs, counted, fit, int(seed), ties == "random")
            if folds is None:
                return empty
            # evidence counts calibration runs, so the run of rank r is the one above r - 1 of them; ties are
            # decided in the count
            peaks = np.arange(folds.n_calibration, dtype=np.float64)
            return _calibrated(replace(empty, _model=folds), peaks, np.full(len(peaks), np.inf))
        model = CallerEvidence(evidence) if isinstance(evidence, pl.Expr) else fit(fitting)
        if method == "ville":
            return replace(empty, _model=model, reason=None).at(alpha)
        peaks = rest.most(model.of(rest))[counted]
    draws = uniforms(
        [name for name, is_counted in zip(rest.names, counted, strict=True) if is_counted], int(seed)
    )
    return _calibrated(replace(empty, _model=model), peaks, draws)


def _calibrated(rule: AbortRule, peaks: Floats, draws: Floats) -> AbortRule:
    """The rule with a threshold among the largest evidence of calibration runs."""
    return replace(rule, n_calibration=len(peaks), _peaks=peaks, _draws=draws).at(rule.alpha)


def _evidence(method: str, evidence: object) -> str:
    """The name of the evidence; an expression as Polars spells it."""
    if isinstance(evidence, pl.Expr):
        if method == "ville":
            raise ParameterError("method='ville' needs evidence='ratio' or 'survival', not an expression")
        return str(evidence)
    if evidence == "auto":
        return "survival" if method == "ville" else "savings"
    if method == "ville" and evidence not in RATIOS:
        raise ParameterError(f"method='ville' needs evidence='ratio' or 'survival', not '{evidence}'")
    return str(evidence)


def _tasks_apart(runs: Runs, share: float | None, wanted: int, seed: int) -> set[str]:
    """Tasks with a success that are not fitted on: they set the threshold."""
    solved = {task for task, is_solved in zip(runs.tasks, runs.success, strict=True) if is_solved}
    ordered = sorted(solved, key=lambda task: (keyed_hash(f"part {task}", seed), task))
    n = len(ordered)
    if share is None:
        most, least = math.floor(_FIT_SHARE * n), math.ceil(_LEAST_SHARE * n)
        fitted = max(min(most, n - wanted), least)
    else:
        fitted = round(n * share)
    return set(ordered[fitted:])


def _model(runs: Runs, kind: str, penalty: float, seed: int) -> Model:
    if kind in RATIOS:
        return Ratio.fitted(runs, penalty, kind == "survival")
    return Pooled.chosen(runs, kind == "savings", seed)
