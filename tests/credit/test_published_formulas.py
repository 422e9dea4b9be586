"""What released trainers compute, derived again in NumPy, against ours; every difference is explained.

verl: verl/trainer/ppo/core_algos.py and verl/utils/torch_functional.py. TRL: GRPOTrainer and RLOOTrainer.
Dr. MAS and GiGPO: the functions of their repositories. Rewards there are 32-bit floats, and a group of one
has mean 0 and deviation 1, so that its reward leaks into the advantage as it is.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from samples.hand_runs import credited, group, run, turns, values

Array = NDArray[Any]
REWARDS = [1.0, 0.0, 0.25, 1.0, 0.5, 0.5, 0.5, -2.0, 3.0, 0.7]
INDEX = np.array([0, 0, 0, 0, 1, 1, 1, 2, 3, 3])  # of these group 1 has no spread, group 2 is alone
ALONE = 7
FLAT = [4, 5, 6]
SINGLE = np.float32
DOUBLE = np.float64


def batch() -> list[dict[str, Any]]:
    return [run(n, r, task=f"task{g}") for n, (r, g) in enumerate(zip(REWARDS, INDEX, strict=True))]


def assert_close(ours: list[float | None], theirs: Array, tolerance: float = 1e-9) -> None:
    assert None not in ours
    np.testing.assert_allclose(np.array(ours, dtype=float), theirs, rtol=tolerance, atol=tolerance)


# --- verl --------------------------------------------------------------------------------------------


def verl_moments(scores: Array, index: Array) -> tuple[Array, Array]:
    """Mean and deviation of each row's group; 0 and 1 where the row is alone."""
    center, spread = np.zeros_like(scores), np.ones_like(scores)
    for own in np.unique(index):
        members = scores[index == own]
        if len(members) > 1:
            center[index == own] = members.mean(dtype=scores.dtype)
            spread[index == own] = members.std(ddof=1, dtype=scores.dtype)
    return center, spread


def verl_grpo(scores: Array, index: Array, by_std: bool = True, epsilon: float = 1e-6) -> Array:
    center, spread = verl_moments(scores, index)
    return (scores - center) / (spread + scores.dtype.type(epsilon)) if by_std else scores - center


def verl_rloo(scores: Array, index: Array) -> Array:
    center, _ = verl_moments(scores, index)
    count = np.array([(index == own).sum() for own in index])
    factor = np.where(count > 1, count / np.maximum(count - 1, 1), 1.0)
    return np.where(count > 1, scores * factor - center * factor, scores)


def verl_pass_k(scores: Array, index: Array, by_std: bool = True, epsilon: float = 1e-6) -> Array:
    found = np.zeros_like(scores)
    for own in np.unique(index):
        members = np.flatnonzero(index == own)
        if len(members) < 2:
            raise ValueError("Pass@k requires at least 2 samples per group")
        best, second = np.argsort(-scores[members], kind="stable")[:2]
        gap = scores[members[best]] - scores[members[second]]
        found[members[best]] = gap / (scores[members].std(ddof=1) + epsilon) if by_std else gap
    return found


def masked_whiten(tokens: Array, mask: Array) -> Array:
    count = mask.sum()
    center = (tokens * mask).sum() / (count + 1e-8)
    spread = ((tokens - center) ** 2 * mask).sum() / (count + 1e-8) * count / (count - 1)
    whitened: Array = (tokens - center) / np.sqrt(spread + 1e-8)
    return whitened


def verl_reinforce_pp(scores: Array, lengths: list[int], gamma: float = 1.0) -> Array:
    """The reward sits on the last token; returns flow to the first, and all tokens are whitened at once."""
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    power = np.array(lengths)[:, None] - 1 - np.arange(max(lengths))
    returns = np.where(mask, scores[:, None] * gamma ** np.maximum(power, 0), 0.0)
    return masked_whiten(returns, mask) * mask


def verl_reinforce_pp_baseline(scores: Array, index: Array, lengths: list[int]) -> Array:
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    centered = scores - verl_moments(scores, index)[0]
    return masked_whiten(np.where(mask, centered[:, None], 0.0), mask) * mask


