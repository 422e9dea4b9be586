"""Turn credit: the published algorithm in loops, and what holds whatever the scores are."""

from fractions import Fraction
from pathlib import Path
from statistics import fmean

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose

import orchestrace as ot
from orchestrace.credit.fitted.scored_turns import progress_of
from orchestrace.credit.fitted.turn_credit import spread
from samples.hand_runs import credited, event, read, run
from samples.random_runs import Document

Turns = list[tuple[str, float | None, int | None]]
"""Of each turn who took it, the score after it, and the tokens that it wrote."""
METHOD = "turn_credit"


def rollout(trace: int, turns: Turns, reward: float = 0.0, task: str = "task") -> Document:
    """Each turn is a message and a call; the score is on the second."""
    events, taken = [], dict.fromkeys((agent for agent, *_ in turns), 0)
    for n, (agent, score, tokens) in enumerate(turns):
        fields = {} if tokens is None else {"tokens_out": tokens}
        scores = {} if score is None else {"score": score}
        events.append(event(2 * n, agent, turn=taken[agent], **fields))
        events.append(event(2 * n + 1, agent, "tool_call", tool="x", turn=taken[agent], **scores))
        taken[agent] += 1
    return run(trace, reward, events, task=task)


def published(scores: list[float | None], gamma: float) -> list[float]:
    """Progress, and the credit of each turn, by the definition: no recursion."""
    credit = [0.0] * len(scores)
    for t, score in enumerate(scores):
        before = [s for s in scores[:t] if s is not None]
        if score is None or not before:
            continue
        weights = [gamma ** (t - u) if gamma or t == u else 0.0 for u in range(t + 1)]
        for u, weight in enumerate(weights):
            credit[u] += (score - before[-1]) * weight / sum(weights)
    return credit


SCORES = st.one_of(st.none(), st.integers(0, 4).map(lambda n: n / 4))
ROLLOUTS = st.lists(
    st.tuples(st.lists(st.tuples(SCORES, st.integers(1, 5)), min_size=1, max_size=6), st.integers(0, 1)),
    min_size=1,
    max_size=4,
)


@settings(deadline=None, max_examples=60)
@given(ROLLOUTS, st.sampled_from([0.0, 0.5, 0.9, 1.0]), st.sampled_from([0.0, 1.0, 2.5]))
def test_it_is_the_published_rule(
    rollouts: list[tuple[list[tuple[float | None, int]], int]], gamma: float, beta: float
) -> None:
    documents = [
        rollout(n, [("solver", score, tokens) for score, tokens in turns], float(reward))
        for n, (turns, reward) in enumerate(rollouts)
    ]
    found = credited(documents, METHOD, "turn", gamma=gamma, beta=beta)
    nothing = all(score is None for turns, _ in rollouts for score, _ in turns)
    credits = [published([score for score, _ in turns], gamma) for turns, _ in rollouts]
    returns = [reward + sum(credit) for (_, reward), credit in zip(rollouts, credits, strict=True)]
    for n, (turns, _) in enumerate(rollouts):
        tokens = [count for _, count in turns]
        middle = np.average(credits[n], weights=tokens)
        level = returns[n] - fmean(returns)
        own = [found[n, f"solver/{k}"] for k in range(len(turns))]
        if nothing:
            assert own == [(None, "field.absent")] * len(turns)
            continue
        values = [value for value, _ in own]
        assert_allclose(values, level + beta * (np.array(credits[n]) - middle), atol=1e-12)
        assert np.average(values, weights=tokens) == pytest.approx(level, abs=1e-12)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=60)
@given(st.lists(SCORES, min_size=1, max_size=30), st.floats(0.0, 1.0))
def test_progress_telescopes_and_is_divided_once(scores: list[float | None], gamma: float) -> None:
    array = np.array([np.nan if score is None else score for score in scores])
    chain = np.zeros(len(scores), np.int64)
    progress = progress_of(array, chain)
    known = [score for score in scores if score is not None]
    assert progress.sum() == pytest.approx(known[-1] - known[0] if known else 0.0, abs=1e-12)
    credit = spread(progress, chain, gamma)
    assert credit.sum() == pytest.approx(progress.sum(), abs=1e-12)
    assert_allclose(credit, published(scores, gamma), atol=1e-12)
    assert_allclose(spread(progress, chain, 0.0), progress, atol=1e-15)
    # Another chain beside it changes no bit.
    two = spread(np.tile(progress, 2), np.repeat([3, 7], len(scores)), gamma)
    assert (two.reshape(2, -1) == credit).all()


