"""Seeded recordings whose truth is known: what each event contributed, who erred, when to stop."""

import io
import os
from dataclasses import dataclass
from typing import Annotated, Any, BinaryIO, Literal, overload

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from .. import _core
from ..base.arguments import Count, Finite, Integer, Number, Seed, Threads
from ..base.progress import Progress, reporting
from ..base.publication import published
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from .planted_game import PlantedGame, game_of

Outcome = Literal["linear", "noisy_or", "majority", "mixed"]
Effects = Literal["context", "action", "role", "tool"]
_Size = Annotated[int, Integer(0, 2**31 - 1)]
_Interaction = Annotated[float, Number(0, 1000)]
"""Beyond, sums of pair terms drown the effects, and at last overflow."""


@dataclass(frozen=True, repr=False)
class Truth:
    """The truth about a planted corpus; every frame begins with ``trace`` (u32) and ``trace_id`` (str).

    Attributes
    ----------
    contributions
        A row an event: ``seq`` (u32), ``contribution`` (f64), its exact Shapley value in the game of all
        events. In the additive linear model that is its effect, and the rows of a trace sum to the outcome;
        in every model they sum to ``v(all) - v(none)``, which is the outcome.
    agents
        A row an agent: ``agent`` (str), ``contribution`` (f64), the sum over its events, ``shapley`` (f64),
        its exact value in the game of agents; null for more than 12 agents under gates.
    decisive
        A row a trace: ``seq`` (u32), ``agent`` (str) and ``turn`` (u32) of the decisive error, null where
        there is none.
    stopping
        A row a trace: the best ``epoch`` (u32, from 1) and its ``payoff`` (f64), the ``recorded`` stop (u32)
        and its ``recorded_payoff`` (f64); null in a trace without epochs.
    outcomes
        A row a trace: the ``expected`` outcome before the first event, the ``outcome`` of all events, the
        ``noise`` that was added to it (f64). The reward ``team`` is ``outcome + noise``.
    decisions
        A row a planted decision; without ``spawn_effect`` there are none: ``seq`` (u32), ``kind`` (str,
        ``spawn``), the ``action`` taken (str, ``spawn`` or ``no_spawn``), the ``state`` (u32, 0 to 3) of the
        task, the probability ``p`` of ``spawn`` there, its ``effect`` on the expected outcome, and the
        expected outcome ``without`` it (f64). The mean of ``effect`` over all rows is the average effect,
        that over the rows that spawned the effect on the treated.
    effects
        A row an event that has one: ``seq`` (u32), its owner ``agent`` (str), its ``subtask`` (u32, from 0),
        its ``effect`` (f64) in the model, after scaling.
    pairs
        A row a pair term: ``first`` and ``second`` (u32, events), ``weight`` (f64).
    model
        The model of the outcome: the option ``outcome``.
    """

    contributions: pl.DataFrame
    agents: pl.DataFrame
    decisive: pl.DataFrame
    stopping: pl.DataFrame
    outcomes: pl.DataFrame
    decisions: pl.DataFrame
    effects: pl.DataFrame
    pairs: pl.DataFrame
    model: str

    def __repr__(self) -> str:
        frames = {name: value for name, value in vars(self).items() if isinstance(value, pl.DataFrame)}
        rows = (
            f"  {name:<13} {frame.height:>9,}  {', '.join(frame.columns)}" for name, frame in frames.items()
        )
        return "\n".join([f"Truth of a planted corpus, model '{self.model}'; rows and columns:", *rows])

    @verb
    def game(self, trace_id: str, unit: Literal["agent", "event"] = "agent") -> "PlantedGame":
        """Make the exact outcome of a run a function of who takes part.

        Parameters
        ----------
        trace_id
            Which run.
        unit
            Who the players are: its agents, in the order of `agents`, or its events, by ``seq``.

        Returns
        -------
        PlantedGame
            A callable over masks ``(m, n)`` of bool, which returns ``(m,)`` float64 in units of the reward,
            with ``players`` for the n columns.

        Raises
        ------
        ParameterError
            No run has the ``trace_id``, or another unit.

        Notes
        -----
        O(m n) a call. Its exact Shapley values are ``agents.shapley``, and ``contributions`` for events.

        Examples
        --------
        >>> import numpy as np
        >>> import orchestrace as ot
        >>> corpus, truth = ot.synthetic.planted(traces=2, agents=2, seed=1)
        >>> game = truth.game("run-00000001")
        >>> game.players
        ['orchestrator', 'researcher_1']
        >>> alone = game(np.array([[True, False]]))[0]
        >>> bool(abs(alone - truth.agents["contribution"][2]) < 1e-12)
        True
        """

        return game_of(self, trace_id, None, unit)

    @verb
    def value(self, masks: "ArrayLike", game: Any) -> "NDArray[np.float64]":
        """Play the game of a run among players that somebody else lists: for methods that call a function of
        coalitions run by run.

        Parameters
        ----------
        masks
            ``(m, n)``, bool: which players take part.
        game
            What says whose game it is, by ``trace_id`` and ``players``: names of all agents of the run, in
            any order.

        Returns
        -------
        ndarray
            ``(m,)``, float64, the outcome of each coalition in units of the reward.

        Raises
        ------
        ParameterError
            The players are not the agents of the run.

        Notes
        -----
        O(m n) a call, and O(events) to find the run.

        Examples
        --------
        >>> import numpy as np
        >>> import orchestrace as ot
        >>> corpus, truth = ot.synthetic.planted(traces=2, agents=2, seed=1)
        >>> float(truth.value(np.zeros((1, 2), bool), truth.game("run-00000001"))[0])
        0.0
        """

        return game_of(self, game.trace_id, game.players, "agent")(masks)


