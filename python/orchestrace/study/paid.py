"""Rules of reward in a study: whether what a run is paid follows how it ended."""

from typing import Any

import polars as pl

from ..corpus.corpus import Corpus
from ..corpus.reward import amounts
from .truth_rank import pooled


def followed(corpus: Corpus, paid: pl.DataFrame, confidence: float) -> dict[str, Any]:
    """Numbers of one rule: how much of it is null, and its correlation with the outcome inside tasks.

    A run is paid the sum of its units, null if one of them is. Both sides are centered in their task, so that
    nothing follows from some tasks being easier.
    """
    absent = paid.filter(pl.col("value").is_null())
    reasons = absent["reason"].cast(pl.String).drop_nulls().value_counts()
    reasons = reasons.sort("count", "reason", descending=[True, False])
    sums = paid.group_by("trace").agg(
        value=pl.when(pl.col("value").is_not_null().all()).then(pl.col("value").sum())
    )
    facts = corpus.traces.select("trace", pl.col("task_id").cast(pl.String)).collect()
    facts = facts.join(amounts(corpus, "team").select("trace", "reward"), on="trace", how="left")
    rows = facts.join(sums, on="trace", how="left").drop_nulls(["value", "reward"]).sort("trace")
    task = rows["task_id"].rank("dense").cast(pl.Int64).to_numpy()
    value, around = pooled(rows["value"].to_numpy(), rows["reward"].to_numpy(), task, confidence)
    return {
        "n_traces": rows.height,
        "n_tasks": rows["task_id"].n_unique(),
        "n_rows": paid.height,
        "null_share": absent.height / paid.height if paid.height else None,
        "null_reason": reasons["reason"][0] if reasons.height else None,
        "mean": rows["value"].mean() if rows.height else None,
        "sd": rows["value"].std(ddof=1) if rows.height > 1 else None,
        "follows": value,
        "follows_lower": around.lower,
        "follows_upper": around.upper,
        "interval_reason": around.reason if value is not None else None,
    }
