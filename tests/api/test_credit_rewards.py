"""What is paid: channels, weighted sums, several of them at once; and groups that say nothing."""

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


def test_several_rewards_on_disk(corpus: ot.Corpus, tmp_path) -> None:
    corpus.write_jsonl(tmp_path / "runs.jsonl")
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus")
    on_disk = ot.read_corpus(tmp_path / "corpus")
    lazy = ot.credit(on_disk, method="flow", unit="agent", reward=TWO, sink=tmp_path / "credits").collect()
    key = ["trace_id", "reward", "unit_id"]
    in_memory = ot.credit(corpus, method="flow", unit="agent", reward=TWO).sort(key)
    assert_frame_equal(lazy.sort(key).select("credit"), in_memory.select("credit"), check_exact=True)


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
