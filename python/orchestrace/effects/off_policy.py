"""Off-policy evaluation: what another policy would have been paid, from logged choices."""

import math
from collections.abc import Sequence
from typing import Annotated, Any, Final

import numpy as np
import polars as pl

from .. import _core
from ..base.arguments import (
    Amount,
    Bounds,
    Confidence,
    Discount,
    Folds,
    Number,
    Penalty,
    Positive,
    Resamples,
    Seed,
    Size,
)
from ..base.arrays import Floats
from ..base.checks import expect_within
from ..base.errors import ParameterError
from ..base.text import briefly
from ..base.verbs import verb
from ..decisions.rows import REASON, TIER, named_columns, params_text
from ..statistics.folds import folds_over
from ..statistics.influence import interval, mean_interval
from ..statistics.learners import one_thread
from ..statistics.regression import MOST_WORDS
from ..statistics.resampling import resampled_ratios
from ..statistics.sums import sums_of
from .action_tables import ActionTable, ByAction, check_number_of_actions, model_table, policy_table
from .logged_decisions import Log, Unit, logged
from .outcome_regression import buckets_of, fitted_returns, returns_where_followed
from .policy_estimators import Terms, Weights, bound_terms, direct_terms, returns, terms_of, unsupported
from .policy_options import Setting, check_unit, regression_columns

FOLDS: Final = 5
SWITCH_QUANTILE: Final = 0.95
"""Of the weights: where the default switch is."""
ESS_SHARE: Final = 0.05
"""Effective share of the runs below which there is no estimate."""
BUCKETS: Final = 10
"""Parts into which a column with many numbers is cut, to see which actions were logged there."""

NAMES: Final[dict[Unit, dict[str, str]]] = {
    "decision": {
        "is": "ips",
        "wis": "snips",
        "direct": "direct",
        "dr": "dr",
        "mrdr": "mrdr",
        "switch": "switch",
    },
    "sequence": {"is": "is", "wis": "wis", "pdis": "pdis", "dr": "dr", "direct": "fqe"},
}
"""What estimators are called, by what they are computed as."""
_MODELED: Final = ("direct", "fqe", "switch")
"""Estimators that hold only as far as the model does, wherever the policy is from what was logged."""
ESTIMATORS: Final = ("ips", "snips", "is", "wis", "pdis", "direct", "fqe", "dr", "mrdr", "switch", "bounds")

VALUES: Final[dict[str, Any]] = {
    "estimator": pl.Enum(ESTIMATORS),
    "value": pl.Float64,
    "stderr": pl.Float64,
    "lower": pl.Float64,
    "upper": pl.Float64,
    "n": pl.UInt32,
    "n_tasks": pl.UInt32,
    "ess": pl.Float64,
    "max_weight_share": pl.Float64,
    "mean_weight": pl.Float64,
    "clipped_share": pl.Float64,
    "no_support_share": pl.Float64,
    "tier": TIER,
    "reason": REASON,
    "params": pl.String,
}
"""Columns and types of what `policy_values` returns."""


