"""Candidates for blame: the turns, or agents, of runs with what the recording says of each."""

from typing import Final, Literal

import numpy as np
import polars as pl

from ..base.arrays import Floats
from ..corpus.corpus import Corpus
from ..credit.verb import credit
from .annotation import place_labels

Level = Literal["step", "agent"]
POSITION: Final = ("place", "left", "first", "last", "middle", "log_index", "early")
STRUCTURE: Final = (
    *("events", "tokens", "calls", "spawns", "returns", "decisions", "messages", "failed", "repeated"),
    *("new_tool", "share", "new_speaker", "same_speaker", "speakers", "sent", "received", "after_failure"),
)


def blame_units(corpus: Corpus, level: Level) -> pl.DataFrame:
    """Every candidate of every run, once.

    Returns
    -------
    DataFrame
        ``trace trace_id task_id unit_id agent seq``, the features of `POSITION` and `STRUCTURE`, Float64, and
        ``labeled``; by trace and ``seq``. ``n_labels n_placed`` count the labels of the run and those
        that are candidates.

    Notes
    -----
    O(events log events), in Polars.
    """
    ids = corpus.traces.select("trace", "trace_id", "task_id").collect(engine="streaming")
    turns = _with_features(corpus, _turns(corpus, ids))
    placed = _placed(corpus, turns, ids)
    if level == "agent":
        aggregated = [pl.col(name).mean() for name in (*POSITION, *STRUCTURE)]
        turns = turns.group_by("trace", "agent", maintain_order=True).agg(pl.col("seq").min(), *aggregated)
        turns = turns.with_columns(unit_id="agent").sort("trace", "seq", "unit_id")
        placed = placed.with_columns(unit_id=pl.col("named_agent"))
    candidates = turns.select("trace", "unit_id").with_columns(labeled=pl.lit(True))
    placed = placed.join(candidates, on=["trace", "unit_id"], how="left")
    counts = placed.group_by("trace").agg(
        n_labels=pl.len(), n_placed=pl.col("labeled").fill_null(False).sum()
    )
    marked = placed.filter(pl.col("labeled").fill_null(False)).select("trace", "unit_id", "labeled").unique()
    return (
        turns.join(marked, on=["trace", "unit_id"], how="left", maintain_order="left")
        .join(counts, on="trace", how="left", maintain_order="left")
        .join(ids, on="trace", how="left", maintain_order="left")
        .with_columns(
            pl.col("labeled").fill_null(False),
            pl.col("n_labels", "n_placed").fill_null(0),
            task_id=pl.coalesce("task_id", "trace_id").cast(pl.String),
            trace_id=pl.col("trace_id").cast(pl.String),
        )
    )


def features(units: pl.DataFrame, names: tuple[str, ...]) -> Floats:
    """(units, names) float64 without nulls."""
    return units.select(pl.col(names).fill_null(0.0).fill_nan(0.0)).to_numpy().astype(np.float64)


def _turns(corpus: Corpus, ids: pl.DataFrame) -> pl.DataFrame:
    """``trace unit_id agent number seq`` of the turns that `credit` divides among."""
    paid = corpus.with_measures(ids.select("trace_id").with_columns(failed=pl.lit(1.0)))
    rows = credit(paid, method="uniform", unit="turn", reward="failed").filter(
        pl.col("unit_id").is_not_null()
    )
    parts = pl.col("unit_id").cast(pl.String).str.extract_groups(r"(?s)^(?<agent>.*)/(?<number>\+?[0-9]+)$")
    return (
        rows.select("trace", pl.col("unit_id").cast(pl.String), "seq", parts=parts)
        .unnest("parts")
        .with_columns(number=pl.col("number").cast(pl.Int64, strict=False), seq=pl.col("seq").cast(pl.Int64))
        .with_columns(number=pl.when(~pl.col("unit_id").str.contains(r"/\+[0-9]+$")).then("number"))
        .sort("trace", "seq", "unit_id")
    )


