"""Effects against planted truth: observed ones at their rate, surrogate ones in bounds, schedules exactly.

Errors of sampled games on planted runs, the other half of `surrogate`: test_planted_games.py.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from samples.hand_runs import event, read, run

# --- observed -----------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_observed_effects_cover_the_planted_one_at_the_nominal_rate() -> None:
    runs, inside = 200, 0
    action = pl.col("action")
    for seed in range(runs):
        corpus, truth = ot.synthetic.planted(
            traces=160,
            agents=2,
            events=3,
            group_size=4,
            seed=seed,
            spawn_effect=1.0,
            spawn_overlap=0.3,
            decisive=0.0,
        )
        row = ot.effects.spawn(
            corpus,
            treatment=action == "spawn",
            among=action.is_in(["spawn", "no_spawn"]),
            propensity="recorded",
            costs=False,
        ).row(0, named=True)
        assert row["tier"] == "observed"
        inside += row["lower"] <= truth.decisions["effect"].mean() <= row["upper"]
    # 99.9 % of counts of 200 are above 90 % where the rate is 95 %
    assert 0.90 <= inside / runs <= 0.995, inside / runs


# --- surrogate ----------------------------------------------------------------------------------------

Gate = Callable[[Sequence[float], float], float]
WEIGHT = 0.7
#: What an event makes of its inputs, each by an edge of one weight; from the definitions.
GATES: dict[str, Gate] = {
    "noisy_or": lambda x, w: 1.0 - math.prod(1.0 - w * v for v in x),
    "noisy_and": lambda x, w: math.prod(1.0 - w * (1.0 - v) for v in x),
    "mean": lambda x, w: math.fsum(x) / len(x),
    "max": lambda x, w: max(x),
    "min": lambda x, w: min(x),
}


def world(rng: np.random.Generator, gate: Gate, trace: int) -> tuple[dict[str, Any], dict[str, float]]:
    """A run in which all was scored, and what its outcome would have been had one of its events failed."""
    n = int(rng.integers(4, 9))
    into: list[list[int]] = [[] for _ in range(n)]
    for v in range(1, n):
        into[v] = sorted(rng.choice(v, size=min(v, int(rng.integers(0, 4))), replace=False).tolist())
    into[n - 1] = into[n - 1] or [n - 2]
    own = rng.uniform(-0.15, 0.15, n)

    def play(failed: int | None) -> list[float]:
        x: list[float] = []
        for v in range(n):
            made = gate([x[u] for u in into[v]], WEIGHT) + own[v] if into[v] else 0.5 + 3.0 * own[v]
            x.append(0.0 if v == failed else made)
        return x

    while any(not 0.0 <= v <= 1.0 for failed in (None, *range(n)) for v in play(failed)):
        own *= 0.8  # so that nothing is cut off, in no world
        if np.abs(own).max() < 1e-6:
            own[:] = 0.0
    x = play(None)
    events = [event(v, type="aggregate" if v == n - 1 else "message", score=x[v]) for v in range(n)]
    edges = [(u, v) for v in range(n) for u in into[v]]
    truth = {f"e{failed}": play(failed)[n - 1] - x[n - 1] for failed in range(n)}
    return run(trace, None, events, edges), truth


@pytest.mark.parametrize("made", GATES)
def test_effects_of_the_right_gate_are_true_and_bounds_hold_whatever_the_gate(made: str) -> None:
    rng = np.random.default_rng(5)
    worlds = [world(rng, GATES[made], trace) for trace in range(40)]
    corpus = read([document for document, _ in worlds])
    some = 0
    for outcome in GATES:
        table = ot.replay(
            corpus, ot.interventions.do(each="event", to=0.0), outcome=outcome, weights=[WEIGHT] * 8
        )
        assert set(table["tier"]) == {"surrogate"}
        for row in table.iter_rows(named=True):
            truth = worlds[row["trace"]][1][row["unit_id"]]
            assert row["lower"] - 1e-9 <= truth <= row["upper"] + 1e-9, (outcome, row)
            if outcome == made:
                assert row["effect"] == pytest.approx(truth, abs=1e-9)
            some += truth != 0.0
    assert some > 300


# --- schedule -----------------------------------------------------------------------------------------


def timed(rng: np.random.Generator, trace: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """One run twice: with a browser, and with one that is twice as fast. Nobody waits for anything else."""
    n = int(rng.integers(3, 12))
    into = [
        sorted(rng.choice(v, size=min(v, int(rng.integers(0, 3))), replace=False).tolist()) for v in range(n)
    ]
    browser = rng.random(n) < 0.5
    lasts = 2 * rng.integers(1, 9, n)

    def recorded(factor: int) -> dict[str, Any]:
        ends: list[int] = []
        events = []
        for v in range(n):
            own = int(lasts[v]) // factor if browser[v] else int(lasts[v])
            ends.append(max((ends[u] for u in into[v]), default=0) + own)
            more = {"type": "tool_result", "tool": "browser"} if browser[v] else {}
            events.append(event(v, **more) | {"t": ends[v], "duration_s": own})
        return run(trace, None, events, [(u, v) for v in range(n) for u in into[v]])

    return recorded(1), recorded(2)


def test_a_faster_tool_is_what_the_run_with_the_faster_tool_recorded() -> None:
    rng = np.random.default_rng(6)
    pairs = [timed(rng, trace) for trace in range(200)]
    pairs = [pair for pair in pairs if any("tool" in one for one in pair[0]["events"])]
    slow, fast = (read([pair[k] for pair in pairs]) for k in range(2))
    table = ot.replay(slow, ot.interventions.speed_up(2, tool="browser"))
    assert set(table["tier"]) == {"schedule"}
    for column, corpus in (("makespan", slow), ("makespan_cf", fast)):
        ends = corpus.events.group_by("trace").agg(pl.col("t").max()).sort("trace").collect()["t"]
        assert table[column].to_list() == ends.to_list()
    assert (table["makespan_cf"] < table["makespan"]).sum() > 100
