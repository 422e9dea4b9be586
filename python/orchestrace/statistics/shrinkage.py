"""Shrinkage of small cells towards the mean of their row, by as much as their noise asks for."""

import numpy as np
import polars as pl

from ..base.arrays import Floats, Ints
from .influence import NO_SPREAD, t_quantile


def shrunk(units: pl.DataFrame, confidence: float) -> tuple[pl.DataFrame, dict[str, object]]:
    """Empirical Bayes estimates of cells (subtask, delegate), drawn to the mean of the delegate.

    Parameters
    ----------
    units
        ``subtask delegate`` (String) and ``reward`` (Float64), one independent outcome a row.
    confidence
        Coverage of the intervals.

    Returns
    -------
    (DataFrame, dict)
        A row per cell, in order: ``subtask delegate outcome outcome_cf effect stderr lower upper mean support
        tier reason``; and ``sigma2 tau2``, null where they cannot be had.

    Notes
    -----
    O(units log units). Source: Morris 1983, section 5, for cells of unequal size.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.statistics.shrinkage import shrunk
    >>> cells = {"delegate": ["x", "x", "y", "y"], "reward": [0.0, 1.0, 2.0, 3.0]}
    >>> units = pl.DataFrame({"subtask": ["a"] * 4, **cells})
    >>> shrunk(units, 0.95)[0]["effect"].to_list()  # one class a delegate: nothing to be drawn to
    [-1.0, 1.0]
    """
    cells = (
        units.group_by("subtask", "delegate")
        .agg(
            n=pl.len().cast(pl.Float64),
            mean=pl.col("reward").mean(),
            squares=(pl.col("reward") - pl.col("reward").mean()).pow(2).sum(),
        )
        .sort("subtask", "delegate")
    )
    df = int((cells["n"] - 1.0).sum()) if cells.height else 0
    if df < 1:
        empty = {
            name: pl.lit(None, pl.Float64)
            for name in ("outcome", "outcome_cf", "effect", "stderr", "lower", "upper")
        }
        none = cells.with_columns(
            **empty,
            support=pl.lit(0.0),
            tier=pl.lit(None, pl.String),
            reason=pl.lit("support.absent"),
        )
        return none.drop("n", "squares"), {"sigma2": None, "tau2": None}
    n, mean = cells["n"].to_numpy(), cells["mean"].to_numpy()
    sigma2 = float(cells["squares"].sum()) / df
    _, delegate = np.unique(cells["delegate"].to_numpy(), return_inverse=True)
    _, subtask = np.unique(cells["subtask"].to_numpy(), return_inverse=True)
    tau2 = _between(n, mean, delegate, sigma2)
    spread = sigma2 / n
    rows = np.bincount(delegate)
    freedom = int((rows - 1).sum())
    pull = np.zeros(len(n))
    if tau2 is not None and freedom > 2:
        # τ² is only estimated: drawing as far as it says would be too far, by this much on average
        scale = (freedom - 2) / freedom
        pull = np.where(rows[delegate] > 1, scale * spread / np.maximum(tau2 + spread, 1e-300), 0.0)
    # where nothing varies at all every cell counts alike
    variances = (tau2 or 0.0) + spread
    precision = 1.0 / variances if variances.min() > 0.0 else np.ones(len(n))
    total = np.bincount(delegate, weights=precision)
    away = mean - (np.bincount(delegate, weights=precision * mean) / total)[delegate]
    estimate = mean - pull * away
    variance = (1.0 - pull) * spread + np.square(pull) / total[delegate]
    variance += 2.0 / max(freedom - 2, 1) * np.square(pull * away)
    # as it was delegated: every delegate by its share of the class
    share = n / np.bincount(subtask, weights=n)[subtask]
    outcome = np.bincount(subtask, weights=share * estimate)[subtask]
    others = np.bincount(subtask, weights=np.square(share) * variance)[subtask] - np.square(share) * variance
    stderr = np.sqrt(np.maximum(np.square(1.0 - share) * variance + others, 0.0))
    reach = t_quantile((1.0 + confidence) / 2.0, df)
    several = np.bincount(subtask)[subtask] > 1
    effect = estimate - outcome
    some, flat = pl.Series(several), pl.Series(stderr <= NO_SPREAD * np.abs(mean).max())
    table = cells.select("subtask", "delegate", "mean").with_columns(
        outcome=pl.Series(outcome),
        outcome_cf=pl.Series(estimate),
        effect=pl.Series(effect),
        stderr=pl.Series(stderr),
        lower=pl.Series(effect - reach * stderr),
        upper=pl.Series(effect + reach * stderr),
        support=pl.Series(1.0 - pull),
    )
    table = table.with_columns(
        *(pl.when(some).then(pl.col(name)).alias(name) for name in ("effect", "stderr")),
        *(pl.when(some & ~flat).then(pl.col(name)).alias(name) for name in ("lower", "upper")),
    ).with_columns(
        tier=pl.when(some).then(pl.lit("surrogate")),
        reason=pl.when(~some).then(pl.lit("siblings.absent")).when(flat).then(pl.lit("group.degenerate")),
    )
    return table, {"sigma2": sigma2, "tau2": tau2}


def _between(n: Floats, mean: Floats, who: Ints, sigma2: float) -> float | None:
    """The variance of cells around the mean of their row; null where no row has two."""
    rows = np.bincount(who)
    size = np.bincount(who, weights=n)
    center = (np.bincount(who, weights=n * mean) / size)[who]
    room = float((size - np.bincount(who, weights=n * n) / size).sum())
    if not (rows > 1).any() or room <= 0.0:
        return None
    q = float((n * np.square(mean - center)).sum())
    return max(0.0, (q - sigma2 * float((rows - 1).sum())) / room)