@verb
def policy_values(
    decisions: pl.DataFrame,
    policy: ByAction,
    *,
    unit: Unit = "decision",
    at: Size = 1,
    order: str = "seq",
    reward: str | None = None,
    discount: Discount = 1.0,
    outcome_model: ByAction | None = None,
    features: Sequence[str] | None = None,
    buckets: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
    bounds: Bounds | None = None,
    clip: Positive | None = None,
    tau: Annotated[float, Number(0, infinite=True)] | None = None,
    min_ess: Amount = 30.0,
    max_share: Amount = 0.2,
    max_unsupported: Amount = 0.05,
    folds: Folds = 5,
    penalty: Penalty = 1.0,
    confidence: Confidence = 0.95,
    n_boot: Resamples = 2000,
    seed: Seed = 0,
) -> pl.DataFrame:
    """Estimate what another policy would have earned, from choices logged with their probabilities.

    Parameters
    ----------
    decisions
        A row per decision, all of one kind: ``trace task_id action p_behavior outcome`` and what was known
        before it, in columns ``x_...``. ``action`` is one of a small set, ``p_behavior`` the probability with
        which it was drawn, ``outcome`` that of the run. ``trace_id``, if there is one, orders the runs.
    policy
        The probability of each action. A mapping from actions to numbers, or to expressions over `decisions`
        (``{"spawn": pl.when(pl.col("x_depth") > 2).then(0.0).otherwise(0.9), ...}``). Or a frame with
        ``action``, ``p`` and the columns that define the states; an action without a row has 0. Or the name
        of a column of `decisions`: a struct with a field per action, or a list in the order of `actions`.
    unit
        ``"decision"``: one decision per run, the one `at` that place. ``"sequence"``: all of a run, each
        followed by the policy.
    at
        Which decision of a run counts, from 1. A run with fewer is left out.
    order
        The column that orders the decisions of a run.
    reward
        The column with the reward of each decision, for sequences. None: the outcome, after the last.
    discount
        Of rewards, for sequences: the reward of the t-th decision counts discount^(t-1).
    outcome_model
        The expected return of each action, as `policy` is given; in a frame the column is ``q``. None: ridge
        regression on `features` and indicators of actions (of sequences also of the place in the run, since
        the rewards still to come depend on it), fitted without the task that it judges.
    features
        Columns that the regression sees. None: every ``x_...`` that holds no lists.
    buckets
        Columns that say which states are alike, to see which actions were logged in such a state; numbers of
        more than 32 values are cut into ten parts. None: the columns that `policy` looks at.
    actions
        Names of actions, in the order of a list column.
    bounds
        Least and greatest possible return of a run. None: they are not known, and are not guessed.
    clip
        Largest weight; greater ones are cut to it. That trades variance for bias. None: no clipping.
    tau
        Largest weight with which ``switch`` corrects the model. None: the 95th percentile of the weights.
    min_ess, max_share, max_unsupported
        There is no estimate by weights if the effective sample is below `min_ess`, or 5 % of the runs; if one
        run has more than `max_share` of the weight; or if the policy gives more than `max_unsupported` of
        its probability to actions never logged in such a state.
    folds, penalty
        Parts of the tasks (of one task: its runs) for the regression; its penalty on squared weights.
    confidence, n_boot
        Coverage of the intervals, resamples of tasks.
    seed
        Of folds and resamples.

    Returns
    -------
    DataFrame
        A row per ``estimator``, all Float64 but the counts ``n`` (runs) and ``n_tasks`` (UInt32).
        ``value stderr lower upper``: mean return per run under the policy, and its interval over tasks, with
        the regression held fixed. ``ess max_weight_share mean_weight`` of the runs' weights, after clipping;
        ``clipped_share`` and ``no_support_share`` of decisions. ``tier`` is ``observed`` for what rests on
        logged probabilities, ``surrogate`` for the model alone (``direct``, of sequences ``fqe``), which
        is given even without overlap, and for ``switch``, which leaves large weights to the model.
        ``mrdr`` has a row if the policy gives one action of each decision the probability 1, since it is
        defined for no other policy. ``reason`` is that of a null value:
        ``overlap.absent`` after a refusal, ``field.absent`` where a decision has no ``p_behavior``,
        ``result.range`` where one is not in (0, 1] or a sum is beyond the floats, ``support.absent`` without
        runs; beside a value, that of a null interval. ``bounds`` assumes nothing but the range: ``lower`` and
        ``upper`` over the logged runs, no value; ``range.unknown`` without `bounds`. ``params`` has every
        option, the runs left out, and ``findings``: ``propensity.suspect`` if the mean of the unclipped
        weights is more than three standard errors from 1, ``bounds.outside`` if a value contradicts them.

    Raises
    ------
    ParameterError
        Probabilities that do not sum to 1, more than 256 actions, an unknown column, an outcome outside of
        `bounds`, or a number out of range.
    SchemaError
        Decisions that lack a column, contradict each other, or are of several kinds.

    Notes
    -----
    w = p_policy / p_behavior of the logged action a, R the outcome, q the regression, v(x) the sum over all
    actions of p_policy(a|x) q(x, a). ``ips`` mean(w R); ``snips`` mean(w R) / mean(w); ``direct`` mean v(x);
    ``dr`` mean(v(x) + w (R - q(x, a))); ``switch`` the same with the correction only where w <= `tau`.
    ``mrdr`` is ``dr`` with a regression of its own, beside an `outcome_model`, too: it sees the decisions in
    which the log did what the policy does, with the weight (1 - p) / p² where p is `p_behavior`. Its loss is
    what the regression adds to the variance of the estimate.

    Of sequences, with w_t the product of the weights up to t of T, d the discount, R the sum of d^(t-1) r_t:
    ``is`` mean(w_T R); ``wis`` mean(w_T R) / mean(w_T); ``pdis`` the mean of the sum of d^(t-1) w_t r_t;
    ``dr`` that of d^(t-1) (w_(t-1) v(x_t) + w_t (r_t - q(x_t, a_t))); ``fqe`` mean v(x_1), where q is given,
    or comes of a regression on r + d v(x') that is repeated until it settles.

    Bounds: mean of p R + (1 - p) a, and with b, where returns are from a to b and p is the probability that
    the policy repeats the logged choices of the run.

    O(decisions * (features + actions)² + n_boot * tasks); sequences regress at most as often as the longest
    run has decisions. At most 256 actions: weights over texts or tokens have no effective sample.

    Source: Horvitz & Thompson 1952; Dudík, Langford & Li 2011 (arXiv 1103.4601); SNIPS, Swaminathan &
    Joachims 2015; switch, Wang, Agarwal & Dudík 2017 (arXiv 1612.01205); mrdr, Farajtabar, Chow &
    Ghavamzadeh 2018 (arXiv 1802.03493); sequences, Precup, Sutton & Singh 2000; Jiang & Li 2016
    (arXiv 1511.03722); Le, Voloshin & Yue 2019 (arXiv 1903.08738); bounds, Manski 1990.

    Examples
    --------
    >>> import orchestrace as ot
    >>> decisions, truth = ot.synthetic.choices(runs=2000, seed=0)
    >>> always = {"spawn": 0.9, "no_spawn": 0.1}
    >>> table = ot.effects.policy_values(decisions, always, bounds=(0.0, 1.0), n_boot=500)
    >>> table["estimator"].to_list()
    ['ips', 'snips', 'direct', 'dr', 'switch', 'bounds']
    >>> exact = truth.value({"easy": 0.9, "hard": 0.9})
    >>> [row["lower"] < exact < row["upper"] for row in table.filter(tier="observed").rows(named=True)]
    [True, True, True, True]
    """
    check_unit(unit, at, reward, discount)
    least, share, mass, pull = map(float, (min_ess, max_share, max_unsupported, penalty))
    cut, switch = (None if option is None else float(option) for option in (clip, tau))
    log = logged(decisions, unit=unit, at=at, order=order, reward=reward)
    columns = regression_columns(log.rows, features)
    probabilities = policy_table(log.rows, policy, actions)
    model = None if outcome_model is None else model_table(log.rows, outcome_model, actions)
    # mrdr is defined for policies that leave nothing to chance
    sure = unit == "decision" and len(log) > 0 and bool(np.isin(probabilities.values, (0.0, 1.0)).all())
    regressed = model is None or sure
    names = {kind: name for kind, name in NAMES[unit].items() if sure or name != "mrdr"}
    setting = Setting(unit, float(discount), cut, switch, confidence, n_boot, seed)
    options: dict[str, object] = {
        "unit": unit,
        "policy": probabilities.description,
        "outcome_model": "ridge" if model is None else model.description,
        "features": columns if regressed else [],
        "at": at if unit == "decision" else None,
        "order": order,
        "reward": reward,
        "discount": float(discount) if unit == "sequence" else None,
        "clip": cut,
        "min_ess": least,
        "max_share": share,
        "max_unsupported": mass,
        "folds": folds if regressed else None,
        "penalty": pull if regressed else None,
        "confidence": confidence,
        "n_boot": n_boot,
        "seed": seed,
        "clusters": log.clusters,
        "left_out": log.left_out,
        "version": _core.VERSION,
    }
    limits = _limits(log, bounds, setting)
    options["bounds"] = limits
    if not len(log):
        return _without(names, setting, options)
    action_names = tuple(sorted({*log.actions, *probabilities.actions}))
    check_number_of_actions(len(action_names), "decisions and policy")
    wide = _renumbered(log, action_names)
    target = probabilities.on(action_names, 0.0)
    alike = list(probabilities.columns) if buckets is None else named_columns(log.rows, buckets, "buckets")
    options["buckets"] = alike
    with one_thread():
        fold = np.repeat(folds_over(log.names, folds, seed)[log.cluster], log.length)
        q = (
            fitted_returns(wide, columns, target, fold, discount=setting.discount, penalty=pull)
            if model is None
            else _modelled(model, action_names, target, log)
        )
        wrong = _wrong_probability(log)
        followed = (
            returns_where_followed(wide, columns, target, fold, penalty=pull)
            if sure and wrong is None
            else None
        )
        support = unsupported(wide, target, buckets_of(log.rows, alike, MOST_WORDS, BUCKETS))
        return _table(
            names, wide, target, q, followed, support, (least, share, mass), limits, setting, options
        )


