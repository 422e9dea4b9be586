"""Observed effects of messages, delegations and aggregations, without a model."""

from typing import Annotated, Any, Final, Literal

import numpy as np
import polars as pl

from ..base.arguments import ColumnName, Confidence, Number
from ..base.errors import ParameterError
from ..base.ranges import in_range
from ..base.schema import unknown_name
from ..base.taxonomy import concerns
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward
from ..decisions.rows import (
    EFFECT,
    EVIDENCE,
    Source,
    decision_rows,
    delegate_role,
    delegations,
    params_text,
)
from ..statistics.influence import NO_SPREAD, clusters_of, mean_interval
from ..statistics.shrinkage import shrunk

MESSAGES: Final[dict[str, Any]] = {
    "trace": pl.UInt32,
    "unit_id": pl.String,
    "trace_id": pl.String,
    "seq": pl.UInt32,
    "agent": pl.String,
    "to": pl.String,
    **EFFECT,
    "tokens": pl.Int64,
    "utility": pl.Float64,
    "mean_treated": pl.Float64,
    "mean_control": pl.Float64,
    "n_treated": pl.UInt32,
    "n_control": pl.UInt32,
    "n_candidates": pl.UInt32,
    **EVIDENCE,
}
"""Columns of what `effects.message` returns."""

DELEGATIONS: Final[dict[str, Any]] = {
    "subtask": pl.String,
    "delegate": pl.String,
    "outcome": pl.Float64,
    "outcome_cf": pl.Float64,
    **EFFECT,
    "mean": pl.Float64,
    "n_delegations": pl.UInt32,
    "n_traces": pl.UInt32,
    "n_tasks": pl.UInt32,
    **EVIDENCE,
}
"""Columns of what `effects.delegation` returns."""

RULES: Final = ("best", "majority", "mean", "confidence")
_AGGREGATE: Final[dict[str, Any]] = {
    "rule": pl.Enum(RULES),
    "outcome": pl.Float64,
    "outcome_cf": pl.Float64,
    **EFFECT,
}
AGGREGATIONS: Final[dict[str, dict[str, Any]]] = {
    "rule": {
        **_AGGREGATE,
        "n_aggregates": pl.UInt32,
        "n_used": pl.UInt32,
        "n_traces": pl.UInt32,
        "n_tasks": pl.UInt32,
        **EVIDENCE,
    },
    "event": {
        "trace": pl.UInt32,
        "unit_id": pl.String,
        "trace_id": pl.String,
        "seq": pl.UInt32,
        **_AGGREGATE,
        "n_inputs": pl.UInt32,
        "n_scored": pl.UInt32,
        **EVIDENCE,
    },
}
"""Columns of what `effects.aggregation` returns."""

_BUCKET: Final = ["group_id", "context", "role"]


