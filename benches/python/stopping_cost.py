"""What features of epochs and a learned rule of stopping cost, beside NumPy.

    python benches/python/stopping_cost.py [--runs 100000] [--epochs 50] [--rounds 3]

Medians over rounds in one process, after one round that is not counted, on one BLAS thread each. The peer is
Longstaff and Schwartz on dense arrays, with the same basis, penalty and five folds by task: it gives the
held-out value alone. Ours also gives the dual upper bound, intervals over tasks and the comparison with the
best fixed epoch, with its folds on as many threads as there are cores, up to four. Both values are printed:
they are of the same rule. The peak of memory is that of a process of its own, which has read the epochs.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
from metric_cost import seconds
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import orchestrace as ot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FOLDS = 5
PRICE = 0.01


def dense(epochs: pl.DataFrame) -> tuple[Floats, Ints, Ints]:
    """Quality as (runs, epochs) with NaN behind the end, lengths, and the fold of each run."""
    trace, k = (epochs[name].to_numpy().astype(np.int64) for name in ("trace", "k"))
    quality = np.full((trace.max() + 1, k.max()), np.nan)
    quality[trace, k - 1] = epochs["q"].to_numpy()
    task = epochs.filter(k=1)["task_id"].rank("dense").cast(pl.Int64).to_numpy()
    return quality, (~np.isnan(quality)).sum(axis=1), task % FOLDS


def features_of(quality: Floats) -> Floats:
    """(runs, epochs, columns): epoch, quality, the best so far, the last change."""
    n, most = quality.shape
    made = np.empty((n, most, 4))
    made[:, :, 0] = np.arange(1, most + 1)
    made[:, :, 1] = quality
    made[:, :, 2] = np.maximum.accumulate(quality, axis=1)
    made[:, 0, 3] = 0.0
    made[:, 1:, 3] = np.diff(quality, axis=1)
    return made


def basis_of(x: Floats) -> tuple[Floats, Floats, NDArray[np.bool_]]:
    mean, scale = x.mean(axis=0), x.std(axis=0)
    varies = scale > 1e-12 * np.maximum(np.abs(mean), 1.0)
    return mean[varies], scale[varies], varies


def designed(x: Floats, basis: tuple[Floats, Floats, NDArray[np.bool_]]) -> Floats:
    mean, scale, varies = basis
    z = (x[:, varies] - mean) / scale
    return np.concatenate([np.ones((len(x), 1)), z, z * z], axis=1)


def held_out_value(quality: Floats, length: Ints, fold: Ints, price: float) -> float:
    """The mean payoff of Longstaff and Schwartz, each run by the fit without its fold."""
    x = features_of(quality)
    n, most = quality.shape
    pay = quality - price * np.arange(1, most + 1)
    last = pay[np.arange(n), length - 1]
    paid = np.empty(n)
    for part in range(FOLDS):
        learn, judge = fold != part, fold == part
        ahead, got = last[learn].copy(), last[judge].copy()
        xl, pl_, nl = x[learn], pay[learn], length[learn]
        xj, pj, nj = x[judge], pay[judge], length[judge]
        for k in range(most - 1, 0, -1):
            alive = nl > k
            if alive.sum() < 50:
                continue
            basis = basis_of(xl[alive, k - 1])
            design = designed(xl[alive, k - 1], basis)
            penalty = np.eye(design.shape[1]) * 1e-3 * len(design)
            penalty[0, 0] = 0.0
            weights = np.linalg.solve(design.T @ design + penalty, design.T @ ahead[alive])
            now = pl_[alive, k - 1]
            ahead[alive] = np.where(now >= design @ weights, now, ahead[alive])
            here = nj > k
            now = pj[here, k - 1]
            got[here] = np.where(now >= designed(xj[here, k - 1], basis) @ weights, now, got[here])
        paid[judge] = got
    return float(paid.mean())


def planted(runs: int, deepest: int) -> tuple[pl.DataFrame, ot.synthetic.StopTruth]:
    return ot.synthetic.stops(runs, deepest=deepest, price=PRICE, end=0.005, seed=0)


def evaluated(epochs: pl.DataFrame) -> float:
    return float(ot.stopping.evaluate(epochs, ["lsm"], price=PRICE, n_boot=200)["value"][0])


def resident() -> float:
    """Peak resident set of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def say_peak(path: Path) -> None:
    epochs = pl.read_parquet(path)
    evaluated(epochs.head(1000))
    base = resident()
    evaluated(epochs)
    print(json.dumps({"base": base, "peak": resident()}))


def peak(runs: int, deepest: int) -> tuple[float, float]:
    """Peak of memory in MB with the epochs alone, and with their evaluation."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/epochs.parquet"
        command = [sys.executable, __file__, "--runs", str(runs), "--epochs", str(deepest)]
        subprocess.run([*command, "--write", path], check=True)
        said = subprocess.run([*command, "--peak", path], check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(said.stdout)
    return found["base"], found["peak"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--peak", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.peak:
        say_peak(asked.peak)
        return
    if asked.write:
        planted(asked.runs, asked.epochs)[0].write_parquet(asked.write)
        return
    # first, while this process is small: a child begins with the peak of its parent
    base, highest = peak(asked.runs, asked.epochs)
    epochs, truth = planted(asked.runs, asked.epochs)
    quality, length, fold = dense(epochs)
    times: dict[str, list[float]] = {}
    processor: dict[str, list[float]] = {}
    value = peer = float("nan")

    def timed(name: str, call: object) -> None:
        begun = time.process_time()
        times.setdefault(name, []).append(seconds(call))  # type: ignore[arg-type]
        processor.setdefault(name, []).append(time.process_time() - begun)

    def ours() -> None:
        nonlocal value
        value = evaluated(epochs)

    def theirs() -> None:
        nonlocal peer
        peer = held_out_value(quality, length, fold, truth.price)

    with threadpool_limits(1, user_api="blas"):
        for _ in range(asked.rounds + 1):
            timed("features", lambda: ot.stopping.features(epochs))
            timed("features, NumPy", lambda: features_of(quality))
            timed("lsm", ours)
            timed("lsm, NumPy", theirs)
    median = {name: statistics.median(found[1:]) for name, found in times.items()}
    print(f"{asked.runs:,} runs, {epochs.height:,} epochs")
    for name in ("features", "lsm"):
        other = median[f"{name}, NumPy"]
        spent, others = (statistics.median(processor[which][1:]) for which in (name, f"{name}, NumPy"))
        print(f"{name}: {median[name]:.2f} s, NumPy {other:.2f} s, ratio {median[name] / other:.2f}")
        print(f"  of processors: {spent:.2f} s, NumPy {others:.2f} s")
    print(f"lsm, peak: {highest:.0f} MB, {base:.0f} MB of them before it, with the epochs")
    print(f"value {value:.5f}, NumPy {peer:.5f}, best rule {truth.value:.5f}")


if __name__ == "__main__":
    main()
