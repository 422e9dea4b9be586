"""Whether a change made agents worse: pass, fail or inconclusive, paired by task, and the power to say so."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

import polars as pl

from .. import _core
from ..base.arguments import Alpha, Integer, PositiveShare, Power, Seed, Success
from ..base.errors import InputError, ParameterError
from ..base.schema import CREDITS, unknown_name
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.names import names_of
from ..corpus.reward import Reward
from .gate_checks import Allowed, refuse_before_reading, refuse_runs
from .gate_metrics import Margin, gate_metrics, runs_of, schema_of_metric
from .gate_pairs import Design, Paired
from .gate_power import POWER, injected
from .gate_verdicts import Verdict, rows_of

Looks = Annotated[int, Integer(1, 20)]
"""How many looks at a comparison are planned, or which of them this is."""
Draws = Annotated[int, Integer(1, 10**6)]
"""How many comparisons are drawn of recorded ones."""
Broken = Literal["refuse", "failed"]
"""What a run without an outcome is to a gate: a reason to refuse, or a failure."""

GATE: Final = pl.Schema(
    {
        "metric": pl.String(),
        "verdict": pl.Enum(get_args(Verdict)),
        "base": pl.Float64(),
        "new": pl.Float64(),
        "difference": pl.Float64(),
        "lower": pl.Float64(),
        "upper": pl.Float64(),
        "margin": pl.Float64(),
        "p_noninferior": pl.Float64(),
        "p_superior": pl.Float64(),
        "p_worse": pl.Float64(),
        "detectable": pl.Float64(),
        "n_tasks": pl.UInt32(),
        "tasks_needed": pl.UInt64(),
        "more_tasks": pl.UInt64(),
        "n_runs_base": pl.UInt32(),
        "n_runs_new": pl.UInt32(),
        **schema_of_metric(),
        "reason": CREDITS["reason"],
        "interval_reason": CREDITS["reason"],
    }
)
"""Columns and types of what `gate` returns."""


@verb
def gate(
    base: Corpus,
    new: Corpus,
    *,
    metric: str | Sequence[str] = "success",
    margin: Margin = 0.02,
    reward: Reward = "team",
    success: Success = 1.0,
    alpha: Alpha = 0.05,
    power: Power = 0.8,
    looks: Looks = 1,
    look: Looks | None = None,
    broken: Broken = "refuse",
    allow: str | Collection[str] = (),
) -> pl.DataFrame:
    """Say whether a change made agents worse: pass, fail or inconclusive, for each metric.

    Parameters
    ----------
    base, new
        Recordings of the same tasks before and after the change.
    metric
        ``"success"`` and ``"reward"``, whose differences are tested; ``"tokens"``, ``"seconds"`` and
        ``"dollars"``, whose ratios are; and any metric of `metrics` with the direction that is better, as
        ``"n_tool_errors:lower"``.
    margin
        How much worse is tolerated: in units of the metric, of ratios as a share (0.1: 10 % more). A number,
        or a number of each metric by name; 0.02 of those that it leaves out.
    reward, success
        What a run earned, and the smallest reward that counts as success, as of `pass_rates`.
    alpha
        The rate of false alarms, one-sided, below 0.5: over all metrics and all looks.
    power
        How often what `detectable` and ``tasks_needed`` are about is to be found.
    looks, look
        How many looks are planned, after equal numbers of tasks, and which this is, from 1; None is the last.
        `alpha` is spent over them, hardly any of it early.
    broken
        What a run without a reward is to ``"success"``: ``"failed"`` counts it as a failure. ``"refuse"``
        leaves it out, and refuses where that is not as many of each task on both sides.
    allow
        Checks to leave out: ``"tasks"``, ``"model"``, ``"harness"``, ``"attempts"``, ``"missing"``,
        ``"copies"``. Name what the change is meant to change.

    Returns
    -------
    DataFrame
        A row per metric: ``metric``; ``verdict`` (Enum): ``pass``, if new is shown to be worse by less than
        the margin; ``fail``, if it is not, and new is shown to be worse than base; else ``inconclusive``.
        ``base new``, means over tasks of a task's mean over its attempts; ``difference``, new less base, of
        ratios the geometric mean over tasks of new / base, less 1, with ``lower upper``, which hold for all
        metrics at once with 1 - 2 alpha; ``margin``. ``p_noninferior p_superior p_worse`` (Float64): that new
        is not worse by the margin, is better, is worse, one-sided, adjusted over the metrics by Holm's rule
        and over the looks. ``detectable``: the least worsening that fails with `power` on tasks like these.
        ``n_tasks`` (UInt32) of both sides; ``tasks_needed more_tasks`` (UInt64), in all and beside these, for
        a change without effect to pass with `power`; null with a margin of 0. ``n_runs_base n_runs_new``
        (UInt32); ``better``, ``scale`` (Enum). ``reason`` says why a number is null: ``support.absent`` with
        fewer than two tasks, ``result.range``; ``interval_reason`` the same of the interval, and
        ``group.degenerate`` where all tasks differ by the same.

    Raises
    ------
    ParameterError
        An unknown metric, channel or check, or an option out of range.
    InputError
        The sides are no fair comparison; the message names the check.

    Notes
    -----
    The unit is the task: its attempts are one mean, and every task counts alike. With d the mean over tasks
    of the difference (of ratios of its logarithm), oriented so that more is better, the tests are Student's
    over tasks, of ``success`` those of Wilson's interval with his t (docs/intervals.md), and to pass also one
    for rare losses. Tasks that all differ by the same, in a metric of no known range, are judged by signs. At
    d = 0 a gate fails with about `alpha`; at d = -margin it passes with about `alpha` at most. `power` is an
    average over what the deviation of a task may be, which these tasks have only estimated; of ``success`` it
    is that of a worsening in which each success fails with one chance. docs/reference/gate.md has the error
    rates. O(events) for the checks, O(runs) for each metric.

    Source: non-inferiority, Blackwelder 1982; Holm 1979; Lan & DeMets 1983; clusters as units, Miller,
    arXiv 2411.00640.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> runs = ot.generate(traces=64, seed=0)  # 8 tasks, 8 runs of each
    >>> before, after = (runs.filter(pl.col("trace") // 4 % 2 == half) for half in (0, 1))
    >>> table = ot.evaluation.gate(before, after, metric="success", margin=0.1)
    >>> table.select("metric", "verdict", "n_tasks").row(0)
    ('success', 'inconclusive', 8)
    """
    prepared = _prepared(base, new, metric, margin, reward, success, alpha, power, looks, look, broken, allow)
    return pl.DataFrame(rows_of(prepared.pairs, prepared.design), schema=GATE)


@verb
def gate_power(
    base: Corpus,
    new: Corpus,
    *,
    effect: PositiveShare = 0.05,
    draws: Draws = 1000,
    seed: Seed = 0,
    metric: str | Sequence[str] = "success",
    margin: Margin = 0.02,
    reward: Reward = "team",
    success: Success = 1.0,
    alpha: Alpha = 0.05,
    looks: Looks = 1,
    look: Looks | None = None,
    broken: Broken = "refuse",
    allow: str | Collection[str] = (),
) -> pl.DataFrame:
    """Say how often a gate would see a worsening of one's own runs that is put there on purpose.

    Parameters
    ----------
    base, new
        As of `gate`.
    effect
        How much worse new is: of success the share of all runs that fail instead, of ratios how much more,
        as a share, else in units of the metric.
    draws
        How many comparisons are drawn.
    seed
        Of the draws.
    metric, margin, reward, success, alpha, looks, look, broken, allow
        As of `gate`.

    Returns
    -------
    DataFrame
        Two rows per metric, of ``effect`` 0 and of `effect`: ``metric effect``; ``passed failed
        inconclusive`` (Float64), shares of the draws with this verdict; ``stderr``, the error of ``failed``
        over draws; ``n_tasks draws`` (UInt32); ``reason``, why the shares are null: as of `gate`, and
        ``signal.absent`` where fewer runs succeed than are to fail.

    Raises
    ------
    ParameterError, InputError
        As of `gate`.

    Notes
    -----
    A draw swaps the two sides of each task by a fair coin, which leaves no difference and all that tasks vary
    by; then each success of the side that is new fails with a chance that takes `effect` from the rate, or
    the side is multiplied, or moved. The power is that of these tasks: it says nothing of tasks that you do
    not have. O(draws * tasks).

    Source: sign flips of paired differences, Fisher 1935.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> runs = ot.generate(traces=64, seed=0)
    >>> before, after = (runs.filter(pl.col("trace") // 4 % 2 == half) for half in (0, 1))
    >>> table = ot.evaluation.gate_power(before, after, metric="tokens", effect=0.5, draws=200)
    >>> table["effect"].to_list()
    [0.0, 0.5]
    """
    prepared = _prepared(base, new, metric, margin, reward, success, alpha, None, looks, look, broken, allow)
    rows = injected(prepared.pairs, prepared.design, effect=effect, draws=draws, seed=seed)
    return pl.DataFrame(rows, schema=POWER)


@dataclass(frozen=True)
class _Prepared:
    """Two sides that may be compared, paired for each metric, and how the gate errs."""

    pairs: list[Paired]
    design: Design


def _prepared(
    base: Corpus,
    new: Corpus,
    metric: str | Sequence[str],
    margin: Margin,
    reward: Reward,
    success: float,
    alpha: float,
    power: float | None,
    looks: int,
    look: int | None,
    broken: Broken,
    allow: str | Collection[str],
) -> _Prepared:
    _core.check_process()
    chosen = gate_metrics(metric, margin)
    off = [allow] if isinstance(allow, str) else names_of("allow", allow)
    for name in off:
        if name not in get_args(Allowed):
            raise ParameterError(unknown_name("check", name, list(get_args(Allowed))))
    if alpha >= 0.5:
        raise ParameterError(f"alpha is {alpha:g}, expected a number between 0 and 0.5")
    if power is not None and power <= alpha:
        raise ParameterError(f"power is {power:g}, expected more than alpha, {alpha:g}")
    at = looks if look is None else look
    if at > looks:
        raise ParameterError(f"look is {at}, expected a whole number from 1 to {looks}, the number of looks")
    corpora = {"base": base, "new": new}
    for side, corpus in corpora.items():
        if not len(corpus):
            raise InputError(f"{side} has no runs: nothing to compare")
    refuse_before_reading(corpora, off, measured=not all(each.is_judged for each in chosen))
    runs = runs_of(corpora, chosen, reward=reward, success=success, broken=broken)
    refuse_runs(runs, [each.name for each in chosen], off)
    pairs = [Paired.of(runs["base"], runs["new"], each) for each in chosen]
    return _Prepared(pairs, Design(alpha, 0.8 if power is None else power, looks, at, len(chosen)))