@concerns("O3")
@verb
def message(
    corpus: Corpus, *, reward: Reward = "team", context: Source = "auto", confidence: Confidence = 0.95
) -> pl.DataFrame:
    """Compare every message with its recorded siblings: what other runs did in its place.

    Parameters
    ----------
    corpus
        The recordings, in memory or on disk.
    reward
        The outcome, as in `credit`.
    context
        Where contexts come from, as in `contexts`.
    confidence
        Coverage of the intervals.

    Returns
    -------
    DataFrame
        A row per message or return to another agent, in order of trace and ``seq``: ``trace unit_id trace_id
        seq`` as in `credit`, ``agent to``; ``effect`` = ``mean_treated`` (mean outcome of the ``n_treated``
        runs that made this choice) - ``mean_control`` (that of the ``n_control`` which made another of the
        ``n_candidates``), ``stderr lower upper``, in units of the reward; ``tokens``, ``utility`` = effect /
        tokens (null without tokens); ``support``, 1 or 0; ``tier`` = observed, or surrogate where the
        context rests on who may have heard what (``assumed`` of `contexts`); ``reason``; ``params``.
        The effect is null with ``siblings.absent`` where no run did anything else in this context: `replay`
        of ``drop(message=...)`` answers by a structural model. With ``field.absent`` where a text has no key,
        with ``graph.cycle`` where edges leave no order to find a context by, with ``reward.absent`` without
        the outcome. Beside an effect the reason is that of a null interval: ``support.absent`` where every
        choice was made once, ``group.degenerate`` where each always had the same outcome.

    Raises
    ------
    ParameterError
        Unknown reward channel or context, or a coverage out of range.

    Notes
    -----
    The effect is the credit of ``c3``, which is exactly 0 where this is null, unless a role is told only
    after the decision: here it is not read. The error takes the spread of outcomes around their choice's mean
    to be equal in one context, Student's t; it is null where every choice was made once, and 0 without an
    interval where outcomes never differ. The choices that others made are what it is compared with, whatever
    their type.

    O(n log n) in decisions. Source: C3, arXiv 2603.06859.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus, truth = ot.synthetic.planted(traces=64, seed=1)
    >>> table = ot.effects.message(corpus)
    >>> table["reason"].unique(maintain_order=True).to_list()
    ['siblings.absent', None, 'support.absent']
    """
    rows = decision_rows(corpus, reward, context=context)
    complete = rows.drop_nulls(["context", "choice", "reward"])
    firsts = complete.filter(pl.struct(*_BUCKET, "trace").is_first_distinct())
    candidate = [*_BUCKET, "choice"]
    per_choice = firsts.group_by(candidate).agg(
        n_treated=pl.len().cast(pl.Int64),
        mean_treated=pl.col("reward").mean(),
        squares=(pl.col("reward") - pl.col("reward").mean()).pow(2).sum(),
    )
    total = pl.col("n_treated").sum().over(_BUCKET)
    amount = (pl.col("n_treated") * pl.col("mean_treated")).sum().over(_BUCKET)
    others = total - pl.col("n_treated")
    per_choice = (
        per_choice.sort(candidate)
        .with_columns(
            n_control=others,
            n_candidates=pl.len().over(_BUCKET),
            df=total - pl.len().over(_BUCKET),
            squares=pl.col("squares").sum().over(_BUCKET),
            mean_control=(amount - pl.col("n_treated") * pl.col("mean_treated")) / others,
        )
        .with_columns(
            effect=pl.col("mean_treated") - pl.col("mean_control"),
            stderr=pl.when(pl.col("df") > 0).then(
                (
                    pl.col("squares") / pl.col("df") * (1 / pl.col("n_treated") + 1 / pl.col("n_control"))
                ).sqrt()
            ),
        )
    )
    messages = rows.filter(
        pl.col("type").is_in(["message", "return"])
        & pl.col("to").is_not_null()
        & (pl.col("to") != pl.col("agent"))
        & (pl.col("to") != "user")
    )
    joined = messages.join(per_choice, on=candidate, how="left", nulls_equal=True, maintain_order="left")
    compared = pl.col("n_control") > 0
    reach = pl.Series("reach", _reach(joined["df"], confidence), dtype=pl.Float64).fill_nan(None)
    missing = pl.col("context").is_null() | pl.col("choice").is_null()
    numbers = ("effect", "stderr", "mean_control")
    table = joined.with_columns(reach).with_columns(
        pl.when(compared & pl.col("reward").is_not_null()).then(pl.col(name)).alias(name) for name in numbers
    )
    spent = pl.when(pl.col("tokens") > 0).then(pl.col("tokens"))
    has_effect = pl.col("effect").is_not_null()
    level = pl.max_horizontal(pl.col("mean_treated", "mean_control").abs())
    flat = pl.col("stderr") <= NO_SPREAD * level
    return (
        table.with_columns(
            unit_id="id",
            lower=pl.when(~flat).then(pl.col("effect") - pl.col("reach") * pl.col("stderr")),
            upper=pl.when(~flat).then(pl.col("effect") + pl.col("reach") * pl.col("stderr")),
            utility=pl.col("effect") / spent,
            support=has_effect.cast(pl.Float64),
            tier=pl.when(has_effect & ~pl.col("assumed"))
            .then(pl.lit("observed"))
            .when(has_effect)
            .then(pl.lit("surrogate")),
            reason=pl.when(pl.col("reward").is_null())
            .then(pl.lit("reward.absent"))
            .when(missing)
            .then(pl.coalesce("context_reason", pl.lit("field.absent")))
            .when(~has_effect)
            .then(pl.lit("siblings.absent"))
            .when(pl.col("stderr").is_null())
            .then(pl.lit("support.absent"))
            .when(flat)
            .then(pl.lit("group.degenerate")),
            params=pl.lit(params_text({"reward": reward, "context": context, "confidence": confidence})),
        )
        .sort("trace", "seq")
        .select(pl.col(name).cast(dtype) for name, dtype in MESSAGES.items())
    )


