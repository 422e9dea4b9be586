"""What an advantage costs inside a training step: `token_advantages` beside the estimators of verl.

    python benches/python/batch_cost.py

Needs verl with torch, on the CPU (`make conformance` makes such an environment). Three batches: 1,000 rows of
200 tokens; 20,000 rows of 100; the same as 1,000 rollouts of 20 turns, which verl's estimators take for
20,000 rollouts. Prints one Markdown table, medians in milliseconds of so many rounds in turn.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from orchestrace.trainers.batch import Batch
from orchestrace.trainers.batches import token_advantages

METHODS = ("dr_grpo", "grpo", "opo", "dr_mas")


def peers(rewards: np.ndarray, mask: np.ndarray, groups: np.ndarray) -> dict[str, Callable[[], Any]]:
    import torch
    from verl.trainer.ppo import core_algos

    given = torch.from_numpy(rewards), torch.from_numpy(mask)
    names = groups.astype(object)
    return {
        "verl grpo": lambda: core_algos.compute_grpo_outcome_advantage(*given, names),
        "verl grpo_vectorized": lambda: core_algos.compute_grpo_vectorized_outcome_advantage(*given, groups),
    }


def median(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Of each call, one after the other in every round, the first round left out."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, call in calls.items():
            begin = time.perf_counter()
            call()
            seconds[name].append(time.perf_counter() - begin)
    return {name: 1e3 * float(np.median(own[1:])) for name, own in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    shapes = {"1,000 rows": (1_000, 200, 1), "20,000 rows": (20_000, 100, 1)}
    shapes["1,000 rollouts of 20 turns"] = (20_000, 100, 20)
    table = {}
    for title, (rows, tokens, turns) in shapes.items():
        rng = np.random.default_rng(0)
        mask = np.ones((rows, tokens), np.float32)
        rewards = np.zeros((rows, tokens), np.float32)
        rewards[:, -1] = rng.random(rows)
        groups = np.arange(rows) // (8 * turns)
        rollouts = None if turns == 1 else np.arange(rows) // turns
        batch = Batch(rewards, mask, groups, rollouts=rollouts)
        ours = {name: lambda name=name, batch=batch: token_advantages(batch, name) for name in METHODS}
        table[title] = median(ours | peers(rewards, mask, groups), rounds)
    names = list(table["1,000 rows"])
    print(f"| batch | {' | '.join(names)} |\n|---|{'---:|' * len(names)}")
    for title, own in table.items():
        print(f"| {title} | {' | '.join(f'{own[name]:.1f}' for name in names)} |")


if __name__ == "__main__":
    main()