def _limits(log: Log, bounds: Bounds | None, setting: Setting) -> tuple[float, float] | None:
    """Least and greatest possible return; None where the caller does not say."""
    if bounds is None:
        return None
    _, total = returns(log, setting.discount)
    low, high = (float(total.min()), float(total.max())) if len(log) else (math.inf, -math.inf)
    return expect_within(bounds, low, high, "returns")


def _renumbered(log: Log, names: tuple[str, ...]) -> Log:
    """The log, with the codes of more actions."""
    place = np.array([names.index(name) for name in log.actions], dtype=np.int64)
    fields = {name: getattr(log, name) for name in Log.__dataclass_fields__}
    return Log(**{**fields, "actions": names, "action": place[log.action]})


def _modelled(model: ActionTable, names: tuple[str, ...], target: Floats, log: Log) -> Floats:
    """The given model; it has to know every action that was logged or that the policy takes."""
    used: Floats = target.max(axis=0)
    for at, name in enumerate(names):
        if name not in model.actions and (name in log.actions or used[at] > 0.0):
            raise ParameterError(
                f"outcome_model has no value for action {briefly(name)}, expected all actions"
            )
    return model.on(names, 0.0)


def _without(names: dict[str, str], setting: Setting, options: dict[str, object]) -> pl.DataFrame:
    """The rows of a log without runs."""
    same = {
        "n": 0,
        "n_tasks": 0,
        "reason": "support.absent",
        "params": params_text(_spelled(options, setting)),
    }
    rows = [{"estimator": name, **same} for name in (*names.values(), "bounds")]
    return pl.DataFrame(rows, schema=VALUES)


