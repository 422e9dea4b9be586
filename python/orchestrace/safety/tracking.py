"""Taint of recorded runs: the spread of untrusted content, and where it could have been stopped."""

from collections.abc import Iterable
from typing import Any, Final, Literal

import polars as pl

from .. import _core
from ..base.arguments import ColumnName, Threads
from ..base.division import Division
from ..base.engines import RunBy
from ..base.errors import ParameterError
from ..base.progress import Progress, reporting
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.names import TOOLS, expect_names, names_of, number_column, tools_by_trust, with_named_tools
from ..corpus.parts import store_of
from ..corpus.pieces import core_frames

Carry = Literal["all", "context", "safety_flow"]

OF_TOOLS: Final = Division(prepare=with_named_tools, narrowed=TOOLS)
"""A task is called with the names of tools that stand for patterns in the whole corpus."""


@verb(rows="a trace", division=OF_TOOLS)
def taint(
    corpus: Corpus,
    *,
    carry: Carry = "all",
    untrusted_tools: Iterable[str] = (),
    trusted_tools: Iterable[str] = (),
    privileged_tools: Iterable[str] = (),
    allow: Iterable[str] = (),
    probabilistic: tuple[float, float] | None = None,
    program_order: bool = False,
    engine: RunBy = None,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Follow untrusted content through every run: what it reached, how soon, and whether the outcome has it.

    Taint starts at events with ``trusted = false`` and at results of tools that you name untrusted. It
    follows the edges that carry it. It stops at barriers, which are never tainted themselves: sanitizers
    (``sanitizer = true``), human interventions and agents that you allow.

    Parameters
    ----------
    corpus
        The recordings.
    carry
        Which edges carry taint. ``"all"``: all types except temporal. ``"context"``: temporal edges too,
        since what an agent saw stays in its context. ``"safety_flow"``: only edges of that type.
    untrusted_tools, trusted_tools
        Tools whose results are untrusted, or trusted, whatever the recording says: names, or patterns such as
        ``"mcp__*"``. A tool in both is untrusted, so that ``untrusted_tools=["WebFetch"],
        trusted_tools=["*"]`` lets taint begin at no other tool.
    privileged_tools
        Tools whose calls are privileged, beside those that the recording says are: names or patterns.
    allow
        Agents that you trust to stop what reaches them.
    probabilistic
        ``(t, leak)``, both in 0..1: the probability that an edge carries taint, and that a barrier lets it
        through.
    program_order
        Join consecutive events of one owner by temporal edges; matters with ``carry="context"``.
    engine
        Who computes a corpus on disk, as in `credit`.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        A row per trace. Counts are UInt32, times and shares Float64, ids of events and names String.

        - ``trace trace_id task_id``
        - ``n_untrusted n_trust_unknown``: events with ``trusted = false``, and without the field; null where
          no event has it
        - ``n_seeds n_tainted taint_share``: where taint begins, barriers left out; what it reached, seeds
          included, and the share of all events
        - ``outcome``: the event that the team is paid for, null where that is behind all sinks;
          ``outcome_tainted`` (Boolean; of such a run, whether some sink is tainted), ``seeds_to_outcome``:
          seeds that reach it
        - ``n_tainted_lower outcome_tainted_lower``: the same over safety flows alone, a lower bound; null
          where a recording has the finding ``safety.conservative``, whose flows are an upper bound themselves
        - ``first_seed``; ``first_agent first_agent_event time_to_agent``: who owns the first tainted event
          that is no seed, and when that was
        - ``first_decision time_to_decision first_spawn time_to_spawn first_privileged_call
          time_to_privileged_call``: the first tainted decision, spawn, and privileged tool call;
          times count from the first seed, in the unit of ``t``
        - ``n_tainted_privileged``: tainted privileged tool calls; ``privileged_path`` (List of String): the
          events of a shortest way from a seed to the first of them
        - ``path`` (List of String): events of a shortest way from a seed to the outcome, or where that is
          clean to the first tainted decision, spawn or privileged call
        - ``taint_spread``: tainted events that a tainted one leads to, on average
        - ``sandbox_violations sandbox_crossings``: tainted edges between two agents that share a
          ``sandbox_id``, and such that lead from one sandbox into another; null where no event has one
        - ``outcome_probability expected_tainted``: chance that the outcome is tainted and expected number of
          tainted events, where `probabilistic` is given
        - ``reason``: why there is no closure: ``field.absent`` where nothing says what is trusted,
          ``graph.cycle``

    Raises
    ------
    ParameterError
        An unknown word or name, a pattern that no tool matches, or a number that is not a probability.

    Notes
    -----
    An upper bound: an edge says that an event led to another, not that the untrusted part went along.
    Probabilities take ways as independent of each other; with ``(1, 0)`` they are the closure. O(events +
    edges). Sources: Denning, CACM 19(5), 1976 (information flow); arXiv 2605.02801, section 6 (P12, P14).

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=8, seed=0)
    >>> table = ot.taint(corpus)
    >>> (table["n_tainted"] >= table["n_seeds"]).all()
    True
    >>> (table["n_tainted_lower"] <= table["n_tainted"]).all()
    True

    From the web, and from nowhere else, to a shell or a file:

    >>> table = ot.taint(
    ...     corpus,
    ...     untrusted_tools=["web.*", "browser.*"],
    ...     trusted_tools=["*"],
    ...     privileged_tools=["bash", "*.write"],
    ... )
    >>> table["n_tainted_privileged"].to_list()
    [1, 0, 0, 0, 0, 1, 0, 2]
    >>> table["privileged_path"][5].to_list()
    ['e5', 'e7']
    """
    rules = rules_of(
        corpus, carry, (untrusted_tools, trusted_tools, privileged_tools), allow, program_order, threads
    )
    rules["probabilistic"] = _chances(probabilistic)
    with reporting(progress, "following taint") as callback:
        return core_frames(corpus, lambda store: _core.taint(store, **rules, progress=callback))


@verb(rows="a tainted event", division=OF_TOOLS)
def tainted_events(
    corpus: Corpus,
    *,
    carry: Carry = "all",
    untrusted_tools: Iterable[str] = (),
    trusted_tools: Iterable[str] = (),
    privileged_tools: Iterable[str] = (),
    allow: Iterable[str] = (),
    probabilistic: tuple[float, float] | None = None,
    program_order: bool = False,
    engine: RunBy = None,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """List the events that `taint` reached.

    Parameters
    ----------
    corpus, carry, untrusted_tools, trusted_tools, privileged_tools, allow, probabilistic, program_order, \
