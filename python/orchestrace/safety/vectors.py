"""Attack vectors: by which way untrusted content came in, and what it reached."""

from collections.abc import Iterable

import polars as pl

from .. import _core
from ..base.arguments import Threads
from ..base.division import Arguments, Division
from ..base.engines import RunBy
from ..base.progress import Progress, reporting
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.names import TOOLS, expect_names, named_tools, names_of, with_named_tools
from ..corpus.pieces import core_frames
from .tracking import Carry, rules_of


def _prepared(corpus: Corpus, arguments: Arguments) -> Arguments:
    named = arguments.named
    memory = {name: named_tools(corpus, name, named[name]) for name in ("memory_tools",) if name in named}
    return with_named_tools(corpus, arguments).replacing(**memory)


@verb(
    rows="a trace and vector",
    division=Division(prepare=_prepared, narrowed=(*TOOLS, "memory_tools")),
)
def attack_vectors(
    corpus: Corpus,
    *,
    carry: Carry = "all",
    untrusted_tools: Iterable[str] = (),
    trusted_tools: Iterable[str] = (),
    privileged_tools: Iterable[str] = (),
    memory_tools: Iterable[str] = (),
    verifiers: Iterable[str] = (),
    allow: Iterable[str] = (),
    program_order: bool = False,
    engine: RunBy = None,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Say which of the survey's attack vectors AV1 to AV8 the taint of each run is a way of.

    A row says that untrusted content *could* have taken this way. It never says that somebody attacked.

    Parameters
    ----------
    corpus, carry, untrusted_tools, trusted_tools, privileged_tools, allow, program_order, engine, \
threads, progress
        As in `taint`.
    memory_tools
        Tools that read a memory, beside those whose name has the word ``memory`` or ``memories``: names or
        patterns.
    verifiers
        Agents that judge what others did, beside scorers and agents whose role, or name without one, has
        the word critic, evaluator, grader, judge, reviewer, scorer or verifier.

    Returns
    -------
    DataFrame
        Eight rows per trace: ``trace`` (UInt32), ``trace_id task_id`` (String), ``vector`` and ``name``
        (Enum), counts (UInt32), ids of events (String).

        - ``AV1 user_injection``, ``AV2 tool_output_injection``, ``AV3 message_pollution``,
          ``AV4 memory_poisoning``: taint came in by the user, a tool's result, a message of an agent that is
          itself untrusted, a memory. ``n_events``: events to which it leads
        - ``AV5 tool_parameter_escalation``: it reached privileged calls; ``AV6 orchestrator_misdirection``:
          decisions and spawns; ``AV7 reward_hacking``: events of those who judge; ``AV8 sandbox_escape``:
          events that it entered from another sandbox. ``n_events``: these
        - ``n_seeds``: events at which taint begins that leads there; one that leads nowhere does not count
        - ``n_events_lower``: ``n_events`` over exact safety flows alone, a lower bound; null where flows are
          conservative
        - ``first_event``: the first of the events; ``path`` (List of String): of AV1 to AV4 a shortest way to
          the outcome, or where that is clean of this channel to ``first_event``; of AV5 to AV8 one to
          ``first_event``. ``entry`` (Enum: ``user tool agent memory verifier``): the channel at which it
          begins, null where the recording does not say
        - ``reason``: why there are no numbers: ``field.absent`` where nothing says what is trusted; of AV1 to
          AV4 where none is seen and some taint came in by a way that the recording does not name; of AV5
          where no event says whether it is privileged and you name no tool; of AV7 where nobody judges in the
          recording; of AV8 where no event has a sandbox. ``graph.cycle``

    Raises
    ------
    ParameterError
        An unknown word or name, or a pattern that no tool matches.

    Notes
    -----
    An upper bound like `taint`, of which it reads the same closure. Content that a tool brought in and that
    one agent passes to another stays AV2: AV3 is where the message itself is untrusted. O(events + edges).
    Sources: arXiv 2605.02801, section 6 (AV1 to AV8, P12, P14); D40 of the definitions.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=8, seed=0)
    >>> table = ot.safety.attack_vectors(corpus, privileged_tools=["bash"])
    >>> table.filter(table["n_events"] > 0).group_by("vector").len().sort("vector").rows()
    [('AV2', 7), ('AV5', 4), ('AV6', 5), ('AV7', 1)]
    >>> taint = ot.taint(corpus, privileged_tools=["bash"])
    >>> table.filter(vector="AV5")["n_events"].to_list() == taint["n_tainted_privileged"].to_list()
    True
    """
    tools = (untrusted_tools, trusted_tools, privileged_tools)
    rules = rules_of(corpus, carry, tools, allow, program_order, threads)
    memory, judges = named_tools(corpus, "memory_tools", memory_tools), names_of("verifiers", verifiers)
    if judges:
        expect_names(corpus, "agent", judges)
    rules["channels"] = {"memory": memory, "verifiers": judges}
    with reporting(progress, "looking for attack vectors") as callback:
        return core_frames(corpus, lambda store: _core.attack_vectors(store, **rules, progress=callback))
