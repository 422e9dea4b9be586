"""A corpus, and the records that were read for it, in a few small tables."""

from typing import Literal

import polars as pl

from .. import _core
from ..base.ranges import finite
from ..base.schema import SCHEMAS
from ..base.sums import ordered_mean, ordered_total, total
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.parts import divisions, sizes_of
from .figures import missing_runs


@verb
def describe(corpus: Corpus) -> dict[str, pl.DataFrame]:
    """Summaries of a corpus: sizes, what was read, origins, measures, oddities and rejects.

    Returns
    -------
    dict of DataFrame
        ``tables``: table, rows. ``formats``: importer; records read, which are the sum of used, ignored,
        duplicate, quarantined; traces, partial ones among them, events; tokens_in, tokens_out, cost_usd, sums
        over events, and tokens, that of the traces' costs; null where nothing says it. ``ignored``: importer,
        kind, records that mean nothing to a trace. ``traces``: importer, topology, time_basis, traces,
        events. ``measures``: kind, name, traces, mean, min, median, max; null beyond the floats. ``lowest``
        and ``highest``, of a reward of a format whose source states more runs than are here
        (``source.runs_missing``): what the mean is if these, and the runs of the format that lack the reward,
        have the least or the most of what was seen, 0 and 1; null where no source states more.
        ``findings``: code, severity, traces, count and a case (trace_id, seq, message), the first
        by these.
        ``quarantine``: code, severity, records and the first case (message, path, file, line).
        Severity is ``error`` for what is left out, ``warning`` where a result may be null or not what one
        expects, ``note`` where nothing is lost. Each sorted with the most frequent first.

    Notes
    -----
    Linear; of events the columns of tokens and costs are looked at.

    Examples
    --------
    >>> import orchestrace as ot
    >>> summary = ot.describe(ot.generate(traces=3, seed=0))
    >>> summary["traces"]["traces"].sum()
    3
    """
    sizes = sizes_of(corpus)
    plan = {
        "formats": _formats(corpus),
        "ignored": corpus.record_counts.filter(pl.col("status") == "ignored")
        .group_by("importer", "kind")
        .agg(records=pl.col("count").sum())
        .sort("records", pl.col("importer").cast(pl.String), "kind", descending=[True, False, False]),
        "traces": corpus.traces.group_by("importer", "topology", "time_basis")
        .agg(traces=pl.len(), events=pl.col("n_events").sum())
        .sort("traces", "importer", "topology", "time_basis", descending=[True, False, False, False]),
        "measures": corpus.measures.group_by("kind", "name")
        .agg(
            traces=pl.col("trace").n_unique(),
            mean=ordered_mean(pl.col("value")),
            min=pl.col("value").min(),
            median=pl.col("value").median(),
            max=pl.col("value").max(),
        )
        .join(_without(corpus), on=["kind", "name"], how="left")
        .with_columns(_mean_of_all("min", 0.0).alias("lowest"), _mean_of_all("max", 1.0).alias("highest"))
        .drop("without")
        .with_columns(finite("mean"), finite("median"), finite("lowest"), finite("highest"))
        .sort("kind", pl.col("name").cast(pl.String)),
        "findings": corpus.findings.join(
            corpus.traces.select("trace", "trace_id"), on="trace", maintain_order="left"
        )
        .group_by("code")
        .agg(
            pl.len().alias("traces"),
            pl.col("count").sum(),
            pl.col("trace_id", "seq", "message").sort_by("trace_id", "seq", "message").first(),
        )
        .with_columns(_severity("finding"))
        .sort("traces", "code", descending=[True, False])
        .select("code", "severity", "traces", "count", "trace_id", "seq", "message"),
        "quarantine": corpus.quarantine.group_by("code")
        .agg(pl.len().alias("records"), pl.col("message", "path", "file", "line").first())
        .with_columns(_severity("reject"))
        .sort("records", "code", descending=[True, False])
        .select("code", "severity", "records", "message", "path", "file", "line"),
    }
    tables = pl.DataFrame({"table": list(SCHEMAS), "rows": [sizes[name] for name in SCHEMAS]})
    return {"tables": tables, **dict(zip(plan, pl.collect_all(list(plan.values())), strict=True))}


