"""How large a run is: the axes of scale, and their values for the traces of a corpus."""

from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from .corpus import Corpus
from .owners import owners


@dataclass(frozen=True)
class Axis:
    """One axis of scale.

    `columns` are the names under which a frame may have it, the first one found counts; `envelope` is the
    column of `envelopes` with published values; `offset` is added before the logarithm.
    """

    name: str
    columns: tuple[str, ...]
    envelope: str | None
    offset: float
    unit: str


AXES: Final = (
    Axis("n_agents", ("n_agents",), "agents_max", 0.0, "agents"),
    Axis("peak_concurrency", ("peak_concurrency",), "parallel_agents_max", 0.0, "agents at once"),
    Axis("n_steps", ("n_steps", "total_steps", "n_events"), "steps_max", 0.0, "steps"),
    Axis("n_tool_calls", ("n_tool_calls",), "tool_calls_max", 0.0, "tool calls"),
    # a run without spawns has depth 0 and one level
    Axis("depth", ("depth", "agent_depth"), None, 1.0, "hops from the root"),
    Axis("tokens", ("tokens",), "tokens_max", 0.0, "tokens"),
    Axis("wall_clock_s", ("wall_clock_s",), "wall_clock_s", 0.0, "seconds"),
    Axis("group_size", ("group_size",), "group_size", 0.0, "rollouts"),
)
"""Axes of scale in the order of every table; steps and tool calls apart, as publications count either."""

_NO_STEP: Final = ("message", "spawn", "despawn")
_SCALE: Final[dict[str, Any]] = {
    "trace": pl.UInt32,
    "trace_id": pl.String,
    "n_agents": pl.UInt32,
    "peak_concurrency": pl.UInt32,
    "n_steps": pl.UInt32,
    "n_tool_calls": pl.UInt32,
    "depth": pl.UInt32,
    "tokens": pl.Float64,
    "wall_clock_s": pl.Float64,
    "group_size": pl.UInt32,
}


def scale_of(corpus: Corpus) -> pl.DataFrame:
    """The size of every trace along every axis.

    Parameters
    ----------
    corpus
        Recordings in memory or on disk; those on disk are read piece by piece.

    Returns
    -------
    DataFrame
        One row per trace, in the order of the corpus: ``trace`` (UInt32), ``trace_id``; ``n_agents``;
        ``peak_concurrency``, the most agents alive at one time; ``n_steps``, owned events other than
        messages, spawns and despawns; ``n_tool_calls``; ``depth`` of the tree of spawns, 0 without any (all
        UInt32); ``tokens`` (Float64), the sum over events where some event has them, else the recorded cost;
        ``wall_clock_s`` (Float64), from the least ``t`` to the largest ``t`` or ``t_end`` where times are in
        seconds, else the recorded cost; ``group_size`` (UInt32), traces of the corpus with this group_id. A
        cost of 0 is not told from one that nobody measured: both are null, and so is what is not recorded.

    Notes
    -----
    O(events log events). An agent lives from the first spawn that names it to its last return or despawn,
    else to the end; one that nobody spawned from its first to its last event; the root all the time; ends
    included. Owners, trees of spawns and groups: D4, D16 and D13 of ARCHITECTURE.md.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.scale import scale_of
    >>> corpus = ot.generate(traces=3, seed=0)
    >>> scale = scale_of(corpus)
    >>> scale["n_agents"].to_list() == corpus.traces.select("n_agents").collect()["n_agents"].to_list()
    True
    """
    groups = corpus.traces.select("trace", "group_id").collect(engine="streaming")
    sizes = groups.select("trace", group_size=pl.len().over("group_id"))
    pieces = [_of_piece(piece) for piece in corpus.slices()]
    if not pieces:
        return pl.DataFrame(schema=_SCALE)
    return (
        pl.concat(pieces)
        .join(sizes, on="trace", how="left", maintain_order="left")
        .select(pl.col(name).cast(dtype) for name, dtype in _SCALE.items())
    )


