"""Features of an epoch: scores so far, costs so far, the number of the epoch."""

from typing import Final

import polars as pl

from ..base.arguments import Size
from ..base.verbs import verb
from .runs import Cost, check_cost, check_epochs

OF_SCORES: Final = ("x_s", "x_s_mean", "x_s_min", "x_s_max", "x_s_delta", "x_s_ewm")
"""Features of the scores so far, in order."""
_FRESH: Final = 0.3  # weight of the newest score in the exponential mean
_SMALL: Final = 2.0**-64


@verb
def features(epochs: pl.DataFrame, *, k_max: Size | None = None, cost: Cost = "auto") -> pl.DataFrame:
    """Compute the features of every epoch from this epoch and those before it.

    Parameters
    ----------
    epochs
        Epochs, as `epochs_from_frame` makes them.
    k_max
        The largest k of the runs that a model is fitted on, which ``x_k_rel`` is relative to; None takes that
        of `epochs`. Give it when you apply a model to other runs.
    cost
        The column that ``x_c`` is: ``tokens``, ``seconds``, ``usd``, or ``epochs``, which is k. ``auto``
        takes tokens if all epochs have them, else k.

    Returns
    -------
    DataFrame
        One row per epoch, ordered by ``trace`` and ``k``: ``trace`` (UInt32) ``trace_id`` (String) ``k``
        (UInt32), and as Float64 ``x_k``, ``x_k_rel`` = k / `k_max`, ``x_s``, ``x_s_mean x_s_min x_s_max`` of
        the scores so far, ``x_s_delta`` to the score before (0 at k = 1), ``x_s_ewm`` (e_1 = s_1, e_k = 0.7
        e_{k-1} + 0.3 s_k), ``x_c``, the cost so far. Where an input is absent the feature is null, and
        ``x_s_missing`` or ``x_c_missing`` (UInt8) is 1.

    Raises
    ------
    SchemaError
        A column of epochs is missing, of another type, or contradicts the others.
    ParameterError
        `k_max` below 1, or an unknown cost.

    Notes
    -----
    Nothing of a later epoch enters, nor the length of the run: if you cut a run, the rows that remain do not
    change. O(epochs log epochs).

    Source: docs/reference/definitions.md, D27.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> steps = pl.DataFrame({"run": "a", "step": [1, 2, 3], "score": [0.5, 0.7, 0.3], "success": True})
    >>> table = ot.stopping.features(ot.stopping.epochs_from_frame(steps))
    >>> table.select(pl.col("x_s_mean", "x_s_delta", "x_s_ewm").round(3)).rows()
    [(0.5, 0.0, 0.5), (0.6, 0.2, 0.56), (0.5, -0.4, 0.482)]
    """
    rows = check_epochs(epochs)
    spent = check_cost(rows, cost)
    most = k_max if k_max is not None else rows["k"].max()
    amount = pl.col("k") if spent == "epochs" else pl.col(spent)
    return with_scores(
        rows.with_columns(
            x_k=pl.col("k").cast(pl.Float64),
            x_k_rel=pl.col("k").cast(pl.Float64) / pl.lit(most, pl.Float64),
            x_c=amount.cast(pl.Float64),
            x_s_missing=pl.col("s").is_null().cast(pl.UInt8),
            x_c_missing=amount.is_null().cast(pl.UInt8),
        )
    ).select(
        *("trace", "trace_id", "k", "x_k", "x_k_rel"),
        *(*OF_SCORES, "x_c", "x_s_missing", "x_c_missing"),
    )


def with_scores(rows: pl.DataFrame) -> pl.DataFrame:
    """Beside rows in order of ``trace`` and ``k``, the features of their ``s``; null where that is.

    A difference of the largest numbers may be none: it is null, too.
    """
    s = pl.col("s")
    columns = {
        "x_s": s,
        # sums of the largest numbers overflow; scaling by a power of two is exact
        "x_s_mean": ((s * _SMALL).cum_sum() / s.cum_count()).over("trace") / _SMALL,
        "x_s_min": s.cum_min().over("trace"),
        "x_s_max": s.cum_max().over("trace"),
        "x_s_delta": pl.when(pl.col("k") == 1).then(s * 0.0).otherwise(s - s.shift(1).over("trace")),
        "x_s_ewm": s.ewm_mean(alpha=_FRESH, adjust=False, ignore_nulls=True).over("trace"),
    }
    extended = rows.with_columns(**columns)
    usable = (pl.when(s.is_not_null() & pl.col(name).is_finite()).then(name).alias(name) for name in columns)
    return extended.with_columns(usable)