def _events(corpus: Corpus, turns: pl.DataFrame) -> pl.DataFrame:
    """The events of agents with the turn that each is of: by number, else the last one begun by its agent."""
    text = pl.String
    sent = corpus.edges.group_by("trace", seq="src").agg(sent=pl.len())
    received = corpus.edges.group_by("trace", seq="dst").agg(received=pl.len())
    events = (
        corpus.events.filter(pl.col("agent").is_not_null())
        .select(
            *("trace", "seq", pl.col("id").cast(text), pl.col("agent").cast(text)),
            *(pl.col("turn").cast(pl.Int64).alias("number"), pl.col("type").cast(text)),
            *(
                pl.col("tool").cast(text),
                "tokens",
                "ok",
                pl.coalesce("args_hash", "content_hash").alias("key"),
            ),
        )
        .join(sent, on=["trace", "seq"], how="left")
        .join(received, on=["trace", "seq"], how="left")
        .collect(engine="streaming")
        .with_columns(pl.col("seq").cast(pl.Int64))
        .sort("trace", "seq")
    )
    numbered = turns.drop_nulls("number").unique(
        ["trace", "agent", "number"], keep="first", maintain_order=True
    )
    events = events.join(
        numbered.select("trace", "agent", "number", by_number="unit_id"),
        on=["trace", "agent", "number"],
        how="left",
        maintain_order="left",
    )
    begun = turns.sort("seq", "unit_id").select("trace", "agent", "seq", begun="unit_id")
    joined = events.sort("seq", "trace").join_asof(
        begun, on="seq", by=["trace", "agent"], strategy="backward", check_sortedness=False
    )
    return joined.with_columns(unit_id=pl.coalesce("by_number", "begun")).sort("trace", "seq")


def _with_features(corpus: Corpus, turns: pl.DataFrame) -> pl.DataFrame:
    events = _events(corpus, turns)
    kind = pl.col("type")
    # nobody acts in a turn that only holds what a tool answered: never blamed, it would flatter every score
    acting = events.filter(kind != "tool_result").select("trace", "unit_id").unique()
    turns = turns.join(acting, on=["trace", "unit_id"], how="semi", maintain_order="left")
    seen = pl.col("key").is_not_null() & ~pl.struct("trace", "type", "tool", "key").is_first_distinct()
    new_tool = pl.col("tool").is_not_null() & pl.struct("trace", "tool").is_first_distinct()
    of_turn = (
        events.with_columns(seen=seen, new_tool=new_tool)
        .group_by("trace", "unit_id")
        .agg(
            events=pl.len().cast(pl.Float64).log1p(),
            tokens=pl.col("tokens").sum().clip(0).cast(pl.Float64).log1p(),
            calls=(kind == "tool_call").any(),
            spawns=(kind == "spawn").any(),
            returns=(kind == "return").any(),
            decisions=(kind == "orchestrator_decision").any(),
            messages=(kind == "message").any(),
            failed=(~pl.col("ok")).fill_null(False).any(),
            repeated=pl.col("seen").any(),
            new_tool=pl.col("new_tool").any(),
            sent=pl.col("sent").sum().cast(pl.Float64).log1p(),
            received=pl.col("received").sum().cast(pl.Float64).log1p(),
        )
    )
    n = pl.len().over("trace").cast(pl.Float64)
    index = pl.int_range(pl.len()).over("trace").cast(pl.Float64)
    speaks = pl.struct("trace", "agent").is_first_distinct()
    table = turns.join(of_turn, on=["trace", "unit_id"], how="left", maintain_order="left").with_columns(
        place=index / (n - 1.0).clip(1.0),
        left=(n - 1.0 - index).log1p(),
        first=index == 0.0,
        last=index == n - 1.0,
        middle=(index / (n - 1.0).clip(1.0) - 0.5).abs(),
        log_index=index.log1p(),
        early=1.0 / (index + 1.0),
        share=pl.len().over("trace", "agent") / n,
        new_speaker=speaks,
        same_speaker=(pl.col("agent") == pl.col("agent").shift()).over("trace"),
        speakers=speaks.cast(pl.Float64).cum_sum().over("trace").log1p(),
        after_failure=pl.col("failed").shift().over("trace"),
    )
    return table.with_columns(pl.col(*POSITION, *STRUCTURE).cast(pl.Float64).fill_null(0.0))


def _placed(corpus: Corpus, turns: pl.DataFrame, ids: pl.DataFrame) -> pl.DataFrame:
    """A row per label: ``trace unit_id named_agent``, null where it names no turn, or no agent."""
    labels = place_labels(corpus).with_columns(pl.col("trace_id", "event_id", "agent").cast(pl.String))
    named = labels.join(ids.select("trace", pl.col("trace_id").cast(pl.String)), on="trace_id").select(
        "trace", "event_id", named="agent", number=pl.col("turn").cast(pl.Int64)
    )
    of_event = _events(corpus, turns).unique(["trace", "id"], keep="first", maintain_order=True)
    named = named.join(
        of_event.select("trace", event_id="id", by_event="unit_id", event_agent="agent"),
        on=["trace", "event_id"],
        how="left",
    )
    by_both = turns.drop_nulls("number").select("trace", "number", named="agent", by_both="unit_id")
    named = named.join(by_both, on=["trace", "number", "named"], how="left")
    return named.select(
        "trace", unit_id=pl.coalesce("by_event", "by_both"), named_agent=pl.coalesce("named", "event_agent")
    ).unique(maintain_order=True)
