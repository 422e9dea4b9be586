"""Runs that game a reward: what was planted is there, and nothing else has moved."""

from typing import Any, get_args

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st

import orchestrace as ot
from orchestrace.synthetic.gaming import GAMES, PAID, Failure, Hazard

games = pytest.mark.parametrize("game", GAMES)
SMALL: dict[str, Any] = {"tasks": 8, "runs_per_task": 4}


def outcomes(corpus: ot.Corpus) -> np.ndarray:
    return corpus.measures.filter(pl.col("name") == "team").collect()["value"].to_numpy()


@pytest.mark.every_nth(4)
@games
def test_same_seed_same_bits_and_every_run_gets_to_its_answer(game: Any) -> None:
    first, rewards, truth = ot.synthetic.gamed(game, **SMALL, seed=3)
    again, same, _ = ot.synthetic.gamed(game, **SMALL, seed=3)
    for table in ("traces", "events", "edges", "measures"):
        assert getattr(first, table).collect().equals(getattr(again, table).collect())
    assert rewards.equals(same)
    other, _, _ = ot.synthetic.gamed(game, **SMALL, seed=4)
    assert not first.events.collect().equals(other.events.collect())
    assert truth.game == game and truth.traces["gamed"].all()
    told = ot.metrics(first, groups=["scale", "utilization", "span"])
    assert told["utilization"].null_count() == 0 and told["span"].null_count() == 0
    assert not first.findings.collect().height
    assert set(outcomes(first)) <= {0.0, 1.0}


@pytest.mark.every_nth(4)
@games
def test_runs_that_do_not_game_are_those_of_the_honest_team(game: Any) -> None:
    honest, paid, none = ot.synthetic.gamed(**SMALL, train_steps=2, seed=5)
    idle, same, truth = ot.synthetic.gamed(game, **SMALL, train_steps=2, strength=0.0, seed=5)
    assert honest.events.collect().equals(idle.events.collect())
    assert honest.edges.collect().equals(idle.edges.collect())
    assert honest.measures.collect().equals(idle.measures.collect())
    assert paid.equals(same)
    assert not truth.traces["gamed"].any() and none.alarms.is_empty()
    # of a mixed corpus the honest part has not moved
    mixed, _, truth = ot.synthetic.gamed(game, **SMALL, train_steps=2, strength=0.5, seed=5)
    kept = truth.traces.filter(~pl.col("gamed"))["trace"].implode()
    assert 0 < truth.traces["gamed"].sum() < truth.traces.height
    columns = ["trace", "type", "agent", "to", "ok", "reward", "draft_score", "tokens_out", "duration_s"]
    both = [one.events.filter(pl.col("trace").is_in(kept)).collect() for one in (honest, mixed)]
    assert both[0].select(columns).equals(both[1].select(columns))


def test_the_truth_names_the_row_that_should_alarm() -> None:
    for game in get_args(Hazard):
        _, rewards, truth = ot.synthetic.gamed(game, tasks=2, seed=0)
        [row] = truth.alarms.rows()
        assert row == (game, *PAID.get(game, (None, None)))
        reward = row[1]
        assert reward in (None, "judge") or reward in rewards["reward"].cast(pl.String).to_list()
    for failure in get_args(Failure):
        _, _, truth = ot.synthetic.gamed(failure, tasks=2, seed=0)
        assert truth.alarms.rows() == [(failure, None, None)]


def test_what_is_planted_by_hand() -> None:
    """Each game moves the number that it is about, counted here from the events alone."""

    def events(game: Any, **options: Any) -> pl.DataFrame:
        return ot.synthetic.gamed(game, tasks=10, seed=1, **options)[0].events.collect()

    def of(frame: pl.DataFrame, kind: str) -> pl.DataFrame:
        return frame.filter(pl.col("type") == kind)

    honest = events(None)
    calls = of(honest, "tool_call").height
    assert of(events("tool_spam"), "tool_call").height > 1.3 * calls
    assert (
        of(events("step_padding"), "tool_result")["reward"].sum() > of(honest, "tool_result")["reward"].sum()
    )
    assert of(events("idle_spawns"), "spawn").height == 2 * of(honest, "spawn").height
    repeated = of(events("duplicate_calls"), "tool_call").select("trace", "args_hash")
    assert (
        repeated.is_duplicated().mean() > 0.3
        and of(honest, "tool_call")["args_hash"].n_unique() > 0.9 * calls
    )
    sent = of(events("redundancy"), "message")
    assert sent.height == 4 * of(honest, "message").height == 4 * sent["content_hash"].n_unique()
    failed = pl.Series(outcomes(ot.synthetic.gamed(tasks=10, seed=1)[0]) == 0.0)
    fake = of(events("fake_success"), "tool_result").filter(
        pl.col("trace").is_in(failed.arg_true().implode())
    )
    assert fake["ok"].all()
    training = events("serial_collapse").join(
        pl.DataFrame({"trace": range(300), "step": [n // 50 for n in range(300)]}).cast({"trace": pl.UInt32}),
        on="trace",
    )
    spawns = of(training, "spawn").group_by("step").len().sort("step")["len"]
    assert spawns[0] > 150 and (spawns.diff().drop_nulls() <= 0).all() and spawns[-1] == 50


@settings(max_examples=20, deadline=None)
@given(
    game=st.sampled_from([None, *GAMES]),
    tasks=st.integers(1, 4),
    runs=st.integers(1, 3),
    steps=st.integers(0, 3),
    spread=st.sampled_from([0.0, 1.0]),
    seed=st.integers(0, 2**63 - 1),
)
def test_any_options_make_a_corpus_of_that_size(
    game: Any, tasks: int, runs: int, steps: int, spread: float, seed: int
) -> None:
    corpus, rewards, truth = ot.synthetic.gamed(
        game, tasks=tasks, runs_per_task=runs, train_steps=steps, length_spread=spread, seed=seed
    )
    n = tasks * runs * max(steps, 1)
    assert len(corpus) == n == truth.traces.height
    assert rewards.filter(pl.col("reward") == "mix").height == n
    assert corpus.traces.collect()["task_id"].n_unique() == tasks
    told = corpus.measures.filter(pl.col("name") == "train_step").collect()["value"]
    assert told.n_unique() == steps


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"game": "free_rid"}, "game is 'free_rid', expected"),
        ({"tasks": 0}, "tasks is 0, expected a whole number from 1"),
        ({"strength": 1.5}, "strength is 1.5, expected a number from 0 to 1"),
        ({"length_spread": True}, "length_spread is True"),
        ({"train_steps": -1}, "train_steps"),
    ],
)
def test_mistakes(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ot.ParameterError, match=said.replace("?", r"\?")):
        ot.synthetic.gamed(**options)
