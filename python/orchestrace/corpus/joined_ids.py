"""Ids of a source that lead to a trace beside its own: sessions of teammates, threads of sub-agents."""

import polars as pl


def joined_ids(findings: pl.DataFrame | pl.LazyFrame) -> dict[str, int]:
    """The number of the trace of each such id; one that leads to several traces is no name of any."""
    named = pl.col("message").str.extract(r"^'(.*)' is part of this trace$").alias("id")
    joined = findings.lazy().filter(pl.col("code").cast(pl.String) == "trace.joined")
    rows = joined.select(named, "trace").drop_nulls().unique().collect(engine="streaming")
    return dict(rows.filter(~pl.col("id").is_duplicated()).rows())


def with_joined_ids(ids: pl.Series, findings: pl.DataFrame | pl.LazyFrame, traces: pl.DataFrame) -> pl.Series:
    """The ids, with that of its trace in place of each that leads to one and is the id of none."""
    own = dict(traces.select("trace", "trace_id").rows())
    known = {name: own[trace] for name, trace in joined_ids(findings).items() if trace in own}
    taken = set(own.values())
    return ids.replace({name: trace for name, trace in known.items() if name not in taken})
