"""Teams whose every event has a known contribution to the reward."""

import json
from dataclasses import dataclass

import numpy as np
import polars as pl

import orchestrace as ot

ROLES = ("planner", "coder", "critic")
ACTIONS = ("ask", "plan", "write", "test", "review", "retry")
WORTH = np.array([-0.5, -0.2, 0.0, 0.1, 0.3, 0.8])


@dataclass(frozen=True)
class Planted:
    """A corpus and the contribution of each event, in the order of `Corpus.events`."""

    corpus: ot.Corpus
    truth: pl.DataFrame  # trace seq agent worth


def teams(
    n: int,
    *,
    seed: int = 0,
    noise: float = 1.0,
    slopes: tuple[float, float, float] = (1.0, 1.0, 1.0),
    difficulty: float = 0.0,
    order: np.ndarray | None = None,
) -> Planted:
    """`n` runs of 3 to 6 agents with 3 to 8 events each; actions are drawn uniformly.

    An event is worth `WORTH` of its action times the slope of its agent's role. `difficulty` makes every
    second task hard: its reward falls by that, and there agents retry more often, which causes nothing (the
    worth of `retry` is then 0). `order` says which run comes at which place.
    """
    rng = np.random.default_rng(seed)
    n_tasks = max(n // 10, 2)
    task = np.arange(n) % n_tasks
    hard = np.arange(n_tasks) % 2 == 1
    events, rewards = [], []
    for run in range(n):
        total = 0.0
        size = int(rng.integers(3, 7))
        roles = rng.integers(0, 3, size)
        clock = 0
        for agent in range(size):
            for _ in range(int(rng.integers(3, 9))):
                odds = np.full(6, 1 / 6)
                if difficulty and hard[task[run]]:
                    odds = np.array([0.1, 0.1, 0.1, 0.1, 0.1, 0.5])
                action = int(rng.choice(6, p=odds))
                worth = WORTH[action] * slopes[roles[agent]]
                if difficulty and action == 5:
                    worth = 0.0
                total += worth
                events.append((run, clock, ROLES[roles[agent]], f"{ROLES[roles[agent]]}-{agent}",
                               ACTIONS[action], float(odds[action]), worth))  # fmt: skip
                clock += 1
        hardship = difficulty if difficulty and hard[task[run]] else 0.0
        rewards.append(total - hardship + noise * rng.standard_normal())
    frame = pl.DataFrame(
        events, schema=["trace", "t", "role", "agent", "action", "p_behavior", "worth"], orient="row"
    )
    if order is not None:
        place = pl.DataFrame({"trace": order, "new": np.arange(n)})
        frame = frame.join(place, on="trace").sort("new", "t")
    new = pl.col("new") if order is not None else pl.col("trace")
    frame = frame.with_columns(run="trace", trace=new.cast(pl.UInt32)).with_columns(
        seq=pl.int_range(pl.len(), dtype=pl.UInt32).over("trace")
    )
    runs = np.arange(n) if order is None else order
    corpus = ot.Corpus.from_arrow(
        traces=pl.DataFrame(
            {
                "trace": np.arange(n),
                "trace_id": [f"run-{run}" for run in runs],
                "task_id": [f"task-{task[run]}" for run in runs],
            }
        ),
        events=frame.select(
            "trace",
            "seq",
            "role",
            "agent",
            "action",
            "p_behavior",
            id=pl.format("e{}", "seq"),
            t=pl.col("t").cast(pl.Float64),
            type=pl.lit("message"),
            state_key="role",
        ),
        measures=pl.DataFrame(
            {"trace": np.arange(n), "kind": "reward", "name": "team", "value": np.array(rewards)[runs]}
        ),
    )
    return Planted(corpus, frame.select("trace", "seq", "agent", "worth"))


def correlation(planted: Planted, unit: str, method: str, **params: object) -> float:
    """Pearson's correlation of credit with planted worth, over all units of all runs."""
    credits = ot.credit(planted.corpus, method=method, unit=unit, **params).drop_nulls("unit_id")
    if unit == "event":
        both = credits.join(planted.truth, on=["trace", "seq"])
    else:
        truth = planted.truth.group_by("trace", "agent").agg(pl.col("worth").sum())
        both = credits.join(truth, left_on=["trace", "unit_id"], right_on=["trace", "agent"])
    assert both.height == credits.height
    both = both.drop_nulls("credit")
    return float(np.corrcoef(both["credit"], both["worth"])[0, 1])


def corpus_of(runs: list[tuple[str, float | None, list[dict[str, object]]]]) -> ot.Corpus:
    """Runs of (task, reward, events); an event is given its fields, the rest has defaults."""
    events = [
        {"trace": n, "id": f"e{k}", "t": float(k), "type": "message", "agent": "a", **event}
        for n, (_, _, own) in enumerate(runs)
        for k, event in enumerate(own)
    ]
    traces = {
        "trace": range(len(runs)),
        "trace_id": [f"run {n}" for n in range(len(runs))],
        "task_id": [task for task, _, _ in runs],
    }
    measures = [
        {"trace": n, "kind": "reward", "name": "team", "value": reward}
        for n, (_, reward, _) in enumerate(runs)
        if reward is not None
    ]
    return ot.Corpus.from_arrow(
        traces=pl.DataFrame(traces),
        events=pl.DataFrame(events, infer_schema_length=None),
        measures=pl.DataFrame(measures),
    )


def fit_of(credits: pl.DataFrame) -> dict[str, float]:
    (params,) = credits["params"].cast(pl.String).unique()
    found: dict[str, float] = json.loads(params)["quality"]
    return found


def decisions(rows: list[tuple[str, str, float, float]], tasks: int = 2) -> ot.Corpus:
    """A run of one decision for each row."""
    return corpus_of(
        [
            (f"task {n % tasks}", z, [{"state_key": x, "action": a, "p_behavior": p}])
            for n, (x, a, p, z) in enumerate(rows)
        ]
    )
