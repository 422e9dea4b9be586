"""The list of runs of a page, and which of them it shows in detail."""

from typing import Any, Final

import polars as pl

from ..base.errors import ParameterError
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward, amounts
from ..metrics.verb import metrics

DEFAULT_REWARD: Final = "team"
"""The reward of a page, by default."""
GROUPS: Final = ("scale", "usage", "taint")
MEASURED: Final = (
    *("n_events", "n_agents", "n_tool_calls", "n_tool_errors"),
    *("tokens", "tokens_fresh", "tokens_cached", "tokens_cache_write", "tokens_out", "cost_usd"),
    *("elapsed", "n_tainted"),
)
"""Metrics that the list shows."""


def list_runs(corpus: Corpus, reward: Reward, options: dict[str, Any]) -> tuple[pl.DataFrame, str | None]:
    """A row per trace, and why rewards are null where the corpus has none of the default channel.

    Columns: ``trace trace_id task_id importer system topology time_basis partial``, the metrics of
    `MEASURED`, ``clock_unit``, ``task_success``, ``reward``, ``n_findings``.

    Raises
    ------
    ParameterError
        The corpus lacks a reward that was asked for.
    """
    names = ("importer", "system", "topology", "time_basis")
    head = corpus.traces.select("trace", *(pl.col(name).cast(pl.String) for name in names), "partial")
    table = metrics(corpus, groups=GROUPS, **options)
    table = table.select("trace", "trace_id", "task_id", *MEASURED, "clock_unit", "task_success")
    counts = corpus.findings.group_by("trace").agg(n_findings=pl.len()).collect(engine="streaming")
    rows = (
        head.collect(engine="streaming")
        .join(table, on="trace", how="left", maintain_order="left")
        .join(counts, on="trace", how="left", maintain_order="left")
        .with_columns(pl.col("n_findings").fill_null(0))
    )
    try:
        paid, missing = amounts(corpus, reward).select("trace", "reward"), None
    except ParameterError as error:
        if reward != DEFAULT_REWARD:
            raise
        paid = rows.select("trace", reward=pl.lit(None, pl.Float64))
        missing = str(error)
    return rows.join(paid, on="trace", how="left", maintain_order="left"), missing


def ranked(rows: pl.DataFrame, first: list[int]) -> list[int]:
    """Numbers of all traces, those most worth opening first: `first`, then those with most events."""
    rest = rows.filter(~pl.col("trace").is_in(first)).sort(["n_events", "trace"], descending=[True, False])
    return [*first, *rest["trace"].to_list()]


def quarantine(corpus: Corpus, most: int) -> dict[str, Any]:
    """Rejected records: counts by code, and the first records with their places."""
    rows = corpus.quarantine.select(pl.col("file", "code").cast(pl.String), "line", "path", "message")
    codes = rows.group_by("code").len("records").collect(engine="streaming")
    shown = rows.head(most).collect(engine="streaming")
    return {
        "codes": codes.sort(["records", "code"], descending=[True, False]),
        "rows": shown.select("file", "line", "code", "path", "message"),
    }


def findings(corpus: Corpus) -> pl.DataFrame:
    """Findings on valid traces: traces and occurrences by code, with one message."""
    return (
        corpus.findings.group_by(pl.col("code").cast(pl.String))
        .agg(
            traces=pl.col("trace").n_unique(),
            occurrences=pl.col("count").cast(pl.UInt64).sum(),
            message=pl.col("message").sort().first(),
        )
        .collect(engine="streaming")
        .sort(["traces", "code"], descending=[True, False])
    )
