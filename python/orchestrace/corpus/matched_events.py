"""The traces and events that matches of a search are of."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final

import polars as pl

from .. import _core
from ..base.errors import InputError
from ..base.schema import SCHEMAS
from .corpus import Corpus

MATCHES: Final = pl.Schema(
    {
        "trace": pl.UInt32(),
        "trace_id": pl.String(),
        "event_id": pl.String(),
        "seq": pl.UInt32(),
        "agent": pl.String(),
        "type": SCHEMAS["events"]["type"],
        "file": pl.String(),
        "line": pl.UInt64(),
        "offset": pl.UInt64(),
        "length": pl.UInt64(),
        "match": pl.String(),
        "text": pl.String(),
        "reason": pl.String(),
    }
)
"""Columns of the table of matches."""

_EVENT: Final = ("id", "agent", "type")


def matched_events(
    hits: pl.DataFrame,
    inputs: list[tuple[str, str]],
    corpus: Corpus | None,
    options: dict[str, Any],
    threads: int | None,
    progress: Callable[[int, int], object] | None,
) -> pl.DataFrame:
    """The table of matches: hits of the core with the traces and events that they are of.

    Raises
    ------
    InputError
        A file has changed since the corpus was read.
    """
    with_hits = [inputs[at] for at in hits["input"].unique().sort()]
    is_spread = any(spread for _, spread in _core.formats(with_hits, threads=threads, **options))
    lasts = hits["offset"] + hits["length"] - 1
    places = [*zip(hits["file"], hits["offset"], strict=True), *zip(hits["file"], lasts, strict=True)]
    read_again = inputs if is_spread else with_hits
    store, stream = _core.owners(read_again, places, threads=threads, progress=progress, **options)
    owners = pl.DataFrame(stream)
    owners = _with_reach(owners.head(len(hits)), owners.tail(len(hits)))
    matches = _with_traces(hits.hstack(owners), store)
    matches = matches.with_columns(pl.Series("reason", _rejected(matches, store), dtype=pl.String))
    if corpus is not None:
        matches = _as_in(corpus, matches)
    return matches.select(pl.col(name).cast(kind) for name, kind in MATCHES.items())


def _with_reach(owners: pl.DataFrame, of_lasts: pl.DataFrame) -> pl.DataFrame:
    """The owners of the first bytes of matches; of a match that ends in another event there is none."""
    ends_elsewhere = of_lasts["seq"].is_not_null() & (of_lasts["seq"] != owners["seq"]).fill_null(False)
    reason = pl.when(ends_elsewhere).then(pl.lit("event.several")).otherwise("reason")
    return owners.with_columns(reason.alias("reason"), seq=pl.when(~ends_elsewhere).then("seq"))


def _with_traces(hits: pl.DataFrame, store: _core.Store) -> pl.DataFrame:
    """Hits with the ids of their traces, and the fields of their events, from the tables of a store."""
    file = pl.col("file").cast(pl.String).alias("home")
    traces = pl.DataFrame(store.table("traces")).select(
        "trace_id", file, home_offset="offset", home_length="length", again="trace", is_there=pl.lit(True)
    )
    place = ["home", "home_offset"]
    alone = traces.unique(place, keep="none").select(*place, alone_id="trace_id")
    hits = hits.join(alone, on=place, how="left", maintain_order="left")
    hits = hits.with_columns(trace_id=pl.coalesce("home_id", "alone_id"))
    hits = hits.join(traces, on=[*place, "trace_id"], how="left", maintain_order="left")
    # What repeats another recording has no trace of its own.
    is_there = pl.col("is_there").is_not_null()
    lost = ~is_there & pl.col("home").is_not_null()
    hits = hits.with_columns(
        pl.when(is_there).then("trace_id").alias("trace_id"),
        pl.when(is_there).then("seq").alias("seq"),
        pl.when(lost).then(pl.lit("trace.none")).otherwise("reason").alias("reason"),
        trace=pl.lit(None, pl.UInt32),
    )
    events = _events(pl.LazyFrame(store.table("events")).rename({"trace": "again"}), hits, "again")
    return hits.join(events, on=["again", "seq"], how="left", maintain_order="left")


def _events(events: pl.LazyFrame, hits: pl.DataFrame, trace: str) -> pl.DataFrame:
    """Fields of the events that hits are of."""
    wanted = hits.lazy().select(trace, "seq").drop_nulls().unique()
    absent = [name for name in _EVENT if name not in events.collect_schema()]
    fields = events.with_columns(pl.lit(None).alias(name) for name in absent)
    named = fields.select(
        trace, "seq", pl.col("id").alias("event_id"), pl.col("agent").cast(pl.String), "type"
    )
    return named.join(wanted, on=[trace, "seq"], how="semi").collect(engine="streaming")


def _rejected(matches: pl.DataFrame, store: _core.Store) -> list[str | None]:
    """The reasons, where that a record is in quarantine is why it is in no trace."""
    rows = pl.DataFrame(store.table("quarantine")).select(pl.col("file").cast(pl.String), "offset", "length")
    ends: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for file, offset, length in rows.sort("file", "offset").iter_rows():
        ends[file].append((offset, offset + length))

    def is_rejected(file: str, offset: int) -> bool:
        parts = ends.get(file, [])
        at = bisect_right(parts, offset, key=lambda part: part[0])
        return at > 0 and offset < parts[at - 1][1]

    reasons = matches.select("file", "offset", "reason").iter_rows()
    return [
        "trace.rejected" if reason == "trace.none" and is_rejected(file, offset) else reason
        for file, offset, reason in reasons
    ]


def _check_places(traces: pl.LazyFrame, matches: pl.DataFrame) -> None:
    """Compare where traces of matches begin with where the corpus has traces of the same files.

    Raises
    ------
    InputError
        One begins inside of a trace of the corpus, or is as that one and has another length.
    """
    homes = matches.select("home", "home_offset", "trace_id", "home_length").drop_nulls().unique()
    here = traces.join(homes.lazy().select("home"), on="home", how="semi").collect(engine="streaming")
    here = here.drop_nulls(["home_offset", "length"]).sort("home_offset")
    homes = homes.sort("home_offset").join_asof(
        here.select("home", at="home_offset", end=pl.col("home_offset") + pl.col("length")),
        left_on="home_offset",
        right_on="at",
        by="home",
        check_sortedness=False,
    )
    same = ["trace_id", "home", "home_offset"]
    homes = homes.join(here.select(*same, length_here="length"), on=same, how="left")
    is_inside = (pl.col("at") < pl.col("home_offset")) & (pl.col("home_offset") < pl.col("end"))
    changed = homes.filter(is_inside | (pl.col("length_here") != pl.col("home_length")))
    for (file,) in changed.select("home").head(1).iter_rows():
        raise InputError(f"'{file}' has changed since the corpus was read from it: read it again")


def _as_in(corpus: Corpus, matches: pl.DataFrame) -> pl.DataFrame:
    """Matches with the numbers of a corpus; their events must be those of its tables."""
    place = ["trace_id", "home", "home_offset"]
    ids = matches.lazy().select("trace_id").drop_nulls().unique()
    file = pl.col("file").cast(pl.String).alias("home")
    traces = corpus.traces.select("trace_id", file, "length", home_offset="offset", number="trace")
    _check_places(traces, matches)
    numbers = (
        traces.join(ids, on="trace_id", how="semi").collect(engine="streaming").unique(place, keep="first")
    )
    matches = matches.join(numbers, on=place, how="left", maintain_order="left")
    is_absent = pl.col("number").is_null() & pl.col("trace_id").is_not_null()
    matches = matches.with_columns(
        pl.when(is_absent).then(pl.lit("trace.absent")).otherwise("reason").alias("reason"),
        trace=pl.col("number"),
    )
    here = _events(corpus.events, matches, "trace")
    here_too = here.with_columns(is_known=pl.lit(True)).rename({"event_id": "id_here", "type": "type_here"})
    compared = matches.join(here_too.drop("agent"), on=["trace", "seq"], how="left")
    same = pl.col("is_known") & pl.col("id_here").eq_missing(pl.col("event_id"))
    same &= pl.col("type_here").cast(pl.String).eq_missing(pl.col("type").cast(pl.String))
    changed = compared.filter(
        pl.col("trace").is_not_null() & pl.col("seq").is_not_null() & ~same.fill_null(False)
    )
    for file_of, trace in changed.select("file", "trace").head(1).iter_rows():
        raise InputError(f"'{file_of}' has changed since trace {trace} was read from it: read it again")
    # Callers may have replaced agents.
    agents = here.select("trace", "seq", agent_here="agent")
    matches = matches.join(agents, on=["trace", "seq"], how="left", maintain_order="left")
    return matches.with_columns(agent=pl.coalesce("agent_here", "agent"))
