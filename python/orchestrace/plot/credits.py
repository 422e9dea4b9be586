"""Credit by unit: means over runs, with intervals."""

from typing import Any, Final

import numpy as np
import polars as pl

from ..base.arguments import Top
from ..base.errors import ParameterError
from ..base.text import counted
from ..base.verbs import verb
from ..corpus.frames import collected
from ..statistics.influence import t_quantile
from ..statistics.resampling import FEWEST_CLUSTERS, draws, percentiles
from .canvas import PLAINLY, Canvas, legend_columns, name_axis, number, shown_names
from .palette import BLUE, GREY, SERIES, Theme, colors_of

_NEEDED: Final = ("trace", "unit", "unit_id", "credit")
_WITHIN: Final = frozenset({"event", "turn", "message", "token"})
"""Units whose ids mean something within one run only."""
_WIDTH: Final = 420
_RESAMPLES: Final = 1_000


@verb
def credit(credits: pl.DataFrame | pl.LazyFrame, *, top: Top = 20, theme: Theme = "auto") -> Any:
    """Draw the credit of units: means over runs with 95 % intervals, the largest first, the others as one.

    Parameters
    ----------
    credits
        What `credit` returns, of one unit and one reward; of several methods each has a color.
    top
        How many units are shown by name, 1 to 60. The rest is one row.
    theme
        As in `timeline`.

    Returns
    -------
    altair.LayerChart
        A row per unit and a point per method. Of a ``share`` the point is the mean over all runs of the
        frame, 0 where a run lacks the unit, so that the points of a method sum to the mean reward; of an
        ``advantage``, the mean over the rows of the unit. Bars are intervals over resampled runs, or over
        tasks where the frame has a column ``task_id``; of one run, 1.96 ``stderr`` where the method has one.

    Raises
    ------
    ParameterError
        Altair is not installed, a column is absent, the frame has several units or rewards, more than eight
        methods, or `top` is out of range.

    Notes
    -----
    Rows without a credit are left out, and the subtitle counts them. Runs of one task resemble each other:
    without ``task_id`` the intervals of such groups are too narrow. Events, turns, messages and tokens are
    units of one run: each is a row, without an interval. O(rows + 1,000 units runs).

    Examples
    --------
    >>> import orchestrace as ot
    >>> credits = ot.credit(ot.generate(traces=20, seed=0), method="flow", unit="role")
    >>> ot.plot.credit(credits).to_dict()["title"]["subtitle"]
    ['mean over all runs (20), 95 % interval over runs']
    """
    canvas = Canvas(theme)
    rows = collected(credits, "credits", _NEEDED)
    unit = _only(rows, "unit")
    _only(rows, "reward")
    title = f"Credit by {unit}" if unit else "Credit"
    credited = rows.filter(pl.col("credit").is_not_null() & pl.col("credit").is_finite())
    if credited.is_empty():
        reasons: list[str] = []
        if "reason" in rows.columns:
            reasons = rows["reason"].drop_nulls().cast(pl.String).unique().sort().to_list()
        why = f" ({', '.join(reasons)})" if reasons else ""
        return canvas.empty(title, f"None of {counted(rows.height, 'row')} has a credit{why}.")
    if "method" not in credited.columns:
        credited = credited.with_columns(method=pl.lit(""))
    credited = credited.with_columns(pl.col("method").cast(pl.String), unit=_unit_names(credited, unit))
    methods = credited["method"].unique(maintain_order=True).to_list()
    if len(methods) > len(SERIES):
        raise ParameterError(f"credits have {len(methods)} methods, expected at most {len(SERIES)}")
    drawn, notes = _intervals(credited, methods, top)
    dropped = rows.height - credited.height
    if dropped:
        notes.append(f"{dropped:,} of {counted(rows.height, 'row')} have no credit")
    chart = _chart(canvas, drawn, methods)
    return canvas.finished(chart, title, notes, _described(title, drawn, notes))


