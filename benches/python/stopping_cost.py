"""What features of epochs and a learned rule of stopping cost, beside NumPy.

    python benches/python/stopping_cost.py [--runs 100000] [--epochs 50] [--rounds 3]

Medians over rounds in one process, after one round that is not counted, on one BLAS thread each. The peer is
Longstaff and Schwartz on dense arrays, with the same basis, penalty and five folds by task: it gives the
held-out value alone. Ours also gives the dual upper bound, intervals over tasks and the comparison with the
best fixed epoch. Both values are printed: they are of the same rule.
"""

import argparse
import statistics

import numpy as np
import polars as pl
from metric_cost import seconds
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import orchestrace as ot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FOLDS = 5


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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    epochs, truth = ot.synthetic.stops(asked.runs, deepest=asked.epochs, price=0.01, end=0.005, seed=0)
    quality, length, fold = dense(epochs)
    times: dict[str, list[float]] = {}
    value = peer = float("nan")

    def timed(name: str, call: object) -> None:
        times.setdefault(name, []).append(seconds(call))  # type: ignore[arg-type]

    def ours() -> None:
        nonlocal value
        value = ot.stopping.evaluate(epochs, ["lsm"], price=truth.price, n_boot=200)["value"][0]

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
        print(f"{name}: {median[name]:.2f} s, NumPy {other:.2f} s, ratio {median[name] / other:.2f}")
    print(f"value {value:.5f}, NumPy {peer:.5f}, best rule {truth.value:.5f}")


if __name__ == "__main__":
    main()
