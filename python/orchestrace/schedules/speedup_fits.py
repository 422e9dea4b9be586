"""Fits of Amdahl's law and the USL to scaling curves."""

import math
from typing import Any, Literal

import numpy as np
import polars as pl

from ..base.errors import ParameterError
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.frames import collected

_FITS = {
    "trace": pl.UInt32(),
    "model": pl.String(),
    "alpha": pl.Float64(),
    "alpha_stderr": pl.Float64(),
    "beta": pl.Float64(),
    "beta_stderr": pl.Float64(),
    "k_best": pl.Float64(),
    "rmse": pl.Float64(),
    "n": pl.UInt32(),
    "tier": pl.Enum(["observed", "schedule", "surrogate"]),
    "reason": CREDITS["reason"],
}
NEEDED = ("trace", "k", "makespan")


@verb
def fit_scaling(curve: pl.DataFrame | pl.LazyFrame, *, by: Literal["trace"] | None = None) -> pl.DataFrame:
    """Fit Amdahl's law and the universal scalability law to a scaling curve.

    Parameters
    ----------
    curve
        What `schedules.scaling_curve` returns, with k = 1 and at least one other number of slots.
    by
        None fits one curve to all traces together, whose speed-up at k is Σ T_1 / Σ T_k: how much sooner
        everything is done, one run after the other. ``"trace"`` fits every trace.

    Returns
    -------
    DataFrame
        Two rows (``model`` ``amdahl`` and ``usl``) for each fit: ``trace`` (UInt32, null for all together),
        ``alpha`` (share that is serial, or contention), ``beta`` (cost of coherence, 0 in Amdahl's law) and
        their standard errors, ``k_best`` (slots beyond which USL expects no gain, sqrt((1 - alpha)/beta);
        null where beta is 0, since it has no maximum then), ``rmse`` of the speed-up, ``n`` points, ``tier
        reason``. All numbers are Float64 without unit. A standard error is null where there are no more
        points than parameters, or where the estimate is at its bound of 0 or 1; ``reason`` ``support.absent``
        marks a curve of too few points, whose numbers are null, ``field.absent`` one that lacks k = 1 or has
        no time.

    Raises
    ------
    ParameterError
        A column is absent, no row has k = 1, times in seconds and in steps are put together, or an unknown
        word for `by`.

    Notes
    -----
    X(k) = k / (1 + alpha (k - 1) + beta k (k - 1)), 0 <= alpha <= 1, beta >= 0, by least squares on X(k) =
    T_1/T_k. Points with k null are not used. Errors are those of least squares with independent residuals;
    points of one curve are not independent, and a list schedule follows neither law exactly: they say how
    well the curve fits, not how runs would vary. Sources: G. M. Amdahl, AFIPS 1967; N. J. Gunther, Guerrilla
    Capacity Planning, 2007. O(points) an iteration.

    Examples
    --------
    >>> import orchestrace as ot
    >>> curve = ot.schedules.scaling_curve(ot.generate(traces=5, seed=0), slots=[1, 2, 3, 4, 8])
    >>> fits = ot.schedules.fit_scaling(curve)
    >>> fits["model"].to_list(), fits["alpha"].is_between(0, 1).all()
    (['amdahl', 'usl'], True)
    """
    points = speedups(collected(curve, "curve", NEEDED), by)
    rows = [
        {"trace": trace, "model": model, "tier": "schedule", **_fit(of_trace, model)}
        for (trace,), of_trace in points.group_by("trace", maintain_order=True)
        for model in ("amdahl", "usl")
    ]
    fits = pl.DataFrame(rows, {name: pl.String() if name == "reason" else d for name, d in _FITS.items()})
    fitted = fits.with_columns(tier=pl.when(pl.col("alpha").is_not_null()).then("tier"))
    return fitted.select(pl.col(name).cast(dtype) for name, dtype in _FITS.items())


def speedups(curve: pl.DataFrame, by: str | None) -> pl.DataFrame:
    """Speed-ups: ``trace k speedup``, trace null for all together."""
    measured = curve.filter(pl.col("k").is_not_null() & pl.col("makespan").is_not_null())
    if by is None and "unit" in measured.columns and measured["unit"].drop_nulls().n_unique() > 1:
        raise ParameterError("curve has seconds and steps, which do not add: filter it by 'unit'")
    if not (curve["k"] == 1).any():
        raise ParameterError("curve has no row with k = 1: scaling_curve(..., slots=[1, 2, ...])")
    key = pl.col("trace") if by else pl.lit(None, pl.UInt32).alias("trace")
    summed = measured.group_by(key, "k", maintain_order=True).agg(pl.col("makespan").sum()).sort("trace", "k")
    first = summed.filter(k=1).select("trace", first="makespan")
    joined = summed.join(first, on="trace", how="left", nulls_equal=True, maintain_order="left")
    positive = pl.col("makespan") > 0
    return joined.select("trace", "k", speedup=pl.when(positive).then(pl.col("first") / pl.col("makespan")))


def _law(k: Any, alpha: float, beta: float = 0.0) -> Any:
    return k / (1 + alpha * (k - 1) + beta * k * (k - 1))


def _fit(points: pl.DataFrame, model: str) -> dict[str, Any]:
    """Parameters, their errors and how far off the law is."""
    from scipy.optimize import curve_fit

    usable = points.drop_nulls("speedup")
    if usable.filter(k=1).is_empty():
        return {"n": usable.height, "reason": "field.absent"}
    k, speedup = usable["k"].to_numpy().astype(float), usable["speedup"].to_numpy()
    count = 2 if model == "usl" else 1
    # At k = 1 every law is 1: that point says nothing.
    if int((k > 1).sum()) < count:
        return {"n": usable.height, "reason": "support.absent"}
    bounds = ([0.0] * count, [1.0, np.inf][:count])
    start = [0.1, 1e-3][:count]
    exact = int((k > 1).sum()) == count
    optimum, covariance = curve_fit(
        _law if model == "usl" else lambda k, alpha: _law(k, alpha),
        k[k > 1],
        speedup[k > 1],
        p0=start,
        bounds=bounds,
        xtol=1e-12,
        ftol=1e-12,
        gtol=1e-12,
        absolute_sigma=exact,  # no residuals are left to estimate the scale of errors from
    )
    alpha, beta = float(optimum[0]), float(optimum[1]) if count == 2 else 0.0
    errors = [None if exact else math.sqrt(v) if math.isfinite(v) else None for v in np.diag(covariance)]
    at_bound = [min(alpha, 1 - alpha) < 1e-9, beta < 1e-12]
    errors = [None if bound else error for error, bound in zip(errors, at_bound, strict=False)]
    residual = _law(k, alpha, beta) - speedup
    return {
        "alpha": alpha,
        "alpha_stderr": errors[0],
        "beta": beta,
        "beta_stderr": errors[1] if count == 2 else None,
        "k_best": math.sqrt((1 - alpha) / beta) if count == 2 and beta >= 1e-12 else None,
        "rmse": float(np.sqrt(np.mean(residual**2))),
        "n": usable.height,
    }
