"""Scaling laws: fits of one quantity against another, and their predictions."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from ..base.arguments import ColumnName, Confidence, Folds, Resamples, Seed
from ..base.arrays import Floats
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.verbs import verb
from ..corpus.frames import collected
from ..statistics.resampling import FEWEST_CLUSTERS, percentiles
from .law_evidence import Rows, deal, held_out, resampled, simplest
from .law_models import LAWS, Law

Model = Literal["power", "saturating", "broken_power"]
Errors = Literal["relative", "absolute"]

MODELS: Final = ("power", "saturating", "broken_power")
REASONS: Final = pl.Enum(
    [
        "support.absent",
        "x.not_positive",
        "y.not_positive",
        "fit.unidentified",
        "clusters.few",
        "choice.absent",
        "range.exceeded",
    ]
)
"""Why a number of a law is null."""

_LAWS: Final = {
    "model": pl.Enum(MODELS),
    "parameter": pl.String(),
    "estimate": pl.Float64(),
    "lower": pl.Float64(),
    "upper": pl.Float64(),
    "heldout_error": pl.Float64(),
    "chosen": pl.Boolean(),
    "errors": pl.Enum(["relative", "absolute"]),
    "n": pl.UInt32(),
    "n_null": pl.UInt32(),
    "n_x": pl.UInt32(),
    "n_clusters": pl.UInt32(),
    "x_lower": pl.Float64(),
    "x_upper": pl.Float64(),
    "reason": REASONS,
    "draws": pl.List(pl.Float64()),
}
_PREDICTIONS: Final = {
    "model": pl.Enum(MODELS),
    "x": pl.Float64(),
    "estimate": pl.Float64(),
    "lower": pl.Float64(),
    "upper": pl.Float64(),
    "extrapolated_decades": pl.Float64(),
    "beyond_a_decade": pl.Boolean(),
    "reason": REASONS,
}
_TAKEN: Final = {"group", "cluster", "y", "read", *_LAWS, *_PREDICTIONS}


@verb
def fit_law(
    frame: pl.DataFrame | pl.LazyFrame,
    *,
    x: ColumnName,
    y: ColumnName,
    models: Sequence[Model] = MODELS,
    errors: Errors = "relative",
    cluster: ColumnName | None = "trace_id",
    by: str | Sequence[str] | None = None,
    folds: Folds = 5,
    n_boot: Resamples = 2000,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
) -> pl.DataFrame:
    """Fit scaling laws to a column, and choose between them by their error on held-out traces.

    Parameters
    ----------
    frame
        A row an observation. Rows where `x`, `y` or `cluster` is null, or a number not finite, are left out
        and counted. The order of rows does not matter.
    x, y
        Columns of numbers: the size, above 0, and what is said to grow or fall with it, in any units.
    models
        Which laws, of ``power``, ``saturating`` and ``broken_power`` (notes).
    errors
        ``"relative"``: least squares on log y, for what is above 0 and varies by a factor, as time does.
        ``"absolute"``: least squares on y, for means of what may be 0 or below, as a correlation per trace.
    cluster
        The column that says which rows belong together and are resampled and held out together: ``trace_id``,
        a task, a round. None: every row by itself.
    by
        Columns to fit each group of.
    folds
        In how many parts, at most, clusters are held out, one after the other; at least 2.
    n_boot, confidence, seed
        Resamples of clusters for the percentile intervals, their coverage, and the seed of resamples and
        folds.

    Returns
    -------
    DataFrame
        A row for each group, model and parameter, groups in ascending order: the columns of `by`, ``model``,
        ``parameter``, ``estimate lower upper`` (Float64), ``heldout_error`` (of the model, on the scale of
        `errors`: root mean square of log y, or of y), ``chosen``, ``errors``, ``n`` rows used and ``n_null``
        left out, ``n_x`` distinct x, ``n_clusters`` (all UInt32), ``x_lower x_upper``, ``reason``, and
        ``draws`` (List of Float64), the estimates of the resamples, which `scaling.predict_law` needs.

    Raises
    ------
    ParameterError
        A column is absent or holds no numbers, an unknown model, or an option out of range.

    Notes
    -----
    *Laws.* ``power``: y = scale x^exponent. ``saturating``: y = limit + amplitude x^-rate with rate > 0,
    which falls or rises to the limit, and under relative errors stays above 0. ``broken_power``: y = scale
    x^exponent up to ``break``, then scale break^(exponent - exponent_after) x^exponent_after: two straight
    lines that meet, where both axes are logarithmic.

    *Choice.* Clusters are put into folds by a hash of seed and name. The held-out error is the root mean
    square over all rows, each predicted by a fit that has not seen its cluster. Chosen is the simplest model,
    in the order above, whose mean square is above the least by no more than one standard error of that
    difference, over clusters. A single model is chosen without a test.

    *Intervals* are percentiles of resampled clusters, wider for few clusters in the proportion in which
    Student's t is wider than the normal. They hold if the model does.

    *Null.* ``support.absent``: fewer distinct x than parameters and one more. ``x.not_positive``,
    ``y.not_positive``: a number that has no logarithm; leaving out rows by their y would bend the law, so
    nothing is fitted. ``fit.unidentified``: no bend in the range of x (or one at its first point only), so
    that the limit is unknown; or a scale, the y at x = 1, that no float has in full (of a very steep law), or
    that is 0. ``clusters.few``: the estimate is there, but fewer than 5 clusters give no interval, fewer than
    2 no held-out error.

    A power law under relative errors is solved in closed form, the broken one exactly, by all places at which
    the two lines may meet (of those at points at most 64); the others by Levenberg and Marquardt from the
    best of a grid, linear parameters projected out, and each resample from the estimate. Time is O(n_boot
    (rows + distinct x)): seconds for three models and 1000 resamples over tens of distinct x, ten times that
    where each of a thousand rows has its own.

    Sources: limits and exponents, Hestness et al. 2017 (arXiv 1712.00409); choice by what was not seen,
    Alabdulmohsin, Neyshabur & Zhai 2022 (arXiv 2209.06640); breaks, Caballero et al. 2022 (arXiv 2210.14891),
    whose law with one break and no smoothing this is; two lines that meet, Hudson 1966 (JASA 61); projection,
    Golub & Pereyra 1973; one standard error, Hastie, Tibshirani & Friedman 2009, section 7.10; percentiles
    for few clusters, Hesterberg 2015 (arXiv 1411.5279), section 3.3.

    Examples
    --------
    >>> import orchestrace as ot
    >>> import polars as pl
    >>> sizes = [10.0, 100.0, 1000.0, 10000.0]
    >>> runs = [(f"run {r}", n, (1 + r / 100) * 0.3 * n**0.5) for r in range(8) for n in sizes]
    >>> table = pl.DataFrame(runs, ["trace_id", "events", "seconds"], orient="row")
    >>> law = ot.scaling.fit_law(table, x="events", y="seconds", models=["power"])
    >>> law.select("parameter", pl.col("estimate").round(3), "chosen").rows()
    [('scale', 0.31, True), ('exponent', 0.5, True)]
    """
    wanted = _check_models(models)
    keys = [by] if isinstance(by, str) else list(by or [])
    rows, groups = _rows(frame, x, y, cluster, keys)
    parts = {part["group"][0]: part for part in rows.partition_by("group")}
    table: list[dict[str, Any]] = []
    for group, read in groups.select("group", "read").rows():
        part = parts.get(group, rows.clear())
        fits = _fit_group(part, wanted, errors == "relative", folds, n_boot, confidence, seed)
        table += [{"group": group, "n_null": read - part.height, **fit} for fit in fits]
    laws = pl.DataFrame(table, {"group": pl.UInt32(), **_LAWS}, orient="row")
    if not keys:
        return laws.drop("group")
    named = groups.select("group", pl.struct(keys).alias("by"))
    labeled = named.join(laws, on="group", maintain_order="right").drop("group")
    return labeled.select(pl.col("by").struct.unnest(), pl.exclude("by"))


@verb
def predict_law(
    fit: pl.DataFrame,
    at: float | Sequence[float],
    *,
    model: Model | None = None,
    confidence: Confidence = 0.95,
    beyond_a_decade: bool = False,
) -> pl.DataFrame:
    """Predict other sizes by fitted laws, with intervals, and say how far that extrapolates.

    Parameters
    ----------
    fit
        What `scaling.fit_law` returned.
    at
        Sizes, in the unit of x, above 0.
    model
        Which law; None takes the one that was chosen in each group.
    confidence
        Coverage of the intervals.
    beyond_a_decade
        Whether to answer even where `at` is more than ten times the greatest x that was seen, or less than a
        tenth of the least.

    Returns
    -------
    DataFrame
        A row for each group and size, in their orders: the columns that the fit was made by, ``model x
        estimate lower upper`` (Float64), ``extrapolated_decades`` (Float64, log10 of how many times x lies
        outside the range seen, 0 inside), ``beyond_a_decade`` (whether that is more than 1), ``reason``.
        Numbers are null beyond a decade unless asked for (``range.exceeded``), where no model was chosen
        (``choice.absent``), where the model has no estimate, and where a law that has to stay above 0 does
        not (``y.not_positive``).

    Raises
    ------
    ParameterError
        `fit` is not of `scaling.fit_law`, `at` has a size that is not above 0, an unknown model, or one that
        was not fitted.

    Notes
    -----
    The interval is that of the law, of the mean over many runs, not of the next run; and it takes the law for
    true. O(sizes * resamples).

    Source: percentile bootstrap over clusters, as `scaling.fit_law`.

    Examples
    --------
    >>> import orchestrace as ot
    >>> import polars as pl
    >>> runs = [(f"run {r}", n, (1 + r / 100) * 2.0 * n) for r in range(8) for n in (10.0, 20.0, 40.0)]
    >>> table = pl.DataFrame(runs, ["trace_id", "n", "cost"], orient="row")
    >>> law = ot.scaling.fit_law(table, x="n", y="cost", models=["power"])
    >>> predicted = ot.scaling.predict_law(law, [80.0, 800.0])
    >>> predicted.select(pl.col("estimate").round(1), "beyond_a_decade", "reason").rows()
    [(165.6, False, None), (None, True, 'range.exceeded')]
    """
    absent = [name for name in _LAWS if not isinstance(fit, pl.DataFrame) or name not in fit.columns]
    if absent:
        raise ParameterError(f"fit has no column '{absent[0]}': pass what fit_law returned")
    sizes = _check_sizes(at)
    if model is not None:
        _check_models([model])
        if fit.height and not (fit["model"] == model).any():
            raise ParameterError(f"fit has no model '{model}': fit_law(..., models=['{model}'])")
    keys = [name for name in fit.columns if name not in _LAWS]
    table: list[dict[str, Any]] = []
    for group in fit.partition_by(keys, maintain_order=True) if keys else [fit] * bool(fit.height):
        fitted = group.filter(pl.col("chosen") if model is None else pl.col("model") == model)
        key = {name: group[name][0] for name in keys}
        # where nothing could be fitted, for one reason, that is why
        reasons = group["reason"].unique().to_list()
        reason = reasons[0] if len(reasons) == 1 and group["estimate"].is_null().all() else "choice.absent"
        theta, spread, name = None, None, None
        if fitted.height:
            name, reason = fitted["model"][0], fitted["reason"][0]
            if fitted["estimate"].null_count() == 0:
                theta = fitted["estimate"].to_numpy()
            drawn = fitted["draws"].to_list()
            if all(drawn):
                spread = np.array(drawn).T
        low_x, high_x = group["x_lower"][0], group["x_upper"][0]
        for size in sizes:
            row: dict[str, Any] = {**key, "model": name, "x": size, "reason": reason}
            if low_x is not None:
                outside = max(math.log10(low_x / size), math.log10(size / high_x), 0.0)
                # so that ten times the greatest x is exactly one decade
                row["extrapolated_decades"] = outside = round(outside, 12)
                row["beyond_a_decade"] = outside > 1.0
            if theta is not None and row["beyond_a_decade"] and not beyond_a_decade:
                row["reason"] = "range.exceeded"
            elif theta is not None:
                positive = fitted["errors"][0] == "relative"
                row |= _prediction(LAWS[str(name)], theta, spread, size, positive, fitted, confidence)
            table.append(row)
    schema = {name: fit.schema[name] for name in keys}
    return pl.DataFrame(table, {**schema, **_PREDICTIONS}, orient="row")


def _prediction(
    law: "Law",
    theta: "Floats",
    spread: "Floats | None",
    size: float,
    positive: bool,
    fitted: pl.DataFrame,
    confidence: float,
) -> dict[str, Any]:
    """Estimate and interval at one size."""
    log_x = np.array([math.log(size)])
    estimate = float(law.curve(theta, log_x)[0])
    if not math.isfinite(estimate):
        return {"reason": "fit.unidentified"}
    if positive and estimate <= 0.0:
        return {"reason": "y.not_positive"}
    lower, upper = None, None
    if spread is not None:
        lower, upper = percentiles(law.curve(spread, log_x)[:, 0], fitted["n_clusters"][0], confidence)
    reason = "clusters.few" if fitted["n_clusters"][0] < FEWEST_CLUSTERS else None
    return {"estimate": estimate, "lower": lower, "upper": upper, "reason": reason}


def _check_models(models: Sequence[str]) -> list[str]:
    """Known names, in the order of the table, each once."""
    names = [models] if isinstance(models, str) else list(models)
    for name in names:
        if name not in MODELS:
            raise ParameterError(unknown_name("model", str(name), list(MODELS)))
    if not names:
        raise ParameterError(f"models is empty, expected some of {', '.join(MODELS)}")
    return [name for name in MODELS if name in names]


def _check_sizes(at: object) -> list[float]:
    values: list[object] = list(at) if isinstance(at, Iterable) else [at]
    sizes = []
    for size in values:
        try:
            number = float(size)  # type: ignore[arg-type]  # that is the question
        except (TypeError, ValueError):
            number = math.nan
        if not (number > 0.0 and math.isfinite(number)):
            raise ParameterError(f"at has {size!r}, expected numbers above 0")
        sizes.append(number)
    return sizes


def _rows(
    frame: pl.DataFrame | pl.LazyFrame, x: str, y: str, cluster: str | None, keys: list[str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Usable rows ``group cluster x y``, sorted; and of each group its keys and the number of rows read."""
    table = collected(frame, "frame", (x, y, *keys, *([cluster] if cluster is not None else [])))
    for name in (x, y):
        dtype = table.schema[name]
        if not (dtype.is_numeric() or table[name].null_count() == table.height):
            raise ParameterError(f"frame.{name} has type {dtype}, expected numbers")
    for name in keys:
        if name in _TAKEN:
            raise ParameterError(f"by has '{name}', a name of the result: rename that column of the frame")
    of = pl.struct(keys).rank("dense") if keys else pl.lit(1)
    numbered = table.select(
        *keys,
        group=of.cast(pl.UInt32),
        cluster=pl.lit("") if cluster is None else pl.col(cluster).cast(pl.String),
        x=pl.col(x).cast(pl.Float64),
        y=pl.col(y).cast(pl.Float64),
    )
    groups = numbered.group_by("group", *keys).agg(read=pl.len()).sort("group")
    if not keys and groups.is_empty():
        groups = pl.DataFrame({"group": [1], "read": [0]}, {"group": pl.UInt32(), "read": pl.UInt32()})
    is_usable = pl.col("x").is_finite() & pl.col("y").is_finite() & pl.col("cluster").is_not_null()
    usable = (
        numbered.filter(is_usable).select("group", "cluster", "x", "y").sort("group", "cluster", "x", "y")
    )
    if cluster is None:
        # every row is a cluster; equal rows may change places, since nothing distinguishes them
        usable = usable.with_columns(cluster=pl.int_range(pl.len()).over("group").cast(pl.String))
    return usable, groups