engine, threads, progress
        As in `taint`.

    Returns
    -------
    DataFrame
        A row per tainted event, or with `probabilistic` per event that may be: ``trace`` (UInt32),
        ``trace_id``, ``seq`` (UInt32), ``event_id``, ``seed`` (Boolean), ``hops`` (UInt32: edges from the
        nearest seed), ``before`` (UInt32: ``seq`` of the event before on a shortest way; of several the
        first in time), ``source`` (String: the id of the seed that this way begins at), ``entry`` (Enum: the
        channel by which that seed came in, ``user tool agent memory verifier``, as in
        `safety.attack_vectors`; null where the recording does not say), ``tool`` (String), ``privileged``
        (Boolean: a privileged tool call), ``probability`` (Float64). ``hops`` is null for what is not tainted
        but may be. Traces without a closure have no row; `taint` says why.

    Raises
    ------
    ParameterError
        As in `taint`.

    Notes
    -----
    O(events + edges).

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=8, seed=0)
    >>> ot.safety.tainted_events(corpus).height == ot.taint(corpus)["n_tainted"].sum()
    True

    Which call was reached from which result of the web:

    >>> events = ot.safety.tainted_events(
    ...     corpus, untrusted_tools=["web.*"], trusted_tools=["*"], privileged_tools=["bash"]
    ... )
    >>> events.filter("privileged").select("source", "event_id", "tool").row(0)
    ('e13', 'e20', 'bash')
    """
    rules = rules_of(
        corpus, carry, (untrusted_tools, trusted_tools, privileged_tools), allow, program_order, threads
    )
    rules["probabilistic"] = _chances(probabilistic)
    with reporting(progress, "following taint") as callback:
        return core_frames(corpus, lambda store: _core.tainted_events(store, **rules, progress=callback))


@verb(rows="an event to clean", division=OF_TOOLS)
def sanitizer_cut(
    corpus: Corpus,
    *,
    cost: ColumnName | None = None,
    carry: Carry = "all",
    untrusted_tools: Iterable[str] = (),
    trusted_tools: Iterable[str] = (),
    allow: Iterable[str] = (),
    program_order: bool = False,
    engine: RunBy = None,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Find the events whose cleaning would have kept the outcome clean, at the least cost.

    Parameters
    ----------
    corpus
        The recordings.
    cost
        A column of ``events`` with what cleaning an event costs, at least 0 and not null; None is 1 each.
    carry, untrusted_tools, trusted_tools, allow, program_order, engine, threads, progress
        As in `taint`.

    Returns
    -------
    DataFrame
        A row per chosen event: ``trace`` (UInt32), ``trace_id``, ``seq`` (UInt32), ``event_id``, ``type``
        (Enum), ``agent`` (String), ``cost`` (Float64), ``reason``. A trace whose outcome is clean has no row.
        One that has no answer has a row with nulls and a reason: ``outcome.seed`` where the outcome itself is
        where taint begins, ``field.absent``, ``graph.cycle``.

    Raises
    ------
    ParameterError
        An unknown word or name, a column that is absent or not numeric, or a cost that is negative or null.

    Notes
    -----
    A minimum vertex cut between seeds and outcome by maximum flow (Dinic 1970; Menger 1927); of all minimum
    cuts the one nearest to the seeds. Seeds may be cut, the outcome not. It says where the recorded flow
    narrows; another run may flow elsewhere. O(edges √events) for costs of 1.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=8, seed=0)
    >>> cut, table = ot.safety.sanitizer_cut(corpus), ot.taint(corpus)
    >>> set(cut["trace"]) == set(table.filter("outcome_tainted")["trace"])
    True
    """
    rules = rules_of(corpus, carry, (untrusted_tools, trusted_tools, ()), allow, program_order, threads)
    with reporting(progress, "cutting") as callback:
        if cost is None:
            return core_frames(corpus, lambda store: _core.sanitizer_cut(store, **rules, progress=callback))
        cost = number_column("cost", cost, "events", corpus.events.collect_schema())
        frames = [core_frames(corpus.filter(False), lambda store: _core.sanitizer_cut(store, **rules))]
        for _, load in corpus.pieces():
            piece = load()
            costs = piece.events.select(pl.col(cost).cast(pl.Float64)).collect()
            stream = _core.sanitizer_cut(store_of(piece), costs=costs, **rules, progress=callback)
            frames.append(pl.DataFrame(stream))
        return pl.concat(frames)


def rules_of(
    corpus: Corpus,
    carry: str,
    tools: tuple[Iterable[str], Iterable[str], Iterable[str]],
    allow: Iterable[str],
    program_order: bool,
    threads: int | None,
) -> dict[str, Any]:
    """What the core takes, once every name is one that some trace has.

    Raises
    ------
    ParameterError
        An unknown name, or a pattern that no tool matches.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.safety.tracking import rules_of
    >>> rules_of(ot.generate(traces=8, seed=0), "all", (["web.*"], [], []), [], False, None)["tools"]
    {'untrusted': ['web.fetch'], 'trusted': [], 'privileged': []}
    """
    by_trust, agents = tools_by_trust(corpus, *tools), names_of("allow", allow)
    if agents:
        expect_names(corpus, "agent", agents)
    return {
        "carry": carry,
        "tools": by_trust,
        "allow": agents,
        "program_order": program_order,
        "threads": threads,
    }


def _chances(probabilistic: object) -> tuple[float, float] | None:
    if probabilistic is None:
        return None
    match probabilistic:
        case (int() | float() as t, int() | float() as leak):
            return float(t), float(leak)
    raise ParameterError(f"probabilistic is {probabilistic!r}, expected two probabilities: (t, leak)")
