"""Audit of dumps as trainers write them: faults are named, and twins without a fault are not accused."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest

import orchestrace as ot
from orchestrace.trainers import skyrl, verl
from orchestrace.trainers.faults import FAULTS
from trainers.test_audit import CASES, LENGTHS, by_group, dr_grpo, grpo, noisy, plain

CASES = CASES | {"noise.equal": (plain(lambda r, g: noisy(np.append(np.full(4, 0.35), r[4:]), g)), {})}
CASES["noise.equal"][0]["reward"][:4] = 0.35
WIDTH = 96


def tokens_of(columns: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rewards, masks and advantages of tokens: the reward stands on the last one."""
    lengths = lengths_of(columns)
    masks = columns.get("mask", [[1] * length for length in lengths])
    mask = np.array([[*row, *[0] * (WIDTH - len(row))] for row in masks], np.float64)
    rewards, advantages = np.zeros(mask.shape), np.zeros(mask.shape)
    for row, (flags, value) in enumerate(zip(masks, columns["advantage"], strict=True)):
        rewards[row, len(flags) - 1] = columns["reward"][row]
        advantages[row, : len(flags)] = (
            value if isinstance(value, list) else np.float32(value) * np.array(flags)
        )
    return rewards, mask, advantages


def lengths_of(columns: dict[str, Any]) -> list[int]:
    return [int(one) for one in columns.get("tokens", np.arange(len(columns["reward"])) % 3 + 2)]


def groups_of(columns: dict[str, Any]) -> list[str]:
    return [str(one) for one in columns["group" if "group" in columns else "task"]]


def as_verl(columns: dict[str, Any], options: dict[str, Any], _: Path) -> tuple[pl.DataFrame, dict[str, Any]]:
    rewards, mask, advantages = tokens_of(columns)
    data = SimpleNamespace(
        batch={"token_level_rewards": rewards, "response_mask": mask, "advantages": advantages},
        non_tensor_batch={"uid": np.array(groups_of(columns), object)},
    )
    rest = {name: columns[name] for name in ("rollout", "turn", "agent", "trained") if name in columns}
    named = {name: name for name in ("rollout", "turn", "trained") if name in options}
    return verl.table(data, **rest), named | ({"group": ["uid", "agent"]} if "agent" in columns else {})


def as_skyrl(
    columns: dict[str, Any], options: dict[str, Any], _: Path
) -> tuple[pl.DataFrame, dict[str, Any]]:
    """Steps of a trajectory stand side by side, and the batch is filled up."""
    n = len(columns["reward"])
    rollouts = np.asarray(columns.get("rollout", np.arange(n)))
    order = np.lexsort(
        (np.asarray(columns.get("turn", np.zeros(n))), np.unique(rollouts, return_inverse=True)[1])
    )
    ordered = {name: [list(values)[at] for at in [*order, order[-1]]] for name, values in columns.items()}
    rewards, mask, advantages = tokens_of(ordered)
    ids = np.array([str(one) for one in ordered.get("rollout", [*range(n), "padding"])])
    batch = {"rewards": rewards, "response_mask": mask, "advantages": advantages}
    metadata: dict[str, Any] = {"uids": groups_of(ordered), "pad_size": 1}
    if "rollout" in columns:
        metadata["is_last_step"] = [*(ids[1:] != ids[:-1])[:-1].tolist(), True, True]
    data = type("Batch", (dict,), {"metadata": metadata})(batch)
    rest = {name: ordered[name][:n] for name in ("turn", "agent", "trained") if name in columns}
    named = {name: name for name in ("turn", "trained") if name in options}
    return skyrl.table(data, **rest), named | ({"group": ["uids", "agent"]} if "agent" in columns else {})


def as_rllm(columns: dict[str, Any], options: dict[str, Any], folder: Path) -> tuple[Path, dict[str, Any]]:
    """A line for each episode, in the order of the batch."""
    n = len(columns["reward"])
    rollouts = [str(one) for one in columns.get("rollout", range(n))]
    turns = list(columns.get("turn", range(n)))
    path = folder / "episodes.jsonl"
    for rollout in dict.fromkeys(rollouts):
        rows = sorted((at for at in range(n) if rollouts[at] == rollout), key=lambda at: turns[at])
        steps = []
        for at in rows:
            value, length = columns["advantage"][at], lengths_of(columns)[at]
            listed = isinstance(value, list)
            one = {
                "response_ids": [7] * (len(value) if listed else length),
                "reward": float(columns["reward"][at]),
            }
            steps.append(one | {"advantage": value if listed else float(np.float32(value))})
        agent = str(columns["agent"][rows[0]]) if "agent" in columns else "solver"
        paid = None if "turn" in columns else float(columns["reward"][rows[-1]])
        made = {"name": agent, "reward": paid, "steps": steps}
        episode = {"training_step": 4, "episode_id": rollout, "task_hash": groups_of(columns)[rows[0]]}
        with path.open("a") as lines:
            lines.write(json.dumps(episode | {"trajectories": [made]}) + "\n")
    named = {"reward": "step_reward", "turn": "turn"} if "turn" in options else {}
    return path, named


