"""Spawn effects by augmented inverse propensity weighting, with bounds where one side is never observed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import numpy as np
import polars as pl

from ..base.arguments import Bounds, Confidence, Folds, Number, Penalty, PositiveShare, Seed
from ..base.arrays import Bools, Floats, Ints
from ..base.checks import expect_within
from ..base.errors import ParameterError
from ..base.taxonomy import concerns
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward
from ..decisions.rows import EFFECT, EVIDENCE, decision_rows, flag, named_columns, number, params_text
from ..statistics.folds import folds_over
from ..statistics.influence import clusters_of, interval
from ..statistics.learners import one_thread
from ..statistics.regression import Design, logistic, pooled, ridge, sigmoid
from .matching import effective

Propensity = Literal["auto", "recorded", "fitted"]

FEATURES: Final = ("state_key", "role", "depth", "position", "tokens_before", "n_tools", "n_agents")
COSTS: Final = {"tokens": "tokens_after", "seconds": "seconds_after"}
"""Outcomes beside the reward: what the run spends after the decision."""
_NEEDED: Final = ("trace", "trace_id", "task_id", "reward", *COSTS.values())

SPAWNED: Final[dict[str, Any]] = {
    "outcome": pl.String,
    "estimate": pl.Enum(["aipw", "bounds", "monotone"]),
    **EFFECT,
    "mean_treated": pl.Float64,
    "mean_control": pl.Float64,
    "n_decisions": pl.UInt32,
    "n_treated": pl.UInt32,
    "n_control": pl.UInt32,
    "n_traces": pl.UInt32,
    "n_tasks": pl.UInt32,
    "ess_treated": pl.Float64,
    "ess_control": pl.Float64,
    "overlap": pl.Float64,
    **EVIDENCE,
}
"""Columns of what `effects.spawn` returns."""


@concerns("O1")
@verb
def spawn(
    corpus: Corpus,
    *,
    reward: Reward = "team",
    treatment: pl.Expr | None = None,
    among: pl.Expr | None = None,
    features: Sequence[str] = FEATURES,
    propensity: Propensity | pl.Expr = "auto",
    eta: Annotated[float, Number(above=0, below=0.5)] = 0.05,
    min_overlap: PositiveShare = 0.5,
    bounds: Bounds | None = None,
    monotone: bool = False,
    costs: bool = True,
    folds: Folds = 5,
    penalty: Penalty = 1.0,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
) -> pl.DataFrame:
    """Estimate what a decision to spawn adds to the outcome, and to what the run costs.

    Parameters
    ----------
    corpus
        The recordings, in memory or on disk.
    reward
        The outcome R: a reward channel or a weighted sum, as in `credit`.
    treatment
        An expression over decisions that is true where the choice was made; null leaves a decision out. None:
        ``spawned``, whether the owner of an orchestrator decision spawns before its next one. Columns: as in
        `effects.matched`.
    among
        An expression that says which decisions are looked at; None: orchestrator decisions if `treatment`
        is None, else all.
    features
        What is known before the decision and may have moved both the choice and the outcome: numbers are used
        as they are, words become indicators (the 32 most frequent of a column, the others as one: ``pooled``
        in ``params`` is the share of these), a null is a value of its own. ``state_key`` is the actor's own
        view of its state, and says nothing where it is not recorded.
    propensity
        e(x), the probability of the treatment. ``"recorded"``: ``p_behavior`` of what was done, so 1 -
        p_behavior where it was not. ``"fitted"``: logistic regression on the features. ``"auto"``: recorded
        where every decision has ``p_behavior`` and ``action``, and all treated have one action, all others
        another; else fitted. An expression over decisions gives it.
    eta
        A decision has overlap if e(x) is in [eta, 1 - eta].
    min_overlap
        Share of decisions with overlap below which there is no estimate.
    bounds
        Least and greatest possible reward, for bounds. None: 0 and 1 if all rewards are between them.
    monotone
        Assume that spawning never lowers the reward of a run: one more row, of bounds from 0.
    costs
        Estimate also ``tokens`` and ``seconds`` that the run spends after the decision, where recorded.
    folds
        Parts of the tasks (of one task: its traces) for cross-fitting: no decision is judged by a regression
        that saw its task.
    penalty
        On squared weights of standardized features, of both regressions.
    confidence
        Coverage of the intervals, between 0 and 1.
    seed
        Of the folds.

    Returns
    -------
    DataFrame
        A row per ``outcome`` (the reward, ``tokens``, ``seconds``) and ``estimate``: ``effect stderr lower
        upper mean_treated mean_control`` (units of the outcome; the means are E[R(1)] and E[R(0)]), counts
        of the decisions used (UInt32), ``ess_treated ess_control`` of the weights 1/e and 1/(1-e),
        ``overlap``, the share of decisions with overlap, ``support``, the share that the row rests on,
        ``tier reason params``. ``aipw``: the mean effect over the decisions with overlap; tier observed if e
        is recorded or given, else surrogate; null with ``overlap.absent`` below `min_overlap`, or where no
        decision, or every one, was treated; beside an effect the reason is that of a null interval:
        ``support.absent`` with one run, ``group.degenerate`` where nothing varies. ``bounds`` and
        ``monotone``: no effect, but ``lower`` and ``upper`` over all decisions; ``range.unknown`` where the
        rewards have no known bounds. They are those of the recorded decisions; ``stderr_lower`` and
        ``stderr_upper`` in ``params`` are of their sampling.

    Raises
    ------
    ParameterError
        An expression with an unknown column, probabilities outside of 0..1, a reward outside of `bounds`, an
        unknown word, or a number out of range.

    Notes
    -----
    AIPW: τ = mean of m1(x) - m0(x) + d (R - m1(x))/e(x) - (1-d) (R - m0(x))/(1-e(x)); right if either e or
    both m are. m is ridge regression in each arm. The error is that of the influence function, summed per
    task. It holds what both regressions say: that nothing outside of `features` moved choice and outcome.

    Bounds, R in [a, b], P1 the treated share, E1 their mean: lower = P1 E1 + (1-P1) a - (P0 E0 + (1-P0) b),
    upper = P1 E1 + (1-P1) b - (P0 E0 + (1-P0) a). They assume nothing, are b - a wide and hold 0. If every
    decision spawned, they are all that the recordings say.

    O(events log events + decisions * features²).

    Source: AIPW, Robins, Rotnitzky & Zhao 1994; cross-fitting, Chernozhukov et al. 2018; overlap, Crump et
    al. 2009; bounds, Manski 1990; monotone treatment response, Manski 1997.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=60, seed=0)
    >>> table = ot.effects.spawn(corpus, costs=False)
    >>> table.select("estimate", "tier", pl.col("effect").is_null()).rows()
    [('aipw', 'surrogate', False), ('bounds', 'observed', True)]
    >>> bool(((table["upper"] - table["lower"])[1] - 1.0) < 1e-12)  # what b - a leaves open
    True
    """
    rows = decision_rows(corpus, reward)
    columns = named_columns(rows, features, "features")
    label = reward if isinstance(reward, str) else " + ".join(f"{w}*{n}" for n, w in reward.items())
    if treatment is None:
        among = pl.col("type") == "orchestrator_decision" if among is None else among
    chosen = pl.col("spawned") if treatment is None else treatment
    treated = flag(rows, chosen, "treatment")
    used = treated.is_not_null() if among is None else treated.is_not_null() & flag(rows, among, "among")
    rows, treated = rows.filter(used), treated.filter(used)
    propensities = propensity_of(rows, treated, propensity)
    limits = reward_limits(rows, bounds)
    params: dict[str, object] = {
        "reward": reward,
        "treatment": chosen,
        "among": among,
        "features": columns,
        "pooled": pooled(rows, columns),
        "propensity": "fitted"
        if propensities is None
        else ("recorded" if isinstance(propensity, str) else propensity),
        "eta": eta,
        "min_overlap": min_overlap,
        "bounds": limits,
        "monotone": bool(monotone),
        "folds": folds,
        "penalty": penalty,
        "confidence": confidence,
        "seed": seed,
    }
    # under names of our own, since lifted columns may have any
    renamed = {f"feature {number}": pl.col(name) for number, name in enumerate(columns)}
    if propensities is not None:
        renamed["propensity"] = pl.lit(propensities)
    rows = rows.select(*_NEEDED, **renamed, treated=pl.lit(treated))
    setting = Setting(
        list(renamed)[: len(columns)],
        *(eta, float(min_overlap), folds, float(penalty), confidence, seed),
    )
    outcomes = {label: "reward", **(COSTS if costs else {})}
    table: list[dict[str, object]] = []
    for name, column in outcomes.items():
        measured = rows.filter(pl.col(column).is_not_null()).with_columns(
            outcome=pl.col(column).cast(pl.Float64)
        )
        if name in COSTS and not measured.height:
            continue
        table.append({"outcome": name, **aipw_row(measured, setting, params)})
        if column == "reward":
            table.extend(
                {"outcome": name, **row} for row in bound_rows(measured, limits, bool(monotone), params)
            )
    return pl.DataFrame(table, schema=SPAWNED)


@dataclass(frozen=True)
class Setting:
    """The options that the estimate depends on, beside the rows."""

    columns: list[str]
    eta: float = 0.05
    min_overlap: float = 0.5
    folds: int = 5
    penalty: float = 1.0
    confidence: float = 0.95
    seed: int = 0


def propensity_of(
    rows: pl.DataFrame, treated: pl.Series, propensity: Propensity | pl.Expr
) -> pl.Series | None:
    """e(x) of every row where it is recorded or given; None where it has to be fitted."""
    if isinstance(propensity, pl.Expr):
        chances = number(rows, propensity, "propensity")
    elif propensity == "fitted" or (propensity == "auto" and not _records_propensity(rows, treated)):
        return None
    else:
        p = pl.col("p_behavior")
        chances = rows.select(e=pl.when(pl.lit(treated)).then(p).otherwise(1.0 - p))["e"]
        if chances.null_count():
            missing = f"{chances.null_count():,} of {len(chances):,} decisions"
            raise ParameterError(f"{missing} have no p_behavior: use propensity='fitted', or among=")
    wrong = chances.filter(~chances.is_between(0.0, 1.0).fill_null(False))
    if wrong.len():
        raise ParameterError(f"propensity is {wrong[0]} for a decision, expected a number from 0 to 1")
    return chances


def _records_propensity(rows: pl.DataFrame, treated: pl.Series) -> bool:
    """Whether ``p_behavior`` is of the choice in question: one action for each side, and always recorded."""
    if rows.select(pl.col("p_behavior", "action").is_null().any()).row(0) != (False, False):
        return False
    arms = [rows.filter(treated == arm)["action"].unique().to_list() for arm in (True, False)]
    return all(len(arm) <= 1 for arm in arms) and arms[0] != arms[1]


def reward_limits(rows: pl.DataFrame, bounds: Bounds | None) -> tuple[float, float] | None:
    """Least and greatest possible reward; None where they are not known."""
    rewards = rows["reward"].drop_nulls()
    low, high = (rewards.min(), rewards.max()) if rewards.len() else (0.0, 0.0)
    assert isinstance(low, float) and isinstance(high, float)
    if bounds is None:
        return (0.0, 1.0) if low >= 0.0 and high <= 1.0 else None
    return expect_within(bounds, low, high)


@dataclass(frozen=True)
class Chances:
    """What was known of the choice before it was made: e(x) of every row, and whether it has overlap."""

    fold: Ints
    e: Floats
    inside: Bools


def chances_of(rows: pl.DataFrame, setting: Setting) -> Chances:
    """e(x) of one row or more, as given in ``propensity`` or out of fold."""
    _, kind = clusters_of(rows)
    fold = folds_over(
        rows["task_id" if kind == "tasks" else "trace_id"].to_list(), setting.folds, setting.seed
    )
    if "propensity" in rows.columns:
        e = rows["propensity"].to_numpy()
    else:
        with one_thread():
            e = fitted_propensity(rows, fold, setting)
    return Chances(fold, e, (e >= setting.eta) & (e <= 1.0 - setting.eta))


def aipw_row(
    rows: pl.DataFrame, setting: Setting, params: dict[str, object], chances: Chances | None = None
) -> dict[str, object]:
    """The row ``aipw`` of rows with ``treated outcome task_id trace_id``, features, maybe ``propensity``."""
    treated = rows["treated"].to_numpy()
    base: dict[str, object] = {
        "estimate": "aipw",
        "n_decisions": rows.height,
        "n_treated": int(treated.sum()),
        "n_control": int((~treated).sum()),
        "n_traces": rows["trace_id"].n_unique(),
        "n_tasks": rows["task_id"].n_unique(),
        "support": 0.0,
        "overlap": 0.0,
        "params": params_text(params),
    }
    if not rows.height:
        return base | {"overlap": None, "reason": "support.absent"}
    clusters, kind = clusters_of(rows)
    chances = chances_of(rows, setting) if chances is None else chances
    fold, e, inside = chances.fold, chances.e, chances.inside
    share = float(inside.mean())
    both = all((treated[inside] == arm).any() for arm in (True, False))
    if share < setting.min_overlap or not both:
        return base | {"overlap": share, "reason": "overlap.absent"}
    overlapping, within = rows.filter(pl.Series(inside)), fold[inside]
    with one_thread():
        arms = [fitted_outcome(overlapping, within, arm, setting) for arm in (False, True)]
    if arms[0] is None or arms[1] is None:
        return base | {"overlap": share, "reason": "overlap.absent"}
    d, y, e = treated[inside], overlapping["outcome"].to_numpy(), e[inside]
    effect, influence, means = aipw(d, y, e, arms[1], arms[0])
    around = interval(effect, influence, clusters[inside], confidence=setting.confidence)
    return base | {
        "effect": effect,
        "stderr": around.stderr,
        "lower": around.lower,
        "upper": around.upper,
        "mean_treated": means[0],
        "mean_control": means[1],
        "n_treated": int(d.sum()),
        "n_control": int((~d).sum()),
        "n_traces": overlapping["trace_id"].n_unique(),
        "n_tasks": overlapping["task_id"].n_unique(),
        "ess_treated": effective(1.0 / e[d]),
        "ess_control": effective(1.0 / (1.0 - e[~d])),
        "overlap": share,
        "support": share,
        "tier": "observed" if "propensity" in rows.columns else "surrogate",
        "reason": around.reason,
        "params": params_text(params | {"clusters": kind, "folds": int(fold.max()) + 1}),
    }


def aipw(d: Bools, y: Floats, e: Floats, m1: Floats, m0: Floats) -> tuple[float, Floats, tuple[float, float]]:
    """Effect, the influence of every row on it, and E[R(1)], E[R(0)]."""
    treated = m1 + np.where(d, (y - m1) / e, 0.0)
    untreated = m0 + np.where(d, 0.0, (y - m0) / (1.0 - e))
    effect = float((treated - untreated).mean())
    return effect, (treated - untreated - effect) / len(y), (float(treated.mean()), float(untreated.mean()))


def fitted_propensity(rows: pl.DataFrame, fold: Ints, setting: Setting) -> Floats:
    """e(x) of every row by logistic regression on the rows of all other folds."""
    e = np.empty(rows.height)
    d = rows["treated"].cast(pl.Float64).to_numpy()
    for part in range(int(fold.max()) + 1):
        learn, judge = (fold != part, fold == part) if fold.max() else (fold >= 0, fold >= 0)
        others = rows.filter(pl.Series(learn))
        if d[learn].min() == d[learn].max():
            e[judge] = d[learn][0]  # all others chose alike: a regression has nothing to learn
            continue
        design = Design.of(others, setting.columns)
        w = logistic(design.matrix(others), d[learn], setting.penalty)
        e[judge] = sigmoid(design.matrix(rows.filter(pl.Series(judge))) @ w)
    return e


def fitted_outcome(rows: pl.DataFrame, fold: Ints, arm: bool, setting: Setting) -> Floats | None:
    """m(x) of one arm for every row, by ridge regression on that arm in all other folds.

    None where a fold has nothing to learn from.
    """
    m = np.empty(rows.height)
    in_arm = rows["treated"].to_numpy() == arm
    for part in np.unique(fold):
        judge = fold == part
        learn = in_arm & ~judge if len(np.unique(fold)) > 1 else in_arm
        if not learn.any():
            return None
        others = rows.filter(pl.Series(learn))
        design = Design.of(others, setting.columns)
        w = ridge(design.matrix(others), others["outcome"].to_numpy(), setting.penalty)
        m[judge] = design.matrix(rows.filter(pl.Series(judge))) @ w
    return m


def bound_rows(
    rows: pl.DataFrame, limits: tuple[float, float] | None, monotone: bool, params: dict[str, object]
) -> list[dict[str, object]]:
    """The rows ``bounds`` and ``monotone``."""
    treated = rows["treated"].to_numpy()
    base: dict[str, object] = {
        "n_decisions": rows.height,
        "n_treated": int(treated.sum()),
        "n_control": int((~treated).sum()),
        "n_traces": rows["trace_id"].n_unique(),
        "n_tasks": rows["task_id"].n_unique(),
        "params": params_text(params),
    }
    kinds = ["bounds", "monotone"] if monotone else ["bounds"]
    if not rows.height or limits is None:
        reason = "range.unknown" if rows.height else "support.absent"
        return [{"estimate": kind, **base, "support": 0.0, "reason": reason} for kind in kinds]
    lower, upper = manski(treated, rows["outcome"].to_numpy(), *limits)
    clusters, kind = clusters_of(rows)
    ends = {}
    for name, terms in (("lower", lower), ("upper", upper)):
        centered = (terms - terms.mean()) / len(terms)
        ends[name] = interval(0.0, centered, clusters, confidence=0.5).stderr
    sampled = {"stderr_lower": ends["lower"], "stderr_upper": ends["upper"], "clusters": kind}
    base |= {"support": 1.0, "tier": "observed", "params": params_text(params | sampled)}
    low, high = float(lower.mean()), float(upper.mean())
    both = {"bounds": (low, high), "monotone": (max(low, 0.0), max(high, 0.0))}
    return [{"estimate": kind, **base, "lower": both[kind][0], "upper": both[kind][1]} for kind in kinds]


def manski(d: Bools, y: Floats, a: float, b: float) -> tuple[Floats, Floats]:
    """What every row adds to the bounds: its outcome on the side that was seen, the worst on the other.

    Means of these are the lower and the upper bound.
    """
    return np.where(d, y - b, a - y), np.where(d, y - a, b - y)