def _only(rows: pl.DataFrame, column: str) -> str:
    """The one value that a column has."""
    if column not in rows.columns:
        return ""
    words = rows[column].cast(pl.String).drop_nulls().unique().sort().to_list()
    if len(words) > 1:
        raise ParameterError(
            f"credits have several values of '{column}' ({', '.join(words)}): filter them to one"
        )
    return words[0] if words else ""


def _unit_names(rows: pl.DataFrame, unit: str) -> pl.Expr:
    name = pl.col("unit_id").cast(pl.String).fill_null("(no unit)")
    if unit not in _WITHIN or rows["trace"].n_unique() == 1:
        return name
    trace = pl.col("trace_id" if "trace_id" in rows.columns else "trace").cast(pl.String)
    return pl.concat_str(trace, pl.lit(" "), name)


def _intervals(credited: pl.DataFrame, methods: list[str], top: int) -> tuple[pl.DataFrame, list[str]]:
    """``name method credit lower upper`` of the largest units, and notes on the intervals."""
    cluster = "task_id" if "task_id" in credited.columns else "trace"
    clusters = credited[cluster].cast(pl.String).rank("dense").to_numpy().astype(np.int64) - 1
    n_clusters = int(clusters.max()) + 1
    runs = credited.select("trace", cluster=clusters).unique()
    runs_of = np.bincount(runs["cluster"].to_numpy(), minlength=n_clusters).astype(np.float64)
    is_share = "quantity" not in credited.columns or (credited["quantity"].cast(pl.String) == "share").all()
    total = credited.group_by("unit", maintain_order=True).agg(pl.col("credit").sum().abs().alias("size"))
    if not is_share:
        total = credited.group_by("unit", maintain_order=True).agg(
            pl.col("credit").mean().abs().alias("size")
        )
    ranked = total.sort("size", descending=True, maintain_order=True)["unit"].to_list()
    named = ranked[:top] if len(ranked) > top + 1 else ranked
    rest = len(ranked) - len(named)
    shown = shown_names(named)
    others = f"{rest:,} others"
    while others in shown:
        others = f"({others})"
    order = [*shown, *([others] if rest else [])]
    place = {name: at for at, name in enumerate(named)}
    at = credited["unit"].replace_strict(place, default=len(named), return_dtype=pl.Int64).to_numpy()
    rows = []
    for method in methods:
        of_method = (credited["method"] == method).to_numpy()
        key = clusters[of_method] * len(order) + at[of_method]
        cells = n_clusters * len(order)
        sums = np.bincount(key, weights=credited["credit"].to_numpy()[of_method], minlength=cells)
        counts = np.bincount(key, minlength=cells).astype(np.float64)
        sums, counts = sums.reshape(n_clusters, -1), counts.reshape(n_clusters, -1)
        divisors = np.repeat(runs_of[:, None], len(order), axis=1) if is_share else counts
        ends = _ends(sums, divisors)
        for number_, name in enumerate(order):
            if counts[:, number_].sum():
                mean = sums[:, number_].sum() / divisors[:, number_].sum()
                lower, upper = ends[number_]
                rows.append((name, method, float(mean), lower, upper, int(counts[:, number_].sum())))
    types = {"name": pl.String, "method": pl.String, "credit": pl.Float64, "lower": pl.Float64}
    drawn = pl.DataFrame(rows, {**types, "upper": pl.Float64, "n": pl.UInt32}, orient="row")
    if n_clusters == 1:
        drawn = _of_one_run(drawn, credited)
    return drawn, _notes(credited, drawn, cluster, is_share, rest)


def _ends(sums: Any, divisors: Any) -> list[tuple[float | None, float | None]]:
    """The interval of each unit: percentiles of a ratio of sums over resampled clusters."""
    n_clusters = len(sums)
    if n_clusters < FEWEST_CLUSTERS:
        return [(None, None)] * sums.shape[1]
    drawn = []
    for times in draws(n_clusters, _RESAMPLES, 0):
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn.append((times @ sums) / (times @ divisors))
    resamples = np.concatenate(drawn)
    return [percentiles(column, n_clusters, 0.95) for column in resamples.T]