def _spelled(options: dict[str, object], setting: Setting, **more: object) -> dict[str, object]:
    """Options as JSON has them, which knows no infinity."""
    tau = more.get("tau", setting.tau)
    return options | more | {"tau": "inf" if tau == math.inf else tau}


def _table(
    names: dict[str, str],
    log: Log,
    target: Floats,
    q: Floats,
    followed: Floats | None,
    support: float,
    refusals: tuple[float, float, float],
    limits: tuple[float, float] | None,
    setting: Setting,
    options: dict[str, object],
) -> pl.DataFrame:
    chosen = target[np.arange(len(target)), log.action]
    n_tasks = log.rows["task_id"].n_unique()
    base: dict[str, object] = {"n": len(log), "n_tasks": n_tasks, "no_support_share": support}
    findings: list[str] = []
    terms: dict[str, Terms] = {}
    wrong = _wrong_probability(log)
    refused = wrong
    tau = setting.tau
    if wrong is None:
        weights = Weights.of(log, chosen, setting.clip)
        if setting.unit == "decision" and tau is None:
            finite = weights.run[np.isfinite(weights.run)]
            tau = float(np.quantile(finite, SWITCH_QUANTILE)) if finite.size else None
        if np.isfinite(weights.run).all():
            share, ess, mean = weights.max_share, weights.ess, float(weights.run.mean())
            base |= {"ess": ess, "max_weight_share": share, "mean_weight": mean}
            base |= {"clipped_share": weights.clipped_share}
            least, most, mass = refusals
            lacking = ess < max(least, ESS_SHARE * len(log)) or share is None or share > most
            refused = "overlap.absent" if lacking or support > mass else None
            if _suspect(weights.plain, log):
                findings.append("propensity.suspect")
        else:
            refused = "result.range"
        if refused is None:
            of_sequence = tau if setting.unit == "decision" else None
            terms = terms_of(log, weights, target, q, setting.discount, of_sequence, followed)
        terms["direct"] = direct_terms(log, target, q)
    terms = {names[kind]: term for kind, term in terms.items() if kind in names}
    bound = None if limits is None else bound_terms(log, chosen, setting.discount, *limits)
    with np.errstate(over="ignore"):  # of a range as wide as the floats
        ends = None if bound is None else (float(bound[0].mean()), float(bound[1].mean()))
    intervals = _intervals(log, terms, setting)
    rows: list[dict[str, object]] = []
    for name in names.values():
        row: dict[str, object] = {"estimator": name, **base}
        row_findings = list(findings)
        if name in terms and math.isfinite(value := terms[name].value):
            around = intervals[name]
            row |= {"value": value, "stderr": around.stderr, "lower": around.lower, "upper": around.upper}
            row |= {
                "tier": "surrogate" if name in _MODELED else "observed",
                "reason": around.reason,
            }
            if ends is not None and not _between(value, *ends):
                row_findings.append("bounds.outside")
        else:
            row["reason"] = "result.range" if name in terms else refused
        row["params"] = params_text(_spelled(options, setting, tau=tau, findings=row_findings))
        rows.append(row)
    rows.append({"estimator": "bounds", **base, **_bounds(log, bound, ends, setting, options, tau, findings)})
    return pl.DataFrame(rows, schema=VALUES)


