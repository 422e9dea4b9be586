"""Batches of the classes of wrong advantages: an estimator that is right passes all, and faults show."""

from typing import Any

import numpy as np
import pytest

from conformance.fault_classes import CLASSES, verdict
from orchestrace.trainers.batch import Batch
from orchestrace.trainers.batches import token_advantages


def ours(method: str, **options: Any) -> Any:
    def estimate(
        rewards: np.ndarray,
        mask: np.ndarray,
        groups: np.ndarray,
        rollout: Any = None,
        turn: Any = None,
        **columns: Any,
    ) -> np.ndarray:
        if (trained := columns.get("trained")) is not None:  # what is filtered out is in no group
            kept = np.flatnonzero(trained)
            out = np.zeros(mask.shape, np.float32)
            out[kept] = token_advantages(Batch(rewards[kept], mask[kept], groups[kept]), method, **options)[0]
            return out
        if (agent := columns.get("agent")) is not None:
            groups = np.array([f"{one} {other}" for one, other in zip(groups, agent, strict=True)])
        paid = {"rewards": "turn"} if turn is not None else {}
        batch = Batch(rewards, mask, groups, rollouts=rollout, order=turn)
        return token_advantages(batch, method, **options, **paid).advantages

    return estimate


@pytest.mark.parametrize("letter", CLASSES)
def test_ours_holds(letter: str) -> None:
    estimate = ours("return_to_go", gamma=1.0) if letter == "l" else ours("grpo")
    assert verdict(estimate, letter) == "holds"


def naive(rewards: np.ndarray, groups: np.ndarray, mask: np.ndarray, wrong: str) -> np.ndarray:
    """GRPO of rows in 32 bits, as it is written in an afternoon, with one more thing wrong."""
    paid = rewards.sum(axis=1)
    if wrong == "unmasked":
        mask = np.ones_like(mask)
    if wrong == "split":
        groups = np.array([f"{group} {at // 4}" for at, group in enumerate(groups)])
    out = np.zeros(len(paid), np.float32)
    for group in np.unique(groups):
        mine = groups == group
        spread = paid[mine].std(ddof=1) if mine.sum() > 1 else np.float32("nan")
        out[mine] = (paid[mine] - paid[mine].mean()) / (spread + np.float32(1e-6))
    if wrong == "split":
        out = np.nan_to_num(out)
    if wrong == "twice":
        out = (out - out.mean()) / out.std(ddof=1)
    if wrong == "lengths":
        out = out / mask.sum(axis=1)
    return out[:, None] * mask


SHOWN = {
    ("", "a"): "fanout.counted",
    ("split", "b"): "group.split",
    ("", "c"): "lone.nan",
    ("twice", "d"): "normalized.twice",
    ("lengths", "e"): "length.weighted",
    ("", "f"): "noise.equal",
    ("", "g"): "group.merged",
    ("", "h"): "filtered.counted",
    ("unmasked", "i"): "mask.unequal",
}


@pytest.mark.parametrize(("wrong", "letter"), SHOWN)
def test_a_naive_estimator_is_named(wrong: str, letter: str) -> None:
    def estimate(rewards: np.ndarray, groups: np.ndarray, mask: np.ndarray, **_: Any) -> np.ndarray:
        return naive(rewards, groups, mask, wrong)

    assert verdict(estimate, letter) == SHOWN[wrong, letter]
