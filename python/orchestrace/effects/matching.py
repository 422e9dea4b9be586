"""Effects of choices from matched siblings: like decisions that went the other way."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from ..base.arguments import Confidence, Positive, Seed
from ..base.arrays import Bools, Floats, Ints
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward
from ..decisions.rows import EFFECT, EVIDENCE, Source, decision_rows, flag, named_columns, params_text
from ..statistics.influence import clusters_of, spanning_interval

Stage = Literal["exact", "coarse", "nearest"]
Within = Literal["group", "task", "corpus"]

STAGES: Final = ("exact", "coarse", "nearest")
FEATURES: Final = ("role", "depth", "step", "budget", "tools")
_WITHIN: Final[dict[str, list[str]]] = {"group": ["group_id"], "task": ["task_id"], "corpus": []}
_NEIGHBORS: Final = 16  # of a decision, looked at in one round
DISTANCES: Final = ("position", "tokens_before", "depth", "n_tools", "n_agents")
_NEEDED: Final = (
    "trace",
    "trace_id",
    "group_id",
    "task_id",
    "role",
    "context",
    "assumed",
    "reward",
    *DISTANCES,
)

_ASSUMES: Final = "everybody heard the messages that name nobody"
_ASSUMES_ALIKE: Final = "nothing but the compared features moved both the choice and the outcome"

MATCHED: Final[dict[str, Any]] = {
    "stage": pl.Enum([*STAGES, "combined"]),
    **EFFECT,
    "mean_treated": pl.Float64,
    "mean_control": pl.Float64,
    "n_decisions": pl.UInt32,
    "n_treated": pl.UInt32,
    "n_control": pl.UInt32,
    "n_buckets": pl.UInt32,
    "n_traces": pl.UInt32,
    "n_tasks": pl.UInt32,
    "n_assumed": pl.UInt32,
    "ess_treated": pl.Float64,
    "ess_control": pl.Float64,
    "smd_before": pl.Float64,
    "smd_after": pl.Float64,
    **EVIDENCE,
}
"""Columns of what `effects.matched` returns."""


@verb
def matched(
    corpus: Corpus,
    treatment: pl.Expr,
    *,
    reward: Reward = "team",
    among: pl.Expr | None = None,
    context: Source = "auto",
    stages: Sequence[Stage] = STAGES,
    within: Within = "task",
    features: Sequence[str] = FEATURES,
    caliper: Positive = 0.25,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
) -> pl.DataFrame:
    """Compare treated decisions with similar decisions that were not treated.

    Parameters
    ----------
    corpus
        The recordings, in memory or on disk.
    treatment
        An expression over decisions that is true where the choice in question was made, as in
        ``pl.col("type") == "spawn"``; null leaves a decision out. Columns: the notes.
    reward
        The outcome: a reward channel or a weighted sum, as in `credit`. Traces without it are left out.
    among
        An expression that says which decisions are compared at all; None compares all.
    context
        Where contexts of the stage ``exact`` come from, as in `contexts`.
    stages
        Which ways of matching to try. A decision is used by the first that finds it a partner, in the order
        ``exact``, ``coarse``, ``nearest``.
    within
        Partners of the later stages share the rollout ``group``, the ``task``, or only the ``corpus``.
        Those of ``exact`` always share the group.
    features
        Columns that partners in the stage ``coarse`` have in common; null is a value like any other. They
        must be known before the decision.
    caliper
        Largest distance of partners in the stage ``nearest``: Euclidean, over ``position`` and
        ``tokens_before`` (log2(1 + x)), ``depth``, ``n_tools`` and ``n_agents``, each in its standard
        deviations; a decision without one of them has no partner there.
    confidence
        Coverage of the intervals, between 0 and 1.
    seed
        Of the order in which decisions choose equally near partners.

    Returns
    -------
    DataFrame
        A row per stage and the row ``combined`` over all of them: ``stage``; ``effect stderr lower upper
        mean_treated mean_control`` (units of the reward); ``n_decisions`` compared, and how many were
        matched: ``n_treated n_control`` in ``n_buckets`` of ``n_traces`` and ``n_tasks``; ``n_assumed`` of
        them by a context that rests on who may have heard what (UInt32);
        ``ess_treated ess_control``, effective sample sizes (Σw)²/Σw²; ``smd_before smd_after``, the largest
        absolute standardized mean difference of the numbers of `caliper` over all decisions and over those
        matched; ``support``, the matched share of decisions; ``tier`` = observed, or surrogate where
        ``n_assumed`` is above 0 or a decision was matched by another stage than ``exact``; ``reason``;
        ``params``, with all options, the difference of every number (``smd``), and what was assumed, if
        anything (``assumes``). Where nothing matches, the effect is null and the reason ``support.absent``;
        beside an effect the reason is that of a null interval:
        ``support.absent`` with one run or bucket, ``group.degenerate`` where the effect is the same in all.

    Raises
    ------
    ParameterError
        An expression with an unknown column or that is not true or false, an unknown channel, word or
        feature, or a number out of range.

    Notes
    -----
    effect = Σ_b (n_b / n) (mean of the treated in b - mean of the others in b), over the buckets b with both,
    of n_b of the n matched decisions. ``exact``: a bucket is one group, context and acting role. ``coarse``:
    equal `features`. ``nearest``: pairs of one role, nearest first, no decision twice.

    A run enters a bucket (``nearest``: a role) once, by its first decision there: later ones share its
    outcome, and comparing a run with itself pulls the effect to 0. So would runs with their past in common:
    decisions that several runs of a group made in one context, all alike, are not matched beyond it.

    If a recording does not say who heard a message, contexts treat it as heard by everybody (`contexts`).
    Decisions matched by such a context saw the same if whoever heard it, and when, was the same in both runs;
    that is what the tier ``surrogate`` stands for. It stands for one more thing in the stages ``coarse`` and
    ``nearest``: that nothing outside of what they compare moved both the choice and the outcome.

    The error is that of the sum of influence per task (`orchestrace.statistics.influence`), in a corpus of
    one task per trace; it holds the matching fixed. It has the spread of the effect between tasks in it, so
    that it is about the tasks that these are drawn from.

    *Columns of decisions:* ``type agent role to tool action p_behavior p_actions state_key prefix_key
    subtask_id model turn ok score value``, as of events; ``trace seq trace_id task_id group_id system
    topology``; ``is_root``, whether the root decides, ``to_team``, whether the event goes to another agent of
    the team, ``to_role`` of the addressee; known before the decision ``position step tokens_before budget
    depth n_tools n_agents tools``; ``spawned`` of orchestrator decisions; ``context choice assumed``; lifted
    columns.

    O(events log events); ``nearest`` O(n log n) in the decisions left, per round.

    Source: exact and coarsened matching, Iacus, King & Porro 2012; nearest neighbor with caliper, Rosenbaum
    & Rubin 1985; standardized differences, Austin 2009; context siblings, arXiv 2603.06859; first visits,
    Singh & Sutton 1996.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> corpus, truth = ot.synthetic.planted(traces=200, seed=1, decisive=0.0)
    >>> table = ot.effects.matched(corpus, pl.col("action") == "option_0", stages=["exact"])
    >>> table.select("stage", "tier", pl.col("n_treated") > 100, pl.col("stderr") < 0.3).row(-1)
    ('combined', 'observed', True, True)
    """
    wanted = [stages] if isinstance(stages, str) else list(stages)
    for stage in wanted:
        if stage not in STAGES:
            raise ParameterError(unknown_name("stage", str(stage), list(STAGES)))
    if not wanted:
        raise ParameterError(f"stages is empty, expected some of {', '.join(STAGES)}")
    rows = decision_rows(corpus, reward, context=context)
    shared = named_columns(rows, features, "features")
    treated = flag(rows, treatment, "treatment")
    compared = treated.is_not_null() & rows["reward"].is_not_null()
    if among is not None:
        compared &= flag(rows, among, "among")
    # under names of our own, since lifted columns may have any
    renamed = {f"feature {number}": pl.col(name) for number, name in enumerate(shared)}
    rows = rows.select(*_NEEDED, **renamed, treated=treated).filter(compared)
    ordered = [stage for stage in STAGES if stage in wanted]
    matched = match(rows, ordered, within=within, features=list(renamed), caliper=float(caliper), seed=seed)
    params: dict[str, object] = {
        "treatment": treatment,
        "among": among,
        "reward": reward,
        "context": context,
        "stages": ordered,
        "within": within,
        "features": shared,
        "caliper": float(caliper),
        "confidence": confidence,
        "seed": seed,
    }
    table = []
    for stage in [*ordered, "combined"]:
        of_stage = matched if stage == "combined" else matched.filter(pl.col("stage") == stage)
        table.append({"stage": stage, **estimate(rows, of_stage, params, confidence)})
    return pl.DataFrame(table, schema=MATCHED)


def match(
    rows: pl.DataFrame,
    stages: Sequence[str],
    *,
    within: str = "task",
    features: Sequence[str] = FEATURES,
    caliper: float = 0.25,
    seed: int = 0,
) -> pl.DataFrame:
    """The rows that found a partner, with ``stage`` and ``bucket`` (Int64), in the order of `rows`.

    Rows need ``treated``, ``trace``, ``group_id``, ``task_id``, ``role``, ``context``, the features, and
    the numbers of `DISTANCES`; a run's own are in order of time.
    """
    siblings = ["group_id", "context", "role"]
    left = rows.with_columns(agreed=_agreed(siblings)).with_row_index("place")
    parts: list[pl.DataFrame] = []
    base = 0
    for stage in stages:
        if stage == "exact":
            has_context = pl.col("context").is_not_null()
            partners, others = _buckets(left.filter(has_context), siblings)
            left = pl.concat([others, left.filter(~has_context)]).sort("place")
        elif stage == "coarse":
            partners, left = _buckets(left.filter(~pl.col("agreed")), [*_WITHIN[within], *features])
        else:
            partners = _pairs(left.filter(~pl.col("agreed")), _WITHIN[within], caliper, spread_of(rows), seed)
        partners = partners.with_columns(
            bucket=pl.col("bucket").rank("dense").cast(pl.Int64) + base, stage=pl.lit(stage)
        )
        base += partners["bucket"].n_unique()
        parts.append(partners)
    empty = left.clear().with_columns(bucket=pl.lit(0, pl.Int64), stage=pl.lit(""))
    return pl.concat([empty, *parts]).sort("place").drop("place", "agreed")


def _agreed(siblings: list[str]) -> pl.Expr:
    """Decisions that several runs made in one context, all alike.

    Such runs have their past in common, so that one of them is no control for what another did in it: what
    they are compared by, they share.
    """
    alike = pl.col("treated").n_unique().over(siblings) == 1
    return pl.col("context").is_not_null() & (pl.col("trace").n_unique().over(siblings) > 1) & alike


def _buckets(rows: pl.DataFrame, keys: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows in buckets with both arms, a run once in each; and those of all other buckets."""
    key: pl.Expr = pl.struct(keys) if keys else pl.lit(0)
    numbered = rows.with_columns(bucket=key.rank("dense").cast(pl.Int64) if keys else pl.lit(0, pl.Int64))
    firsts = numbered.filter(pl.struct("bucket", "trace").is_first_distinct())
    both = (
        firsts.group_by("bucket")
        .agg(both=pl.col("treated").any() & pl.col("treated").not_().any())
        .filter("both")
        .select("bucket")
    )
    inside = firsts.join(both, on="bucket", how="semi", maintain_order="left")
    others = numbered.join(both, on="bucket", how="anti", maintain_order="left").drop("bucket")
    return inside, others


