"""What we call a rule of verl gives verl's numbers: its own estimators on the same rewards."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import orchestrace as ot

REASON = "verl (with torch, tensordict, ray) is not installed, whose estimators are asked"
torch = pytest.importorskip("torch", reason=REASON)
algos = pytest.importorskip("verl.trainer.ppo.core_algos", reason=REASON)
A = ot.trainers.advantages

GROUPS = np.array(["a"] * 4 + ["b"] * 3 + ["alone"] + ["equal"] * 2 + ["c"] * 6)
LENGTHS = np.array([3, 1, 7, 2, 5, 5, 1, 4, 2, 6, 1, 9, 3, 8, 2, 4])


def rewards(seed: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(size=len(GROUPS)).round(2)
    drawn[GROUPS == "equal"] = 0.25
    return drawn


def asked(estimator: str, scores: np.ndarray, lengths: np.ndarray, **options: Any) -> np.ndarray:
    """What verl gives the first token of each rollout; the reward is on the last one."""
    mask = torch.arange(int(lengths.max()))[None, :] < torch.tensor(lengths)[:, None]
    given = torch.zeros(mask.shape, dtype=torch.float64)
    given[torch.arange(len(scores)), torch.tensor(lengths) - 1] = torch.tensor(scores)
    advantages, _ = getattr(algos, estimator)(given, mask.double(), GROUPS, **options)
    found: np.ndarray = advantages[:, 0].numpy()
    return found


@pytest.fixture
def corpus(tmp_path: Path) -> ot.Corpus:
    lines = []
    for at, (group, length, reward) in enumerate(zip(GROUPS, LENGTHS, rewards(5), strict=True)):
        said = {
            "id": "e",
            "t": 0,
            "type": "message",
            "agent": "policy",
            "to": "user",
            "tokens_out": int(length),
        }
        run = {"trace_id": f"r{at:02}", "task_id": str(group), "events": [said], "edges": []}
        lines.append(
            json.dumps(run | {"rewards": {"team": reward}, "costs": {"tokens": 0, "wall_clock_s": 0}})
        )
    path = tmp_path / "runs.jsonl"
    path.write_text("\n".join(lines))
    return ot.read_traces(path)


@pytest.mark.parametrize(
    ("method", "estimator", "options"),
    [
        ("grpo", "compute_grpo_outcome_advantage", {}),
        ("dr_grpo", "compute_grpo_outcome_advantage", {"norm_adv_by_std_in_grpo": False}),
        ("rloo", "compute_rloo_outcome_advantage", {}),
        ("opo", "compute_opo_outcome_advantage", {}),
    ],
)
def test_groups(corpus: ot.Corpus, method: str, estimator: str, options: dict[str, Any]) -> None:
    wanted = asked(estimator, rewards(5), LENGTHS, **options)
    found = ot.credit(corpus, method=method, unit="team", compat="verl")["credit"]
    np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert wanted[7] != 0.0  # the group of one keeps its reward


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("ours", "estimator", "options"),
    [
        (A.grpo, "compute_grpo_outcome_advantage", {}),
        (A.dr_grpo, "compute_grpo_outcome_advantage", {"norm_adv_by_std_in_grpo": False}),
        (A.rloo, "compute_rloo_outcome_advantage", {}),
    ],
)
def test_arrays(seed: int, ours: Any, estimator: str, options: dict[str, Any]) -> None:
    scores = rewards(seed)
    wanted = asked(estimator, scores, LENGTHS, **options)
    np.testing.assert_allclose(ours(scores, GROUPS, compat="verl"), wanted, atol=1e-6)


def test_whitened_over_rollouts_of_one_token(corpus: ot.Corpus) -> None:
    """verl whitens over tokens, which is over rollouts where each has one."""
    wanted = asked(
        "compute_reinforce_plus_plus_baseline_outcome_advantage", rewards(5), np.ones_like(LENGTHS)
    )
    found = ot.credit(corpus, method="reinforce_pp", unit="team", baseline=True, compat="verl")["credit"]
    np.testing.assert_allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize(("gamma", "lambda_"), [(1.0, 1.0), (0.9, 0.8)])
def test_gae_before_it_is_whitened(gamma: float, lambda_: float) -> None:
    rng = np.random.default_rng(1)
    paid, values = rng.normal(size=(2, 3, 6))
    ones = torch.ones(3, 6, dtype=torch.float64)
    wanted, returns = algos.compute_gae_advantage_return(
        torch.tensor(paid), torch.tensor(values), ones, gamma, lambda_
    )
    found = A.gae(paid.ravel(), values.ravel(), [0, 6, 12, 18], gamma=gamma, lambda_=lambda_).to_numpy()
    np.testing.assert_allclose(found + values.ravel(), returns.numpy().ravel(), atol=1e-9)
    whitened = (found - found.mean()) / np.sqrt(found.var(ddof=1) + 1e-8)
    np.testing.assert_allclose(whitened, wanted.numpy().ravel(), atol=1e-6)