def _of_one_run(drawn: pl.DataFrame, credited: pl.DataFrame) -> pl.DataFrame:
    """The rows of a single run, with intervals from the standard errors of the method where it has them."""
    if "stderr" not in credited.columns:
        return drawn
    errors = credited.select("method", "unit", "stderr").with_columns(
        name=pl.Series(_shown_units(credited["unit"].to_list()), dtype=pl.String)
    )
    joined = drawn.join(errors.select("method", "name", "stderr"), on=["method", "name"], how="left")
    reach = t_quantile(0.975, 1e9) * pl.col("stderr")
    return joined.with_columns(lower=pl.col("credit") - reach, upper=pl.col("credit") + reach)


def _shown_units(units: list[str]) -> list[str]:
    distinct = list(dict.fromkeys(units))
    shown = dict(zip(distinct, shown_names(distinct), strict=True))
    return [shown[name] for name in units]


def _notes(credited: pl.DataFrame, drawn: pl.DataFrame, cluster: str, is_share: bool, rest: int) -> list[str]:
    runs = credited["trace"].n_unique()
    mean = "mean over all runs" if is_share else "mean over rows"
    over = "tasks" if cluster == "task_id" else "runs"
    if runs == 1:
        note = "one run: " + ("1.96 standard errors" if drawn["lower"].count() else "no interval")
    elif drawn["lower"].count():
        note = f"{mean} ({runs:,}), 95 % interval over {over}"
    else:
        note = f"{mean} ({runs:,}); fewer than {FEWEST_CLUSTERS} {over}: no interval"
    units = credited["unit"].n_unique()
    more = f"{counted(units, 'unit')}, {units - rest:,} by name" if rest else ""
    return [note, more] if more else [note]


def _chart(canvas: Canvas, drawn: pl.DataFrame, methods: list[str]) -> Any:
    alt = canvas.alt
    order = drawn["name"].unique(maintain_order=True).to_list()
    y = name_axis(canvas, "name", order)
    encoded: dict[str, Any] = {"y": y}
    color: Any = alt.value(BLUE)
    if len(methods) > 1:
        names = shown_names(methods)
        drawn = drawn.with_columns(pl.col("method").replace_strict(dict(zip(methods, names, strict=True))))
        color = alt.Color("method:N", title=None, sort=names).scale(domain=names, range=colors_of(names))
        color = color.legend(
            orient="bottom", columns=legend_columns(names, _WIDTH), symbolOpacity=1, symbolType="circle"
        )
        encoded["yOffset"] = alt.YOffset("method:N", sort=names).scale(domain=names)
    tooltip = [
        "name:N",
        "method:N",
        *(alt.Tooltip(f"{column}:Q", format=".4~g") for column in ("credit", "lower", "upper")),
    ]

    def x(name: str) -> Any:
        return alt.X(f"{name}:Q", title="credit").axis(tickCount=6, labelExpr=PLAINLY, labelOverlap=True)

    zero = canvas.chart(pl.DataFrame({"zero": [0.0]})).mark_rule(color=GREY, strokeWidth=1)
    points = canvas.chart(drawn).mark_point(filled=True, size=46, opacity=1)
    layers = [zero.encode(x=x("zero"))]
    ends = drawn.drop_nulls(["lower", "upper"])
    if ends.height:
        bars = canvas.chart(ends).mark_rule(strokeWidth=1.8, opacity=0.8)
        layers.append(bars.encode(x=x("lower"), x2="upper:Q", color=color, **encoded))
    layers.append(points.encode(x=x("credit"), color=color, tooltip=tooltip, **encoded))
    step = 20 if len(methods) == 1 else 9 * len(methods) + 8
    return alt.layer(*layers).properties(width=_WIDTH, height=step * len(order))


def _described(title: str, drawn: pl.DataFrame, notes: list[str]) -> str:
    first = drawn.sort(pl.col("credit").abs(), descending=True, maintain_order=True).head(3)
    parts = [
        f"{row['name']} {number(row['credit'])}"
        + (f" ({number(row['lower'])} to {number(row['upper'])})" if row["lower"] is not None else "")
        for row in first.iter_rows(named=True)
    ]
    runs = notes[0]
    return f"{title}: {', '.join(parts)}; {runs}."
