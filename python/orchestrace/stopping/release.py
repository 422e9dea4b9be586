"""Release rules: when an answer may go out, with a bound on answers to tasks that cannot be solved."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from ..base.arguments import Alpha, Confidence, Seed, Success
from ..base.arrays import Floats
from ..base.verbs import verb
from ..decisions.rows import params_text
from ..statistics.influence import mean_interval
from .abort_rule import check_scores
from .epochs import REASON
from .runs import Runs, check_epochs, of_runs, one_per_task

Release = Literal["conformal", "eprocess"]

RELEASES: Final = pl.Schema(
    {
        "trace": pl.UInt32(),
        "trace_id": pl.String(),
        "task_id": pl.String(),
        "k": pl.UInt32(),
        "p_value": pl.Float64(),
        "e_value": pl.Float64(),
        "release": pl.Boolean(),
        "reason": REASON,
        "params": pl.String(),
    }
)
"""Columns of what `ReleaseRule.apply` returns."""
EVALUATED: Final[dict[str, Any]] = {
    "quantity": pl.String(),
    "value": pl.Float64(),
    "lower": pl.Float64(),
    "upper": pl.Float64(),
    "n": pl.UInt32(),
    "n_tasks": pl.UInt32(),
    "reason": REASON,
    "params": pl.String(),
}
"""Columns of what `evaluate_release` returns."""


@dataclass(frozen=True, eq=False)
class ReleaseRule:
    """A fitted release rule, which does not change; made by `fit_release`.

    Attributes
    ----------
    method
        ``conformal`` or ``eprocess``.
    alpha
        The share of tasks without a solution for which an answer may be released.
    n_calibration
        How many such tasks are in the pool.
    validity
        ``marginal``: over pool and a new run of such a task. ``assumed``: only if each p-value is valid given
        the past, which nothing here shows.
    reason
        ``calibration.small`` if the pool is so small that nothing is ever released.
    params
        All options.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> pool = pl.DataFrame({"run": ["a", "b", "c", "d"], "step": 1, "score": [0.3, 0.5, 0.6, 0.8],
    ...                      "success": False})
    >>> rule = ot.stopping.fit_release(ot.stopping.epochs_from_frame(pool), alpha=0.2)
    >>> rule.n_calibration, rule.validity, rule.reason
    (4, 'marginal', None)
    """

    method: Release
    alpha: float
    n_calibration: int
    validity: Literal["marginal", "assumed"]
    reason: str | None
    params: Mapping[str, object]
    _peaks: Floats = field(repr=False)

    @verb
    def apply(self, epochs: pl.DataFrame) -> pl.DataFrame:
        """Say at every epoch whether the answer may be released.

        Parameters
        ----------
        epochs
            Epochs of runs of tasks that are not in the pool, finished or not; ``y`` is not read.

        Returns
        -------
        DataFrame
            One row per epoch, ordered by ``trace`` and ``k``: ``trace`` (UInt32) ``trace_id task_id``
            (String) ``k`` (UInt32); ``p_value`` (Float64) of the highest score so far, ``e_value`` (Float64)
            of all scores so far; ``release`` (Boolean), whether the answer is released here: once per run;
            ``reason``, why nothing ever is; ``params``.

        Raises
        ------
        SchemaError
            As of `features`.
        ParameterError
            A score is null.

        Notes
        -----
        O(epochs log pool). Source: arXiv 2605.12947; docs/reference/definitions.md, D28.

        Examples
        --------
        >>> import polars as pl
        >>> import orchestrace as ot
        >>> pool = pl.DataFrame({"run": ["a", "b", "c", "d"], "step": 1, "score": [0.3, 0.5, 0.6, 0.8],
        ...                      "success": False})
        >>> rule = ot.stopping.fit_release(ot.stopping.epochs_from_frame(pool), alpha=0.2)
        >>> new = pl.DataFrame({"run": "n", "step": [1, 2, 3], "score": [0.55, 0.7, 0.9], "success": True})
        >>> rule.apply(ot.stopping.epochs_from_frame(new)).select("p_value", "release").rows()
        [(0.6, False), (0.4, False), (0.2, True)]
        """
        return self._applied(Runs.laid_out(check_epochs(epochs), "epochs", 1.0))

    def _applied(self, runs: Runs) -> pl.DataFrame:
        check_scores(runs, "auto")
        n = len(self._peaks)

        def p_values(scores: Floats) -> Floats:
            above: Floats = (n - np.searchsorted(self._peaks, scores, side="left")).astype(np.float64)
            return (1.0 + above) / (n + 1.0)

        best = runs.rows.select(pl.col("s").cum_max().over("trace"))["s"].to_numpy()
        p = p_values(best)
        steps = pl.Series(np.log(0.5) - 0.5 * np.log(p_values(runs.s)))
        summed = runs.rows.select("trace", step=steps).select(pl.col("step").cum_sum().over("trace"))
        e = np.exp(np.clip(summed["step"].to_numpy(), -700.0, 700.0))
        # (n + 1) p is a whole number: a share must not miss alpha by the last bit
        low = p * (1.0 - 1e-12) <= self.alpha
        may = low if self.method == "conformal" else e >= 1.0 / self.alpha
        release = np.zeros(len(runs.k), bool)
        if self.reason is None:
            first = runs.first(may)
            release[first[first >= 0]] = True
        columns = {
            "p_value": pl.Series(p),
            "e_value": pl.Series(e),
            "release": pl.Series(release),
            "reason": pl.lit(self.reason),
            "params": pl.lit(params_text(self.params)),
        }
        return of_runs(runs, columns).cast(RELEASES)


@verb
def fit_release(
    epochs: pl.DataFrame,
    *,
    method: Release = "conformal",
    alpha: Alpha = 0.1,
    success: Success = 1.0,
    seed: Seed = 0,
) -> ReleaseRule:
    """Fit a rule that releases an answer early, and on unsolvable tasks at most for a share `alpha`.

    Parameters
    ----------
    epochs
        Epochs of finished runs, with scores that rise with confidence. Runs without an outcome are left out.
    method
        ``conformal``: release once at most a share `alpha` of the pool ever scores as high. ``eprocess``:
        multiply evidence of all scores, and release at 1/alpha; valid only under an assumption.
    alpha
        The share of unsolvable tasks for which an answer may be released, between 0 and 1.
    success
        A run is a success if its ``y`` is at least this.
    seed
        Of the draw of one failed run per task.

    Returns
    -------
    ReleaseRule
        The rule. With a pool of fewer than 1/alpha - 1 tasks its `reason` is ``calibration.small`` and it
        releases nothing.

    Raises
    ------
    SchemaError
        As of `features`.
    ParameterError
        An unknown method, a number out of range, or a score that is null.

    Notes
    -----
    The pool has one failed run of each task without any success, and of it the highest score h_j. p_k is
    (1 + #{j: h_j >= the highest score so far}) / (n + 1), E_k the product of ½ p'_i^(-1/2) over i <= k, with
    p'_i of the score s_i alone. A task is taken as unsolvable if no recorded run solved it: few runs per task
    make the pool harder, and the rule more careful. O(epochs log epochs).

    Source: arXiv 2605.12947, in the form of docs/reference/definitions.md, D28; p-to-e calibrators, Vovk &
    Wang 2021.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> pool = pl.DataFrame({"run": ["a", "b", "c"], "step": 1, "score": [0.3, 0.5, 0.6], "success": False})
    >>> ot.stopping.fit_release(ot.stopping.epochs_from_frame(pool), alpha=0.1).reason
    'calibration.small'
    """
    runs = Runs.of(epochs, "epochs", float(success))
    check_scores(runs, "auto")
    runs = runs.take(runs.has_outcome)
    peaks = np.sort(runs.most(runs.s)[one_per_task(runs, ~_solvable(runs), int(seed))])
    return ReleaseRule(
        method=method,
        alpha=alpha,
        n_calibration=len(peaks),
        validity="marginal" if method == "conformal" else "assumed",
        reason="calibration.small" if alpha * (1.0 + 1e-12) < 1.0 / (len(peaks) + 1.0) else None,
        params={"method": method, "alpha": alpha, "success": float(success), "seed": int(seed)},
        _peaks=peaks,
    )


def _solvable(runs: Runs) -> Any:
    """Whether each run is of a task that some run solved."""
    solved = {task for task, is_solved in zip(runs.tasks, runs.success, strict=True) if is_solved}
    return np.array([task in solved for task in runs.tasks], dtype=bool)


@verb
def evaluate_release(
    epochs: pl.DataFrame, rule: ReleaseRule, *, success: Success = 1.0, confidence: Confidence = 0.95
) -> pl.DataFrame:
    """Evaluate a release rule on runs of tasks that are not in its pool.

    Parameters
    ----------
    epochs
        Epochs of finished runs. Runs without an outcome are left out.
    rule
        A rule of `fit_release`.
    success
        A run is a success if its ``y`` is at least this.
    confidence
        Coverage of the intervals, between 0 and 1.

    Returns
    -------
    DataFrame
        One row per ``quantity``: ``released_infeasible`` and ``released_feasible``, the share of runs with a
        release among tasks that no recorded run solved, and among the others; ``correct``, the share of
        successes among runs with a release; ``epochs``, the mean k of the release. ``value lower upper``
        (Float64), ``n n_tasks`` (UInt32), ``reason`` (``ratio.empty`` if there is no such run; else why the
        interval is null), ``params``.

    Raises
    ------
    SchemaError
        As of `features`.
    ParameterError
        Something other than a rule, or a number out of range.

    Notes
    -----
    Intervals are those of means over tasks (docs/reference/definitions.md, D23). ``correct`` is about the
    outcome of the whole run, as recorded. O(epochs log epochs).

    Source: docs/reference/definitions.md, D28.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> steps = pl.DataFrame({"run": ["a", "b", "c", "d"], "step": 1, "score": [0.3, 0.5, 0.6, 0.9],
    ...                       "success": [False, False, False, True]})
    >>> epochs = ot.stopping.epochs_from_frame(steps)
    >>> rule = ot.stopping.fit_release(epochs.filter(pl.col("y") == 0), alpha=0.25)
    >>> ot.stopping.evaluate_release(epochs, rule).select("quantity", "value").rows()
    [('released_infeasible', 0.0), ('released_feasible', 1.0), ('correct', 1.0), ('epochs', 1.0)]
    """
    runs = Runs.of(epochs, "epochs", float(success))
    runs = runs.take(runs.has_outcome)
    at = runs.first(releases_of(rule, runs)["release"].to_numpy())
    released, feasible = at >= 0, _solvable(runs)
    when = runs.k[np.maximum(at, 0)].astype(np.float64) if len(runs) else np.zeros(0)
    tasks = np.unique(np.array(runs.tasks, dtype=object), return_inverse=True)[1] if len(runs) else at
    params = params_text({**rule.params, "success": float(success), "confidence": confidence})
    table = []
    for quantity, values, among in (
        ("released_infeasible", released.astype(np.float64), ~feasible),
        ("released_feasible", released.astype(np.float64), feasible),
        ("correct", runs.success.astype(np.float64), released),
        ("epochs", when, released),
    ):
        clusters = tasks[among]
        within = None if quantity == "epochs" else (0.0, 1.0)
        mean = mean_interval(values[among], clusters, confidence=confidence, within=within)
        table.append(
            {
                "quantity": quantity,
                "value": mean.estimate,
                "lower": mean.around.lower,
                "upper": mean.around.upper,
                "n": int(among.sum()),
                "n_tasks": len(np.unique(clusters)),
                "reason": "ratio.empty" if mean.estimate is None else mean.around.reason,
                "params": params,
            }
        )
    return pl.DataFrame(table, schema=EVALUATED)


def releases_of(rule: ReleaseRule, runs: Runs) -> pl.DataFrame:
    """What `ReleaseRule.apply` returns, of runs that are laid out already."""
    return rule._applied(runs)