@overload
def planted(
    path: None = None,
    *,
    traces: Count = 128,
    seed: Seed = 0,
    agents: _Size = 5,
    events: _Size = 20,
    length: _Size | None = None,
    length_spread: Finite = 0.0,
    depth: _Size = 2,
    branching: _Size = 3,
    topology: str | None = None,
    outcome: Outcome = "linear",
    effects: Effects = "context",
    interaction: _Interaction = 0.0,
    density: Finite = 0.2,
    actions: _Size = 3,
    group_size: _Size = 8,
    branches: _Size = 1,
    noise: Finite = 0.1,
    decisive: Finite = 0.25,
    value_noise: Finite = 0.0,
    dense: bool = False,
    stop_cost: Finite = 0.0,
    spawn_effect: Finite | None = None,
    spawn_overlap: Finite = 0.2,
    spawn_confounding: Finite = 1.0,
    overwrite: bool = False,
    threads: Threads = None,
    progress: Progress = None,
) -> tuple[Corpus, Truth]: ...
@overload
def planted(
    path: str | os.PathLike[str] | BinaryIO,
    *,
    traces: Count = 128,
    seed: Seed = 0,
    agents: _Size = 5,
    events: _Size = 20,
    length: _Size | None = None,
    length_spread: Finite = 0.0,
    depth: _Size = 2,
    branching: _Size = 3,
    topology: str | None = None,
    outcome: Outcome = "linear",
    effects: Effects = "context",
    interaction: _Interaction = 0.0,
    density: Finite = 0.2,
    actions: _Size = 3,
    group_size: _Size = 8,
    branches: _Size = 1,
    noise: Finite = 0.1,
    decisive: Finite = 0.25,
    value_noise: Finite = 0.0,
    dense: bool = False,
    stop_cost: Finite = 0.0,
    spawn_effect: Finite | None = None,
    spawn_overlap: Finite = 0.2,
    spawn_confounding: Finite = 1.0,
    overwrite: bool = False,
    threads: Threads = None,
    progress: Progress = None,
) -> tuple[dict[str, int], Truth]: ...
@verb
def planted(
    path: str | os.PathLike[str] | BinaryIO | None = None,
    *,
    traces: Count = 128,
    seed: Seed = 0,
    agents: _Size = 5,
    events: _Size = 20,
    length: _Size | None = None,
    length_spread: Finite = 0.0,
    depth: _Size = 2,
    branching: _Size = 3,
    topology: str | None = None,
    outcome: Outcome = "linear",
    effects: Effects = "context",
    interaction: _Interaction = 0.0,
    density: Finite = 0.2,
    actions: _Size = 3,
    group_size: _Size = 8,
    branches: _Size = 1,
    noise: Finite = 0.1,
    decisive: Finite = 0.25,
    value_noise: Finite = 0.0,
    dense: bool = False,
    stop_cost: Finite = 0.0,
    spawn_effect: Finite | None = None,
    spawn_overlap: Finite = 0.2,
    spawn_confounding: Finite = 1.0,
    overwrite: bool = False,
    threads: Threads = None,
    progress: Progress = None,
) -> tuple[Corpus | dict[str, int], Truth]:
    """Make a corpus with planted contributions, and the truth about it.

    Parameters
    ----------
    path
        File or binary file object that takes the native JSONL. ``None`` returns the corpus itself.
    traces, seed
        How many traces; any integer from 0 to 2⁶³ - 1. Fewer traces are the beginning of more.
    agents, events
        Team size, the root included, and events per agent of the team: each trace has exactly
        ``agents * events``. A run too short to spawn the whole team has a smaller one.
    length
        Events of each trace in all, 1 to 200,000, instead of ``agents * events``: lengths that no team
        divides. None leaves it to `events`.
    length_spread
        How far the number of events may be from that, as a share of it, 0 to 1: uniform, one length for all
        rollouts of a task, so that the beginnings that they share are the same.
    depth, branching
        How deep spawns nest below the root, how many agents one delegation starts: at most, both.
    topology
        One of the schema's eight, for all tasks; ``None`` gives tasks the eight in turn.
    outcome, interaction
        How effects make the outcome (notes), and the weight of pair terms in it, 0 to 1000.
    effects
        What an effect depends on. ``context``: on everything before the event, so that nothing which comes
        back in other runs predicts it. ``action``: which option is good, everywhere. ``role``: the same, for
        each role by itself. ``tool``: the tool of a call. Each has the same size on average.
    density, actions
        Share of events with an effect, 0 to 1; actions of an agent's policy, 2 to 5.
    group_size, branches
        Rollouts per task, in a row, which share beginnings, and how often a group forks: once into single
        rollouts, or into blocks that fork again.
    noise, value_noise
        Standard deviations, normal: added to the reward ``team``, and to ``value``.
    decisive
        Share of traces with one decisive error, 0 to 1.
    dense
        Whether events have the field ``reward``.
    stop_cost
        What a token costs in ``draft_score``, for the best place to stop.
    spawn_effect, spawn_overlap, spawn_confounding
        Plants one decision to spawn in each run (notes): its mean effect, -1000 to 1000, or None for no such
        decision; the least probability of either choice, 0 to 0.5; how much better or worse than the mean the
        best and the worst state are anyway, 0 to 1000. Only with the outcome ``linear``.
    overwrite
        Replace a file that exists.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    (Corpus, Truth) or (dict, Truth)
        The corpus, with a path what was written as counts; and the truth.

    Raises
    ------
    ParameterError
        An option out of its range, or an unknown topology or outcome.
    InputError
        The file exists and `overwrite` is false, or it cannot be written.

    Notes
    -----
    *Effects.* An answer of an agent is a decision: in its context a policy has ``p_actions``, and ``action``
    is logged with its ``p_behavior``. If it matters, the effects of its actions have mean 0 and mean size 1/2
    under the policy. Every other event that matters has an effect of 0.2 to 0.8, either sign. A decisive
    error costs 2.

    *Outcomes.* ``linear``: the sum of effects. The others scale effects to the length of the run and join
    them by gates: a subtask is solved to the degree that any success is enough for (noisy-or) and any failure
    may spoil. ``noisy_or`` has one subtask, ``majority`` three, of which most must be solved, ``mixed`` five:
    both of two, or most of three; there a decisive error leaves a tenth. ``interaction`` adds
    ``± interaction`` times the mean size of two effects, for pairs of consecutive effects of two agents.

    *Ties.* Under ``effects="action"``, ``"role"`` and ``"tool"`` the effects of a context are numbers of the
    whole corpus (of an action; of a role and an action; of a tool), less their mean in that context and
    scaled: the next event still has the mean effect 0, so ``value`` stays exact. What is not tied (events
    without an action; under ``tool`` all but calls) keeps the effects of its context.

    *Spawning.* A task is in one of four states x, each equally likely, ``state_key`` of the first event.
    There the root has the actions ``no_spawn`` and ``spawn``, the latter with probability
    ``spawn_overlap + (1 - 2 spawn_overlap) x/3``, in ``p_actions``. The first event is worth
    ``spawn_confounding (2x/3 - 1)``, and ``spawn_effect (1/2 + x/3)`` more if it spawned; who did not,
    works alone. So the difference of means is not the effect. With ``spawn_overlap=0`` two states have no
    overlap.

    *Siblings.* Two rollouts of a group have a ``prefix_key`` in common exactly as long as they were
    identical. A group forks at a decision that matters: same policy, same effects, an action for each block.
    What comes later is independent between blocks.

    *Fields.* ``value`` is the expected outcome before the event, over tasks and policies; ``reward`` the
    change of it by the event. ``draft_score``, at decisions of an orchestrator and aggregates, rises to a
    peak and falls; the best epoch is the first with the highest ``draft_score - stop_cost * tokens`` so far.
    Noise, latencies and token counts are independent of effects.

    Time is linear in events, plus 2ⁿ for the Shapley values of n ≤ 12 agents under gates. One seed gives the
    same bytes and the same truth on any number of threads.

    Source: multilinear extensions, Owen (1972), for Shapley values; the model is this project's own.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> corpus, truth = ot.synthetic.planted(traces=16, seed=1)
    >>> sums = truth.contributions.group_by("trace").agg(pl.col("contribution").sum())
    >>> both = sums.join(truth.outcomes, on="trace")
    >>> bool(((both["contribution"] - both["outcome"]).abs() < 1e-9).all())
    True
    """
    integers: dict[str, Any] = {
        "traces": traces,
        "seed": seed,
        "agents": agents,
        "events": events,
        "depth": depth,
        "branching": branching,
        "actions": actions,
        "group_size": group_size,
        "branches": branches,
    }
    real: dict[str, Any] = {
        "interaction": interaction,
        "density": density,
        "noise": noise,
        "decisive": decisive,
        "value_noise": value_noise,
        "stop_cost": stop_cost,
        "length_spread": length_spread,
    }
    spawning: dict[str, Any] = {
        "spawn_effect": 0.0 if spawn_effect is None else spawn_effect,
        "spawn_overlap": spawn_overlap,
        "spawn_confounding": spawn_confounding,
    }
    memory = io.BytesIO()
    target = memory if path is None else path
    with published(target, overwrite=overwrite) as sink, reporting(progress, "generating") as callback:
        counts, tables = _core.generate_planted(
            sink,
            **integers,
            **real,
            length=length,
            topology=topology,
            outcome=outcome,
            effects=effects,
            dense=dense,
            spawn=None if spawn_effect is None else tuple(spawning.values()),
            threads=threads,
            progress=callback,
        )
    truth = Truth(**{name: pl.DataFrame(stream) for name, stream in tables.items()}, model=outcome)
    if path is not None:
        return counts, truth
    memory.seek(0)
    return Corpus(_core.read([memory], format="native", threads=threads)), truth