def verl_gae(rewards: Array, critic: Array, gamma: float, lam: float) -> Array:
    """One response without observation tokens, before the whitening."""
    found, after, running = np.zeros_like(rewards), 0.0, 0.0
    for t in reversed(range(len(rewards))):
        running = rewards[t] + gamma * after - critic[t] + gamma * lam * running
        found[t], after = running, critic[t]
    return found


GROUPED: list[tuple[str, dict[str, Any], Callable[[Array, Array], Array]]] = [
    ("grpo", {}, verl_grpo),
    ("dr_grpo", {}, lambda scores, index: verl_grpo(scores, index, by_std=False)),
    ("rloo", {}, verl_rloo),
]


@pytest.mark.parametrize(
    ("method", "params", "theirs"), GROUPED, ids=lambda x: x if isinstance(x, str) else ""
)
def test_verl_by_group(method: str, params: dict[str, Any], theirs: Callable[[Array, Array], Array]) -> None:
    published = theirs(np.array(REWARDS), INDEX)
    assert_close(values(batch(), method, compat="verl", **params), published)
    assert published[ALONE] == pytest.approx(REWARDS[ALONE], rel=1e-5), "the lone reward leaks"
    # In single precision, as released, only rounding differs.
    assert_close(
        values(batch(), method, compat="verl", **params), theirs(np.array(REWARDS, SINGLE), INDEX), 1e-5
    )

    ours = credited(batch(), method, **params)
    assert ours[ALONE, "team"] == (0.0, "group.degenerate")
    others = [n for n in range(len(REWARDS)) if n != ALONE]
    assert_close([ours[n, "team"][0] for n in others], published[others])
    assert all(ours[n, "team"] == (0.0, "group.degenerate") for n in FLAT)


def test_verl_grpo_amplifies_rounding_where_nobody_was_better() -> None:
    """Seven equal rewards in single precision: the mean is off by an ulp, and 1/epsilon makes it a signal."""
    rewards = np.full(7, 0.1, SINGLE)
    published = verl_grpo(rewards, np.zeros(7))
    off = rewards.sum(dtype=SINGLE) / SINGLE(7) - rewards[0]
    assert abs(float(off)) > 0
    assert 1e-4 < abs(published).max() < 0.1
    assert set(values(group([0.1] * 7), "grpo")) == {0.0}
    assert set(values(group([0.1] * 7), "grpo", compat="verl")) == {0.0}


def test_verl_pass_k() -> None:
    some = [n for n in range(len(REWARDS)) if n != ALONE]
    scores, index = np.array(REWARDS)[some], INDEX[some]
    documents = [batch()[n] for n in some]
    assert_close(values(documents, "pass_k", norm_std=True), verl_pass_k(scores, index))
    assert_close(values(documents, "pass_k"), verl_pass_k(scores, index, by_std=False))
    # Two of group 0 share the top: nobody is better than the second best.
    assert values(documents, "pass_k")[:4] == [0.0] * 4
    with pytest.raises(ValueError, match="at least 2"):
        verl_pass_k(np.array(REWARDS), INDEX)
    assert credited(batch(), "pass_k")[ALONE, "team"] == (0.0, "group.degenerate")


def test_verl_reinforce_pp_whitens_tokens() -> None:
    """Released code whitens tokens. Ours counts each rollout as one: equal where all are one token long."""
    scores, ones = np.array(REWARDS), [1] * len(REWARDS)
    # A masked mean divides by the count + 1e-8.
    assert_close(values(batch(), "reinforce_pp"), verl_reinforce_pp(scores, ones)[:, 0], 1e-7)

    lengths = list(range(1, len(REWARDS) + 1))
    by_tokens = verl_reinforce_pp(scores, lengths)[:, 0]
    assert abs(by_tokens - np.array(values(batch(), "reinforce_pp"), float)).max() > 0.1
    # The whole difference: a rollout weighs as many times as it has tokens.
    long = np.repeat(scores, lengths)
    weighted = (scores - long.mean()) / math.sqrt(long.var(ddof=1) + 1e-8)
    np.testing.assert_allclose(by_tokens, weighted, rtol=1e-7, atol=1e-7)
    repeated = [n for n, length in enumerate(lengths) for _ in range(length)]
    documents = [run(k, REWARDS[n], task=f"task{k}") for k, n in enumerate(repeated)]
    assert_close(values(documents, "reinforce_pp"), np.repeat(by_tokens, lengths), 1e-7)