def _reach(df: pl.Series, confidence: float) -> Any:
    """Student's t by degrees of freedom; NaN where they are 0."""
    from scipy.special import stdtrit

    degrees = df.cast(pl.Float64).fill_null(0.0).to_numpy()
    return np.where(degrees > 0, stdtrit(np.maximum(degrees, 1.0), (1.0 + confidence) / 2.0), np.nan)


@concerns("O2")
@verb
def delegation(
    corpus: Corpus,
    *,
    reward: Reward = "team",
    subtask: ColumnName = "subtask_id",
    delegate: Literal["agent", "role"] = "agent",
    confidence: Confidence = 0.95,
) -> pl.DataFrame:
    """Estimate the outcome of a class of subtasks if all of it had gone to one delegate.

    Parameters
    ----------
    corpus
        The recordings, in memory or on disk.
    reward
        The outcome, as in `credit`.
    subtask
        The column of decisions (as in `effects.matched`) whose values are classes of subtasks.
    delegate
        What counts as a delegate: the ``agent`` that got the task, or its ``role`` as recorded up to then,
        else its name.
    confidence
        Coverage of the intervals.

    Returns
    -------
    DataFrame
        A row per class and delegate that were recorded together, in order: ``subtask delegate``; ``outcome``,
        expected of the class as it was delegated, ``outcome_cf``, as if all had gone to this delegate,
        ``effect`` = outcome_cf - outcome, ``stderr lower upper`` (units of the reward); ``mean``, the plain
        one; counts (UInt32); ``support``, the weight of the pair's own outcomes in its estimate, 0 to 1;
        ``tier`` = surrogate; ``reason``; ``params`` with the variances, and with how many delegates had a
        role only later (``roles_told_later``), which is not read. One delegate for a class:
        null ``outcome_cf`` and effect, ``siblings.absent``. Outcomes that never vary: an effect without an
        interval, ``group.degenerate``. No variance to be had, since no pair has two
        tasks: all null, ``support.absent``. No delegation has a class: an empty frame.

    Raises
    ------
    ParameterError
        Unknown reward channel, column or word, or a coverage out of range.

    Notes
    -----
    Delegations are spawns, and messages of the root, to another agent. A run counts once for a class and
    delegate; the runs of a task are averaged (in a corpus of one task, runs stand for themselves). With x̄
    the mean of n of these, σ² their variance within pairs, τ² that of classes around the mean m of their
    delegate (both of the whole corpus, method of moments), and k = pairs less delegates: the estimate is
    x̄ - B (x̄ - m), B = (k-2)/k · (σ²/n) / (τ² + σ²/n), or x̄ where k ≤ 2; its variance (1-B) σ²/n +
    B² (var(m) + 2 (x̄ - m)² / (k-2)). Intervals are right on average over pairs, not for each. Estimates of
    two delegates count as independent.

    Who was asked was nobody's lottery: if the better one gets the harder tasks of a class, this says it is
    worse, which is what the tier ``surrogate`` stands for. `effects.matched` compares within a task.

    O(n log n) in delegations. Source: empirical Bayes, Morris 1983; method of moments, DerSimonian & Laird
    1986.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus, truth = ot.synthetic.planted(traces=64, seed=1)
    >>> table = ot.effects.delegation(corpus, delegate="role")
    >>> bool((table["support"] <= 1).all()), table["subtask"].unique().to_list()
    (True, ['s1'])
    """
    rows = decision_rows(corpus, reward)
    if subtask not in rows.columns:
        raise ParameterError("subtask: " + unknown_name("column", subtask, rows.columns))
    delegated = rows.filter(delegations() & pl.col("reward").is_not_null()).with_columns(
        subtask=pl.col(subtask).cast(pl.String), delegate="to" if delegate == "agent" else delegate_role()
    )
    table, facts = compared_delegates(delegated, confidence)
    params = {
        "reward": reward,
        "subtask": subtask,
        "delegate": delegate,
        "confidence": confidence,
        "roles_told_later": delegated["role_told_later"].sum() if delegate == "role" else None,
        **facts,
    }
    return table.with_columns(params=pl.lit(params_text(params))).select(
        pl.col(name).cast(dtype) for name, dtype in DELEGATIONS.items()
    )