def _of_piece(corpus: Corpus) -> pl.DataFrame:
    columns = ("trace", "seq", "t", "t_end", "type", "agent", "to", "tokens", "tokens_in", "tokens_out")
    names = pl.col("agent", "to").cast(pl.String)
    events = corpus.events.select(columns).with_columns(names).collect()
    events = events.with_columns(owners(corpus)["owner"].cast(pl.String))
    traces = corpus.traces.select("trace", "trace_id", "n_agents", "time_basis").collect()
    told = pl.any_horizontal(pl.col("tokens", "tokens_in", "tokens_out").is_not_null())
    tokens = pl.coalesce("tokens", pl.col("tokens_in").fill_null(0) + pl.col("tokens_out").fill_null(0))
    counts = events.group_by("trace").agg(
        n_steps=(pl.col("owner").is_not_null() & ~pl.col("type").is_in(_NO_STEP)).sum(),
        n_tool_calls=(pl.col("type") == "tool_call").sum(),
        summed=pl.when(told.any()).then(tokens.filter(told).sum()),
        seconds=pl.max_horizontal(pl.col("t").max(), pl.col("t_end").max()) - pl.col("t").min(),
    )
    depth = corpus.agents.filter(pl.col("kind") == "agent").group_by("trace").agg(pl.col("depth").max())
    costs = corpus.measures.filter((pl.col("kind") == "cost") & (pl.col("value") > 0))
    named = pl.col("name").cast(pl.String)
    for frame in (
        counts,
        depth.collect(),
        peak_concurrency(events),
        costs.filter(named == "tokens").select("trace", cost="value").collect(),
        costs.filter(named == "wall_clock_s").select("trace", recorded="value").collect(),
    ):
        traces = traces.join(frame, on="trace", how="left", maintain_order="left")
    timed = pl.col("time_basis") == "seconds"
    return traces.with_columns(
        tokens=pl.coalesce(pl.col("summed").cast(pl.Float64), "cost"),
        wall_clock_s=pl.when(timed).then("seconds").otherwise("recorded"),
    ).drop("summed", "cost", "seconds", "recorded", "time_basis")


def peak_concurrency(events: pl.DataFrame) -> pl.DataFrame:
    """The most agents that are alive at one time, ``trace peak_concurrency``, by a sweep over lifetimes.

    `events` has ``trace seq t type agent to owner``. A trace in which nobody owns or is spawned has no row.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.scale import peak_concurrency
    >>> events = pl.DataFrame({"trace": [0, 0, 0], "seq": [0, 1, 2], "t": [0.0, 1.0, 2.0],
    ...     "type": ["spawn", "tool_call", "aggregate"], "agent": ["lead", "w", "lead"],
    ...     "to": ["w", None, None], "owner": ["lead", "w", "lead"]})
    >>> peak_concurrency(events).rows()
    [(0, 2)]
    """
    lives = _lifetimes(events)
    # ends are included: at one time, who begins is counted before who ends leaves
    begins = lives.select("trace", t="start", last=pl.lit(0), step=pl.lit(1))
    ends = lives.select("trace", t="end", last=pl.lit(1), step=pl.lit(-1))
    return (
        pl.concat([begins, ends])
        .sort("trace", "t", "last")
        .group_by("trace", maintain_order=True)
        .agg(peak_concurrency=pl.col("step").cum_sum().max())
    )


def _lifetimes(events: pl.DataFrame) -> pl.DataFrame:
    """``trace name start end`` of all owners and all spawned names."""
    key = ["trace", "name"]
    span = events.group_by("trace").agg(begin=pl.col("t").min(), finish=pl.col("t").max())
    owned = events.filter(pl.col("owner").is_not_null())
    acting = owned.group_by("trace", name="owner").agg(first=pl.col("t").min(), last=pl.col("t").max())
    # the user is nobody's agent; a comparison with null is null, and filters out who names nobody
    named = events.filter(pl.col("to") != "user")
    spawns = named.filter(pl.col("type") == "spawn")
    spawned = spawns.group_by("trace", name="to").agg(spawned=pl.col("t").min())
    returned = owned.filter(pl.col("type") == "return").select("trace", "t", name="owner")
    despawned = named.filter(pl.col("type") == "despawn").select("trace", "t", name="to")
    over = pl.concat([returned, despawned]).group_by(key).agg(over=pl.col("t").max())
    is_root = pl.col("name") == pl.col("root")
    end = pl.when(pl.col("spawned").is_null()).then("last").otherwise(pl.coalesce("over", "finish"))
    start = pl.coalesce("spawned", "first")
    return (
        acting.join(spawned, on=key, how="full", coalesce=True)
        .join(over, on=key, how="left")
        .join(span, on="trace", how="left")
        .join(_roots(owned), on="trace", how="left")
        .select(
            *key,
            start=pl.when(is_root).then("begin").otherwise(start),
            # a return that was recorded before the spawn leaves a moment
            end=pl.when(is_root).then("finish").otherwise(pl.max_horizontal(start, end)),
        )
    )


def _roots(owned: pl.DataFrame) -> pl.DataFrame:
    """``trace root``: who owns the first decision, else the first spawn, else the first owned event."""

    def first(kind: str) -> pl.Expr:
        return pl.col("owner").filter(pl.col("type") == kind).first()

    ordered = owned.sort("trace", "t", "seq")
    return ordered.group_by("trace", maintain_order=True).agg(
        root=pl.coalesce(first("orchestrator_decision"), first("spawn"), pl.col("owner").first())
    )
