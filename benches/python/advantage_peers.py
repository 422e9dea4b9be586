"""Group advantages and generalized advantages beside NumPy and Numba, on the same arrays in the same process.

    python benches/python/advantage_peers.py [--events 1000000] [--rounds 7] [--threads N]

Everybody begins with arrays in memory: the reward and the task of each rollout, the rollout and the agent of
each event for `advantages`; the rewards, the critic and the place of each trace for `gae`. `advantages` is
three answers: GRPO and RLOO of the rollouts, Dr. MAS of the events. All are checked to be the same numbers.
The rounds of a peer follow each other, as the calls of a training loop do, in four blocks that alternate and
begin after a rest: the threads of a peer spin for a while after their work and would take a core from who
comes next. Compilation is left out.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import numba
import numpy as np
import polars as pl

import orchestrace as ot

EPSILON, GAMMA, LAMBDA = 1e-6, 0.99, 0.95
BLOCKS, REST_S = 4, 0.5
Arrays = dict[str, np.ndarray]


def arrays(events: int) -> Arrays:
    corpus = ot.generate(preset="mixed", events=events, seed=1)
    traces = corpus.traces.select("n_events", pl.col("group_id").rank("dense").cast(pl.Int32) - 1).collect()
    rewards = corpus.measures.filter(pl.col("kind") == "reward", pl.col("name").cast(pl.String) == "team")
    of_trace = corpus.traces.join(rewards, on="trace", how="left", maintain_order="left")
    agents = corpus.events.select(pl.col("agent").to_physical()).collect().to_series()
    sizes = traces["n_events"].to_numpy().astype(np.int64)
    rng = np.random.default_rng(0)
    return {
        "rewards": of_trace.select(pl.col("value").fill_null(0.0)).collect().to_series().to_numpy(),
        "groups": traces["group_id"].to_numpy().copy(),
        "rollouts": np.repeat(np.arange(len(sizes), dtype=np.int32), sizes),
        "agents": agents.to_numpy().astype(np.int32),
        "offsets": np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]),
        "earned": rng.normal(size=sizes.sum()),
        "values": rng.normal(size=sizes.sum()),
    }


def ours_advantages(a: Arrays, threads: int | None) -> list[np.ndarray]:
    own = ot.trainers.advantages
    return [
        own.grpo(a["rewards"], a["groups"], threads=threads).to_numpy(),
        own.rloo(a["rewards"], a["groups"], threads=threads).to_numpy(),
        own.dr_mas(a["rewards"], a["groups"], a["rollouts"], a["agents"], threads=threads).to_numpy(),
    ]


def numpy_advantages(a: Arrays, _threads: int | None) -> list[np.ndarray]:
    def moments(x: np.ndarray, key: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n = np.bincount(key)
        deviation = x - (np.bincount(key, x) / np.maximum(n, 1))[key]
        std = np.sqrt(np.bincount(key, deviation * deviation) / np.maximum(n - 1, 1))
        return deviation, std[key], n[key]

    deviation, std, n = moments(a["rewards"], a["groups"])
    grpo = np.where(n > 1, deviation / (std + EPSILON), 0.0)
    rloo = np.where(n > 1, deviation * n / np.maximum(n - 1, 1), 0.0)
    key = a["groups"][a["rollouts"]].astype(np.int64) * (int(a["agents"].max()) + 1) + a["agents"]
    if key.max() > 8 * len(key):
        _, key = np.unique(key, return_inverse=True)
    deviation, std, n = moments(a["rewards"][a["rollouts"]], key)
    return [grpo, rloo, np.where(n > 1, deviation / (std + EPSILON), 0.0)]


@numba.njit(parallel=True)  # type: ignore[untyped-decorator]
def _numba_gae(offsets: np.ndarray, earned: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    for i in numba.prange(len(offsets) - 1):
        after = run = 0.0
        for k in range(offsets[i + 1] - 1, offsets[i] - 1, -1):
            run = earned[k] + GAMMA * after - values[k] + GAMMA * LAMBDA * run
            after = values[k]
            out[k] = run


def numba_gae(a: Arrays, threads: int | None) -> list[np.ndarray]:
    if threads:
        numba.set_num_threads(threads)
    out = np.empty(len(a["earned"]))
    _numba_gae(a["offsets"], a["earned"], a["values"], out)
    return [out]


def ours_gae(a: Arrays, threads: int | None) -> list[np.ndarray]:
    rows = {"gamma": GAMMA, "lambda_": LAMBDA, "threads": threads}
    return [ot.trainers.advantages.gae(a["earned"], a["values"], a["offsets"], **rows).to_numpy()]


TASKS: dict[str, dict[str, Callable[[Arrays, int | None], list[np.ndarray]]]] = {
    "advantages": {"orchestrace": ours_advantages, "NumPy": numpy_advantages},
    "gae": {"orchestrace": ours_gae, "Numba": numba_gae},
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int)
    options = parser.parse_args()
    given = arrays(options.events)
    n_events, n_traces = len(given["earned"]), len(given["rewards"])
    print(f"{n_events:,} events, {n_traces:,} traces; medians of {BLOCKS} x {options.rounds} rounds")
    print("| task | peer | ms (min-max) | ratio |\n|---|---|---:|---:|")
    for task, peers in TASKS.items():
        walls: dict[str, list[float]] = {name: [] for name in peers}
        found = {name: peer(given, options.threads) for name, peer in peers.items()}
        for numbers in found.values():
            for got, want in zip(numbers, found["orchestrace"], strict=True):
                np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)
        del found, numbers, got, want
        for block in range(BLOCKS):
            # who is first changes
            for name in list(peers) if block % 2 else list(peers)[::-1]:
                time.sleep(REST_S)
                block_walls = []
                for _ in range(options.rounds + 2):
                    began = time.perf_counter()
                    peers[name](given, options.threads)
                    block_walls.append((time.perf_counter() - began) * 1e3)
                walls[name] += block_walls[2:]
        own = statistics.median(walls["orchestrace"])
        for name, wall in walls.items():
            median = statistics.median(wall)
            print(
                f"| {task} | {name} | {median:.2f} ({min(wall):.2f}-{max(wall):.2f}) | {median / own:.2f} |"
            )


if __name__ == "__main__":
    main()
