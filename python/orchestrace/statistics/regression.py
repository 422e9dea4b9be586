"""The two small regressions behind doubly robust estimates: ridge and logistic, in NumPy, one BLAS thread.

Both see standardized features and penalize all weights but the intercept, so that features that say the same
twice, or separate the classes, have a solution.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from ..base.arrays import Floats

MOST_WORDS: Final = 32
"""Words of a column that are distinguished: indicators of all ids of a corpus would fit no memory."""

_STEPS: Final = 50


@dataclass(frozen=True)
class Design:
    """How columns become numbers, learnt on some rows: means fill gaps, words become indicators.

    Of a column with more than `MOST_WORDS` words the most frequent are distinguished; the others count as
    one.
    """

    numbers: tuple[tuple[str, float, float], ...]  # name, mean, deviation
    words: tuple[tuple[str, str], ...]  # name, value
    gaps: tuple[str, ...]  # columns with nulls, each an indicator of its own

    @classmethod
    def of(cls, rows: pl.DataFrame, columns: list[str]) -> "Design":
        """Learn from these rows. A column that is constant in them is left out."""
        numbers: list[tuple[str, float, float]] = []
        words: list[tuple[str, str]] = []
        gaps: list[str] = []
        for name in columns:
            column = rows[name]
            if 0 < column.null_count() < len(column):
                gaps.append(name)
            if column.dtype.is_numeric() or column.dtype == pl.Boolean:
                values = column.cast(pl.Float64)
                mean, deviation = values.mean(), values.std()
                if isinstance(mean, float) and isinstance(deviation, float) and deviation > 1e-12:
                    numbers.append((name, mean, deviation))
            else:
                seen = _frequent(column)
                words.extend((name, value) for value in (seen if column.n_unique() > 1 else []))
        return cls(tuple(numbers), tuple(words), tuple(gaps))

    def matrix(self, rows: pl.DataFrame) -> Floats:
        """(rows, 1 + features); words not seen in learning have 0 in all indicators."""
        columns = [pl.lit(1.0).alias("one")]
        columns += [
            ((pl.col(name).cast(pl.Float64).fill_null(mean) - mean) / deviation).alias(f"n{i}")
            for i, (name, mean, deviation) in enumerate(self.numbers)
        ]
        columns += [
            pl.col(name).cast(pl.String).eq_missing(value).cast(pl.Float64).alias(f"w{i}")
            for i, (name, value) in enumerate(self.words)
        ]
        columns += [
            pl.col(name).is_null().cast(pl.Float64).alias(f"g{i}") for i, name in enumerate(self.gaps)
        ]
        matrix: Floats = rows.with_columns(columns).select(c.meta.output_name() for c in columns).to_numpy()
        return matrix


def _frequent(column: pl.Series) -> list[str]:
    """The words that are distinguished, in order; ties by the word itself."""
    counts = column.cast(pl.String).drop_nulls().alias("word").value_counts(name="n")
    return counts.sort("n", "word", descending=[True, False])["word"].head(MOST_WORDS).sort().to_list()


def pooled(rows: pl.DataFrame, columns: list[str]) -> dict[str, float]:
    """Share of rows whose word is not distinguished, of the columns that have such."""
    shares = {}
    for name in columns:
        column = rows[name]
        if column.dtype.is_numeric() or column.dtype == pl.Boolean or column.n_unique() <= MOST_WORDS:
            continue
        words = column.cast(pl.String)
        share = (~words.is_in(_frequent(column))).fill_null(False).mean()
        if isinstance(share, float) and share > 0.0:
            shares[name] = share
    return shares


def ridge(x: Floats, y: Floats, penalty: float) -> Floats:
    """Weights that minimize Σ (y - x w)² + penalty Σ_{j>0} w_j²; the first column is the intercept."""
    return ridge_on(x, penalty)(y)


def ridge_on(x: Floats, penalty: float, times: Floats | None = None) -> Callable[[Floats], Floats]:
    """`ridge` of several outcomes on the same columns, whose products are computed once.

    A row counts as often as `times` says; None counts each once.
    """
    columns = x[:, 1:]
    center = columns.mean(axis=0) if times is None else np.average(columns, axis=0, weights=times)
    around = columns - center
    turned = around.T if times is None else around.T * times
    gram = turned @ around + penalty * np.eye(columns.shape[1])

    def weights(y: Floats) -> Floats:
        level = y.mean() if times is None else np.average(y, weights=times)
        slope = np.linalg.solve(gram, turned @ (y - level))
        return np.concatenate([[level - center @ slope], slope])

    return weights


def logistic(x: Floats, d: Floats, penalty: float, times: Floats | None = None) -> Floats:
    """Weights that minimize the log loss + penalty/2 Σ_{j>0} w_j², by Newton's method with halved steps.

    A row counts as often as `times` says; None counts each once.
    """
    pull = np.full(x.shape[1], penalty)
    # an intercept without any pull runs away where all of the rows went one way
    pull[0] = 1e-6
    w = np.zeros(x.shape[1])
    each = np.ones(len(d)) if times is None else times
    loss = _loss(x, d, w, pull, each)
    for _ in range(_STEPS):
        p = sigmoid(x @ w)
        slope = x.T @ (each * (p - d)) + pull * w
        step = np.linalg.solve((x.T * (each * p * (1.0 - p))) @ x + np.diag(pull), slope)
        size = 1.0
        while (new := _loss(x, d, w - size * step, pull, each)) > loss and size > 1e-6:
            size /= 2.0
        if new > loss:
            break
        w, gain, loss = w - size * step, loss - new, new
        if gain <= 1e-12 * max(abs(loss), 1.0) and np.abs(step).max() < 1e-8:
            break
    return w


def _loss(x: Floats, d: Floats, w: Floats, pull: Floats, each: Floats) -> float:
    z = x @ w
    return float((each * (np.logaddexp(0.0, z) - d * z)).sum() + 0.5 * (pull * w * w).sum())


def sigmoid(z: Floats) -> Floats:
    """1 / (1 + exp(-z)), without overflow."""
    positive = z >= 0.0
    small = np.exp(np.where(positive, -z, z))
    return np.where(positive, 1.0, small) / (1.0 + small)