def _mean_of_all(end: Literal["min", "max"], usual: float) -> pl.Expr:
    """The mean if each of the runs without a value has the least, or the most, that one can have."""
    horizontal = pl.min_horizontal if end == "min" else pl.max_horizontal
    extreme = horizontal(pl.col(end), pl.lit(usual)) * pl.col("without")
    return (pl.col("mean") * pl.col("traces") + extreme) / (pl.col("traces") + pl.col("without"))


def _without(corpus: Corpus) -> pl.LazyFrame:
    """``kind name without``: how many runs of formats whose sources state more than are here lack it."""
    traces = corpus.traces.select("trace", pl.col("importer").cast(pl.String))
    missing = missing_runs(corpus).join(traces, on="trace").group_by("importer").agg(pl.col("count").sum())
    rewards = corpus.measures.filter(pl.col("kind") == "reward").join(traces, on="trace")
    return (
        rewards.join(missing, on="importer")
        .group_by("kind", "name", "importer")
        .agg(pl.col("count").first(), here=pl.col("trace").n_unique())
        .join(traces.group_by("importer").len(), on="importer")
        .group_by("kind", "name")
        .agg(without=(pl.col("count") + pl.col("len") - pl.col("here")).sum())
    )


def _formats(corpus: Corpus) -> pl.LazyFrame:
    """A row for each importer that read something or that a trace says it comes from."""
    importer = pl.col("importer").cast(pl.String)
    counts = corpus.record_counts.group_by(importer).agg(
        pl.col("count").sum().alias("records"),
        *(
            pl.col("count").filter(pl.col("status") == status).sum().alias(status)
            for status in ("used", "ignored", "duplicate", "quarantined")
        ),
    )

    of_events = (total(pl.col("tokens_in")), total(pl.col("tokens_out")), ordered_total(pl.col("cost_usd")))
    spent = ("tokens_in", "tokens_out", "cost_usd")
    nothing = pl.LazyFrame(schema={name: SCHEMAS["events"][name] for name in ("trace", *spent)})
    parts = [nothing, *divisions(corpus, "events")]
    # one after the other: the values of all traces at once are more than a budget allows
    events = pl.concat(
        part.filter(pl.any_horizontal(pl.col(spent).is_not_null())).group_by("trace").agg(of_events).collect()
        for part in parts
    ).lazy()
    is_total = (pl.col("kind") == "cost") & (pl.col("name").cast(pl.String) == "tokens")
    totals = corpus.measures.filter(is_total).select("trace", pl.col("value").alias("tokens"))
    traces = (
        corpus.traces.select("trace", importer, "partial", "n_events")
        .join(events, on="trace", how="left")
        .join(totals, on="trace", how="left")
        .group_by("importer")
        .agg(
            pl.len().alias("traces"),
            pl.col("partial").sum(),
            pl.col("n_events").sum().alias("events"),
            total(pl.col("tokens_in")),
            total(pl.col("tokens_out")),
            ordered_total(pl.col("tokens")),
            ordered_total(pl.col("cost_usd")),
        )
    )
    joined = counts.join(traces, on="importer", how="full", coalesce=True)
    counted = ["records", "used", "ignored", "duplicate", "quarantined", "traces", "partial", "events"]
    return joined.with_columns(pl.col(counted).fill_null(0)).sort(
        "records", "traces", "importer", descending=[True, True, False]
    )


def _severity(level: str) -> pl.Expr:
    severities = {code: severity for kind, code, severity, _ in _core.codes() if kind == level}
    return pl.col("code").cast(pl.String).replace_strict(severities).alias("severity")
