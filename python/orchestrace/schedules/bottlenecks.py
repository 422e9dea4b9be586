"""Bottlenecks of runs: critical path, drag, dominators, concurrency."""

from typing import Any, Final, Literal

import polars as pl

from .. import _core
from ..base.arguments import Threads
from ..base.progress import Progress, reporting
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.owners import owners
from ..corpus.pieces import core_frames
from .scheduling import Durations, MaxGap, simulate, timing_options

Key = Literal["agent", "type", "tool"]
_KEYS: Final = ("agent", "type", "tool")
_COLUMNS: Final = {
    "trace": pl.UInt32(),
    "trace_id": pl.String(),
    "critical": pl.Float64(),
    "off_path": pl.Float64(),
    "share": pl.Float64(),
    "n_critical": pl.UInt32(),
    "n_events": pl.UInt32(),
    "unit": pl.Enum(["seconds", "steps"]),
    "reason": CREDITS["reason"],
}


def _order(by: Key) -> list[str]:
    return ["trace", "trace_id", by, *(name for name in _COLUMNS if not name.startswith("trace"))]


@verb
def critical_path(
    corpus: Corpus,
    *,
    by: Key = "agent",
    durations: Durations = "auto",
    max_gap: MaxGap = "auto",
    program_order: bool = False,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Divide the span of every trace among the agents, event types or tools of its critical path.

    Parameters
    ----------
    corpus
        The recordings.
    by
        Owner, type or tool of the events.
    durations, max_gap, program_order, threads, progress
        As in `simulate`.

    Returns
    -------
    DataFrame
        A row per trace and key: ``trace`` (UInt32), ``trace_id`` (String), the key (String; null for what has
        none), ``critical`` and ``off_path`` (Float64, in ``unit``: durations of its events on and off the
        path), ``share`` (Float64, 0..1: ``critical`` over the span; null where the span is 0), ``n_critical
        n_events`` (UInt32), ``unit``. The ``critical`` of a trace add up to its span. A trace without a
        schedule is one row of nulls with its ``reason``.

    Raises
    ------
    ParameterError
        Unknown word for `by`, or for `durations`.

    Notes
    -----
    O(events + edges). Source: Kelley and Walker 1959; docs/reference/definitions.md, D8.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=2, seed=0)
    >>> path = ot.schedules.critical_path(corpus, by="type")
    >>> span = ot.metrics(corpus, groups=["span"])["span"]
    >>> sums = path.group_by("trace", maintain_order=True).agg(pl.col("critical").sum())["critical"]
    >>> bool(((sums - span).abs() < 1e-9 * span).all())
    True
    """
    options = {**timing_options(durations, max_gap, program_order), "threads": threads}
    with reporting(progress, "measuring") as callback:
        parts = [_of_piece(piece, by, {**options, "progress": callback}) for piece in corpus.slices()]
    return pl.concat([pl.DataFrame(schema={**_COLUMNS, by: pl.String()}).select(_order(by)), *parts])


def _of_piece(corpus: Corpus, by: Key, options: dict[str, Any]) -> pl.DataFrame:
    times = simulate(corpus, **options)
    if by == "agent":
        keys = owners(corpus).select("trace", "seq", pl.col("owner").cast(pl.String).alias(by))
    else:
        keys = corpus.events.select("trace", "seq", pl.col(by).cast(pl.String)).collect(engine="streaming")
    on_path, duration = pl.col("critical"), pl.col("duration")
    refused = pl.col("duration").is_null()
    rows = (
        times.join(keys, on=["trace", "seq"], how="left", maintain_order="left")
        # what has no schedule is one row of its trace
        .with_columns(pl.when(~refused).then(by).alias(by))
        .group_by("trace", by, maintain_order=True)
        .agg(
            n_critical=pl.when(~refused.any()).then(on_path.sum()).cast(pl.UInt32),
            n_events=pl.when(~refused.any()).then(pl.len()).cast(pl.UInt32),
            off_path=pl.when(~refused.any()).then(duration.filter(~on_path).sum()),
            critical=pl.when(~refused.any()).then(duration.filter(on_path).sum()),
            unit=pl.col("unit").first(),
            reason=pl.col("reason").first(),
        )
    )
    span = pl.col("critical").sum().over("trace")
    names = corpus.traces.select("trace", "trace_id").collect(engine="streaming")
    return (
        rows.with_columns(share=pl.when(span > 0).then(pl.col("critical") / span))
        .join(names, on="trace", how="left", maintain_order="left")
        .select(
            "trace",
            "trace_id",
            by,
            "critical",
            "off_path",
            "share",
            "n_critical",
            "n_events",
            "unit",
            "reason",
        )
    )


@verb
def drag(
    corpus: Corpus,
    *,
    durations: Durations = "auto",
    max_gap: MaxGap = "auto",
    program_order: bool = False,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Measure for every event of the critical path how much sooner the run would end if it took no time.

    Parameters
    ----------
    corpus
        The recordings.
    durations, max_gap, program_order, threads, progress
        As in `simulate`.

    Returns
    -------
    DataFrame
        A row per event of a critical path, in order of time: ``trace`` (UInt32), ``trace_id``, ``seq``
        (UInt32), ``event_id`` (String), ``duration drag`` (Float64, in the ``time_unit`` of `metrics`). Off
        the path drag is 0, and no row; a trace without a schedule has none.

    Notes
    -----
    drag(v) = T∞ - T∞ with d(v) = 0, at most d(v): what runs beside v on a path nearly as long bounds it.
    Exact, O(E log E) for a trace. Source: S. A. Devaux, The drag efficient, 2012.

    Examples
    --------
    >>> import orchestrace as ot
    >>> rows = ot.schedules.drag(ot.generate(traces=2, seed=0))
    >>> bool((rows["drag"] <= rows["duration"] + 1e-9).all())
    True
    """
    options = {**timing_options(durations, max_gap, program_order), "threads": threads}
    with reporting(progress, "measuring") as callback:
        return core_frames(corpus, lambda store: _core.drag(store, **options, progress=callback))


