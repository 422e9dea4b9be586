"""Scaling laws: the data, the fitted curves, their intervals, and where they extrapolate."""

from typing import Any, Final

import numpy as np
import polars as pl

from ..base.errors import ParameterError
from ..base.text import counted
from ..base.verbs import verb
from ..corpus.frames import collected
from ..scaling.laws import predict_law
from .canvas import PLAINLY, Canvas, extent, labeled, legend_columns, log_ticks, number, shown_names
from .palette import BLUE, SERIES, Theme, colors_of

MOST_POINTS: Final = 2_000
_WIDTH: Final = 420
_POINTS: Final = 60
_BINS: Final = 40
_COLUMNS: Final = {
    *("model", "parameter", "estimate", "lower", "upper", "heldout_error", "chosen", "errors", "n", "n_null"),
    *("n_x", "n_clusters", "x_lower", "x_upper", "reason", "draws"),
}
"""Columns of a fit; the others say which group a row is of."""


@verb
def laws(
    fit: pl.DataFrame | pl.LazyFrame,
    data: pl.DataFrame | pl.LazyFrame | None = None,
    *,
    x: str = "",
    y: str = "",
    theme: Theme = "auto",
) -> Any:
    """Draw scaling laws on logarithmic axes: data, the chosen law of each group, and its interval.

    Parameters
    ----------
    fit
        What `scaling.fit_law` returns.
    data
        The frame that the laws were fitted to; None draws the laws alone.
    x, y
        The columns that were fitted, which name the axes; needed with `data`.
    theme
        As in `timeline`.

    Returns
    -------
    altair.LayerChart
        A color for each group of the fit. The line is the chosen law, dashed for half a decade beyond the
        sizes that were seen; the band is its 95 % interval.

    Raises
    ------
    ParameterError
        Altair is not installed, `fit` is not of `scaling.fit_law`, a column is absent, more than eight
        groups, or no law was chosen.

    Notes
    -----
    More than 2,000 observations are joined: the median of y in each of 40 bins of size, and the subtitle
    says so. Values of 0 or below have no place on a logarithmic axis: y is linear if there are any.
    O(rows + resamples).

    Examples
    --------
    >>> import orchestrace as ot
    >>> import polars as pl
    >>> runs = [(f"run {r}", n, (1 + r / 100) * 2.0 * n) for r in range(8) for n in (10.0, 20.0, 40.0)]
    >>> table = pl.DataFrame(runs, ["trace_id", "n", "cost"], orient="row")
    >>> law = ot.scaling.fit_law(table, x="n", y="cost", models=["power"])
    >>> ot.plot.laws(law, table, x="n", y="cost").to_dict()["title"]["text"]
    ['Scaling law of cost over n']
    """
    canvas = Canvas(theme)
    fit = collected(fit, "fit", ("model", "parameter", "estimate", "chosen", "x_lower", "x_upper", "draws"))
    title = f"Scaling law of {y or 'y'} over {x or 'x'}"
    groups = [name for name in fit.columns if name not in _COLUMNS]
    if fit.is_empty():
        return canvas.empty(title, "The fit has no rows.")
    if data is not None and not (x and y):
        raise ParameterError("x and y are not given, expected the columns of data that were fitted")
    label = _label(groups)
    fit = fit.with_columns(group=label)
    names = fit["group"].unique(maintain_order=True).to_list()
    if len(names) > len(SERIES):
        raise ParameterError(f"fit has {len(names)} groups, expected at most {len(SERIES)}: filter it")
    shown = dict(zip(names, shown_names(names, 40), strict=True))
    curves = _curves(fit, groups, shown)
    if curves.is_empty():
        reasons = (
            fit["reason"].drop_nulls().cast(pl.String).unique().to_list() if "reason" in fit.columns else []
        )
        return canvas.empty(title, f"No law was chosen ({', '.join(reasons) or 'no estimate'}).")
    notes = [_chosen(fit, shown)]
    points, joined = _observations(data, x, y, label, shown) if data is not None else (None, "")
    if joined:
        notes.append(joined)
    notes.append("band: 95 % interval of the law; dashed: beyond the sizes seen")
    chart = _chart(canvas, curves, points, list(shown.values()), (x or "x", y or "y"))
    return canvas.finished(chart, title, notes, f"{title}: {notes[0]}.")


def _label(groups: list[str]) -> pl.Expr:
    if not groups:
        return pl.lit("all")
    return pl.concat_str(*(pl.col(name).cast(pl.String).fill_null("null") for name in groups), separator=", ")


def _chosen(fit: pl.DataFrame, shown: dict[str, str]) -> str:
    parts = []
    for (group,), rows in fit.filter(pl.col("chosen").fill_null(False)).group_by(
        "group", maintain_order=True
    ):
        params = ", ".join(
            f"{row['parameter']} {number(row['estimate'])}"
            + (f" ({number(row['lower'])} to {number(row['upper'])})" if row["lower"] is not None else "")
            for row in rows.iter_rows(named=True)
            if row["estimate"] is not None
        )
        who = f"{shown[group]}: " if len(shown) > 1 else ""
        parts.append(f"{who}{str(rows['model'][0]).replace('_', ' ')}, {params}")
    return "; ".join(parts[:4]) + (f"; {len(parts) - 4:,} more" if len(parts) > 4 else "")