def spread_of(rows: pl.DataFrame) -> dict[str, float]:
    """Standard deviations of the numbers that distances are made of; without those that are constant."""
    deviations = rows.select(_number(name).std().alias(name) for name in DISTANCES).row(0, named=True)
    return {name: value for name, value in deviations.items() if value is not None and value > 1e-12}


def _number(name: str) -> pl.Expr:
    value = pl.col(name).cast(pl.Float64)
    return (1.0 + value).log(2) if name in ("position", "tokens_before") else value


def _pairs(
    rows: pl.DataFrame, keys: list[str], caliper: float, spread: dict[str, float], seed: int
) -> pl.DataFrame:
    """Pairs of one treated row and one other: within a role the nearest first, of a run its first row."""
    candidates = rows.drop_nulls(list(spread)).with_columns(cell=pl.struct(*keys, "role").rank("dense"))
    candidates = candidates.filter(pl.struct("cell", "trace").is_first_distinct())
    numbers = candidates.select((_number(name) / sd).alias(name) for name, sd in spread.items())
    points = numbers.to_numpy() if spread else np.zeros((candidates.height, 1))
    # Rows at one point must not all see the same few neighbors; far below any distance that matters.
    points = points + 1e-9 * caliper * np.random.Generator(np.random.PCG64([seed, 1])).random(points.shape)
    cells = candidates["cell"].to_numpy()
    treated = candidates["treated"].to_numpy()
    bucket = np.full(candidates.height, -1, dtype=np.int64)
    order = np.argsort(cells, kind="stable")
    n = 0
    for members in np.split(order, np.flatnonzero(np.diff(cells[order])) + 1):
        for case, control in _nearest(points, members[treated[members]], members[~treated[members]], caliper):
            bucket[[case, control]] = n
            n += 1
    return candidates.drop("cell").with_columns(bucket=pl.Series(bucket)).filter(pl.col("bucket") >= 0)