def _fit_group(
    rows: pl.DataFrame, models: list[str], relative: bool, n_folds: int, n_boot: int, level: float, seed: int
) -> list[dict[str, Any]]:
    """Rows of the result for one group."""
    x, y = rows["x"].to_numpy(), rows["y"].to_numpy()
    names = rows["cluster"].to_list()
    ordered = sorted(set(names))
    place = {name: i for i, name in enumerate(ordered)}
    codes = np.array([place[name] for name in names], np.int64)
    base: dict[str, Any] = {
        "errors": "relative" if relative else "absolute",
        "n": rows.height,
        "n_x": rows["x"].n_unique(),
        "n_clusters": len(ordered),
        "x_lower": rows["x"].min(),
        "x_upper": rows["x"].max(),
        "chosen": False,
    }
    fits: dict[str, Floats] = {}
    squares: dict[str, Floats] = {}
    reasons: dict[str, str] = {}
    bad = "x.not_positive" if (x <= 0).any() else None
    if bad is None and relative and (y <= 0).any():
        bad = "y.not_positive"
    data = None if bad or not names else Rows(x, y, codes, relative)
    parts = deal(ordered, n_folds, seed)[codes] if len(ordered) > 1 else None
    for model in models:
        law = LAWS[model]
        if data is None or base["n_x"] <= len(law.parameters):
            reasons[model] = bad or "support.absent"
            continue
        points = data.points()
        theta = law.fit(points)
        if theta is None or not law.identified(theta, points):
            reasons[model] = "fit.unidentified"
            continue
        fits[model] = theta
        unseen = None if parts is None else held_out(data, law, parts)
        if unseen is not None:
            squares[model] = unseen
    chosen = (
        next(iter(fits), None)
        if len(models) == 1
        else (simplest(squares, data) if data is not None else None)
    )
    result: list[dict[str, Any]] = []
    for model in models:
        law = LAWS[model]
        of = {**base, "model": model}
        if data is None or model not in fits:
            result += [{**of, "parameter": name, "reason": reasons[model]} for name in law.parameters]
            continue
        theta, drawn = fits[model], None
        if len(ordered) >= FEWEST_CLUSTERS and n_boot:
            drawn = resampled(data, law, theta, len(ordered), n_boot, seed)
        of["heldout_error"] = math.sqrt(squares[model].mean()) if model in squares else None
        of["chosen"] = model == chosen
        of["reason"] = "clusters.few" if len(ordered) < FEWEST_CLUSTERS else None
        for i, name in enumerate(law.parameters):
            row = {**of, "parameter": name, "estimate": float(theta[i])}
            if drawn is not None:
                row["lower"], row["upper"] = percentiles(drawn[:, i], len(ordered), level)
                row["draws"] = drawn[:, i].tolist()
            result.append(row)
    return result
