"""Effects of decisions from recordings, by the estimator of each kind.

Each function adds ``effect lower upper n_action n_other tier reason`` to decisions, in their order, and says
what the numbers rest on.
"""

import json
from typing import Any, Final

import polars as pl

from ...corpus.corpus import Corpus
from ...corpus.reward import Reward
from ...effects.observed import aggregation, compared_delegates, message
from ...effects.spawning import FEATURES, Setting, aipw_row, chances_of, propensity_of
from ..rows import REASON, TIER, Source

EVIDENCE: Final[dict[str, Any]] = {
    "effect": pl.Float64,
    "lower": pl.Float64,
    "upper": pl.Float64,
    "n_action": pl.UInt32,
    "n_other": pl.UInt32,
    "tier": TIER,
    "reason": REASON,
}
Facts = dict[str, object]


def _evident(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(pl.col(name).cast(dtype) for name, dtype in EVIDENCE.items())


def spawned(rows: pl.DataFrame, confidence: float, seed: int) -> tuple[pl.DataFrame, Facts]:
    """The mean effect over decisions with overlap (6.7), of what was done less what was not."""
    done = rows["done"] == "spawn"
    propensity = propensity_of(rows, done, "auto")
    # under names of our own, since lifted columns may have any
    features = {f"feature {number}": pl.col(name) for number, name in enumerate(FEATURES)}
    setting = Setting(list(features), confidence=confidence, seed=seed)
    units = rows.select(
        *("trace", "seq", "trace_id", "task_id"),
        **features,
        outcome=pl.col("reward").cast(pl.Float64),
        treated=pl.lit(done),
        **({} if propensity is None else {"propensity": pl.lit(propensity)}),
    ).filter(pl.col("outcome").is_not_null())
    facts: Facts = {
        "estimate": "aipw",
        "features": list(FEATURES),
        "propensity": "fitted" if propensity is None else "recorded",
        "eta": setting.eta,
        "min_overlap": setting.min_overlap,
        "penalty": setting.penalty,
    }
    if not units.height:
        return _evident(_without(rows, "reward.absent")), facts
    chances = chances_of(units, setting)
    estimate = aipw_row(units, setting, {}, chances)
    params = json.loads(str(estimate["params"]))
    facts |= {name: params[name] for name in ("clusters", "folds") if name in params}
    facts |= {"overlap": estimate["overlap"]}
    low, high = estimate.get("lower"), estimate.get("upper")
    both = {"lower": (low, high), "upper": (high, low)}
    n = [pl.lit(estimate[name], pl.UInt32) for name in ("n_treated", "n_control")]
    has_effect = estimate.get("effect") is not None
    spawn = pl.col("treated")
    by_decision = units.select(
        "trace",
        "seq",
        "treated",
        inside=pl.Series(chances.inside) & has_effect,
    ).with_columns(
        effect=pl.lit(estimate.get("effect"), pl.Float64) * pl.when(spawn).then(1.0).otherwise(-1.0),
        **{
            name: pl.when(spawn).then(pl.lit(ends[0], pl.Float64)).otherwise(-pl.lit(ends[1], pl.Float64))
            for name, ends in both.items()
        },
        n_action=pl.when(spawn).then(n[0]).otherwise(n[1]),
        n_other=pl.when(spawn).then(n[1]).otherwise(n[0]),
        tier=pl.lit(estimate.get("tier"), pl.String),
        reason=pl.lit(estimate.get("reason") if has_effect else None, pl.String),
    )
    by_decision = by_decision.with_columns(
        *(pl.when("inside").then(pl.col(name)).alias(name) for name in ("effect", "lower", "upper", "tier")),
        reason=pl.when("inside")
        .then("reason")
        .otherwise(pl.lit("overlap.absent" if has_effect else estimate["reason"])),
    ).drop("treated", "inside")
    joined = rows.join(by_decision, on=["trace", "seq"], how="left", maintain_order="left")
    return _evident(joined.with_columns(reason=_or_reward_absent())), facts


def delegated(rows: pl.DataFrame, confidence: float) -> tuple[pl.DataFrame, Facts]:
    """What is expected of a class of subtasks with this delegate, less as it was delegated (6.8)."""
    rows = rows.with_columns(subtask=pl.col("subtask_id").cast(pl.String), delegate="done")
    rewarded = rows.filter(pl.col("reward").is_not_null())
    effects, facts = compared_delegates(rewarded, confidence)
    effects = effects.with_columns(
        n_action="n_delegations",
        n_other=pl.col("n_delegations").sum().over("subtask") - pl.col("n_delegations"),
    )
    joined = rows.join(
        effects.select("subtask", "delegate", *EVIDENCE),
        on=["subtask", "delegate"],
        how="left",
        maintain_order="left",
    )
    has_reward = pl.col("reward").is_not_null()
    # a decision of a run without a reward is in no estimate
    joined = joined.with_columns(pl.when(has_reward).then(pl.col(name)).alias(name) for name in EVIDENCE)
    absent = pl.when(pl.col("subtask").is_null()).then(pl.lit("field.absent")).otherwise("reason")
    return _evident(joined.with_columns(reason=absent).with_columns(reason=_or_reward_absent())), facts


def sent(
    corpus: Corpus, rows: pl.DataFrame, reward: Reward | None, context: Source, confidence: float
) -> tuple[pl.DataFrame, Facts]:
    """What runs that sent this came to, less those that did something else in its context (6.8)."""
    facts: Facts = {"estimate": "siblings"}
    if reward is None:
        return _evident(_without(rows, "reward.absent")), facts
    effects = message(corpus, reward=reward, context=context, confidence=confidence).select(
        pl.col("trace", "seq").cast(pl.Int64),
        *("effect", "lower", "upper", "tier", "reason"),
        n_action="n_treated",
        n_other="n_control",
        n_candidates="n_candidates",
    )
    joined = rows.join(effects, on=["trace", "seq"], how="left", maintain_order="left")
    return _evident(joined.with_columns(n_alternatives="n_candidates")), facts


def aggregated(corpus: Corpus, rows: pl.DataFrame, rule: str) -> tuple[pl.DataFrame, Facts]:
    """The recorded score less that by a rule, from the recorded inputs (6.8)."""
    effects = (
        aggregation(corpus, by="event")
        .filter(pl.col("rule").cast(pl.String) == rule)
        .select(pl.col("trace", "seq").cast(pl.Int64), -pl.col("effect"), "tier", "reason")
    )
    joined = rows.join(effects, on=["trace", "seq"], how="left", maintain_order="left")
    nothing = pl.when(pl.col("effect").is_null()).then(pl.lit("field.absent"))
    none = dict.fromkeys(("lower", "upper", "n_action", "n_other"), pl.lit(None))
    return _evident(joined.with_columns(reason=nothing, **none)), {"rule": rule, "unit": "score"}


def stopped(rows: pl.DataFrame) -> tuple[pl.DataFrame, Facts]:
    """What the next epoch added to the quality; after the last epoch that is unknown."""
    gain = (pl.col("q").shift(-1) - pl.col("q")).over("trace", order_by="k")
    reason = pl.when("last").then(pl.lit("siblings.absent")).otherwise(pl.lit("field.absent"))
    rows = rows.with_columns(effect=pl.when(~pl.col("last")).then(gain))
    is_measured = pl.col("effect").is_not_null()
    none = dict.fromkeys(("lower", "upper", "n_action", "n_other"), pl.lit(None))
    return _evident(
        rows.with_columns(
            tier=pl.when(is_measured).then(pl.lit("observed")),
            reason=pl.when(~is_measured).then(reason),
            **none,
        )
    ), {"unit": "quality"}


def _or_reward_absent() -> pl.Expr:
    return pl.when(pl.col("reward").is_null()).then(pl.lit("reward.absent")).otherwise("reason")


def _without(rows: pl.DataFrame, reason: str) -> pl.DataFrame:
    return rows.with_columns(**dict.fromkeys(EVIDENCE, pl.lit(None))).with_columns(reason=pl.lit(reason))
