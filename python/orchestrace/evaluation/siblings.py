"""Diagnostics of sibling groups: spread of credit, fidelity to outcomes, influence on later events."""

import warnings
from collections.abc import Mapping
from typing import Any, Final, Literal

import polars as pl

from ..base.arguments import Amount, Size
from ..base.sums import ordered_mean
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import amounts
from ..decisions.context_keys import contexts
from ..decisions.rows import DECISIONS
from ..statistics import rankings

Value = Literal["mean", "recorded"]
Source = Literal["auto", "recorded", "computed"]

_BUCKET: Final = ["group_id", "context", "role"]


@verb
def sibling_diagnostics(
    corpus: Corpus,
    *,
    reward: str | Mapping[str, float] = "team",
    context: Source = "auto",
    value: Value = "mean",
    alpha: Amount = 0.0,
    k: Size = 8,
) -> pl.DataFrame:
    """Judge every bucket of siblings: decisions of one group, context and acting role (method ``c3``).

    Parameters
    ----------
    corpus
        The recordings.
    reward
        The outcome: a reward channel or a weighted sum, as in `credit`.
    context
        Where contexts come from, as in `contexts` and the method ``c3``.
    value
        V̂(h), what the outcome is compared with: ``"mean"`` is the mean outcome of the bucket, ``"recorded"``
        the mean of the field ``value`` over the decisions of each candidate.
    alpha
        Additive smoothing of the counts behind ``influence``, 0 or more, over the symbols that a bucket has.
    k
        How many of the most frequent next choices of a bucket are symbols of their own; the others are one.

    Returns
    -------
    DataFrame
        A row per bucket, in order of group, context and role: ``group_id context role``, ``n_decisions
        n_candidates n_traces`` (UInt32), ``mean_outcome`` (units of the reward), ``variance`` of the
        candidates' leave-one-out credit A_j (ddof 0, units squared; candidates count once), ``fidelity``:
        Spearman's rho of A_j and r̄_j - V̂ over the candidates, ``influence``: I(J; Y | h) in nats, 0 to
        ln(n_candidates), of the candidate J and the choice Y that the next other agent makes, and ``reason``.
        With one candidate ``variance`` and ``influence`` are exactly 0 and the reason is
        ``group.degenerate``; without an outcome all are null (``reward.absent``). ``fidelity`` is null where
        it is not defined: less than two candidates, no spread on either side, or a ``value`` that is absent.

    Warns
    -----
    UserWarning
        Most groups have one rollout, so that nothing has a sibling in another.

    Raises
    ------
    ParameterError
        Unknown reward channel or context, or an option out of range.

    Notes
    -----
    Decisions without a context or choice are left out, and so are those of traces without the reward. A next
    choice is that of the first later decision, in canonical order, of another agent; that there is none is a
    symbol too. With ``alpha`` > 0 candidates of unequal counts get a small influence even where there is
    none. With equal weights ``fidelity`` to the mean is 1: it says something where candidates were
    taken unequally often, or against a recorded critic.

    O(n log n) in decisions.

    Source: diagnostics of C3, arXiv 2603.06859; additive smoothing, Laplace.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=16, seed=0)
    >>> buckets = ot.evaluation.sibling_diagnostics(corpus)
    >>> bool((buckets["influence"].drop_nulls() >= 0).all())
    True
    """
    rewards = amounts(corpus, reward).with_columns(pl.col("trace").cast(pl.Int64))
    traces = corpus.traces.select(pl.col("trace").cast(pl.Int64), "group_id").collect(engine="streaming")
    sizes = traces["group_id"].value_counts()["count"]
    if sizes.len() and (sizes == 1).sum() * 2 > sizes.len():
        warnings.warn(
            f"{(sizes == 1).sum()} of {sizes.len()} groups have one rollout, and siblings are of one group"
            " (group_id, else task_id)",
            UserWarning,
            stacklevel=3,
        )
    rows = _decisions(corpus, context).join(traces, on="trace").join(rewards, on="trace")
    rewarded = rows.filter(pl.col("reward").is_not_null())
    candidates = (
        rewarded.group_by([*_BUCKET, "choice"])
        .agg(n=pl.len(), outcome=ordered_mean(pl.col("reward")), critic=ordered_mean(pl.col("value")))
        .sort([*_BUCKET, "choice"])
    )
    weight, total = pl.col("n").sum().over(_BUCKET), (pl.col("n") * pl.col("outcome")).sum().over(_BUCKET)
    others = weight - pl.col("n")
    candidates = candidates.with_columns(
        credit=pl.when(others > 0)
        .then(pl.col("outcome") - (total - pl.col("n") * pl.col("outcome")) / others)
        .otherwise(0.0),
        beyond=pl.col("outcome") - (total / weight if value == "mean" else pl.col("critic")),
    )
    buckets = rows.group_by(_BUCKET, maintain_order=True).agg(
        n_decisions=pl.len(), n_candidates=pl.col("choice").n_unique(), n_traces=pl.col("trace").n_unique()
    )
    spread = candidates.group_by(_BUCKET, maintain_order=True).agg(
        mean_outcome=(pl.col("n") * pl.col("outcome")).sum() / pl.col("n").sum(),
        variance=pl.col("credit").var(ddof=0),
    )
    table = buckets
    for part in (spread, _fidelity(candidates), _influence(rewarded, float(alpha), k)):
        table = table.join(part, on=_BUCKET, how="left", nulls_equal=True, maintain_order="left")
    alone = pl.col("n_candidates") < 2
    counts = ("n_decisions", "n_candidates", "n_traces")
    return (
        table.with_columns(
            pl.col(counts).cast(pl.UInt32),
            reason=pl.when(pl.col("mean_outcome").is_null())
            .then(pl.lit("reward.absent"))
            .when(alone)
            .then(pl.lit("group.degenerate")),
        )
        .sort(_BUCKET)
        .select(*_BUCKET, *counts, "mean_outcome", "variance", "fidelity", "influence", "reason")
    )


