"""Decisions that methods of a policy compare, with their context, action, probability and outcome."""

import polars as pl

from ..corpus.corpus import Corpus
from ..decisions.context_keys import contexts


def decisions(corpus: Corpus, rewards: pl.DataFrame, context: str) -> pl.DataFrame:
    """Decisions with an `action` or `p_behavior`: ``row trace seq place reason action p options amount``.

    ``row`` is the place in `Corpus.events`, ``place`` names group, context and role (null without a context,
    ``reason`` says why), ``options`` counts the actions with a probability, where all probabilities are
    recorded.
    """
    assert context in ("auto", "recorded", "computed")
    events = corpus.events.select("trace", "seq", "action", "p_behavior", "p_actions").collect()
    traces = corpus.traces.select(
        "trace", group=pl.coalesce(pl.col("group_id").cast(pl.String), pl.col("task_id").cast(pl.String))
    ).collect()
    keys = contexts(corpus, context=context).select("trace", "seq", "context", "role", "reason")  # type: ignore[arg-type]  # as just checked
    decided = (
        events.with_row_index("row")
        .filter(pl.col("action").is_not_null() | pl.col("p_behavior").is_not_null())
        .join(keys, on=["trace", "seq"], how="inner", maintain_order="left")
        .join(traces, on="trace", how="left", maintain_order="left")
        .join(rewards, on="trace", how="left", maintain_order="left")
    )
    place = pl.format("{}\\0{}\\0{}", "group", "context", pl.col("role").fill_null(""))
    possible = pl.col("p_actions").list.eval(pl.element() > 0.0).list.sum()
    return decided.select(
        "row",
        "trace",
        "seq",
        place=pl.when(pl.col("context").is_not_null()).then(place),
        reason=pl.col("reason").cast(pl.String),
        action=pl.col("action").cast(pl.String),
        p="p_behavior",
        options=possible.cast(pl.Int64),
        amount="amount",
    )


def after(corpus: Corpus, rewards: pl.DataFrame) -> pl.DataFrame:
    """The expectation of a critic after each event: ``after``, in the order of `Corpus.events`.

    That is the event's `reward` (absent = 0) and the `value` of the next event in canonical order; behind the
    last one the reward of the trace. Null where the next `value` is not recorded.
    """
    events = corpus.events.select("trace", "seq", "t", "value", "reward").collect().with_row_index("row")
    ordered = events.sort("trace", "t", "seq").join(rewards, on="trace", how="left", maintain_order="left")
    last = pl.col("trace").shift(-1).ne_missing(pl.col("trace"))
    follows = pl.when(last).then("amount").otherwise(pl.col("value").shift(-1))
    return ordered.select("row", after=pl.col("reward").fill_null(0.0) + follows).sort("row")
