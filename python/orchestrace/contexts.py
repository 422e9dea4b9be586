"""What actors had seen when they decided: decisions that share it are siblings."""

from typing import Literal

import polars as pl

from . import _core
from .agreement import check_corpus
from .corpus import Corpus, check_numbers
from .progress import Progress, reporting

_SCHEMA = {
    "trace": pl.UInt32,
    "seq": pl.UInt32,
    "context": pl.String,
    "choice": pl.String,
    "role": pl.String,
}


def contexts(
    corpus: Corpus,
    *,
    context: Literal["auto", "recorded", "computed"] = "auto",
    threads: int | None = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Find the context and the choice of every decision, as the method ``c3`` compares them.

    Decisions are the orchestrator decisions, messages, returns, spawns, tool calls and aggregates that an
    agent owns. Two decisions of one rollout group are siblings if they share ``context`` and ``role``; they
    are the same candidate if they share ``choice``, too.

    Parameters
    ----------
    corpus
        The recordings.
    context
        ``recorded`` takes the field ``prefix_key``. ``computed`` hashes the causal history: task, and type,
        agent, addressee, tool and text key of everything that the actor can have seen. ``auto`` takes the
        field in traces that have it.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        A row per decision: ``trace seq`` (UInt32), ``context choice role`` (String). Context and choice are
        hashes that do not hang on ids, times or the order of files; null where a text has no key, where the
        history before the event has such a text, and in traces with a cycle.

    Raises
    ------
    ParameterError
        Unknown word for `context`.

    Notes
    -----
    O(events + edges). Texts themselves are never compared, but their keys (``content_hash``, else
    ``content_ref``; ``args_hash`` of calls). Source: C3, arXiv 2603.06859, for recordings.

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.contexts(ot.generate(traces=2, seed=0)).columns
    ['trace', 'seq', 'context', 'choice', 'role']
    """
    check_corpus(corpus)
    check_numbers(threads=threads)
    with reporting(progress, "looking for siblings") as callback:
        frames = [
            pl.DataFrame(_core.contexts(load()._store, context=context, threads=threads, progress=callback))
            for _, load in corpus.pieces()
        ]
    return pl.concat(frames) if frames else pl.DataFrame(schema=_SCHEMA)


def without_order(corpus: Corpus, context: str) -> pl.Series:
    """Traces whose contexts would have to be computed, but have no order to compute them by.

    Parameters
    ----------
    corpus
        In memory or on disk.
    context
        As in `contexts`: a recorded context needs no order.

    Returns
    -------
    Series
        ``trace`` (UInt32), each once, ascending: the reason of what is null there is ``graph.cycle``.

    Notes
    -----
    Edges and the order in which agents acted contradict each other there; the finding ``graph.cycle`` is
    about edges alone, and would not do. O(events + edges).

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.contexts import without_order
    >>> without_order(ot.generate(traces=2, seed=0), "auto").to_list()
    []
    """
    from .schedule import scaling_curve

    if context == "recorded":
        return pl.Series("trace", dtype=pl.UInt32)
    curve = scaling_curve(corpus, slots=[None], program_order=True)  # a row for each trace
    cyclic = curve.filter(pl.col("reason").cast(pl.String) == "graph.cycle").select("trace")
    if context == "auto" and cyclic.height:
        recorded = (
            corpus.events.filter(pl.col("prefix_key").is_not_null())
            .select(pl.col("trace").cast(pl.UInt32))
            .unique()
            .collect(engine="streaming")
        )
        cyclic = cyclic.join(recorded, on="trace", how="anti")
    return cyclic["trace"].sort()