def as_trl(columns: dict[str, Any], options: dict[str, Any], folder: Path) -> tuple[Path, dict[str, Any]]:
    """One number a completion, and columns of the user's own."""
    n = len(columns["reward"])
    rows = {
        "step": [5] * n,
        "prompt": [[{"role": "user", "content": group}] for group in groups_of(columns)],
        "completion": ["a"] * n,
        "paid": [float(one) for one in columns["reward"]],
        **{name: list(columns[name]) for name in ("rollout", "turn", "agent", "trained") if name in columns},
        **({"tokens": [int(one) for one in columns["tokens"]]} if "tokens" in columns else {}),
        "advantage": [float(np.float32(one)) for one in columns["advantage"]],
    }
    pl.DataFrame(rows).write_parquet(folder / "completions_00005.parquet")
    named = {name: name for name in ("rollout", "turn", "trained") if name in options}
    named |= {"length": "tokens"} if "length" in options else {}
    return folder, named | ({"group": ["prompt", "agent"]} if "agent" in columns else {})


def as_verifiers(columns: dict[str, Any], _: dict[str, Any], folder: Path) -> tuple[Path, dict[str, Any]]:
    """Numbers of tokens are those that are trained, with four decimals."""
    n = len(columns["reward"])
    rollouts = [str(one) for one in columns.get("rollout", range(n))]
    lines = []
    for rollout in dict.fromkeys(rollouts):
        rows = [at for at in range(n) if rollouts[at] == rollout]
        nodes: list[dict[str, Any]] = [{"message": {"role": "user", "content": "?"}}]
        for at in rows:
            length = lengths_of(columns)[at]
            nodes.append(
                {"sampled": True, "advantages": [round(float(columns["advantage"][at]), 4)] * length}
            )
        agent = {"name": str(columns["agent"][rows[0]]) if "agent" in columns else "solver"}
        rewards = {"exact": {"score": float(columns["reward"][rows[-1]]) / 2, "weight": 2.0}, "late": None}
        trace = {"id": rollout, "agent": agent, "rewards": rewards, "nodes": nodes, "task": {}}
        group = {"id": groups_of(columns)[rows[0]]}
        lines.append(json.dumps({"id": rollout, "group": group, "env": {"id": "e"}, "traces": [trace]}))
    path = folder / "traces.jsonl"
    path.write_text("\n".join(lines) + "\n\n")
    return path, {}


Shape = Callable[[dict[str, Any], dict[str, Any], Path], tuple[Any, dict[str, Any]]]
SHAPES: dict[str, Shape] = {
    "verl": as_verl,
    "skyrl": as_skyrl,
    "rllm": as_rllm,
    "trl": as_trl,
    "verifiers": as_verifiers,
}
UNSEEN = {
    "rllm": {"filtered.counted", "mask.unequal"},
    "trl": {"mask.unequal"},
    "verifiers": {"filtered.counted", "mask.unequal", "turn.index"},
}
"""What the files of a trainer do not show: which rollouts were filtered out, masks, rewards of turns."""
SEEN = [(trainer, fault) for trainer in SHAPES for fault in FAULTS if fault not in UNSEEN.get(trainer, ())]


@pytest.mark.parametrize(("trainer", "fault"), SEEN)
def test_a_fault_is_named_in_the_dump_of_a_trainer(trainer: str, fault: str, tmp_path: Path) -> None:
    dump, named = SHAPES[trainer](*CASES[fault], tmp_path)
    row = ot.trainers.audit(dump, trainer=trainer, **named).row(0, named=True)
    assert row["fault"] == fault, row
    assert row["step"] == {"rllm": "4", "trl": "5"}.get(trainer)


HONEST: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "dr_grpo": lambda r, g: by_group(r, g, dr_grpo),
    "grpo": lambda r, g: by_group(r, g, grpo(1, 1e-4, False)),
}


@pytest.mark.parametrize("rule", HONEST)
@pytest.mark.parametrize("trainer", SHAPES)
def test_an_honest_dump_of_a_trainer_is_not_accused(trainer: str, rule: str, tmp_path: Path) -> None:
    dump, named = SHAPES[trainer](plain(HONEST[rule], tokens=LENGTHS), {}, tmp_path)
    row = ot.trainers.audit(dump, trainer=trainer, **named).row(0, named=True)
    assert (row["rule"], row["explained"], row["fault"]) == (rule, 1.0, None), row


def deviates(rewards: np.ndarray, groups: np.ndarray, epsilon: float) -> np.ndarray:
    """A reward less its mean, by its deviation, in groups; what is not there has NaN."""
    out = np.full(len(rewards), np.nan)
    for group in np.unique(groups):
        at = np.flatnonzero((groups == group) & ~np.isnan(rewards))
        spread = rewards[at].std(ddof=1) if len(at) > 1 and np.ptp(rewards[at]) > 0 else 0.0
        out[at] = (rewards[at] - rewards[at].mean()) / (spread + epsilon)
    return out