def _nearest(points: Floats, left: Ints, right: Ints, caliper: float) -> list[tuple[int, int]]:
    """Greedy pairs, nearest first; ties by place."""
    from scipy.spatial import cKDTree

    pairs: list[tuple[int, int]] = []
    while left.size and right.size:
        k = min(_NEIGHBORS, right.size)
        distance, at = cKDTree(points[right]).query(points[left], k=[*range(1, k + 1)])
        case, rank = np.nonzero(distance <= caliper)
        control, far = at[case, rank], distance[case, rank]
        taken_left, taken_right = np.zeros(left.size, dtype=bool), np.zeros(right.size, dtype=bool)
        for j in np.lexsort((control, case, far)):
            if not (taken_left[case[j]] or taken_right[control[j]]):
                taken_left[case[j]] = taken_right[control[j]] = True
                pairs.append((int(left[case[j]]), int(right[control[j]])))
        if not taken_left.any():
            break
        left, right = left[~taken_left], right[~taken_right]
    return pairs


@dataclass(frozen=True)
class Weighted:
    """The stratified difference of matched rows: effect, arms, and what each row adds to it."""

    effect: float
    mean_treated: float
    mean_control: float
    influence: Floats
    weight: Floats
    lone: Bools


def stratified(bucket: Ints, treated: Bools, y: Floats) -> Weighted:
    """Σ_b (n_b/n)(mean_treated - mean_control), with the influence of every row on it.

    Every bucket has both arms. The influence is that of bucket means and of bucket sizes. A row's distance
    from the mean of its own arm, which it is part of, is too short by √(1 - 1/n_arm).
    """
    _, codes = np.unique(bucket, return_inverse=True)
    n = len(y)
    # differences do not depend on the level, so that equal outcomes leave no rounding error
    level, y = float(y[0]), y - y[0]
    size = np.bincount(codes).astype(np.float64)
    arms = {arm: np.bincount(codes, weights=(treated == arm).astype(np.float64)) for arm in (True, False)}
    means = {arm: np.bincount(codes, weights=np.where(treated == arm, y, 0.0)) / arms[arm] for arm in arms}
    arm_size = np.where(treated, arms[True][codes], arms[False][codes])
    arm_mean = np.where(treated, means[True][codes], means[False][codes])
    weight = size[codes] / arm_size / n
    difference = means[True] - means[False]
    share = size / n
    effect = float((share * difference).sum())
    sign = np.where(treated, 1.0, -1.0)
    apart = (y - arm_mean) * np.sqrt(arm_size / np.maximum(arm_size - 1.0, 1.0))
    influence = sign * weight * apart + (difference[codes] - effect) / n
    lone = np.minimum(arms[True], arms[False])[codes] == 1.0
    treated_mean, control_mean = (level + float((share * means[arm]).sum()) for arm in (True, False))
    return Weighted(effect, treated_mean, control_mean, influence, weight, lone)


