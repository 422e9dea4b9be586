"""IGPO: the published rule and the corrected one in loops, and what the published one does to stopping."""

from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose

from samples.hand_runs import credited, event, run
from samples.random_runs import Document

METHOD = "igpo"
Scores = list[float | None]


def rollout(trace: int, scores: Scores, reward: float, task: str = "task") -> Document:
    events = []
    for n, score in enumerate(scores):
        scored = {} if score is None else {"score": score}
        events.append(event(2 * n, "policy", turn=n))
        events.append(event(2 * n + 1, "policy", "tool_call", tool="x", turn=n, **scored))
    return run(trace, reward, events, task=task)


def by_hand(rollouts: list[tuple[Scores, float]], gamma: float, center: str) -> list[list[float]]:
    """Rewards of turns, then both forms, by their definitions."""
    gains = []
    for scores, reward in rollouts:
        own = []
        for t, score in enumerate(scores):
            before = [one for one in scores[:t] if one is not None]
            own.append(0.0 if score is None or not before else score - before[-1])
        own[-1] = reward
        gains.append(own)

    def to_go(values: list[float]) -> list[float]:
        return [sum(gamma**k * value for k, value in enumerate(values[t:])) for t in range(len(values))]

    def less_mean(rows: list[list[float]]) -> list[list[float]]:
        return [
            [own[t] - fmean(row[t] for row in rows if len(row) > t) for t in range(len(own))] for own in rows
        ]

    if center == "rewards":
        return [to_go(own) for own in less_mean(gains)]
    return less_mean([to_go(own) for own in gains])


SCORES = st.lists(st.one_of(st.none(), st.integers(0, 8).map(lambda n: n / 8)), min_size=1, max_size=6)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(SCORES, st.integers(0, 2).map(float)), min_size=1, max_size=5),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from(["returns", "rewards"]),
)
def test_both_forms_are_their_definitions(
    rollouts: list[tuple[Scores, float]], gamma: float, center: str
) -> None:
    documents = [rollout(n, scores, reward) for n, (scores, reward) in enumerate(rollouts)]
    found = credited(documents, METHOD, "turn", gamma=gamma, center=center)
    nothing = all(score is None for scores, _ in rollouts for score in scores)
    wanted = by_hand(rollouts, gamma, center)
    for n, (scores, _) in enumerate(rollouts):
        own = [found[n, f"policy/{t}"] for t in range(len(scores))]
        if nothing:
            assert own == [(None, "field.absent")] * len(scores)
        else:
            assert_allclose([value for value, _ in own], wanted[n], atol=1e-12)


def test_gains_add_up_to_what_is_known_at_the_end() -> None:
    """Without a discount the first turn has the outcome, and all that was learned before the last turn."""
    scores = [0.2, 0.5, None, 0.9, 0.1]
    found = credited([rollout(0, scores, 1.0), rollout(1, [0.2], 0.0)], METHOD, "turn")
    first = [found[n, "policy/0"][0] or 0.0 for n in (0, 1)]
    assert first[0] - first[1] == pytest.approx(1.0 + (0.9 - 0.2))


def test_the_published_form_takes_later_turns_from_going_on() -> None:
    """Information grows by 0.2 a turn, the outcome does not care: going on is worth it, and one form sees."""
    rng = np.random.default_rng(7)
    documents, going = [], {}
    for n in range(2000):
        length = 1
        while length < 4 and rng.random() < 0.5:
            length += 1
        scores: Scores = (0.1 + 0.2 * np.arange(length) + 0.05 * rng.standard_normal(length)).tolist()
        documents.append(rollout(n, scores, float(rng.random() < 0.5), task=f"task{n // 40}"))
        going[n] = length > 1
    contrast = {}
    for center in ("returns", "rewards"):
        found = credited(documents, METHOD, "turn", center=center)
        firsts = {n: found[n, "policy/0"][0] or 0.0 for n in going}
        means = [fmean(value for n, value in firsts.items() if going[n] is on) for on in (True, False)]
        contrast[center] = means[0] - means[1]
    # of runs that go on, half have two turns (whose last gain is the outcome), a fourth three, a fourth four
    truth = 0.25 * 0.2 + 0.25 * 0.4
    assert contrast["returns"] == pytest.approx(truth, abs=0.09)
    assert contrast["rewards"] < contrast["returns"] - truth / 2


def test_a_turn_without_a_score_gains_nothing_itself() -> None:
    found = credited([rollout(0, [0.5, None, 0.5], 1.0), rollout(1, [0.5], 0.0)], METHOD, "turn")
    values = [found[0, f"policy/{t}"] for t in range(3)]
    assert values == [(0.5, None), *[(0.0, "group.degenerate")] * 2], "alone from the second turn on"