@pytest.mark.parametrize("seed", range(20))
def test_rewards_that_are_normalized_one_by_one_are_known(seed: int) -> None:
    """`normalize_then_sum` of TRL, whose functions of rewards have columns, weights, and gaps."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(6), rng.integers(2, 6, 6))
    weights = {"exact": 1.0, "format": 0.25}
    rewards = {name: rng.choice([0.0, 0.5, 1.0], len(groups)) for name in weights}
    rewards["format"][rng.random(len(groups)) < 0.2] = np.nan
    parts = [weight * deviates(rewards[name], groups, 1e-4) for name, weight in weights.items()]
    summed = np.nansum(parts, axis=0)
    advantages = ((summed - summed.mean()) / (summed.std(ddof=1) + 1e-4)).astype(np.float32)
    rows = {"step": 1, "prompt": groups.astype(str), **rewards, "advantage": advantages.astype(float)}
    dump = pl.DataFrame(rows).with_columns(pl.col("format").fill_nan(None))
    row = ot.trainers.audit(dump, trainer="trl", reward=weights).row(0, named=True)
    assert (row["rule"], row["explained"], row["fault"]) == ("gdpo", 1.0, None), row
    assert "epsilon=0.0001" in row["variant"] and row["variant"].endswith("batch_ddof=1")


def test_a_prompt_that_comes_twice_in_a_step_is_two_groups() -> None:
    """TRL compares completions that stand side by side, so many as it generates."""
    rng = np.random.default_rng(8)
    rewards = rng.random(16)
    advantages = deviates(rewards, np.arange(16) // 4, 1e-4)
    prompts = np.repeat(["a", "b", "a", "c"], 4)
    rows = {"step": 1, "prompt": prompts, "exact": rewards, "advantage": advantages}
    row = ot.trainers.audit(pl.DataFrame(rows), trainer="trl").row(0, named=True)
    assert (row["rule"], row["explained"], row["fault"], row["n_groups"]) == ("grpo", 1.0, None, 4)
    side_by_side = pl.DataFrame(rows | {"prompt": np.repeat(["a", "a", "b", "c"], 4)})
    assert ot.trainers.audit(side_by_side, trainer="trl")["explained"].item() == 1.0


def test_weights_of_rewards_count() -> None:
    rows = {"group": ["a", "a"], "exact": [1.0, 0.0], "format": [0.0, 1.0], "advantage": [0.375, -0.375]}
    weighted = ot.trainers.audit(pl.DataFrame(rows), reward={"exact": 1.0, "format": 0.25})
    assert weighted.select("rule", "explained").row(0) == ("dr_grpo", 1.0)
    assert ot.trainers.audit(pl.DataFrame(rows), reward=["exact", "format"])["explained"].item() == 0.0


def test_documents_of_a_folder_are_read(tmp_path: Path) -> None:
    for name, reward in (("t:0", 1.0), ("t:1", 0.0)):
        steps = [{"advantage": reward - 0.5, "response_ids": [1, 2]}, {"advantage": None}]
        path = {"name": "solver", "reward": reward, "steps": steps}
        (tmp_path / f"{name[-1]}.json").write_text(json.dumps({"id": name, "trajectories": [path]}))
    row = ot.trainers.audit(tmp_path, trainer="rllm").row(0, named=True)
    assert (row["step"], row["n_rows"], row["rule"], row["fault"]) == (None, 2, "dr_grpo", None)


def test_what_is_no_dump_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ot.ParameterError, match=r"has no file that ends in \.parquet$"):
        ot.trainers.audit(tmp_path, trainer="trl")
    path = tmp_path / "traces.jsonl"
    path.write_text('{"id": "a", "traces": []}\n{"id": "b", "traces": [{"id": "c"}]}\n')
    with pytest.raises(ot.InputError, match=r"traces\.jsonl, line 2: no episode of this trainer"):
        ot.trainers.audit(path, trainer="verifiers")
    path.write_text("{]\n")
    with pytest.raises(ot.InputError, match=r"traces\.jsonl: cannot be read as JSON"):
        ot.trainers.audit(path, trainer="verifiers")
    steps: list[dict[str, Any]] = [{"advantage": ["much"], "response_ids": [1]}]
    path.write_text(json.dumps({"id": "t:0", "trajectories": [{"name": "a", "steps": steps}]}))
    with pytest.raises(ot.InputError, match=r"traces\.jsonl, line 1: no episode of this trainer"):
        ot.trainers.audit(path, trainer="rllm")
    steps[0]["advantage"] = 0.5
    path.write_text(
        json.dumps({"id": "t:0", "trajectories": [{"name": "a", "reward": "one", "steps": steps}]})
    )
    with pytest.raises(ot.InputError, match=r"traces\.jsonl: an episode has something else"):
        ot.trainers.audit(path, trainer="rllm")
    path.write_text("[" * 5000 + "]" * 5000)
    with pytest.raises(ot.InputError, match=r"traces\.jsonl: cannot be read as JSON"):
        ot.trainers.audit(path, trainer="verifiers")
    with pytest.raises(ot.ParameterError, match="trainer is 'rlm', expected"):
        ot.trainers.audit(path, trainer="rlm")  # type: ignore[arg-type]