def _curves(fit: pl.DataFrame, groups: list[str], shown: dict[str, str]) -> pl.DataFrame:
    """``group x estimate lower upper beyond`` of the chosen laws, at sizes that are even in logarithm."""
    curves = []
    for (group,), rows in fit.group_by("group", maintain_order=True):
        seen = rows.drop_nulls(["x_lower", "x_upper"])
        if seen.is_empty() or not rows["chosen"].fill_null(False).any():
            continue
        low, high = float(seen["x_lower"][0]), float(seen["x_upper"][0])
        ends = np.log10(low), np.log10(high)
        half = min(0.5, max(0.1, 0.5 * (ends[1] - ends[0])))
        inside = np.logspace(*ends, _POINTS)
        beyond = np.logspace(ends[1], ends[1] + half, _POINTS // 3)
        inside[0], inside[-1] = low, high
        for sizes, out in ((inside, False), (beyond, True)):
            curve = predict_law(rows.drop("group"), sizes.tolist())
            curves.append(
                curve.select(
                    "x", "estimate", "lower", "upper", group=pl.lit(shown[str(group)]), beyond=pl.lit(out)
                )
            )
    types = {"x": pl.Float64, "estimate": pl.Float64, "lower": pl.Float64, "upper": pl.Float64}
    empty = pl.DataFrame(schema={**types, "group": pl.String, "beyond": pl.Boolean})
    return pl.concat([empty, *curves]).drop_nulls("estimate")


def _observations(
    data: pl.DataFrame | pl.LazyFrame, x: str, y: str, label: pl.Expr, shown: dict[str, str]
) -> tuple[pl.DataFrame, str]:
    needed = (x, y, *label.meta.root_names())
    rows = collected(data, "data", needed)
    rows = rows.select(
        pl.col(x).cast(pl.Float64).alias("x"), pl.col(y).cast(pl.Float64).alias("y"), group=label
    )
    rows = rows.filter(pl.col("x").is_finite() & pl.col("y").is_finite() & (pl.col("x") > 0))
    rows = rows.filter(pl.col("group").is_in(list(shown)))
    rows = rows.with_columns(pl.col("group").replace_strict(shown, return_dtype=pl.String))
    if rows.height <= MOST_POINTS:
        return rows.with_columns(n=pl.lit(1)), ""
    size = pl.col("x").log10()
    bins = ((size - size.min()) / (size.max() - size.min()).clip(1e-9) * _BINS).floor()
    medians = rows.group_by("group", bins.alias("bin"), maintain_order=True).agg(
        pl.col("x").median(), pl.col("y").median(), pl.len().alias("n")
    )
    return medians.drop("bin"), f"{rows.height:,} observations shown as {counted(medians.height, 'median')}"


def _chart(
    canvas: Canvas, curves: pl.DataFrame, points: pl.DataFrame | None, names: list[str], axes: tuple[str, str]
) -> Any:
    alt = canvas.alt
    values = [curves["estimate"], *([points["y"]] if points is not None else [])]
    is_log = all((column.drop_nulls() > 0).all() for column in values)
    if is_log:
        curves = curves.with_columns(lower=pl.when(pl.col("lower") > 0).then("lower"))
    drawn = [
        curves["estimate"],
        curves["upper"],
        curves["lower"],
        *([points["y"]] if points is not None else []),
    ]
    low, high = extent(*drawn)
    y_scale: dict[str, Any] = {"zero": False}
    if is_log:
        y_scale = {"type": "log", "domain": [low / 1.15, high * 1.15], "nice": False}
    least, most = extent(curves["x"], *([points["x"]] if points is not None else []))
    x_ends = least / 1.1, most * 1.1

    def x(name: str = "x") -> Any:
        encoded = alt.X(f"{name}:Q", title=axes[0]).scale(type="log", domain=x_ends, nice=False)
        return encoded.axis(grid=False, labelExpr=PLAINLY, values=log_ticks(*x_ends))

    def y(name: str) -> Any:
        encoded = alt.Y(f"{name}:Q", title=axes[1]).scale(**y_scale)
        ticks = {"values": log_ticks(*y_scale["domain"])} if is_log else {}
        return encoded.axis(labelExpr=PLAINLY, **ticks)

    color: Any = alt.value(BLUE)
    if len(names) > 1:
        color = alt.Color("group:N", title=None, sort=names).scale(domain=names, range=colors_of(names))
        color = color.legend(orient="bottom", columns=legend_columns(names, _WIDTH), symbolOpacity=1)
    layers = []
    banded = curves.drop_nulls(["lower", "upper"])
    if banded.height:
        band = canvas.chart(banded.sort("group", "x")).mark_area(opacity=0.2)
        layers.append(band.encode(x=x(), y=y("lower"), y2="upper:Q", color=color, detail="group:N"))
    if points is not None and points.height:
        mark = canvas.chart(points).mark_point(
            filled=True, size=22 if points.height < 300 else 10, opacity=0.5, aria=labeled(points)
        )
        layers.append(mark.encode(x=x(), y=y("y"), color=color, tooltip=["group:N", "x:Q", "y:Q", "n:Q"]))
    for out, dash in ((False, [1, 0]), (True, [5, 4])):
        part = curves.filter(beyond=out)
        if part.height:
            line = canvas.chart(part).mark_line(strokeWidth=2, strokeDash=dash)
            layers.append(line.encode(x=x(), y=y("estimate"), color=color, detail="group:N"))
    return alt.layer(*layers).properties(width=_WIDTH, height=280)
