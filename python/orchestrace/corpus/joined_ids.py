"""Ids of a source that lead to a trace beside its own: sessions of teammates, threads of sub-agents."""

import polars as pl


def joined_ids(findings: pl.DataFrame | pl.LazyFrame) -> dict[str, int]:
    """The number of the trace that each such id leads to, without ids that lead to several traces."""
    named = pl.col("message").str.extract(r"^'(.*)' is part of this trace$").alias("id")
    joined = findings.lazy().filter(pl.col("code").cast(pl.String) == "trace.joined")
    rows = joined.select(named, "trace").drop_nulls().unique().collect(engine="streaming")
    return dict(rows.filter(~pl.col("id").is_duplicated()).rows())


def with_joined_ids(ids: pl.Series, findings: pl.DataFrame | pl.LazyFrame, traces: pl.DataFrame) -> pl.Series:
    """The ids; one that is not the id of a trace is replaced by the id of the trace that it leads to."""
    trace_ids = dict(traces.select("trace", "trace_id").rows())
    targets = {name: trace_ids[trace] for name, trace in joined_ids(findings).items() if trace in trace_ids}
    taken = set(trace_ids.values())
    return ids.replace({name: trace for name, trace in targets.items() if name not in taken})
