"""What a corpus holds, in five small tables."""

import polars as pl

from . import _core
from .corpus import Corpus
from .schema import SCHEMAS


def report(corpus: Corpus) -> dict[str, pl.DataFrame]:
    """Summaries of a corpus: sizes, origins, measures, oddities and rejects.

    Returns
    -------
    dict of DataFrame
        ``tables``: table, rows. ``traces``: importer, topology, time_basis, traces, events. ``measures``:
        kind, name, traces, mean, min, median, max. ``findings``: code, severity, traces, count and the
        first case (trace_id, seq, message). ``quarantine``: code, severity, records and the first case
        (message, path, file, line). Severity is ``error`` for what is left out, ``warning`` where a result
        may be null or not what one expects, ``note`` where nothing is lost. Each sorted with the most
        frequent first.

    Notes
    -----
    Linear in traces, measures, findings and rejects; events are not touched.

    Examples
    --------
    >>> import orchestrace as ot
    >>> summary = ot.report(ot.generate(traces=3, seed=0))
    >>> summary["traces"]["traces"].sum()
    3
    """
    sizes = corpus._sizes()
    plan = {
        "traces": corpus.traces.group_by("importer", "topology", "time_basis")
        .agg(traces=pl.len(), events=pl.col("n_events").sum())
        .sort("traces", "importer", "topology", "time_basis", descending=[True, False, False, False]),
        "measures": corpus.measures.group_by("kind", "name")
        .agg(
            traces=pl.col("trace").n_unique(),
            mean=pl.col("value").mean(),
            min=pl.col("value").min(),
            median=pl.col("value").median(),
            max=pl.col("value").max(),
        )
        .sort("kind", pl.col("name").cast(pl.String)),
        "findings": corpus.findings.join(
            corpus.traces.select("trace", "trace_id"), on="trace", maintain_order="left"
        )
        .group_by("code")
        .agg(pl.len().alias("traces"), pl.col("count").sum(), pl.col("trace_id", "seq", "message").first())
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


def _severity(level: str) -> pl.Expr:
    severities = {code: severity for kind, code, severity, _ in _core.codes() if kind == level}
    return pl.col("code").cast(pl.String).replace_strict(severities).alias("severity")