@pytest.mark.parametrize("below_one", [1e-3, 1e-6, 1e-9, 1e-13])
def test_gamma_close_to_one_keeps_its_digits(below_one: float) -> None:
    """The shares of the last turn's progress in exact fractions."""
    gamma = 1.0 - below_one
    progress, n = np.zeros(50), 50
    progress[-1] = 1.0
    exact = Fraction(gamma)
    total = sum((exact**k for k in range(n)), Fraction(0))
    wanted = [float(exact ** (n - 1 - u) / total) for u in range(n)]
    assert_allclose(spread(progress, np.zeros(n, np.int64), gamma), wanted, rtol=1e-13)


def test_a_rise_that_is_lost_again_is_nothing_in_sum() -> None:
    credit = credited([rollout(0, [("a", 0.0, 1), ("a", 1.0, 1), ("a", 0.0, 1)])], METHOD, "turn", gamma=0.0)
    assert [credit[0, f"a/{k}"][0] for k in range(3)] == [0.0, 1.0, -1.0]


def test_agents_may_have_chains_of_their_own() -> None:
    """b raises its own score only; in the chain of the run it falls from that of a."""
    turns: Turns = [("a", 0.8, 1), ("b", 0.0, 1), ("a", 0.8, 1), ("b", 0.4, 1)]
    together = credited([rollout(0, turns)], METHOD, "turn", gamma=0.0)
    apart = credited([rollout(0, turns)], METHOD, "turn", gamma=0.0, chain="agent")
    assert together[0, "b/0"][0] == pytest.approx(-0.8 - (-0.4 / 4))
    assert apart[0, "b/0"][0] == pytest.approx(-0.1) and apart[0, "b/1"][0] == pytest.approx(0.3)


def test_turns_without_tokens_weigh_alike() -> None:
    turns: Turns = [("a", 0.0, 100), ("a", 1.0, None)]
    found = credited([rollout(0, turns)], METHOD, "turn", gamma=0.0)
    assert (found[0, "a/0"][0], found[0, "a/1"][0]) == (-0.5, 0.5)


def test_a_rollout_without_scores_is_compared_by_its_reward() -> None:
    scored: Turns = [("a", 0.0, 1), ("a", 0.5, 1)]
    documents = [rollout(0, scored, 1.0), rollout(1, [("a", None, 1), ("a", None, 1)], 0.0)]
    found = credited(documents, METHOD, "turn")
    assert found[1, "a/0"][0] == found[1, "a/1"][0] == -0.75
    other = [*documents, rollout(2, [("a", None, 1)], 1.0, task="another")]
    assert credited(other, METHOD, "turn")[2, "a/0"] == (None, "field.absent")


def test_it_finds_the_turns_that_changed_the_state() -> None:
    """States that are judged with noise, of turns that change them or do not: planted, and found again."""
    rng = np.random.default_rng(0)
    documents, planted = [], []
    for n in range(200):
        worth = rng.choice([-0.1, 0.0, 0.2], 8)
        state = np.cumsum(worth) + 0.01 * rng.standard_normal(8)
        documents.append(rollout(n, [("a", float(s), 1) for s in state], float(worth.sum()), f"t{n // 8}"))
        planted.append(worth[1:])
    found = credited(documents, METHOD, "turn", gamma=0.0)
    plain = credited(documents, "dr_grpo", "turn")
    correlations = []
    for n, worth in enumerate(planted):
        values = [found[n, f"a/{k}"][0] for k in range(1, 8)]
        assert len({plain[n, f"a/{k}"][0] for k in range(8)}) == 1
        if np.ptp(worth) > 0:
            correlations.append(np.corrcoef(np.array(values, float), worth)[0, 1])
    # Noise of 0.014 on changes that deviate by 0.125.
    assert np.mean(correlations) > 0.95


def test_parts_on_disk_are_one_corpus(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    documents = []
    for n in range(40):
        turns: Turns = [("ab"[k % 2], float(rng.random()), 3) for k in range(int(rng.integers(1, 6)))]
        documents.append(rollout(n, turns, float(n % 2), f"t{n % 7}"))
    corpus = read(documents)
    corpus.write_jsonl(tmp_path / "runs.jsonl")
    ot.ingest(tmp_path / "runs.jsonl", tmp_path / "corpus", partitions=3)
    here, there = (
        ot.credit(one, method=METHOD, unit="turn").select(
            "trace_id", pl.col("unit_id").cast(pl.String), "credit"
        )
        for one in (corpus, ot.read_corpus(tmp_path / "corpus"))
    )
    both = here.join(there, on=["trace_id", "unit_id"], how="full", coalesce=True)
    assert both["credit"].count() == here.height
    assert (both["credit"] - both["credit_right"]).abs().max() < 1e-12  # type: ignore[operator]
