"""Our estimators inside SkyRL's own registry, beside SkyRL's own, on random batches."""

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="SkyRL is not installed: make conformance")

try:
    from skyrl.backends.skyrl_train.utils import ppo_utils as utils
except Exception as error:  # pydantic refuses its classes on Python < 3.12
    pytest.skip(f"SkyRL is not installed, or does not import: {error}", allow_module_level=True)

from orchestrace.trainers import skyrl  # noqa: E402

PAIRS = {"grpo": {"compat": "verl"}, "rloo": {"compat": "verl"}}


@pytest.mark.parametrize("method", PAIRS)
def test_equal_rules_give_equal_numbers(method: str) -> None:
    skyrl.register(**{method: PAIRS[method]})
    rng = np.random.default_rng(3)
    for _ in range(1_000):
        sizes = rng.integers(1, 6, rng.integers(1, 6))
        rows, tokens = int(sizes.sum()), int(rng.integers(2, 12))
        mask = np.arange(tokens) < rng.integers(1, tokens + 1, rows)[:, None]
        rewards = np.zeros((rows, tokens))
        rewards[np.arange(rows), mask.sum(axis=1) - 1] = rng.random(rows)
        given: dict[str, Any] = {
            "token_level_rewards": torch.tensor(rewards),
            "response_mask": torch.tensor(mask.astype(float)),
            "index": np.repeat(np.arange(sizes.size), sizes)[rng.permutation(rows)],
            "config": None,
        }
        theirs, _ = utils.compute_advantages_and_returns(adv_estimator=method, **given)
        ours, _ = utils.compute_advantages_and_returns(adv_estimator=f"orchestrace_{method}", **given)
        assert (ours - theirs).abs().max().item() <= 1e-6 * max(1.0, theirs.abs().max().item())