def compared_delegates(delegated: pl.DataFrame, confidence: float) -> tuple[pl.DataFrame, dict[str, object]]:
    """The columns of `delegation` but ``params``, of delegations, and what its numbers rest on.

    Delegations are rows ``subtask delegate trace_id task_id reward`` in canonical order.
    """
    delegated = delegated.drop_nulls(["subtask", "delegate"])
    pair = ["subtask", "delegate"]
    counts = delegated.group_by(pair).agg(
        n_delegations=pl.len(), n_traces=pl.col("trace_id").n_unique(), n_tasks=pl.col("task_id").n_unique()
    )
    runs = delegated.unique([*pair, "trace_id"], keep="first", maintain_order=True)
    by = "task_id" if runs["task_id"].n_unique() > 1 else "trace_id"
    units = runs.group_by([*pair, by]).agg(pl.col("reward").mean()).sort([*pair, by])
    estimates, variances = shrunk(units, confidence)
    # with one delegate alone there is nothing to compare
    compared = pl.when(pl.col("tier").is_not_null()).then("outcome_cf")
    table = estimates.join(counts, on=pair, maintain_order="left").with_columns(outcome_cf=compared)
    return table, {"clusters": "tasks" if by == "task_id" else "traces", **variances}


@concerns("O4")
@verb
def aggregation(
    corpus: Corpus,
    *,
    by: Literal["rule", "event"] = "rule",
    clip: Annotated[float, Number(above=0, below=0.5)] = 0.01,
    confidence: Confidence = 0.95,
) -> pl.DataFrame:
    """Join the recorded inputs of aggregates by other rules, and compare with the recorded result.

    Parameters
    ----------
    corpus
        The recordings, in memory or on disk.
    by
        ``"rule"``: the mean over aggregates, a row per rule. ``"event"``: a row per aggregate and rule.
    clip
        Scores nearer to 0 or 1 than this count as this far in the rule ``confidence``, above 0, below ½.
    confidence
        Coverage of the intervals of means, between 0 and 1.

    Returns
    -------
    DataFrame
        ``rule``: ``best``, the highest score of the inputs; ``majority``, 1 if more than half of them have ½
        or more, else 0; ``mean``; ``confidence``, the sigmoid of the sum of log-odds. ``outcome``, the field
        ``score`` of the aggregate; ``outcome_cf``, the score by the rule; ``effect`` = outcome_cf - outcome;
        ``stderr lower upper`` of the mean over aggregates (null in rows of events); counts (UInt32);
        ``support``, the share of aggregates that have all scores, of events that of their inputs; ``tier`` =
        observed, ``reason``, ``params``. The effect is null with ``field.absent`` where a score is missing,
        with ``outcome.absent`` where there is no aggregate with inputs. Beside the effect of a rule the
        reason is that of a null interval: ``support.absent`` with one run, ``group.degenerate`` where the
        effect is the same everywhere.

    Raises
    ------
    ParameterError
        Unknown word, or a number out of range.

    Notes
    -----
    A number beyond the floats is null, with the reason ``result.range``.

    Inputs of an aggregate are the sources of its edges of type aggregate; where it has none, of types return
    and message. An input counts once. ``best`` chooses by the score itself, which whoever aggregates may
    not see: it is the most that choosing could reach. ``confidence`` takes scores as probabilities of
    independent witnesses.

    O(events + edges). Source: log-odds pooling, Genest & Zidek 1986.

    Examples
    --------
    >>> import orchestrace as ot
    >>> table = ot.effects.aggregation(ot.generate(traces=60, seed=0))
    >>> table["rule"].to_list(), bool((table["outcome_cf"] >= 0).all())
    (['best', 'majority', 'mean', 'confidence'], True)
    """
    parts = [_aggregates(piece, clip) for piece in corpus.slices()]
    traces = corpus.traces.select(
        pl.col("trace").cast(pl.Int64), "trace_id", pl.col("task_id").cast(pl.String)
    ).collect(engine="streaming")
    params = params_text({"clip": clip, "confidence": confidence})
    wide = pl.concat(parts) if parts else pl.DataFrame(schema={"trace": pl.Int64})
    schema = AGGREGATIONS[by]
    if not wide.height:
        none = {
            "n_aggregates": 0,
            "n_used": 0,
            "n_traces": 0,
            "n_tasks": 0,
            "support": 0.0,
            "reason": "outcome.absent",
        }
        rows = [{"rule": rule, **none, "params": params} for rule in RULES] if by == "rule" else []
        return pl.DataFrame(rows, schema=schema)
    wide = wide.join(traces, on="trace", maintain_order="left").sort("trace_id", "trace", "seq")
    complete = pl.col("n_scored") == pl.col("n_inputs")
    usable = complete & pl.col("outcome").is_not_null()
    long = wide.unpivot(
        on=list(RULES),
        index=["trace", "trace_id", "task_id", "seq", "unit_id", "outcome", "n_inputs", "n_scored"],
        variable_name="rule",
        value_name="outcome_cf",
    ).with_columns(pl.col("rule").cast(pl.Enum(RULES)))
    long = long.with_columns(outcome_cf=pl.when(complete).then("outcome_cf")).with_columns(
        effect=pl.when(usable).then(pl.col("outcome_cf") - pl.col("outcome"))
    )
    if by == "event":
        events = (
            long.with_columns(
                stderr=None,
                lower=None,
                upper=None,
                support=pl.col("n_scored") / pl.col("n_inputs"),
                tier=pl.when(usable & pl.col("effect").is_finite()).then(pl.lit("observed")),
                reason=pl.when(~usable).then(pl.lit("field.absent")),
                params=pl.lit(params),
            )
            .sort("trace", "seq", "rule")
            .select(pl.col(name).cast(dtype) for name, dtype in schema.items())
        )
        return in_range(events, ["outcome_cf", "effect"])
    table = []
    for rule in RULES:
        every = long.filter(pl.col("rule") == rule)
        used = every.drop_nulls("effect")
        row: dict[str, object] = {
            "rule": rule,
            "n_aggregates": every.height,
            "n_used": used.height,
            "n_traces": used["trace_id"].n_unique(),
            "n_tasks": used["task_id"].n_unique(),
            "support": used.height / every.height,
            "params": params,
        }
        if not used.height:
            table.append(row | {"reason": "field.absent"})
            continue
        clusters, _ = clusters_of(used)
        effects = used["effect"].to_numpy()
        mean = mean_interval(effects, clusters, confidence=confidence)
        means = {name: used[name].mean() for name in ("outcome", "outcome_cf")}
        if mean.estimate is None or not np.isfinite(effects).all():
            row |= {"reason": "result.range"}
        else:
            row |= {"effect": mean.estimate, **mean.around._asdict(), "tier": "observed"}
        table.append(row | means)
    return in_range(pl.DataFrame(table, schema=schema), ["outcome", "outcome_cf"])


