"""Runs that another run begins with: data sets that keep a row per episode repeat what came before."""

from typing import Final

import polars as pl

from ..base.verbs import verb
from ..corpus.corpus import Corpus

CONTINUED: Final = pl.Schema(
    {
        "trace": pl.UInt32(),
        "trace_id": pl.String(),
        "group_id": pl.String(),
        "n_events": pl.UInt32(),
        "continued_by": pl.UInt32(),
        "n_more": pl.UInt32(),
    }
)
"""Columns and types of what `continued_runs` returns."""


@verb
def continued_runs(corpus: Corpus) -> pl.DataFrame:
    """List the runs whose whole content another run of their group begins with.

    Parameters
    ----------
    corpus
        The recordings, for the contents of their events (``content_ref``); runs are compared with those of
        their group (``group_id``, else ``task_id``).

    Returns
    -------
    DataFrame
        One row per run that goes on in another one, in order of trace: ``trace`` (UInt32) ``trace_id
        group_id`` (String) ``n_events`` (UInt32: its events that have a content) ``continued_by`` (UInt32:
        the longest run that begins with them, the first of several) ``n_more`` (UInt32: events with a content
        that it has beyond them). A run without contents is in no row, and runs that are equal do not continue
        each other.

    Raises
    ------
    ParameterError
        `corpus` is not a corpus.

    Notes
    -----
    Data sets that keep a row per episode, or per step of a rollout, repeat in each row what came before, so
    that messages and calls of a run count once per row. Without these rows each counts once:
    ``corpus.filter(~pl.col("trace").is_in(ot.evaluation.continued_runs(corpus)["trace"].to_list()))``.

    A run that broke off early and another attempt that began with the same contents look alike: of models
    without randomness, or where nothing but the question has a content. Look at ``n_events`` before you drop
    rows.

    Contents are compared by 64-bit hashes of their references along each run. O(events log events).

    Examples
    --------
    >>> import io, json
    >>> import orchestrace as ot
    >>> said = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    >>> more = [*said, {"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}]
    >>> rows = [{"messages": said, "task": "t"}, {"messages": more, "task": "t"}]
    >>> corpus = ot.read_traces(io.BytesIO("\\n".join(map(json.dumps, rows)).encode()))
    >>> ot.evaluation.continued_runs(corpus).select("trace", "n_events", "continued_by", "n_more").rows()
    [(0, 2, 1, 2)]
    """
    frames = [_of_piece(load()) for _, load in corpus.pieces()]
    return pl.concat([pl.DataFrame(schema=CONTINUED), *frames]).sort("trace")


def _of_piece(corpus: Corpus) -> pl.DataFrame:
    """Groups are whole in a piece."""
    traces = corpus.traces.select("trace", "trace_id", "group_id").collect()
    number = pl.int_range(pl.len(), dtype=pl.UInt32).over("trace")
    # a sum of hashes, each times the hash of its place, is of a sequence; sums wrap around
    beginnings = (
        corpus.events.filter(pl.col("content_ref").is_not_null())
        .sort("trace", "seq")
        .select("trace", n=number + 1, content=pl.col("content_ref").hash(1) * number.hash(2))
        .with_columns(beginning=pl.col("content").cum_sum().over("trace"))
        .select("trace", "n", "beginning")
        .collect()
        .join(traces.select("trace", "group_id"), on="trace")
    )
    ends = beginnings.group_by("trace").agg(n_all=pl.col("n").max())
    complete = beginnings.join(ends, on="trace").filter(pl.col("n") == pl.col("n_all"))
    longer = beginnings.join(ends, on="trace").filter(pl.col("n") < pl.col("n_all"))
    continued = (
        complete.select("trace", "group_id", "n", "beginning")
        .join(
            longer.select("group_id", "n", "beginning", continued_by="trace", n_other="n_all"),
            on=["group_id", "n", "beginning"],
        )
        .sort("trace", "n_other", "continued_by", descending=[False, True, False])
        .unique("trace", keep="first", maintain_order=True)
    )
    return (
        continued.join(traces, on=["trace", "group_id"], maintain_order="left")
        .with_columns(n_events="n", n_more=pl.col("n_other") - pl.col("n"))
        .select(pl.col(name).cast(dtype) for name, dtype in CONTINUED.items())
    )
