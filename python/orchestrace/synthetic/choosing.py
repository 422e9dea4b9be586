"""Logged choices whose worth is known: a process of two states and two actions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
import polars as pl

from ..base.arguments import Chance, Integer, Seed, Size
from ..base.errors import ParameterError
from ..base.text import briefly
from ..base.verbs import verb

STATES: Final = ("easy", "hard")
ACTIONS: Final = ("no_spawn", "spawn")
HARD: Final = 0.4
"""The chance that a run begins in the hard state."""
#: By state and action: the chance of a reward of 1, and of a hard state next. Spawning pays where it is hard.
PAID: Final = np.array([[0.7, 0.6], [0.2, 0.6]])
HARD_NEXT: Final = np.array([[0.2, 0.3], [0.8, 0.4]])
#: By state: the chance with which the team that was recorded spawns.
SPAWNED: Final = np.array([0.3, 0.5])


@dataclass(frozen=True)
class ChoiceTruth:
    """The exact values of policies, in the mean over all runs that could be drawn.

    ``steps`` and ``end`` are those of `choices`.
    """

    steps: int
    end: float

    @property
    def recorded(self) -> float:
        """The worth of the policy that was recorded."""
        return self.value(dict(zip(STATES, SPAWNED.tolist(), strict=True)))

    @verb
    def value(self, spawn: Mapping[str, float], discount: float = 1.0) -> float:
        """The exact worth of a policy, by the chance that it spawns in each state.

        Raises
        ------
        ParameterError
            A state without a probability, or a number that is not a probability.

        Examples
        --------
        >>> import orchestrace as ot
        >>> _, truth = ot.synthetic.choices(runs=1)
        >>> round(truth.value({"easy": 0.0, "hard": 1.0}), 3)
        0.66
        """
        chances = [spawn.get(state) for state in STATES]
        for state, chance in zip(STATES, chances, strict=True):
            if isinstance(chance, bool) or not (isinstance(chance, int | float) and 0.0 <= chance <= 1.0):
                raise ParameterError(
                    f"spawn has {briefly(chance)} for the state '{state}', expected a chance from 0 to 1"
                )
        p = np.array(chances, dtype=np.float64)
        policy = np.stack([1.0 - p, p], axis=1)
        paid, hard = (policy * PAID).sum(axis=1), (policy * HARD_NEXT).sum(axis=1)
        worth = np.zeros(2)
        for _ in range(self.steps):
            later = (1.0 - hard) * worth[0] + hard * worth[1]
            worth = paid + discount * (1.0 - self.end) * later
        return float((1.0 - HARD) * worth[0] + HARD * worth[1])


@verb
def choices(
    runs: Size = 1000,
    *,
    steps: Annotated[int, Integer(1, 10_000)] = 1,
    end: Chance = 0.2,
    runs_per_task: Size = 5,
    seed: Seed = 0,
) -> tuple[pl.DataFrame, ChoiceTruth]:
    """Draw logged decisions to spawn, for which the worth of any other policy is known.

    Parameters
    ----------
    runs
        Runs, 1 or more.
    steps
        The most decisions of a run, at most 10,000.
    end
        The chance that a run ends after a decision.
    runs_per_task
        Runs that share a task; they are independent of each other all the same.
    seed
        The same seed draws the same bits.

    Returns
    -------
    tuple of DataFrame and ChoiceTruth
        A row per decision: ``trace seq`` (UInt32) ``trace_id task_id x_state action`` (String),
        ``p_behavior`` (Float64: the chance of the action that was drawn), ``p_actions`` (Struct: of each),
        ``reward`` (Float64: 0 or 1) and ``outcome`` (Float64: the sum of the run's rewards); and what
        policies are worth.

    Raises
    ------
    ParameterError
        A number out of range.

    Notes
    -----
    In the state ``hard`` spawning raises the chance of a reward from 0.2 to 0.6, in ``easy`` it lowers it
    from 0.7 to 0.6. State and action decide the chance that the next state is hard. O(runs * steps).

    Examples
    --------
    >>> import orchestrace as ot
    >>> decisions, truth = ot.synthetic.choices(runs=10, seed=0)
    >>> decisions.columns[:6]
    ['trace', 'trace_id', 'task_id', 'seq', 'x_state', 'action']
    >>> truth.value({"easy": 0.0, "hard": 1.0}) > truth.recorded
    True
    """
    runs, steps, runs_per_task, seed = (int(number) for number in (runs, steps, runs_per_task, seed))
    if runs * steps > 10**8:
        raise ParameterError(f"runs times steps is {runs * steps:,}, expected at most 100,000,000")
    rng = np.random.Generator(np.random.PCG64([seed, 2]))
    hard = (rng.random(runs) < HARD).astype(np.int64)
    alive = np.ones(runs, bool)
    parts = []
    for step in range(steps):
        drawn = rng.random((4, runs))
        action = (drawn[0] < SPAWNED[hard]).astype(np.int64)
        reward = (drawn[1] < PAID[hard, action]).astype(np.float64)
        run = np.flatnonzero(alive)
        parts.append(np.stack([run, np.full(len(run), step), hard[run], action[run], reward[run]]))
        hard = (drawn[2] < HARD_NEXT[hard, action]).astype(np.int64)
        alive &= drawn[3] >= end
        if not alive.any():
            break
    run, seq, state, action = (row.astype(np.int64) for row in np.concatenate(parts, axis=1)[:4])
    spawning = SPAWNED[state]
    frame = pl.DataFrame(
        {
            "trace": run.astype(np.uint32),
            "seq": seq.astype(np.uint32),
            "x_state": np.array(STATES)[state],
            "action": np.array(ACTIONS)[action],
            "p_behavior": np.where(action == 1, spawning, 1.0 - spawning),
            "no_spawn": 1.0 - spawning,
            "spawn": spawning,
            "reward": np.concatenate(parts, axis=1)[4],
        }
    ).sort("trace", "seq")
    frame = frame.with_columns(
        trace_id=pl.format("run-{}", "trace"),
        task_id=pl.format("task-{}", pl.col("trace") // runs_per_task),
        p_actions=pl.struct("no_spawn", "spawn"),
        outcome=pl.col("reward").sum().over("trace"),
    )
    columns = ("trace", "trace_id", "task_id", "seq", "x_state", "action", "p_behavior", "p_actions")
    return frame.select(*columns, "reward", "outcome"), ChoiceTruth(steps, float(end))
