"""Folds over tasks: a model never scores a run whose task it saw.

Folds depend on the ids of tasks and the seed, not on the order of files. A corpus of one task is folded over
its runs.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from ..base.arrays import Floats, Ints
from ..base.errors import ParameterError
from ..corpus.corpus import Corpus

REASON = "group.degenerate"
"""Of a corpus that says nothing: fewer than two rewarded runs, or all rewards alike."""


@dataclass(frozen=True)
class Folds:
    """The fold of every rewarded trace of a corpus: ``trace amount fold``, and how many there are.

    ``n`` is 0 where nothing can be learnt: fewer than two rewarded traces, or all rewards alike.
    """

    traces: pl.DataFrame
    n: int

    def of(self, numbers: pl.Series) -> Ints:
        """The fold of each of these traces; -1 without a reward."""
        joined = numbers.to_frame("trace").join(self.traces, on="trace", how="left", maintain_order="left")
        return joined["fold"].fill_null(-1).to_numpy()


def folds_of(corpus: Corpus, rewards: pl.DataFrame, most: int, seed: int) -> Folds:
    """At most `most` folds of about as many tasks each."""
    traces = corpus.traces.select("trace", "trace_id", "task_id", "n_events").collect(engine="streaming")
    traces = traces.join(rewards, on="trace", how="left", maintain_order="left")
    # A trace without events has nothing to learn from and nothing to be credited.
    traces = traces.filter(pl.col("amount").is_not_null() & (pl.col("n_events") > 0))
    learnable = traces.height >= 2 and traces["amount"].n_unique() > 1
    # (name that the fold depends on, key) of each task, or trace, which is in one fold
    by = "task_id" if traces["task_id"].n_unique() > 1 else "trace"
    named = traces.select(pl.col("task_id" if by == "task_id" else "trace_id").alias("name"), key=by).unique()
    keys = sorted((keyed_hash(name, seed), key) for name, key in named.iter_rows())
    n = min(most, len(keys)) if learnable else 0
    fold = pl.DataFrame(
        {by: [key for _, key in keys], "fold": [rank % max(n, 1) for rank in range(len(keys))]},
        schema={by: traces[by].dtype, "fold": pl.Int64},
    )
    return Folds(
        traces.join(fold, on=by, how="left", maintain_order="left").select("trace", "amount", "fold"), n
    )


def check_size(folds: Folds, largest: float = 1e100) -> None:
    """Rewards must be such that sums of their squares are numbers.

    Raises
    ------
    ParameterError
        One is too large; says which, and how to scale it.
    """
    size = folds.traces["amount"].abs()
    at = size.arg_max() if folds.n else None
    if at is not None and size[at] > largest:
        trace, amount, _ = folds.traces.row(at)
        raise ParameterError(
            f"the reward of trace {trace} is {amount:.3g}, too large for sums of squares:"
            f" expected at most {largest:.0e} in size; give it a weight, as in reward={{'team': 1e-300}}"
        )


def keyed_hash(name: str, seed: int) -> bytes:
    """Sort key: a hash of name and seed."""
    return hashlib.blake2b(name.encode(), digest_size=16, key=str(seed).encode()).digest()


def folds_over(names: Sequence[str], most: int, seed: int) -> Ints:
    """The fold of every row, by the name of what is never divided; no more folds than names."""
    distinct = sorted(set(names), key=lambda name: (keyed_hash(name, seed), name))
    n = min(most, len(distinct))
    fold = {name: rank % n for rank, name in enumerate(distinct)}
    return np.array([fold[name] for name in names], dtype=np.int64)


def fit_quality(
    truth: Floats, seen: Floats, unseen: Floats, folds: int, more: Mapping[str, object] | None = None
) -> dict[str, object]:
    """What goes into `params`: R² of the model of all runs on them, R² and residual deviation on unseen
    tasks.
    """
    around = float(np.square(truth - truth.mean()).sum()) if len(truth) else 0.0

    def r2(predicted: Floats) -> float | None:
        return 1.0 - float(np.square(truth - predicted).sum()) / around if around > 0.0 else None

    deviation = float(np.sqrt(np.square(truth - unseen).mean())) if folds else None
    return {
        "r2": r2(seen) if folds else None,
        "r2_cv": r2(unseen) if folds else None,
        "residual_sd": deviation,
        "n": len(truth),
        "folds": folds,
        **(more or {}),
    }
