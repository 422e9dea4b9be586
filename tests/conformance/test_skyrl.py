"""Our estimators inside SkyRL's own registry, beside SkyRL's own, on random batches."""

from typing import Any

import numpy as np
import pytest

from conformance.fault_classes import Estimate, recorded, verdicts

torch = pytest.importorskip("torch", reason="SkyRL is not installed: make conformance")

try:
    from skyrl.backends.skyrl_train.utils import ppo_utils as utils
except Exception as error:  # pydantic refuses its classes on Python < 3.12
    pytest.skip(f"SkyRL is not installed, or does not import: {error}", allow_module_level=True)

from orchestrace.trainers import skyrl  # noqa: E402

PAIRS: dict[str, dict[str, Any]] = {
    "grpo": {"compat": "verl"},  # a group of one keeps its reward
    "rloo": {},
}
"""Estimators of one rule and no choice of an addend: its `maxrl` adds 1e-6 to each mean, ours nothing."""
BATCHES = 10_000


@pytest.fixture(scope="module", autouse=True)
def registered() -> list[str]:
    """Once: what a name means cannot change in a run."""
    return skyrl.register(**PAIRS)


@pytest.mark.parametrize("method", PAIRS)
def test_equal_rules_give_equal_numbers(method: str) -> None:
    """In 64 bits: ragged masks, groups of any size and order, rewards that are verdicts, any, or equal."""
    rng = np.random.default_rng(3)
    for _ in range(BATCHES // len(PAIRS)):
        sizes = rng.integers(1, 6, rng.integers(1, 6))
        rows, tokens = int(sizes.sum()), int(rng.integers(2, 12))
        mask = np.arange(tokens) < rng.integers(1, tokens + 1, rows)[:, None]
        drawn = (rng.integers(0, 2, rows), rng.random(rows), np.full(rows, 0.5))[rng.integers(3)]
        rewards = np.zeros((rows, tokens))
        rewards[np.arange(rows), mask.sum(axis=1) - 1] = drawn
        given: dict[str, Any] = {
            "token_level_rewards": torch.tensor(rewards),
            "response_mask": torch.tensor(mask.astype(float)),
            "index": np.repeat(np.arange(sizes.size), sizes)[rng.permutation(rows)],
            "config": None,
        }
        theirs, _ = utils.compute_advantages_and_returns(adv_estimator=method, **given)
        ours, _ = utils.compute_advantages_and_returns(adv_estimator=f"orchestrace_{method}", **given)
        assert (ours - theirs).abs().max().item() <= 1e-6 * max(1.0, theirs.abs().max().item()), given


OWN = ["grpo", "rloo", "maxrl", "reinforce++"]


def estimate_of(name: str) -> Estimate:
    def estimate(rewards: np.ndarray, mask: np.ndarray, groups: np.ndarray, **_: Any) -> np.ndarray:
        advantages, _ = utils.compute_advantages_and_returns(
            token_level_rewards=torch.tensor(rewards),
            response_mask=torch.tensor(mask.astype(np.float32)),
            index=groups,
            adv_estimator=name,
            config=None,
        )
        answer: np.ndarray = advantages.numpy()
        return answer

    return estimate


def test_what_the_audit_says_of_each_class_is_what_the_documents_say() -> None:
    """SkyRL shows an estimator rows and prompts, so that ours know no rollouts and no agents here."""
    found = verdicts("skyrl", {name: estimate_of(name) for name in [*OWN, "orchestrace_grpo"]})
    assert found == recorded("skyrl", found)
    assert found["orchestrace_grpo"]["c"] == found["orchestrace_grpo"]["f"] == "holds"
