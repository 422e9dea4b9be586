"""What is paid: channels, weighted sums, several of them at once; and groups that say nothing."""

import io
import json

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import orchestrace as ot

TWO = [{"team": 1.0}, {"team": 0.5, "process": 2.0}]


@pytest.fixture(scope="module")
def corpus() -> ot.Corpus:
    corpus = ot.generate(traces=60, seed=3)
    assert "process" in corpus.reward_channels()
    return corpus


@pytest.mark.parametrize("method", ["flow", "grpo", "return_to_go", "vdn"])
@pytest.mark.parametrize("unit", ["event", "agent"])
def test_several_rewards_are_those_one_by_one(corpus: ot.Corpus, method: str, unit: str) -> None:
    both = ot.credit(corpus, method=method, unit=unit, reward=TWO)
    one_by_one = [ot.credit(corpus, method=method, unit=unit, reward=reward) for reward in TWO]
    assert_frame_equal(both, pl.concat(one_by_one), check_exact=True)
    assert both["reward"].n_unique() == 2


def test_mistakes(corpus: ot.Corpus) -> None:
    for reward, words in [
        ([], "names no channel"),
        (["team", "team"], "given twice"),
        (["team", "taem"], "did you mean 'team'"),
        ([1.0], "expected a channel"),
    ]:
        with pytest.raises(ot.ParameterError, match=words):
            ot.credit(corpus, reward=reward)


def test_lone_rollouts_are_warned_of() -> None:
    corpus = ot.generate(traces=1, seed=0)
    with pytest.warns(RuntimeWarning, match="every group of this corpus has one"):
        credits = ot.credit(corpus, method="c3", unit="event", reward=corpus.reward_channels()[0])
    assert credits["credit"].drop_nulls().eq(0).all()


def test_what_is_beyond_the_range_of_a_float_is_null_with_a_reason() -> None:
    events = [
        {"id": f"e{n}", "t": n, "type": "message", "agent": "a", "value": value, "reward": value}
        for n, value in enumerate([1.7e308, -1.7e308, 1.7e308])
    ]
    run = {
        "trace_id": "t",
        "task_id": "k",
        "events": events,
        "edges": [{"src": "e0", "dst": "e1", "type": "causal"}, {"src": "e1", "dst": "e2", "type": "causal"}],
        "rewards": {"team": 1.7e308},
        "costs": {"tokens": 0, "wall_clock_s": 0},
    }
    corpus = ot.read_traces(io.BytesIO(json.dumps(run).encode()))
    reasons = set()
    fitted = ["aristocrat", "coma", "hca", "dae", "rudder", "vdn", "qmix"]
    core = ot.list_methods().filter(~pl.col("name").is_in(fitted))
    for method, units in core.select("name", "units").iter_rows():
        for unit in {"event", "turn", "agent", "team"}.intersection(units):
            credits = ot.credit(corpus, method=method, unit=unit)
            value = credits["credit"].drop_nulls()
            assert value.is_finite().all(), (method, unit)
            assert (credits["credit"].is_not_null() | credits["reason"].is_not_null()).all(), (method, unit)
            reasons |= set(credits["reason"].drop_nulls().cast(pl.String))
    assert "result.range" in reasons


def test_a_batch_that_no_trace_has_is_a_mistake(corpus: ot.Corpus) -> None:
    with pytest.raises(ot.ParameterError, match="metric"):
        ot.credit(corpus, method="reinforce_pp", batch="trian_step")