def _aggregates(corpus: Corpus, clip: float) -> pl.DataFrame:
    """Every aggregate with inputs: ``trace seq unit_id outcome n_inputs n_scored`` and a column per rule."""
    events = corpus.events.select(
        pl.col("trace", "seq").cast(pl.Int64), pl.col("type").cast(pl.String), "id", "score"
    ).collect(engine="streaming")
    kinds = ["aggregate", "return", "message"]
    edges = (
        corpus.edges.select(pl.col("trace", "src", "dst").cast(pl.Int64), pl.col("type").cast(pl.String))
        .filter(pl.col("type").is_in(kinds))
        .collect(engine="streaming")
    )
    aggregates = events.filter(pl.col("type") == "aggregate").select(
        "trace", "seq", unit_id="id", outcome="score"
    )
    into = edges.rename({"dst": "seq"}).join(aggregates, on=["trace", "seq"])
    has_aggregate_edges = (pl.col("type") == "aggregate").any().over("trace", "seq")
    inputs = (
        into.filter((pl.col("type") == "aggregate") | ~has_aggregate_edges)
        .unique(["trace", "seq", "src"])
        .join(events.select("trace", "score", src="seq"), on=["trace", "src"])
        .sort("trace", "seq", "src")
    )
    score = pl.col("score")
    within = score.clip(clip, 1.0 - clip)
    odds = (within / (1.0 - within)).log().sum()
    return inputs.group_by(["trace", "seq", "unit_id", "outcome"], maintain_order=True).agg(
        n_inputs=pl.len(),
        n_scored=score.is_not_null().sum(),
        best=score.max(),
        majority=(score.ge(0.5).sum() * 2 > score.is_not_null().sum()).cast(pl.Float64),
        mean=score.mean(),
        confidence=1.0 / (1.0 + (-odds).exp()),
    )
