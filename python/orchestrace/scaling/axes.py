"""Axes of scale, and their values for the traces of a corpus."""

from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from .. import _core
from ..corpus.corpus import Corpus
from ..corpus.pieces import core_frames
from ..schedules.scheduling import timing_options


@dataclass(frozen=True)
class Axis:
    """One axis of scale.

    `columns` are the names under which a frame may have it, the first one found counts; `envelope` is the
    column of `list_envelopes` with published values; `offset` is added before the logarithm.
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

_GROUPS: Final = ("scale", "span", "stages")
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
        cost of 0 is not distinguished from one that nobody measured: both are null, and so is what is not
        recorded.

    Raises
    ------
    ParameterError
        `corpus` is not a corpus.

    Notes
    -----
    The metrics ``n_agents peak_concurrency total_steps n_tool_calls agent_depth tokens`` of `metrics`, but
    peak and depth are null where there is no agent. Two columns of `metrics` differ from these: its
    ``tokens`` are of events alone, null where no event has them, and its ``wall_clock_s`` is the recorded
    cost alone, 0 included, whatever the times of events say. O(events log events + edges). Owners, trees of
    spawns, lifetimes and groups: D4, D16, D19 and D13 of docs/reference/definitions.md.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.scaling.axes import scale_of
    >>> corpus = ot.generate(traces=3, seed=0)
    >>> scale = scale_of(corpus)
    >>> scale["n_agents"].to_list() == corpus.traces.select("n_agents").collect()["n_agents"].to_list()
    True
    """
    options = timing_options("auto", None, False)
    measured = core_frames(corpus, lambda store: _core.trace_metrics(store, _GROUPS, tools={}, **options))
    # a run in which nobody acts or is spawned has no peak, and without an agent there is no tree of spawns
    peak, n_agents = pl.col("peak_concurrency"), pl.col("n_agents")
    counted = measured.select(
        "trace",
        "trace_id",
        "n_agents",
        pl.when(peak > 0).then(peak).alias("peak_concurrency"),
        "n_tool_calls",
        n_steps="total_steps",
        depth=pl.when(n_agents > 0).then("agent_depth"),
        summed="tokens",
    )
    return (
        counted.join(_recorded(corpus), on="trace", how="left", maintain_order="left")
        .with_columns(tokens=pl.coalesce(pl.col("summed").cast(pl.Float64), "cost"))
        .select(pl.col(name).cast(dtype) for name, dtype in _SCALE.items())
    )


def _recorded(corpus: Corpus) -> pl.DataFrame:
    """``trace cost wall_clock_s group_size``: what no metric is."""
    last = pl.max_horizontal(pl.col("t").max(), pl.col("t_end").max())
    ends = corpus.events.group_by("trace").agg(seconds=last - pl.col("t").min())
    costs = corpus.measures.filter((pl.col("kind") == "cost") & (pl.col("value") > 0))
    named = pl.col("name").cast(pl.String)
    traces = corpus.traces.select("trace", "time_basis", group_size=pl.len().over("group_id"))
    for frame in (
        ends,
        costs.filter(named == "tokens").select("trace", cost="value"),
        costs.filter(named == "wall_clock_s").select("trace", recorded="value"),
    ):
        traces = traces.join(frame, on="trace", how="left")
    timed = pl.col("time_basis") == "seconds"
    return traces.select(
        "trace", "cost", "group_size", wall_clock_s=pl.when(timed).then("seconds").otherwise("recorded")
    ).collect(engine="streaming")