def _between(value: float, lower: float, upper: float) -> bool:
    room = 1e-9 * max(abs(lower), abs(upper), upper - lower)
    return lower - room <= value <= upper + room


def _wrong_probability(log: Log) -> str | None:
    """Why the logged probabilities give no weights."""
    if log.rows["p_behavior"].null_count():
        return "field.absent"
    inside = np.all((log.p > 0.0) & (log.p <= 1.0))
    return None if inside else "result.range"


def _suspect(weights: Floats, log: Log) -> bool:
    """Whether the mean weight is not 1, as it is if the logged probabilities are those that acted."""
    if not np.isfinite(weights).all():
        return True
    mean = mean_interval(weights, log.cluster, confidence=0.95)
    stderr = mean.around.stderr
    if mean.estimate is None or stderr is None:
        return False
    return abs(mean.estimate - 1.0) > max(3.0 * stderr, 1e-9)


def _intervals(log: Log, terms: dict[str, Terms], setting: Setting) -> dict[str, Any]:
    """Of every estimate with a value, over the same resamples of tasks."""
    finite = [name for name, term in terms.items() if math.isfinite(term.value)]
    n = int(log.cluster.max()) + 1
    if not finite:
        return {}
    parts, wholes = (
        np.column_stack([sums_of(getattr(terms[name], side), log.cluster, n) for name in finite])
        for side in ("above", "below")
    )
    intervals = resampled_ratios(
        parts, wholes, n_boot=setting.n_boot, confidence=setting.confidence, seed=setting.seed
    )
    return dict(zip(finite, intervals, strict=True))


def _bounds(
    log: Log,
    bound: tuple[Floats, Floats] | None,
    ends: tuple[float, float] | None,
    setting: Setting,
    options: dict[str, object],
    tau: float | None,
    findings: list[str],
) -> dict[str, object]:
    """The row of bounds that assume nothing but the range."""
    if bound is None or ends is None:
        spelled = _spelled(options, setting, tau=tau, findings=findings)
        return {"reason": "range.unknown", "params": params_text(spelled)}
    errors: dict[str, object] = {}
    row: dict[str, object] = {}
    for name, side, end in zip(("lower", "upper"), bound, ends, strict=True):
        errors[f"stderr_{name}"] = None
        if math.isfinite(end):
            row[name] = end
            with np.errstate(over="ignore"):
                around = interval(0.0, (side - side.mean()) / len(side), log.cluster, confidence=0.5)
            errors[f"stderr_{name}"] = around.stderr
    row |= {"tier": "observed" if row else None, "reason": None if len(row) == 2 else "result.range"}
    spelled = _spelled(options, setting, tau=tau, findings=findings, **errors)
    return row | {"params": params_text(spelled)}