@verb
def dominators(
    corpus: Corpus, *, program_order: bool = False, threads: Threads = None, progress: Progress = None
) -> pl.DataFrame:
    """List the events that every path to the outcome passes: those that a run could not do without.

    Parameters
    ----------
    corpus
        The recordings.
    program_order
        Join consecutive events of one owner by temporal edges.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        A row per event, first to last: ``trace`` (UInt32), ``trace_id``, ``seq`` (UInt32), ``event_id``
        (String). The outcome is one of them. A trace without an outcome event, or with a cycle, has no row.

    Notes
    -----
    Over the recorded edges, from the only source, or from a virtual root where there are several. O(events +
    edges). Source: Lengauer and Tarjan, ACM TOPLAS 1(1), 1979.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=4, seed=0)
    >>> counts = ot.metrics(corpus, groups=["dominators"])["n_dominators"]
    >>> ot.schedules.dominators(corpus).height == counts.sum()
    True
    """
    options: dict[str, Any] = {"program_order": program_order, "threads": threads}
    with reporting(progress, "measuring") as callback:
        return core_frames(corpus, lambda store: _core.dominators(store, **options, progress=callback))


@verb
def concurrency_profile(
    corpus: Corpus, *, threads: Threads = None, progress: Progress = None
) -> pl.DataFrame:
    """Count the agents that are present from moment to moment.

    Parameters
    ----------
    corpus
        The recordings.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        A row per trace and moment at which somebody comes or goes: ``trace`` (UInt32), ``trace_id`` (String),
        ``t`` (Float64, in the trace's own time), ``present`` (UInt32: agents whose lifetime holds ``t``) and
        ``after`` (UInt32: agents that are there until the next moment).

    Notes
    -----
    Lifetimes are closed intervals: from the first spawn that names an agent to its last return or despawn,
    else to the end; the root's is the whole trace (docs/reference/definitions.md, D19). The greatest
    ``present`` is the metric ``peak_concurrency``. O(events + a log a) for a agents.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=2, seed=0)
    >>> profile = ot.schedules.concurrency_profile(corpus)
    >>> peaks = profile.group_by("trace", maintain_order=True).agg(pl.col("present").max())["present"]
    >>> peaks.to_list() == ot.metrics(corpus, groups=["span"])["peak_concurrency"].to_list()
    True
    """
    with reporting(progress, "measuring") as callback:
        lives = core_frames(corpus, lambda store: _core.lifetimes(store, threads=threads, progress=callback))
    of = lives.select("trace", "trace_id", "present_from", "present_to")
    comes = of.select("trace", "trace_id", t="present_from", comes=pl.lit(1), goes=pl.lit(0))
    goes = of.select("trace", "trace_id", t="present_to", comes=pl.lit(0), goes=pl.lit(1))
    moments = (
        pl.concat([comes, goes])
        .group_by("trace", "trace_id", "t", maintain_order=True)
        .agg(pl.col("comes", "goes").sum())
        .sort("trace", "t")
    )
    after = (pl.col("comes") - pl.col("goes")).cum_sum().over("trace")
    return moments.with_columns(after=after).select(
        "trace",
        "trace_id",
        "t",
        (pl.col("after") + pl.col("goes")).cast(pl.UInt32).alias("present"),
        pl.col("after").cast(pl.UInt32),
    )