def _decisions(corpus: Corpus, context: Source) -> pl.DataFrame:
    """Decisions with a context and a choice, each with the critic's value and the next choice of another."""
    decisions = contexts(corpus, context=context).select(
        pl.col("trace").cast(pl.Int64),
        pl.col("seq").cast(pl.Int64),
        pl.col("context", "choice", "role").cast(pl.String),
    )
    events = (
        corpus.events.filter(pl.col("type").is_in(DECISIONS))
        .select(pl.col("trace", "seq").cast(pl.Int64), "t", "value", pl.col("agent").cast(pl.String))
        .collect(engine="streaming")
    )
    in_order = decisions.join(events, on=["trace", "seq"]).sort("trace", "t", "seq")
    chosen = in_order.filter(pl.col("choice").is_not_null())
    # within runs of one agent, the next choice of another is the first of the run that follows
    run = pl.col("trace").ne_missing(pl.col("trace").shift()) | pl.col("agent").ne(pl.col("agent").shift())
    runs = chosen.with_columns(run=run.fill_null(True).cum_sum())
    firsts = runs.group_by("run", maintain_order=True).agg(pl.col("trace", "choice").first())
    following = firsts.select(
        "run", next=pl.when(pl.col("trace").shift(-1) == pl.col("trace")).then(pl.col("choice").shift(-1))
    )
    joined: pl.DataFrame = runs.join(following, on="run", how="left", maintain_order="left")
    return joined.filter(pl.col("context").is_not_null())


def _fidelity(candidates: pl.DataFrame) -> pl.DataFrame:
    complete = candidates.filter(pl.col("beyond").is_null().any().over(_BUCKET).not_()).sort(_BUCKET)
    buckets = complete.select(_BUCKET).with_columns(bucket=pl.struct(_BUCKET).rle_id())
    starts = rankings.segment_starts(buckets["bucket"].cast(pl.Int64).to_numpy())
    rho = rankings.spearman(complete["credit"].to_numpy(), complete["beyond"].to_numpy(), starts)
    firsts = buckets.unique("bucket", keep="first", maintain_order=True).drop("bucket")
    return firsts.with_columns(fidelity=pl.Series(rho, dtype=pl.Float64).fill_nan(None))


def _influence(rows: pl.DataFrame, alpha: float, k: int) -> pl.DataFrame:
    """I(J; Y | h) = Σ_j p(j) Σ_y p(y|j) ln(p(y|j) / p(y)), p(y|j) smoothed, per bucket."""
    counted = rows.group_by([*_BUCKET, "next"], maintain_order=True).agg(seen=pl.len())
    ranked = counted.sort([*_BUCKET, "seen", "next"], descending=[False] * 3 + [True, False])
    place = pl.int_range(pl.len()).over(_BUCKET)
    symbols = ranked.with_columns(symbol=pl.when(place < k).then(place).otherwise(k)).drop("seen")
    seen = rows.join(symbols, on=[*_BUCKET, "next"], nulls_equal=True)
    pairs = seen.group_by([*_BUCKET, "choice", "symbol"], maintain_order=True).agg(n=pl.len())
    # every candidate with every symbol of its bucket, including pairs that never occurred
    every = (
        pairs.select([*_BUCKET, "choice"])
        .unique(maintain_order=True)
        .join(
            pairs.select([*_BUCKET, "symbol"]).unique(maintain_order=True),
            on=_BUCKET,
            nulls_equal=True,
            maintain_order="left",
        )
        .join(pairs, on=[*_BUCKET, "choice", "symbol"], how="left", nulls_equal=True, maintain_order="left")
        .with_columns(pl.col("n").fill_null(0).cast(pl.Float64))
    )
    candidate: list[Any] = [*_BUCKET, "choice"]
    conditional = (pl.col("n") + alpha) / (pl.col("n") + alpha).sum().over(candidate)
    prior = pl.col("n").sum().over(candidate) / pl.col("n").sum().over(_BUCKET)
    parts = every.with_columns(given=conditional, prior=prior).sort([*_BUCKET, "choice", "symbol"])
    marginal = (pl.col("prior") * pl.col("given")).sum().over([*_BUCKET, "symbol"])
    term = pl.col("prior") * pl.col("given") * (pl.col("given") / marginal).log()
    return (
        parts.with_columns(term=pl.when(pl.col("given") > 0).then(term).otherwise(0.0))
        .group_by(_BUCKET, maintain_order=True)
        .agg(influence=pl.col("term").sum().clip(0.0))
    )