def test_verl_reinforce_pp_baseline() -> None:
    scores, ones = np.array(REWARDS), [1] * len(REWARDS)
    published = verl_reinforce_pp_baseline(scores, INDEX, ones)[:, 0]
    assert_close(values(batch(), "reinforce_pp", baseline=True, compat="verl"), published, 1e-7)
    # The leak of the lone reward shifts and scales the whole batch; without it the lone one is 0.
    ours = np.array(values(batch(), "reinforce_pp", baseline=True), float)
    assert ours[ALONE] == 0.0 and abs(published[ALONE]) > 1
    centered = np.where(np.arange(len(scores)) == ALONE, 0.0, scores - verl_moments(scores, INDEX)[0])
    np.testing.assert_allclose(ours, centered / math.sqrt(centered.var(ddof=1) + 1e-8), rtol=1e-9, atol=1e-9)


def test_verl_gae_is_ours_before_whitening() -> None:
    steps, critic = np.array([0.0, 0.5, 0.0, -0.25]), np.array([0.2, 0.1, 0.6, 0.4])
    events = turns("lead", "ann", "lead", "bob", reward=steps.tolist(), value=critic.tolist())
    published = verl_gae(steps + np.array([0, 0, 0, 1.0]), critic, 0.9, 0.8)
    ours = values([run(0, 1.0, events)], "gae", "turn", gamma=0.9, lambda_=0.8)
    assert_close(ours, published)
    whitened = masked_whiten(published, np.ones(4))
    assert abs(whitened - published).max() > 0.1, "which verl then whitens over the batch, we do not"


# --- TRL ---------------------------------------------------------------------------------------------


def trl_grpo(scores: Array, size: int, scale: str = "group") -> Array:
    grouped = scores.reshape(-1, size)
    centered = (grouped - grouped.mean(1, keepdims=True)).ravel()
    if scale == "none":
        return centered
    if scale == "batch":
        return centered / (scores.std(ddof=1) + 1e-4)
    spread = grouped.std(1, ddof=1) if size > 1 else np.zeros(len(grouped))
    return centered / (np.repeat(spread, size) + 1e-4)


def trl_rloo(scores: Array, size: int, normalize: bool = False) -> Array:
    grouped = scores.reshape(-1, size)
    if size == 1:
        return np.zeros_like(scores)
    others = (grouped.sum(1, keepdims=True) - grouped) / (size - 1)
    found = (grouped - others).ravel()
    return (found - found.mean()) / (found.std(ddof=1) + 1e-4) if normalize else found


EVEN = np.array([1.0, 0.0, 0.0, 0.5, 0.25, 0.25, 0.25, 0.25])


def even(size: int) -> list[dict[str, Any]]:
    return [run(n, float(r), task=f"task{n // size}") for n, r in enumerate(EVEN)]


def test_trl_grpo() -> None:
    """The same rule with 1e-4 in place of 1e-6; without scaling it is Dr. GRPO."""
    assert_close(values(even(4), "grpo", epsilon=1e-4), trl_grpo(EVEN, 4))
    assert_close(values(even(4), "dr_grpo"), trl_grpo(EVEN, 4, "none"))
    assert abs(trl_grpo(EVEN, 4) - np.array(values(even(4), "grpo"), float)).max() > 1e-5
    # One deviation for the batch is a common factor of Dr. GRPO.
    scaled = np.array(values(even(4), "dr_grpo"), float) / (EVEN.std(ddof=1) + 1e-4)
    np.testing.assert_allclose(trl_grpo(EVEN, 4, "batch"), scaled, rtol=1e-9, atol=1e-9)


