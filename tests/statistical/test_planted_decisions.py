"""Intervals of the table of decisions, where the effects of decisions are planted."""

import io

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from samples.random_runs import jsonl

SEEDS = range(24)
FEWEST = 19
"""Of 24 intervals that cover at 95 %, fewer than this hold the truth once in 1,000 times."""


@pytest.mark.nightly
@pytest.mark.parametrize("overlap", [0.2, 0.35])
def test_intervals_of_spawns_hold_the_planted_effect(overlap: float) -> None:
    """At other decisions of the root spawning is worth nothing on average: their effects have mean 0."""
    errors, inside = [], 0
    for seed in SEEDS:
        corpus, truth = ot.synthetic.planted(
            traces=800, agents=3, events=4, seed=seed, spawn_effect=1.0, spawn_overlap=overlap, decisive=0.0
        )
        table = ot.decisions.table(corpus, "spawn")
        known = table.filter(pl.col("effect").is_not_null())
        own = truth.decisions.select("trace", "seq", "action", true="effect")
        both = table.join(own, on=["trace", "seq"], suffix="_planted")
        assert both.height == own.height
        assert both["action"].to_list() == both["action_planted"].to_list()
        added = known.join(own, on=["trace", "seq"])["true"].sum() / known.height
        row = known.filter(action="spawn").row(0, named=True)
        inside += row["lower"] <= added <= row["upper"]
        errors.append((row["effect"] - added) / (row["upper"] - row["lower"]))
        # what was not done has the same effect with the other sign
        other = known.filter(action="no_spawn").row(0, named=True)
        assert (other["effect"], other["lower"], other["upper"]) == (
            -row["effect"],
            -row["upper"],
            -row["lower"],
        )
    assert inside >= FEWEST, (inside, errors)
    assert abs(np.mean(errors)) < 3.3 * np.std(errors, ddof=1) / np.sqrt(len(errors))


def test_bounds_of_spawns_hold_the_planted_effect_without_a_model() -> None:
    for seed in range(4):
        corpus, truth = ot.synthetic.planted(
            traces=400, agents=3, events=4, seed=seed, spawn_effect=1.0, spawn_overlap=0.0, decisive=0.0
        )
        table = ot.decisions.table(corpus, "spawn", bounds=(-40.0, 40.0))
        own = table.join(truth.decisions.select("trace", "seq", true="effect"), on=["trace", "seq"])
        unknown = own.filter(pl.col("effect").is_null())
        assert set(unknown["reason"]) <= {"overlap.absent"}
        sign = pl.when(pl.col("action") == "spawn").then(1.0).otherwise(-1.0)
        # the effect on a run's own outcome lies in its bounds in the mean over runs, noise and all
        within = unknown.select(
            low=pl.col("lower").mean() <= (sign * pl.col("true")).mean(),
            high=(sign * pl.col("true")).mean() <= pl.col("upper").mean(),
        )
        assert unknown.is_empty() or within.row(0) == (True, True)


def test_intervals_of_messages_cover_at_the_rate_that_is_told() -> None:
    """Runs that fork at one message: every choice has a true mean, and the interval is of its difference."""
    rng = np.random.default_rng(7)
    inside = n = 0
    for _ in range(60):
        gap = rng.normal()
        lines = []
        for run in range(16):
            choice = int(run < 8)
            outcome = gap * choice + rng.normal()
            lines.append(_forked(run, f"said {choice}", outcome))
        table = ot.decisions.table(_read(lines), "communicate")
        assert table["n_alternatives"].unique().to_list() == [2] and table["tier"].null_count() == 0
        first = table.filter(pl.col("trace_id") == "run 00").row(0, named=True)
        inside += first["lower"] <= gap <= first["upper"]
        n += 1
    # 60 intervals of 95 %: fewer than 50 hold once in 5,000 times
    assert n == 60 and inside >= 50, inside


def _forked(run: int, text: str, outcome: float) -> dict[str, object]:
    events = [
        {"id": "a", "t": 0, "type": "message", "agent": "lead", "to": "ann", "content_hash": text},
        {"id": "b", "t": 1, "type": "return", "agent": "ann", "to": "user", "content_hash": "end"},
    ]
    return {
        **{"trace_id": f"run {run:02}", "task_id": "task", "events": events},
        **{"edges": [{"src": "a", "dst": "b", "type": "message"}], "rewards": {"team": outcome}},
        "costs": {"tokens": 0, "wall_clock_s": 0},
    }


def _read(documents: list[dict[str, object]]) -> ot.Corpus:
    return ot.read_traces(io.BytesIO(jsonl(documents)), format="native")