def estimate(
    rows: pl.DataFrame,
    matched: pl.DataFrame,
    params: dict[str, object],
    confidence: float,
) -> dict[str, object]:
    """One row of the result, but for its stage."""
    n_treated = int(matched["treated"].sum())
    n_assumed = int((matched["assumed"].fill_null(False) & (matched["stage"] == "exact")).sum())
    n_alike = int((matched["stage"] != "exact").sum())
    assumed = [text for text, n in ((_ASSUMES, n_assumed), (_ASSUMES_ALIKE, n_alike)) if n]
    if assumed:
        params = params | {"assumes": "; ".join(assumed)}
    counts: dict[str, object] = {
        "n_decisions": rows.height,
        "n_treated": n_treated,
        "n_control": matched.height - n_treated,
        "n_buckets": matched["bucket"].n_unique(),
        "n_traces": matched["trace"].n_unique(),
        "n_tasks": matched["task_id"].n_unique(),
        "n_assumed": n_assumed,
        "support": matched.height / rows.height if rows.height else 0.0,
    }
    before = differences(rows, np.ones(rows.height))
    if not matched.height:
        # without a partner nothing is known, whatever the arms looked like
        smd = {name: [value, None] for name, value in before.items()}
        return counts | {
            "smd_before": _largest(before),
            "reason": "support.absent",
            "params": params_text(params | {"smd": smd}),
        }
    clusters, kind = clusters_of(matched)
    treated = matched["treated"].to_numpy()
    contrast = stratified(matched["bucket"].to_numpy(), treated, matched["reward"].to_numpy())
    around = spanning_interval(
        contrast.effect,
        contrast.influence,
        clusters,
        matched["bucket"].to_numpy(),
        contrast.lone,
        confidence=confidence,
    )
    after = differences(matched, contrast.weight, before=rows)
    smd = {name: [before[name], after[name]] for name in before}
    return counts | {
        "effect": contrast.effect,
        "stderr": around.stderr,
        "lower": around.lower,
        "upper": around.upper,
        "mean_treated": contrast.mean_treated,
        "mean_control": contrast.mean_control,
        "ess_treated": effective(contrast.weight[treated]),
        "ess_control": effective(contrast.weight[~treated]),
        "smd_before": _largest(before),
        "smd_after": _largest(after),
        "tier": "surrogate" if n_assumed or n_alike else "observed",
        "reason": around.reason,
        "params": params_text(params | {"smd": smd, "clusters": kind}),
    }


