"""Contexts of decisions: decisions in the same context are siblings."""

from typing import Any, Final, Literal

import polars as pl

from .. import _core
from ..base.arguments import Threads
from ..base.division import Division
from ..base.engines import RunBy
from ..base.progress import Progress, reporting
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.parts import store_of

_SCHEMA: Final[dict[str, Any]] = {
    "trace": pl.UInt32,
    "seq": pl.UInt32,
    "context": pl.String,
    "choice": pl.String,
    "role": pl.String,
    "assumed": pl.Boolean,
    "reason": CREDITS["reason"],
}


@verb(rows="a decision", division=Division())
def contexts(
    corpus: Corpus,
    *,
    context: Literal["auto", "recorded", "computed"] = "auto",
    engine: RunBy = None,
    threads: Threads = None,
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
        agent, addressee, tool and text key of everything that the actor can have seen: what it did itself,
        what reached it along edges, and what was addressed to it. ``auto`` takes the field in traces that
        have it.
    engine
        Who computes a corpus on disk, as in `credit`.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        A row per decision: ``trace seq`` (UInt32), ``context choice role`` (String), ``assumed`` (Boolean),
        ``reason``. Context and choice are hashes that do not depend on ids, times or the order of files.
        ``assumed`` is true if the recording does not say who heard a message before the decision: the context
        then holds it as if everybody had. Where the context is null, ``reason`` is ``field.absent`` (a text
        before the event has no key) or ``graph.cycle``. A choice is null if its text has no key.

    Raises
    ------
    ParameterError
        Unknown word for `context`.

    Notes
    -----
    An event that names an agent of the trace in ``to`` is heard at that agent's next event, unless an edge
    leads from it to an event of that agent. If a message, return or intervention names nobody and leads to
    nobody else's event, nobody heard it, provided that the trace says of others of this type which agent
    heard them; if the trace says so of none, everybody heard it (``assumed``). Events from outside of the
    team are another type in this; in a trace of one agent, that one hears them.

    O(events + edges). Texts themselves are never compared, but their keys (``content_hash``, else
    ``content_ref``; ``args_hash`` of calls). Source: C3, arXiv 2603.06859, for recordings.

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.decisions.contexts(ot.generate(traces=2, seed=0)).columns
    ['trace', 'seq', 'context', 'choice', 'role', 'assumed', 'reason']
    """
    with reporting(progress, "looking for siblings") as callback:
        frames = [
            pl.DataFrame(
                _core.contexts(store_of(load()), context=context, threads=threads, progress=callback)
            )
            for _, load in corpus.pieces()
        ]
    return pl.concat(frames) if frames else pl.DataFrame(schema=_SCHEMA)
