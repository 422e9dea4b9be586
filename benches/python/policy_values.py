"""Off-policy evaluation beside plain NumPy: time of the same estimators on the same decisions.

    python benches/python/policy_values.py [--decisions 1000000] [--rounds 5] [--json FILE]

Decisions are drawn by `ot.synthetic.choices`, one a run, ten runs a task. Both sides answer with IPS, SNIPS,
direct, doubly robust and switch: once without intervals, once with those of 2,000 resamples of tasks. Rounds
alternate, with one BLAS thread. The five estimates must be equal to 1e-9.

NumPy begins with arrays: codes of tasks, actions and states, and the fold of every decision. It checks
nothing and reports nothing else. orchestrace begins with the frame: it checks and sorts it, numbers tasks,
draws the folds, reads the policy from expressions, looks for overlap, and reports bounds.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

import orchestrace as ot
from orchestrace.statistics.folds import folds_over

SHARE = {"easy": 0.4, "hard": 0.6}
"""The chance that the policy spawns."""
NAMES = ("ips", "snips", "direct", "dr", "switch")
PENALTY, FOLDS = 1.0, 5
Arrays = dict[str, np.ndarray]


def arrays(decisions: pl.DataFrame) -> Arrays:
    """What the peer begins with."""
    tasks, task = np.unique(decisions["task_id"].to_numpy(), return_inverse=True)
    hard = (decisions["x_state"] == "hard").to_numpy()
    spawn = np.where(hard, SHARE["hard"], SHARE["easy"])
    return {
        "task": task,
        "fold": folds_over([str(name) for name in tasks], FOLDS, 0)[task],
        "action": (decisions["action"] == "spawn").to_numpy().astype(np.int64),
        "hard": hard.astype(np.float64),
        "p": decisions["p_behavior"].to_numpy(),
        "outcome": decisions["outcome"].to_numpy(),
        "target": np.stack([1.0 - spawn, spawn], axis=1),
    }


def of_numpy(a: Arrays, n_boot: int) -> list[float]:
    """The estimates; intervals are computed and dropped."""
    n, action, target, paid = len(a["p"]), a["action"], a["target"], a["outcome"]
    marks = np.eye(2)[action]
    x = np.column_stack([1.0 - a["hard"], a["hard"], marks])
    q = np.zeros((n, 2))
    for own in range(FOLDS):
        learn, judge = a["fold"] != own, a["fold"] == own
        center, level = x[learn].mean(axis=0), paid[learn].mean()
        around = x[learn] - center
        slope = np.linalg.solve(
            around.T @ around + PENALTY * np.eye(x.shape[1]), around.T @ (paid[learn] - level)
        )
        state = level - center @ slope + x[judge, :2] @ slope[:2]
        q[judge] = state[:, None] + slope[2:]
    rows = np.arange(n)
    w = target[rows, action] / a["p"]
    v, residual = (target * q).sum(axis=1), w * (paid - q[rows, action])
    kept = np.where(w <= np.quantile(w, 0.95), residual, 0.0)
    one = np.ones(n)
    terms = [(w * paid, one), (w * paid, w), (v, one), (v + residual, one), (v + kept, one)]
    if n_boot:
        n_tasks = int(a["task"].max()) + 1
        above, below = (
            np.column_stack([np.bincount(a["task"], pair[side], n_tasks) for pair in terms])
            for side in (0, 1)
        )
        rng = np.random.default_rng(0)
        drawn = np.empty((n_boot, len(terms)))
        for at in range(n_boot):
            times = np.bincount(rng.integers(n_tasks, size=n_tasks), minlength=n_tasks).astype(np.float64)
            drawn[at] = (times @ above) / (times @ below)
        np.quantile(drawn, [0.025, 0.975], axis=0)
    return [float(up.mean() / down.mean()) for up, down in terms]


def of_ours(decisions: pl.DataFrame, n_boot: int) -> list[float]:
    """The estimates of the verb."""
    spawn = pl.when(pl.col("x_state") == "hard").then(SHARE["hard"]).otherwise(SHARE["easy"])
    table = ot.effects.policy_values(
        decisions, {"spawn": spawn, "no_spawn": 1.0 - spawn}, bounds=(0.0, 1.0), n_boot=max(n_boot, 1)
    )
    return [table.row(by_predicate=pl.col("estimator") == name, named=True)["value"] for name in NAMES]


def measured(decisions: pl.DataFrame, rounds: int) -> list[dict[str, Any]]:
    """A row per question and peer."""
    given = arrays(decisions)
    found = []
    for n_boot in (0, 2000):
        peers: dict[str, Callable[[int], list[float]]] = {
            "orchestrace": lambda n: of_ours(decisions, n),
            "NumPy": lambda n: of_numpy(given, n),
        }
        spent: dict[str, list[float]] = {name: [] for name in peers}
        for _ in range(rounds):
            answers = []
            for name, peer in peers.items():
                start = time.perf_counter()
                with threadpool_limits(1, user_api="blas"):
                    answers.append(peer(n_boot))
                spent[name].append(time.perf_counter() - start)
            np.testing.assert_allclose(*answers, atol=1e-9, rtol=0.0)
        ours = statistics.median(spent["orchestrace"])
        for name, times in spent.items():
            found.append(
                {
                    "resamples": n_boot,
                    "peer": name,
                    "decisions": decisions.height,
                    "seconds": round(statistics.median(times), 3),
                    "least": round(min(times), 3),
                    "most": round(max(times), 3),
                    "ratio": round(statistics.median(times) / ours, 2),
                    "rounds": rounds,
                    "python": platform.python_version(),
                }
            )
    return found


def table(rows: list[dict[str, Any]]) -> str:
    """The rows as the table of benches/README.md."""
    lines = ["| resamples | peer | median s (min-max) | ratio to ours |", "|---:|---|---:|---:|"]
    for row in rows:
        cells = f"{row['seconds']:.2f} ({row['least']:.2f}-{row['most']:.2f}) | {row['ratio']:.2f}"
        lines.append(f"| {row['resamples']:,} | {row['peer']} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--decisions", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="where to write the rows")
    options = parser.parse_args()
    decisions, _ = ot.synthetic.choices(runs=options.decisions, runs_per_task=10, seed=0)
    rows = measured(decisions, options.rounds)
    if options.json is not None:
        text = ",\n".join(json.dumps(row) for row in rows)
        options.json.write_text(f"[\n{text}\n]\n", encoding="utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
