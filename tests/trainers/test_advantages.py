"""`ot.trainers.advantages` against NumPy, and against `ot.credit` on the same numbers."""

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, strategies as st

import orchestrace as ot

A = ot.trainers.advantages
GROUPED = {"grpo": A.grpo, "dr_grpo": A.dr_grpo, "rloo": A.rloo}


def by_numpy(name: str, numbers: np.ndarray, groups: np.ndarray, verl: bool) -> np.ndarray:
    out = np.zeros(len(numbers))
    for group in np.unique(groups):
        here = groups == group
        x = numbers[here]
        if len(x) == 1:
            out[here] = (x / (1 + 1e-6) if name == "grpo" else x) if verl else 0.0
        elif np.ptp(x):
            centered = x - x.mean()
            scale = {"grpo": 1 / (x.std(ddof=1) + 1e-6), "dr_grpo": 1.0, "rloo": len(x) / (len(x) - 1)}[name]
            out[here] = centered * scale
    return out


rows = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0, -3.25])),
    min_size=1,
    max_size=60,
)


@given(rows, st.sampled_from(sorted(GROUPED)), st.booleans(), st.sampled_from([1, 10**6, 2**40]))
def test_groups_by_numpy(given: list[Any], name: str, verl: bool, apart: int) -> None:
    groups = np.array([row[0] for row in given]) * apart
    numbers = np.array([row[2] for row in given])
    compat: Any = "verl" if verl else None
    found = GROUPED[name](numbers, groups, compat=compat)
    np.testing.assert_allclose(found.to_numpy(), by_numpy(name, numbers, groups, verl), rtol=0, atol=1e-12)
    named = pl.Series([f"task {group:020}" for group in groups])
    assert GROUPED[name](pl.Series(numbers), named, compat=compat).equals(found)
    assert GROUPED[name](numbers, groups, compat=compat, threads=1).equals(found)


def test_numbers_of_several_kinds_are_numbers() -> None:
    groups = ["a"] * 3
    assert A.grpo([0, 0.5, True], groups).to_list() == A.grpo([0.0, 0.5, 1.0], groups).to_list()


@given(rows, st.booleans())
def test_agents_by_numpy(given: list[Any], verl: bool) -> None:
    rollouts, agents = np.array([row[0] for row in given]), np.array([row[1] for row in given])
    rewards, groups = np.array([0.0, 1.0, 0.5, 1.0, 0.25, 0.0]), np.array([7, 7, 9, 9, 9, 7])
    found = A.dr_mas(rewards, groups, rollouts, agents, compat="verl" if verl else None)
    keys = groups[rollouts] * 10 + agents
    np.testing.assert_allclose(
        found.to_numpy(), by_numpy("grpo", rewards[rollouts], keys, verl), rtol=0, atol=1e-12
    )
    far = A.dr_mas(rewards, groups, rollouts, agents * 2**31, compat="verl" if verl else None)
    np.testing.assert_allclose(far.to_numpy(), found.to_numpy(), rtol=0, atol=1e-12)


@pytest.fixture(scope="module")
def corpus() -> ot.Corpus:
    return ot.generate(traces=60, seed=3)


@pytest.mark.parametrize("name", sorted(GROUPED))
def test_a_recording_gives_the_same(corpus: ot.Corpus, name: str) -> None:
    credits = ot.credit(corpus, method=name, unit="team")
    traces = corpus.traces.select("trace", "group_id").collect()
    paid = corpus.measures.filter(pl.col("kind") == "reward", pl.col("name").cast(pl.String) == "team")
    table = traces.join(paid.select("trace", "value").collect(), on="trace", maintain_order="left")
    assert table.height == len(corpus)
    found = GROUPED[name](table["value"], table["group_id"])
    np.testing.assert_allclose(found.to_numpy(), credits["credit"].to_numpy(), rtol=0, atol=1e-12)


def test_gae_of_a_recording_is_the_same(corpus: ot.Corpus) -> None:
    events = corpus.events.select("trace", "seq").collect()
    rng = np.random.default_rng(0)
    fields = events.with_columns(
        reward=pl.Series(rng.normal(size=events.height)), value=pl.Series(rng.normal(size=events.height))
    )
    recorded = corpus.with_fields(fields).with_measures(
        corpus.traces.select("trace", nothing=pl.lit(0.0)).collect()
    )
    credits = ot.credit(
        recorded, method="gae", unit="event", reward="nothing", rows="events", gamma=0.9, lambda_=0.8
    )
    sizes = corpus.traces.select("n_events").collect().to_series()
    offsets = [0, *sizes.cum_sum()]
    times = corpus.events.select("trace", "t").collect()
    order = np.lexsort((times["t"].to_numpy(), times["trace"].to_numpy()))
    found = A.gae(fields["reward"], fields["value"], offsets, order=order, gamma=0.9, lambda_=0.8)
    np.testing.assert_allclose(found.to_numpy(), credits["credit"].to_numpy(), rtol=0, atol=1e-12)
    returns = ot.credit(
        recorded, method="return_to_go", unit="event", reward="nothing", rows="events", gamma=0.9
    )
    found = A.return_to_go(fields["reward"], offsets, order=order, gamma=0.9)
    np.testing.assert_allclose(found.to_numpy(), returns["credit"].to_numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: A.grpo([1.0], [0, 1]), "groups has 2 rows"),
        (lambda: A.grpo([1.0, None], [0, 0]), "1 null"),
        (lambda: A.grpo([1.0, float("nan")], [0, 0]), "finite"),
        (lambda: A.grpo([1.0], [0.5]), "groups has type"),
        (lambda: A.grpo([1.0], [None]), "null"),
        (lambda: A.grpo(["a"], [0]), "rewards has type"),
        (lambda: A.grpo([[1.0]], [0]), "rewards"),
        (lambda: A.grpo([1.0], [0], ddof=2), "ddof is 2"),
        (lambda: A.grpo([1.0], [0], epsilon=-1), "epsilon is -1"),
        (lambda: A.grpo([1.0], [0], compat="trl"), "compat is 'trl'"),
        (lambda: A.grpo([1.0], [0], threads=0), "threads"),
        (lambda: A.dr_mas([1.0], [0], [1], [0]), "rollouts contains 1"),
        (lambda: A.dr_mas([1.0], [0], [-1], [0]), "rollouts has"),
        (lambda: A.dr_mas([1.0], [0], [0, 0], [0]), "rows"),
        (lambda: A.gae([1.0], [0.0, 1.0], [0, 1]), "rows"),
        (lambda: A.gae([1.0], [0.0], [0, 2]), "offsets"),
        (lambda: A.gae([1.0], [0.0], [0, 1], gamma=2), "gamma is 2"),
        (lambda: A.gae([1.0], [0.0], [0, 1], lambda_="x"), "lambda_ is 'x'"),
        (lambda: A.return_to_go([1.0, 2.0], [0, 2], order=[0, 0]), "twice"),
        (lambda: A.return_to_go([1.0, 2.0], [0.5, 2.0]), "offsets has type"),
    ],
)
def test_mistakes_are_one_line(call: Any, message: str) -> None:
    with pytest.raises(ot.ParameterError, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)


def test_nothing_gives_nothing() -> None:
    assert A.grpo([], []).to_list() == []
    assert A.gae([], [], [0]).to_list() == []
    assert A.return_to_go([], [0]).dtype == pl.Float64


def test_the_numbers_are_handed_over_without_a_copy() -> None:
    found = A.grpo(np.array([1.0, 0.0]), np.array([0, 0]))
    assert found.n_chunks() == 1
    assert found.to_numpy(allow_copy=False).shape == (2,)
