"""The details of one run: events with their times, edges, agents, findings."""

from typing import Any, Final

import polars as pl

from ..corpus.corpus import Corpus
from ..corpus.owners import owners
from ..metrics.verb import metrics
from ..safety.tracking import tainted_events
from ..schedules.scheduling import simulate

FIELDS: Final = (
    *("seq", "id", "t", "type", "agent", "role", "from", "to", "tool", "model", "turn", "ok"),
    *("tokens", "tokens_in", "tokens_fresh", "tokens_cached", "tokens_cache_write", "tokens_out"),
    *("tokens_reasoning", "cost_usd", "score", "reward", "draft_score", "value", "action", "p_behavior"),
    *("subtask_id", "sandbox_id", "trusted", "corrupted", "sanitizer", "privileged"),
)
"""Columns of ``events`` that a page shows; contents and their hashes are no part of it."""
MEMBERS: Final = (
    *("agent", "n_turns", "n_messages_sent", "n_tool_calls", "n_tool_errors", "tokens", "tokens_fresh"),
    *("tokens_cached", "tokens_cache_write", "tokens_out", "cost_usd"),
    *("work", "critical_work", "critical_share", "utilization"),
)


def timed_events(corpus: Corpus, tools: dict[str, Any], options: dict[str, Any]) -> pl.DataFrame:
    """The events of the one trace of a corpus, each with its two schedules and its taint.

    ``start finish``: as recorded; ``soon soon_finish``: as soon as what an event waits for allows, on which
    ``critical`` and ``slack`` are; ``hops``: edges from the nearest untrusted event, null where it is clean.
    """
    words = [
        pl.col(name).cast(pl.String) for name in ("type", "agent", "role", "from", "to", "tool", "model")
    ]
    named = {word.meta.output_name() for word in words}
    events = corpus.events.select(*(name for name in FIELDS if name not in named), *words).collect()
    limits: dict[str, Any] = {"max_gap": options["max_gap"], "threads": options["threads"]}
    soon = simulate(corpus, **limits).rename({"start": "soon", "finish": "soon_finish"})
    recorded = simulate(corpus, release="recorded", **limits).select("seq", "start", "finish")
    owned = owners(corpus).select("seq", pl.col("owner").cast(pl.String))
    reached = tainted_events(corpus, threads=options["threads"], **tools).select("seq", "hops", "seed")
    times = soon.select(
        "seq", "duration", "soon", "soon_finish", "slack", "critical", "source", "unit", "reason"
    )
    for frame in (owned, recorded, times, reached):
        events = events.join(frame, on="seq", how="left", maintain_order="left")
    return events.select(*FIELDS, pl.exclude(FIELDS))


def inner_edges(edges: pl.DataFrame, events: pl.DataFrame) -> pl.DataFrame:
    """The edges between the given events."""
    seqs = events.select("seq")
    edges = edges.join(seqs, left_on="src", right_on="seq", how="semi", maintain_order="left")
    return edges.join(seqs, left_on="dst", right_on="seq", how="semi", maintain_order="left")


def agents_of(corpus: Corpus, options: dict[str, Any]) -> pl.DataFrame:
    """The agents of the one trace of a corpus, each after its parent, with what `metrics` says of them."""
    words = [pl.col(name).cast(pl.String) for name in ("agent", "kind", "role", "parent")]
    agents = corpus.agents.select(*words, "depth", "first_seq", "n_events").collect()
    measured = metrics(corpus, by="agent", **options).select(pl.col("agent").cast(pl.String), *MEMBERS[1:])
    return _in_tree_order(agents.join(measured, on="agent", how="left", maintain_order="left"))


def _in_tree_order(agents: pl.DataFrame) -> pl.DataFrame:
    """Each agent after its parent and the descendants of its earlier siblings; ``level`` says how deep."""
    names = agents["agent"].to_list()
    place = {name: at for at, name in enumerate(names)}
    below: dict[int | None, list[int]] = {}
    for at, parent in enumerate(agents["parent"]):
        above = place.get(parent)
        below.setdefault(None if above == at else above, []).append(at)
    order: list[int] = []
    levels: list[int] = []
    seen: set[int] = set()
    # agents in a circle of parents have no root: they come last, at the top level
    for root in [*below.get(None, []), *range(len(names))]:
        waiting = [(root, 0)]
        while waiting:
            at, level = waiting.pop()
            if at in seen:
                continue
            seen.add(at)
            order.append(at)
            levels.append(level)
            waiting += [(child, level + 1) for child in reversed(below.get(at, []))]
    return agents[order].with_columns(level=pl.Series(levels, dtype=pl.UInt32))


def findings_of(corpus: Corpus) -> pl.DataFrame:
    """The findings on the one trace of a corpus."""
    return corpus.findings.select(pl.col("code").cast(pl.String), "count", "seq", "message").collect()


def most_telling(events: pl.DataFrame, most: int) -> pl.DataFrame:
    """At most so many events, in order: those of the critical path first, then the longest."""
    if events.height <= most:
        return events
    order = events.with_columns(pl.col("critical").fill_null(False), pl.col("duration").fill_null(0.0))
    telling = order.sort(["critical", "duration", "seq"], descending=[True, True, False]).head(most)
    return events.join(telling.select("seq"), on="seq", how="semi", maintain_order="left")
