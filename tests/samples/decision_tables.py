"""Simulated tables of decisions with an effect that is known."""

import numpy as np
import polars as pl

import orchestrace as ot


def table(
    rng: np.random.Generator,
    *,
    tasks: int = 40,
    rollouts: int = 6,
    decisions: int = 5,
    effect: float = 0.5,
    spread: float = 0.5,
    difficulty: float = 1.0,
    confounding: float = 0.0,
    contexts: bool = False,
) -> pl.DataFrame:
    """Rollouts of tasks: outcome = difficulty of the task + (effect ± spread of it) * treated decisions.

    Harder tasks are treated less often. With `confounding` deeper decisions are treated more often, and
    depth adds to the outcome by itself. With `contexts` decisions at one place of a task are siblings.
    """
    n = tasks * rollouts * decisions
    task = np.repeat(np.arange(tasks), rollouts * decisions)
    trace = np.repeat(np.arange(tasks * rollouts), decisions)
    place = np.tile(np.arange(decisions), tasks * rollouts)
    level = rng.normal(size=tasks) * difficulty
    depth = rng.integers(0, 3, size=n)
    odds = -0.4 + (0.8 * np.sign(level)[task] if difficulty else 0.0) + confounding * (depth - 1)
    treated = rng.random(n) < 1.0 / (1.0 + np.exp(-odds))
    own = effect + spread * rng.normal(size=tasks)
    added = own[task] * treated + (0.7 * depth if confounding else 0.0)
    outcome = np.repeat(level, rollouts) + np.bincount(trace, weights=added)
    outcome += 0.5 * rng.normal(size=tasks * rollouts)
    names = [f"{t}-{p}-{d}" if contexts else None for t, p, d in zip(task, place, depth, strict=True)]
    return pl.DataFrame(
        {
            "trace": trace,
            "trace_id": [f"run {t:05}" for t in trace],
            "task_id": [f"task {t:04}" for t in task],
            "group_id": [f"task {t:04}" for t in task],
            "role": "worker",
            "context": pl.Series(names, dtype=pl.String),
            "assumed": False,
            "treated": treated,
            "reward": outcome[trace],
            "position": place,
            "step": np.floor(np.log2(1 + place)).astype(np.int64),
            "tokens_before": place * 100,
            "budget": 0,
            "depth": depth,
            "n_tools": 0,
            "n_agents": 1,
            "tools": 0,
        }
    )


def told_choices(rng: np.random.Generator, told: str, *, tasks: int = 30, rollouts: int = 12) -> ot.Corpus:
    """Runs in which a scout tells a worker what it saw, and the worker chooses a tool by that.

    A good clue is worth 1 by itself and makes the worker take the fast tool in 7 of 10 runs, a bad one in 3;
    the tool adds 0.5. `told` is how the recording says who heard the clue: by an ``edge``, by ``to``, or in
    no way (``nothing``).
    """
    n = tasks * rollouts
    good = rng.random(n) < 0.5
    fast = rng.random(n) < np.where(good, 0.7, 0.3)
    level = np.repeat(rng.normal(size=tasks), rollouts)
    outcome = level + good + 0.5 * fast + 0.5 * rng.normal(size=n)
    trace = np.arange(n)
    clue = pl.DataFrame({"trace": trace, "type": "message", "agent": "scout", "role": "scout"}).with_columns(
        to=pl.lit("worker" if told == "to" else None, pl.String),
        content_hash=pl.Series(np.where(good, "good", "bad")),
        id=pl.lit("clue"),
        t=0.0,
    )
    choice = pl.DataFrame({"trace": trace, "type": "tool_call", "agent": "worker", "role": "worker"})
    choice = choice.with_columns(
        tool=pl.Series(np.where(fast, "fast", "slow")), args_hash=pl.lit("same"), id=pl.lit("choice"), t=1.0
    )
    answer = choice.drop("tool", "args_hash").with_columns(
        type=pl.lit("return"), to=pl.lit("user"), content_hash=pl.lit("done"), id=pl.lit("answer"), t=2.0
    )
    edges = {"src": 1, "dst": 2} | ({"src": 0, "dst": 1} if told == "edge" else {})
    return ot.Corpus.from_arrow(
        traces=pl.DataFrame(
            {
                "trace": trace,
                "trace_id": [f"run {i:05}" for i in trace],
                "task_id": [f"task {i // rollouts:04}" for i in trace],
            }
        ),
        events=pl.concat([clue, choice, answer], how="diagonal").sort("trace", "t"),
        edges=pl.DataFrame({"trace": trace}).with_columns(**edges, type=pl.lit("causal")),
        measures=pl.DataFrame({"trace": trace, "kind": "reward", "name": "team", "value": outcome}),
    )


def choices(
    rng: np.random.Generator,
    *,
    tasks: int = 60,
    rollouts: int = 3,
    decisions: int = 2,
    effect: float = 1.0,
    spread: float = 0.5,
    randomized: bool = False,
    curved: bool = False,
) -> tuple[pl.DataFrame, float]:
    """Decisions whose features move the choice and the outcome; with them the mean effect on just these rows.

    ``e`` is the probability of the treatment, ``x`` and ``z`` are all that moves the outcome beside it and
    the task, ``k`` says nothing.
    """
    n = tasks * rollouts * decisions
    task = np.repeat(np.arange(tasks), rollouts * decisions)
    trace = np.repeat(np.arange(tasks * rollouts), decisions)
    x, z = rng.normal(size=(2, n))
    e = np.full(n, 0.4) if randomized else 1.0 / (1.0 + np.exp(-(0.8 * x - 0.2)))
    treated = rng.random(n) < e
    gain = (effect + spread * rng.normal(size=tasks))[task]
    level = 0.4 * rng.normal(size=tasks)
    without = (np.exp(x / 1.5) if curved else x) + 0.3 * z + level[task] + 0.5 * rng.normal(size=n)
    rows = pl.DataFrame(
        {
            "task_id": [f"task {t:04}" for t in task],
            "trace_id": [f"run {t:05}" for t in trace],
            "treated": treated,
            "outcome": without + gain * treated,
            "x": x,
            "z": z,
            "e": e,
            "k": 0.0,
        }
    )
    return rows, float(gain.mean())