def effective(weight: Floats) -> float:
    """Kish's effective sample size."""
    return float(np.square(weight.sum()) / np.square(weight).sum())


def differences(
    rows: pl.DataFrame, weight: Floats, before: pl.DataFrame | None = None
) -> dict[str, float | None]:
    """(weighted mean of the treated - that of the others) / √((s²_t + s²_c)/2), s² over all decisions.

    Null where a side is empty or a number is missing; 0 where both means and spreads agree at 0.
    """
    out: dict[str, float | None] = {}
    reference = rows if before is None else before
    for name in DISTANCES:
        spreads = [
            reference.filter(pl.col("treated") == arm).select(_number(name).var()).item()
            for arm in (True, False)
        ]
        x = rows.select(_number(name).alias("x"))["x"].fill_null(float("nan")).to_numpy()
        sides = [(rows["treated"].to_numpy() == arm) & np.isfinite(x) for arm in (True, False)]
        if None in spreads or not all(side.any() for side in sides):
            out[name] = None
            continue
        means = [float((weight[side] * x[side]).sum() / weight[side].sum()) for side in sides]
        gap, scale = means[0] - means[1], float(np.sqrt((spreads[0] + spreads[1]) / 2.0))
        out[name] = gap / scale if scale > 1e-12 else (0.0 if abs(gap) < 1e-9 else None)
    return out


def _largest(differences: dict[str, float | None]) -> float | None:
    return max((abs(value) for value in differences.values() if value is not None), default=None)
