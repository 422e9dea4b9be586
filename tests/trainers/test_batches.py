"""A batch of a trainer gets the numbers of the offline engine, token by token."""

import io
import json
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import orchestrace as ot
from orchestrace.trainers import batches as module
from orchestrace.trainers.batch import Batch
from orchestrace.trainers.batches import estimators, token_advantages


@st.composite
def batches(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Ragged rows of groups of any size, in any order: rewards on the last trained token."""
    groups = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=12))
    tokens = draw(st.integers(1, 5))
    lengths = draw(st.lists(st.integers(1, tokens), min_size=len(groups), max_size=len(groups)))
    outcomes = draw(
        st.lists(st.sampled_from([0.0, 0.35, 1.0, -2.5]), min_size=len(groups), max_size=len(groups))
    )
    mask = (np.arange(tokens) < np.array(lengths)[:, None]).astype(np.int64)
    rewards = np.zeros(mask.shape)
    rewards[np.arange(len(groups)), np.array(lengths) - 1] = outcomes
    return rewards, mask, groups


@settings(deadline=None)
@given(batches())
@pytest.mark.parametrize("method", ["grpo", "dr_grpo", "rloo"])
def test_a_row_gets_the_advantage_of_its_rollout(
    method: str, drawn: tuple[np.ndarray, np.ndarray, list[str]]
) -> None:
    rewards, mask, groups = drawn
    rows = getattr(ot.trainers.advantages, method)(rewards.sum(axis=1), groups).to_numpy()
    found = token_advantages(Batch(rewards, mask, groups), method)
    assert np.array_equal(found.advantages, np.where(mask > 0, rows[:, None], 0).astype(np.float32))
    assert found.credited.all() and found.advantages.dtype == np.float32


def team(rng: np.random.Generator) -> list[dict[str, Any]]:
    """Rows of eight rollouts of two tasks, shuffled: who acted, when, how long, and what a rollout earned."""
    rows = []
    for rollout in range(8):
        outcome = float(rng.integers(0, 3))
        turns = int(rng.integers(1, 5))
        for turn in range(turns):
            last = turn == turns - 1
            rows.append(
                {
                    "rollout": f"r{rollout}",
                    "group": f"task {rollout // 4}",
                    "turn": turn,
                    "agent": "lead" if turn % 2 == 0 else "coder",
                    "tokens": int(rng.integers(1, 6)),
                    "reward": outcome if last else 0.0,
                }
            )
    return [rows[place] for place in rng.permutation(len(rows))]


def as_batch(rows: list[dict[str, Any]]) -> Batch:
    mask = np.arange(6) < np.array([row["tokens"] for row in rows])[:, None]
    rewards = np.zeros(mask.shape)
    rewards[:, 0] = [row["reward"] for row in rows]
    names = {"rollouts": "rollout", "order": "turn", "agents": "agent"}
    columns = {field: [row[name] for row in rows] for field, name in names.items()}
    return Batch(rewards, mask, [row["group"] for row in rows], **columns)


def recorded(rows: list[dict[str, Any]], method: str) -> list[float]:
    """The credit of each row, from a recording of the same rollouts."""
    lines = []
    for name in sorted({row["rollout"] for row in rows}):
        mine = sorted((row for row in rows if row["rollout"] == name), key=lambda row: row["turn"])
        events = [
            {
                "id": str(row["turn"]),
                "t": row["turn"],
                "type": "message",
                "agent": row["agent"],
                "turn": row["turn"],
                "tokens_out": row["tokens"],
            }
            for row in mine
        ]
        lines.append(
            {
                "trace_id": name,
                "task_id": mine[0]["group"],
                "events": events,
                "edges": [],
                "rewards": {"team": mine[-1]["reward"]},
                "costs": {"tokens": 0, "wall_clock_s": 0},
            }
        )
    corpus = ot.read_traces(io.BytesIO("\n".join(map(json.dumps, lines)).encode()))
    table = ot.credit(corpus, method=method, unit="event")
    found = {(row["trace_id"], row["unit_id"]): row["credit"] for row in table.iter_rows(named=True)}
    return [found[row["rollout"], str(row["turn"])] for row in rows]


@pytest.mark.parametrize("method", ["dr_mas", "at_grpo", "opo", "grpo", "uniform", "reinforce_pp"])
def test_a_batch_gets_what_its_recording_gets(method: str) -> None:
    rows = team(np.random.default_rng(7))
    found = token_advantages(as_batch(rows), method)
    wanted = np.array(recorded(rows, method), dtype=np.float32)
    for row, expected, got in zip(rows, wanted, found.advantages, strict=True):
        assert got.tolist() == [expected] * row["tokens"] + [0.0] * (6 - row["tokens"])


def test_turns_of_a_row_are_the_runs_of_its_mask() -> None:
    mask = np.array([[1, 1, 0, 1, 0], [0, 1, 0, 0, 1]])
    rewards = np.array([[0.0, 1.0, 0.0, 2.0, 4.0], [8.0, 0.0, 0.0, 0.0, 16.0]])
    batch = Batch(rewards, mask, ["g", "g"], agents=[["a", "b"], ["a", "b"]])
    found = token_advantages(batch, "return_to_go", turns="mask", rewards="turn", gamma=1.0)
    # What stands behind a turn, or before the first, is of the turn next to it.
    assert found.advantages.tolist() == [[7, 7, 0, 6, 0], [0, 24, 0, 0, 16]]


def test_a_row_of_which_nothing_is_trained_needs_no_names_of_turns() -> None:
    mask = np.array([[1, 0, 1], [0, 0, 0]])
    batch = Batch(np.array([[0.0, 0, 1.0], [0.0, 0, 0]]), mask, ["g", "g"], agents=[["a", "b"], ["a", "b"]])
    found = token_advantages(batch, "dr_grpo", turns="mask")
    assert found.advantages.tolist() == [[0.5, 0, 0.5], [0, 0, 0]]


def test_outcome_of_several_rows() -> None:
    rewards, mask = np.array([[1.0], [2.0], [5.0]]), np.ones((3, 1))
    batch = Batch(rewards, mask, ["g"] * 3, rollouts=["x", "x", "y"])
    assert token_advantages(batch, "dr_grpo").advantages[:, 0].tolist() == [-1.5, -1.5, 1.5]
    assert token_advantages(batch, "dr_grpo", outcome="sum").advantages[:, 0].tolist() == [-1, -1, 1]


def test_who_is_not_trained_gets_nothing() -> None:
    rewards, mask = np.array([[1.0], [1.0], [0.0]]), np.ones((3, 1))
    batch = Batch(rewards, mask, ["g"] * 3, rollouts=["x", "x", "y"], trainable=[True, False, True])
    found = token_advantages(batch, "dr_grpo")
    assert found.advantages[:, 0].tolist() == [0.5, 0.0, -0.5]
    assert found.credited[:, 0].tolist() == [True, False, True]


def test_a_row_without_an_advantage_is_an_error_or_left_out() -> None:
    rewards, mask = np.array([[np.nan], [1.0], [0.0]]), np.ones((3, 1))
    batch = Batch(rewards, mask, ["g"] * 3)
    message = "dr_grpo has no advantage for 1 of the rows, the first is row 0: reward.absent"
    with pytest.raises(ot.ParameterError, match=message):
        token_advantages(batch, "dr_grpo")
    found = token_advantages(batch, "dr_grpo", null="mask")
    assert found.credited[:, 0].tolist() == [False, True, True]
    assert found.advantages[:, 0].tolist() == [0.0, 0.5, -0.5]


def test_columns_may_be_arrays_of_objects() -> None:
    """As verl carries them along."""
    rows = team(np.random.default_rng(7))
    batch = as_batch(rows)
    columns = {"rollouts": batch.rollouts, "order": batch.order, "agents": batch.agents}
    objects = {name: np.array(values, dtype=object) for name, values in columns.items()}
    objects["trainable"] = np.array([True] * len(rows), dtype=object)
    groups = np.array([int(str(group)[-1]) for group in batch.groups], dtype=object)
    found = token_advantages(Batch(batch.rewards, batch.mask, groups, **objects), "dr_mas")
    assert np.array_equal(found.advantages, token_advantages(batch, "dr_mas").advantages)


def test_an_empty_batch_and_rows_without_tokens() -> None:
    empty = Batch(np.zeros((0, 3)), np.zeros((0, 3)), [])
    assert token_advantages(empty, "grpo").advantages.shape == (0, 3)
    batch = Batch(np.array([[0.0, 1.0], [0.0, 0.0]]), np.array([[0, 0], [1, 1]]), ["g", "g"])
    assert token_advantages(batch, "dr_grpo").advantages.tolist() == [[0, 0], [-0.5, -0.5]]


ONE = {"rewards": np.ones((2, 2)), "mask": np.ones((2, 2)), "groups": ["g", "g"]}


@pytest.mark.parametrize(
    ("fields", "options", "message"),
    [
        (
            {"mask": np.ones((2, 3))},
            {},
            "rewards has shape (2, 2), mask (2, 3): expected (rows, tokens) of both",
        ),
        ({"groups": ["g"]}, {}, "groups has 1 values, expected one for each of 2 rows"),
        ({"groups": ["g", "h"], "rollouts": ["x", "x"]}, {}, "groups differs within a rollout"),
        ({"groups": ["g", None]}, {}, "groups has no value in row 1: expected one of each row"),
        ({"rollouts": np.array(["x", None])}, {}, "rollouts has no value in row 1"),
        ({"agents": [None, "a"]}, {}, "agents has no value in row 0"),
        ({"order": [0, float("nan")]}, {}, "order has no value in row 1"),
        ({"trainable": np.array([True, None])}, {}, "trainable has no value in row 1"),
        ({"agents": [["a"], ["a", "b"]]}, {"turns": "mask"}, "agents names 2 turns of row 1, its mask has 1"),
        ({}, {"turns": "word"}, "unknown turns 'word'"),
        ({}, {"null": "zero"}, "unknown null 'zero'"),
        ({}, {"method": "grop"}, "'grop'; did you mean 'grpo'?"),
        ({}, {"width": 3}, "unknown parameter 'width'"),
    ],
)
def test_slips(fields: dict[str, Any], options: dict[str, Any], message: str) -> None:
    options = {"method": "grpo", **options}
    with pytest.raises(ot.ParameterError) as caught:
        token_advantages(Batch(**ONE | fields), **options)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_baseline_that_goes_on_is_refused() -> None:
    assert "rae" in ot.list_methods()["name"] and "rae" not in estimators()
    batch = Batch(np.ones((2, 1)), mask=[[1], [1]], groups=["a", "a"])
    with pytest.raises(ot.ParameterError, match="goes on from batch to batch"):
        token_advantages(batch, "rae")


@settings(deadline=None, max_examples=80)
@given(
    st.integers(0, 10_000),
    st.sampled_from(["grpo", "dr_grpo", "rloo", "opo", "maxrl", "pass_k", "reinforce_pp"]),
    st.sampled_from(["last", "sum"]),
)
def test_the_kernel_on_arrays_gives_the_bits_of_credit(seed: int, method: str, outcome: Any) -> None:
    """Ragged masks, groups of one, equal rewards, rollouts of several rows in any order."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    rollout = rng.integers(0, n, n)
    paid = np.zeros((n, 4))
    paid[:, 2] = rng.choice([0.0, 1.0, 0.35, 1e-3], n) if seed % 2 else rng.standard_normal(n)
    mask = np.arange(4) < rng.integers(0, 5, n)[:, None]
    group = rng.integers(0, 4, n)[rollout]
    known = {param["name"] for param in ot.list_methods().filter(name=method)["params"].item()}
    params: dict[str, Any] = {"compat": "verl"} if seed % 3 == 0 and "compat" in known else {}
    if method == "reinforce_pp":
        params |= {"baseline": seed % 2 == 0}
    if method == "maxrl":
        paid[:, 2] = rng.integers(0, 2, n)
    if method == "grpo":
        params |= {"ddof": seed % 2, "epsilon": 1e-4}
    batch = Batch(paid, mask, group, rollouts=rollout, order=rng.random(n))
    fast = token_advantages(batch, method, outcome=outcome, null="mask", **params)
    with mock.patch.object(module, "_OF_OUTCOMES", {}), mock.patch.object(module, "_OF_ROLLOUTS", ()):
        slow = token_advantages(batch, method, outcome=outcome, null="mask", **params)
    assert fast.advantages.tobytes() == slow.advantages.tobytes()
    assert (fast.credited == slow.credited).all()


@pytest.mark.parametrize("options", [{"epsilon": -1.0}, {"ddof": 7}, {"gamma": 0.5}, {"compat": "trl"}])
def test_wrong_options_are_told_by_credit(options: dict[str, Any]) -> None:
    batch = Batch(np.ones((2, 1)), mask=[[1], [1]], groups=["a", "a"])
    with pytest.raises(ot.ParameterError) as fast:
        token_advantages(batch, "grpo", **options)
    with mock.patch.object(module, "_OF_OUTCOMES", {}), pytest.raises(ot.ParameterError) as slow:
        token_advantages(batch, "grpo", **options)
    assert str(fast.value) == str(slow.value)