def test_trl_has_no_leak() -> None:
    """Groups of one are 0 there as here, and not the reward as in verl."""
    for method, published in (("grpo", trl_grpo(EVEN, 1)), ("rloo", trl_rloo(EVEN, 1))):
        assert_close(values(even(1), method), published)
        assert not published.any()
        assert_close(values(even(1), method, compat="verl"), EVEN, 1e-5)


def test_trl_rloo() -> None:
    assert_close(values(even(4), "rloo"), trl_rloo(EVEN, 4))
    ours = np.array(values(even(4), "rloo"), float)
    normalized = (ours - ours.mean()) / (ours.std(ddof=1) + 1e-4)
    np.testing.assert_allclose(trl_rloo(EVEN, 4, normalize=True), normalized, rtol=1e-9, atol=1e-9)


# --- Dr. MAS and GiGPO -------------------------------------------------------------------------------

#: Rollouts of one task: owners of the turns, rewards on the way, anchors, outcome.
ROLLOUTS = [
    (["lead", "ann", "lead"], [0.0, 0.5, 0.0], ["s", "u", "v"], 1.0),
    (["lead", "ann", "ann", "ann"], [0.0, 0.0, 0.25, 0.0], ["s", "u", "u", "w"], 0.0),
    (["lead", "bob"], [0.1, 0.0], ["s", "z"], 0.5),
]


def rollouts() -> list[dict[str, Any]]:
    return [
        run(n, outcome, turns(*owners, reward=steps, state_key=anchors))
        for n, (owners, steps, anchors, outcome) in enumerate(ROLLOUTS)
    ]


def test_dr_mas_normalizes_over_the_active_steps_of_an_agent() -> None:
    """Its index is prompt and agent, its rows are calls: who is called more often counts more often."""
    owners = np.array([owner for row in ROLLOUTS for owner in row[0]])
    scores = np.array([row[3] for row in ROLLOUTS for _ in row[0]])
    published = verl_grpo(scores, owners)
    assert_close(values(rollouts(), "dr_mas", "turn", compat="verl"), published)
    bob = list(owners).index("bob")
    assert published[bob] == pytest.approx(0.5, rel=1e-5), "one call: the reward leaks"
    ours = values(rollouts(), "dr_mas", "turn")
    assert ours[bob] == 0.0
    assert_close(np.delete(np.array(ours, float), bob).tolist(), np.delete(published, bob))
    ann = (owners == "ann").nonzero()[0]
    assert scores[ann].mean() == 0.25, "three calls of the rollout that failed, one of the other"


@pytest.mark.parametrize("norm", ["mean_std", "mean"])
@pytest.mark.parametrize("weight", [0.0, 1.0, 0.5])
def test_gigpo(norm: str, weight: float) -> None:
    gamma, dtype = 0.95, DOUBLE
    outcomes = np.array([row[3] for row in ROLLOUTS], dtype)
    lengths = [len(row[0]) for row in ROLLOUTS]
    episode = np.repeat(verl_grpo(outcomes, np.zeros(3), norm == "mean_std"), lengths)
    returns = []
    for _, steps, _, outcome in ROLLOUTS:
        rewards = np.array(steps, dtype) + np.array([0.0] * (len(steps) - 1) + [outcome])
        returns += verl_gae(rewards, np.zeros(len(steps)), gamma, 1.0).tolist()
    anchors = np.array([anchor for row in ROLLOUTS for anchor in row[2]])
    alone = np.array([(anchors == anchor).sum() == 1 for anchor in anchors])
    # At the step level a lone anchor is 0 in the released code too: its mean is its own.
    step = np.where(alone, 0.0, verl_grpo(np.array(returns, dtype), anchors, norm == "mean_std"))
    ours = values(rollouts(), "gigpo", "turn", norm=norm, step_weight=weight, gamma=gamma)
    assert_close(ours, episode + weight * step)
    assert alone.any() and not alone.all()


def test_gigpo_leaks_a_lone_rollout() -> None:
    """The episode term has verl's mean 0 and deviation 1; ours is 0."""
    lone = rollouts()[:1]
    assert verl_grpo(np.array([1.0]), np.zeros(1))[0] == pytest.approx(1.0, rel=1e-5)
    assert values(lone, "gigpo", "turn") == [0.0] * 3
