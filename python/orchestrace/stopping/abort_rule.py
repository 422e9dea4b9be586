"""A fitted abort rule: where it gives alarms, and what it guarantees."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol

import numpy as np
import polars as pl

from ..base.arguments import Alpha
from ..base.arrays import Bools, Floats
from ..base.errors import ParameterError
from ..base.verbs import verb
from ..decisions.rows import params_text
from ..statistics.learners import one_thread
from .epochs import REASON
from .pooled import FOLDS
from .runs import Runs, check_epochs, of_runs, uniforms
from .thresholds import Method, order

Validity = Literal["model", "marginal", "confidence", "approximate"]

FITTED: Final = ("auto", "ratio", "survival", "log_odds", "savings")
"""Evidence that is fitted to runs."""

ALARMS: Final = pl.Schema(
    {
        "trace": pl.UInt32(),
        "trace_id": pl.String(),
        "task_id": pl.String(),
        "k": pl.UInt32(),
        "evidence": pl.Float64(),
        "e_value": pl.Float64(),
        "over": pl.Boolean(),
        "alarm": pl.Boolean(),
        "reason": REASON,
        "params": pl.String(),
    }
)
"""Columns of what `AbortRule.apply` returns."""


class Model(Protocol):
    """Evidence of every row, larger for failure."""

    def of(self, runs: Runs) -> Floats: ...


@dataclass(frozen=True)
class CallerEvidence:
    """Evidence that the caller computes."""

    expression: pl.Expr

    def of(self, runs: Runs) -> Floats:
        try:
            evidence = runs.rows.select(evidence=self.expression.cast(pl.Float64))["evidence"]
        except pl.exceptions.ColumnNotFoundError as error:
            raise ParameterError(f"evidence cannot be computed: epochs have no column {error}") from None
        if len(evidence) != len(runs.k) or not evidence.is_finite().fill_null(False).all():
            raise ParameterError("evidence is not a finite number for every epoch")
        return evidence.to_numpy()


@dataclass(frozen=True, repr=False, eq=False)  # a fitted model has no truth value
class AbortRule:
    """A fitted abort rule, which does not change; made by `fit_abort`.

    Attributes
    ----------
    method
        How the threshold was set: ``ville``, ``conformal`` or ``pac``.
    evidence
        What is compared with it.
    alpha
        The share of successful runs that may be cut.
    threshold
        The alarm is at the first epoch whose evidence is above it; null if there are never alarms. Evidence
        is a logarithm: of M_k (``ratio``, ``survival``), or of odds up to a constant. Of a rule with
        ``cross`` it is a number of calibration runs.
    rank
        The threshold is the value of this rank, from 1, among the `n_calibration`; null for ``ville``.
    n_fit, n_calibration
        How many runs the evidence was fitted on, and how many successful runs set the threshold.
    validity
        What the guarantee rests on: ``model``, ``marginal``, ``confidence`` or ``approximate``.
    guarantee
        The guarantee in a sentence.
    reason
        Why there is no threshold: ``calibration.small``, or ``class.single`` if the runs had too few of one
        outcome to fit evidence; null beside a threshold.
    params
        All options.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> steps = pl.DataFrame({"run": [f"r{i // 2}" for i in range(40)], "step": [1, 2] * 20,
    ...                       "score": [i % 7 / 7 for i in range(40)], "success": [True] * 40})
    >>> epochs = ot.stopping.epochs_from_frame(steps)
    >>> rule = ot.stopping.fit_abort(epochs, evidence=-pl.col("s"), alpha=0.2)
    >>> rule.method, rule.n_calibration, rule.rank, rule.validity
    ('conformal', 20, 17, 'marginal')
    >>> rule.apply(epochs)["alarm"].sum() <= 4
    True
    """

    method: Method
    evidence: str
    alpha: float
    threshold: float | None
    rank: int | None
    n_fit: int
    n_calibration: int
    validity: Validity
    reason: str | None
    params: Mapping[str, object]
    _model: Model | None = field(repr=False)
    _tie: float | None = field(repr=False)  # of the run that is the threshold
    _peaks: Floats = field(repr=False)
    _draws: Floats = field(repr=False)

    def __repr__(self) -> str:
        bound = "none" if self.threshold is None else f"{self.threshold:.6g}"
        return (
            f"AbortRule(method={self.method!r}, evidence={self.evidence!r}, alpha={self.alpha:g},"
            f" threshold={bound}, n_calibration={self.n_calibration}, validity={self.validity!r})"
        )

    @property
    def guarantee(self) -> str:
        """What the rule promises, and under which condition."""
        share = f"P(alarm at any epoch | success) <= {self.alpha:g}"
        if self.threshold is None:
            return f"no alarms: {self.reason}"
        confidence = self.params["confidence"]
        also = f"; by itself for {confidence:g} of all calibrations" if confidence is not None else ""
        return {
            "model": f"{share}, if the fitted ratio is the true one",
            "marginal": f"{share}, over calibration and a new run from the same source{also}",
            "confidence": f"P(alarm at any epoch | success) <= {0.9 * self.alpha:g}"
            f" for {1 - 0.1 * self.alpha:g} of all calibrations",
            "approximate": f"{share}, approximately: runs are scored by models of the other folds; at most"
            f" {self._sure_share:.2g} by proof, over calibration and a new run from the same source",
        }[self.validity]

    @property
    def _sure_share(self) -> float:
        """The bound of a rule with ``cross`` on false alarms over calibrations."""
        n = self.n_calibration
        return min(2.0 * (n - (self.rank or n) + FOLDS) / (n + FOLDS), 1.0)

    @verb
    def at(self, alpha: Alpha) -> "AbortRule":
        """The same evidence and calibration at another level.

        Parameters
        ----------
        alpha
            The share of successful runs that may be cut, between 0 and 1.

        Returns
        -------
        AbortRule
            The rule with the threshold for this `alpha`; nothing is fitted or drawn again.

        Raises
        ------
        ParameterError
            `alpha` out of range.

        Notes
        -----
        O(1). Each level has its guarantee alone: do not choose one by what it gives on the runs it is for.
        Source: docs/reference/definitions.md, D27.

        Examples
        --------
        >>> import polars as pl
        >>> import orchestrace as ot
        >>> steps = pl.DataFrame({"run": [f"r{i}" for i in range(9)], "step": 1, "score": 0.5,
        ...                       "success": True})
        >>> epochs = ot.stopping.epochs_from_frame(steps)
        >>> rule = ot.stopping.fit_abort(epochs, evidence=-pl.col("s"), alpha=0.5)
        >>> rule.at(0.05).reason
        'calibration.small'
        """
        params = {**self.params, "alpha": alpha}
        if self._model is None:
            return replace(self, alpha=alpha, params=params)
        if self.method == "ville":
            return replace(self, alpha=alpha, threshold=-math.log(alpha), params=params)
        n = len(self._peaks)
        confidence = self.params["confidence"]
        rank = order(n, alpha, self.method, confidence if isinstance(confidence, float) else None)
        if rank is None:
            without = replace(self, alpha=alpha, threshold=None, rank=None, params=params, _tie=None)
            return replace(without, reason="calibration.small")
        at = np.lexsort((self._draws, self._peaks))[rank - 1]
        return replace(
            self,
            alpha=alpha,
            threshold=float(self._peaks[at]),
            rank=rank,
            reason=None,
            params=params,
            _tie=float(self._draws[at]) if self.params["ties"] == "random" else None,
        )

    @verb
    def apply(self, epochs: pl.DataFrame) -> pl.DataFrame:
        """Say at every epoch whether the rule gives an alarm.

        Parameters
        ----------
        epochs
            Epochs of runs that the rule was not fitted on, finished or not; ``y`` is not read.

        Returns
        -------
        DataFrame
            One row per epoch, ordered by ``trace`` and ``k``: ``trace`` (UInt32) ``trace_id task_id``
            (String) ``k`` (UInt32); ``evidence`` (Float64), null without a model; ``e_value`` (Float64): M_k
            for ``ville`` while the run goes on (it is 0 after its end), 1/alpha from the first alarm on and 0
            before it for ``conformal``, null for ``pac``; ``over`` (Boolean), whether the evidence is above
            the threshold here, ``alarm`` (Boolean), whether it is so for the first time in the run;
            ``reason``, why there is no threshold; ``params``.

        Raises
        ------
        SchemaError
            As of `features`; a score is null.
        ParameterError
            Evidence of the caller's own cannot be computed.

        Notes
        -----
        The row of epoch k depends on epochs 1..k alone. O(epochs log epochs); with ``ratio`` and ``survival``
        a run of K epochs costs O(K²).

        Source: docs/reference/definitions.md, D27.

        Examples
        --------
        >>> import polars as pl
        >>> import orchestrace as ot
        >>> steps = pl.DataFrame({"run": [f"r{i}" for i in range(9)], "step": 1, "score": 0.5,
        ...                       "success": True})
        >>> epochs = ot.stopping.epochs_from_frame(steps)
        >>> rule = ot.stopping.fit_abort(epochs, evidence=-pl.col("s"), alpha=0.5)
        >>> new = pl.DataFrame({"run": "n", "step": [1, 2, 3], "score": [0.9, 0.1, 0.2], "success": False})
        >>> rule.apply(ot.stopping.epochs_from_frame(new)).select("k", "over", "alarm", "e_value").rows()
        [(1, False, False, 0.0), (2, True, True, 2.0), (3, True, False, 2.0)]
        """
        return self._applied(Runs.laid_out(check_epochs(epochs), "epochs", 1.0))

    def _applied(self, runs: Runs) -> pl.DataFrame:
        n = len(runs.k)
        columns: dict[str, Any] = {
            "evidence": pl.lit(None, pl.Float64),
            "e_value": pl.lit(None, pl.Float64),
            "over": pl.lit(False),
            "alarm": pl.lit(False),
        }
        if self._model is not None:
            check_scores(runs, self.evidence)
            with one_thread():
                evidence = self._model.of(runs)
            over = self._over(evidence, runs)
            alarm = np.zeros(n, bool)
            first = runs.first(over)
            alarm[first[first >= 0]] = True
            columns |= {
                "evidence": pl.Series(evidence),
                "over": pl.Series(over),
                "alarm": pl.Series(alarm),
            }
            if self.method == "ville":
                columns["e_value"] = pl.Series(np.exp(np.clip(evidence, -700.0, 700.0)))
            elif self.method == "conformal":
                raised = (first[runs.run] >= 0) & (np.arange(n) >= first[runs.run])
                columns["e_value"] = pl.Series(np.where(raised, 1.0 / self.alpha, 0.0))
        columns |= {"reason": pl.lit(self.reason), "params": pl.lit(params_text(self.params))}
        return of_runs(runs, columns).cast(ALARMS)

    def _over(self, evidence: Floats, runs: Runs) -> Bools:
        if self.threshold is None:
            return np.zeros(len(evidence), bool)
        if self.method == "ville":
            return evidence >= self.threshold
        over: Bools = evidence > self.threshold
        if self._tie is not None:
            drawn = uniforms(runs.names, int(str(self.params["seed"])))[runs.run]
            over |= (evidence == self.threshold) & (drawn > self._tie)
        return over


def check_scores(runs: Runs, kind: str) -> None:
    """Fitted evidence needs a score at every epoch."""
    missing = runs.rows["s"].null_count()
    if kind in FITTED and missing:
        raise ParameterError(
            f"{missing:,} epochs have no score s, which evidence='{kind}' needs: leave these runs out, or"
            " give evidence= as an expression"
        )


def alarms_of(rule: AbortRule, runs: Runs) -> pl.DataFrame:
    """What `AbortRule.apply` returns, of runs that are laid out already."""
    return rule._applied(runs)
