"""The charts of a report, each drawn from a table of the study."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

import polars as pl

from .config import Size
from .measure import OK
from .sheet import COLORS, GREY, Looks, Sheet
from .summary import are_few, averaged, correlations

_WIDTHS: Final = {1: 480, 2: 310, 3: 210}
"""Of a panel, by how many stand in a row: the page has room for so much."""
_HEIGHT: Final = 160
_APART: Final = 0.013
"""How far methods stand apart at one size, as a share of the axis, so that no interval hides another."""
_NAMED: Final = 6
"""Of many methods, how many a figure distinguishes."""
_SPACING: Final = {"row": 14, "column": 18}

Spec = dict[str, Any]


def featured(table: pl.DataFrame, unit: str) -> list[str]:
    """The methods that a figure names: all where there are as many colors, else those with the largest mean
    correlation at a unit.

    Values from few tasks count only for methods that have no others.
    """
    valued = correlations(averaged(table).filter(unit=unit, status=OK)).drop_nulls("value")
    valued = valued.filter(~pl.col("pooled_used"))
    means = valued.group_by("method", "few").agg(mean=pl.col("value").mean())
    ranked = means.sort(["few", "mean", "method"], descending=[False, True, False])
    methods = ranked["method"].unique(maintain_order=True).to_list()
    return methods if len(methods) <= len(COLORS) else methods[:_NAMED]


def measured_rows(table: pl.DataFrame, unit: str, column: str) -> pl.DataFrame:
    """``preset events method value lower upper few``: what the cells of a unit say of one measure."""
    rows = averaged(table).filter(unit=unit, status=OK)
    if column == "rollouts":
        # what is not distinguished from 0 needs no finite number
        rows = rows.filter(pl.col("pooled_lower") > 0)
    n_tasks = pl.col("pooled_n_tasks" if column in ("pooled", "rollouts") else "rho_n_tasks")
    return rows.drop_nulls(column).select(
        "preset",
        "events",
        "method",
        value=column,
        lower=f"{column}_lower",
        upper=f"{column}_upper",
        few=are_few(n_tasks),
    )


def ladder(
    rows: pl.DataFrame,
    title: str,
    named: Sequence[str],
    presets: Sequence[str],
    looks: Looks,
    *,
    log: bool = False,
) -> Spec | None:
    """A measure against the length of a run, a panel per preset, of what `measured_rows` gives.

    Methods not named are grey. A hollow point rests on few tasks.
    """
    named = [name for name in named if name in set(rows["method"])]
    if not named:
        return None  # a figure that names no method says nothing, and has no size
    sheet = Sheet(looks)
    rows, room = _side_by_side(rows, named)
    x = sheet.steps("x", rows["events"], room=room)
    y = _values_axis(sheet, rows, named, title, log)
    presets = [preset for preset in presets if preset in set(rows["preset"])]
    across = _in_a_row(len(presets))
    panels = []
    for preset in presets:
        layers = _layers(sheet, rows.filter(preset=preset), named, x, y)
        if not log:
            zero = sheet.chart(pl.DataFrame({"value": [0.0]})).mark_rule(color="#8a9099", strokeWidth=1)
            layers.insert(0, zero.encode(y=y("value")))
        size = {"width": _WIDTHS[across], "height": _HEIGHT}
        panels.append(sheet.alt.layer(*layers).properties(title=sheet.head(preset), **size))
    return sheet.grid(panels, across, _SPACING)


def _side_by_side(rows: pl.DataFrame, named: Sequence[str]) -> tuple[pl.DataFrame, float]:
    """The rows with ``x``, where the methods of one size stand beside each other; the room that they need at
    both ends of the axis, in decades."""
    rungs = sorted(math.log10(events) for events in rows["events"].unique())
    gaps = (after - before for before, after in pairwise(rungs))
    apart = min([_APART * max(rungs[-1] - rungs[0], 1.0), *(gap / (2 * len(named)) for gap in gaps)])
    shifts = {name: apart * (at - (len(named) - 1) / 2) for at, name in enumerate(named)}
    shift = pl.col("method").replace_strict(shifts, default=0.0, return_dtype=pl.Float64)
    moved = rows.with_columns(x=pl.col("events") * pl.lit(10.0).pow(shift))
    return moved, apart * len(named) / 2 + 0.06


def _values_axis(
    sheet: Sheet, rows: pl.DataFrame, named: Sequence[str], title: str, log: bool
) -> Callable[[str], Any]:
    """The encoding of a column on the one axis of all panels, on which every point and every end of an
    interval lies."""
    drawn = rows.filter(pl.col("method").is_in(named))
    ends = pl.concat([rows["value"], drawn["lower"], drawn["upper"]]).drop_nulls().to_numpy()
    lower, upper = float(ends.min()), float(ends.max())
    if log:
        domain = [lower / 1.3, upper * 1.3]
        scale: dict[str, Any] = {"type": "log", "domain": domain, "nice": False}
        axis: dict[str, Any] = {"format": "~s", "values": _decades(*domain)}
    else:
        lower, upper = min(lower, 0.0), max(upper, 0.1)
        room = 0.04 * (upper - lower)
        scale = {"domain": [lower - room, upper + room], "nice": False}
        axis = {"format": ".1f", "tickCount": 5}
    return lambda column: sheet.alt.Y(f"{column}:Q", title=title).scale(**scale).axis(**axis)


def _decades(lower: float, upper: float) -> list[float]:
    """Ticks of a logarithmic axis: powers of ten, and where these are few also twice and five times."""
    steps = (1, 2, 5) if upper / lower < 300 else (1,)
    tens = range(math.floor(math.log10(lower)), math.ceil(math.log10(upper)) + 1)
    return [step * 10.0**n for n in tens for step in steps if lower <= step * 10.0**n <= upper]


def _in_a_row(panels: int) -> int:
    return 2 if panels == 4 else min(panels, 3)


def _layers(
    sheet: Sheet, rows: pl.DataFrame, named: Sequence[str], x: Any, y: Callable[[str], Any]
) -> list[Any]:
    """Lines, intervals and points of the methods that are named, and before them grey lines of the others."""
    color, dash = sheet.of_methods(named, "bottom", 3)
    mine = rows.filter(pl.col("method").is_in(named))
    rest = rows.filter(~pl.col("method").is_in(named))
    bars = sheet.chart(mine.drop_nulls(["lower", "upper"]))
    return [
        sheet.chart(rest).mark_line(color=GREY, strokeWidth=1).encode(x=x, y=y("value"), detail="method:N"),
        sheet.chart(rest.filter("few"))
        .mark_point(filled=False, fill="white", stroke=GREY, size=12, strokeWidth=1, opacity=1)
        .encode(x=x, y=y("value")),
        bars.mark_rule(strokeWidth=1.2, opacity=0.75).encode(x=x, y=y("lower"), y2="upper:Q", color=color),
        sheet.chart(mine).mark_line(strokeWidth=1.8).encode(x=x, y=y("value"), color=color, strokeDash=dash),
        *_points(sheet, mine, x, y("value"), color),
    ]


def _points(sheet: Sheet, rows: pl.DataFrame, x: Any, y: Any, color: Any) -> list[Any]:
    """Points, hollow where they rest on few tasks."""
    full = sheet.chart(rows.filter(~pl.col("few"))).mark_point(filled=True, size=28, opacity=1)
    hollow = sheet.chart(rows.filter("few")).mark_point(
        filled=False, fill="white", size=28, strokeWidth=1.4, opacity=1
    )
    return [full.encode(x=x, y=y, color=color), hollow.encode(x=x, y=y, color=color)]


_DURATION: Final = (
    "datum.value >= 1 ? format(datum.value, '~g') + ' s' : datum.value >= 0.00099"
    " ? format(datum.value * 1e3, '~g') + ' ms' : format(datum.value * 1e6, '~g') + ' µs'"
)


def costs(
    table: pl.DataFrame, sizes: tuple[Size, ...], named: Sequence[str], unit: str, looks: Looks
) -> Spec | None:
    """Seconds for a trace against its length; triangles are extrapolated."""
    sheet = Sheet(looks)
    alt = sheet.alt
    traces = {(size.events, size.agents): size.traces for size in sizes}
    rows = []
    for row in averaged(table).filter(unit=unit).iter_rows(named=True):
        measured = row["seconds"] is not None
        total = row["seconds"] if measured else row["cost_s_extrapolated"]
        if total is None or row["status"] not in (OK, "too_slow"):
            continue
        each = total / traces[row["events"], row["agents"]]
        rows.append({"method": row["method"], "events": row["events"], "seconds": each, "measured": measured})
    if not rows:
        return None
    frame = (
        pl.DataFrame(rows)
        .group_by("method", "events")
        .agg(seconds=pl.col("seconds").median(), measured=pl.col("measured").mean() > 0.5)
        .sort("method", "events")
    )
    slow = frame.filter(pl.col("events") == frame["events"].max())
    slow = slow.sort(["seconds", "method"], descending=[True, False])
    methods = set(frame["method"])
    chosen = [*slow["method"].to_list()[:5], *(name for name in named if name in methods), *sorted(methods)]
    chosen = list(dict.fromkeys(chosen))[: len(COLORS)]
    x = sheet.steps("events", frame["events"])
    seconds = frame["seconds"].to_numpy()
    domain = [float(seconds.min()) / 1.4, float(seconds.max()) * 1.4]
    y = alt.Y("seconds:Q", title="time for one run").scale(type="log", domain=domain, nice=False)
    y = y.axis(labelExpr=_DURATION, values=_decades(*domain))
    color, dash = sheet.of_methods(chosen, "right")
    mine = frame.filter(pl.col("method").is_in(chosen))
    rest = sheet.chart(frame.filter(~pl.col("method").is_in(chosen)))
    dots = sheet.chart(mine.filter("measured")).mark_point(filled=True, size=44, opacity=1)
    open_ones = sheet.chart(mine.filter(~pl.col("measured"))).mark_point(
        shape="triangle-up", filled=False, fill="white", size=50, strokeWidth=1.5, opacity=1
    )
    layers = alt.layer(
        rest.mark_line(color=GREY, strokeWidth=1).encode(x=x, y=y, detail="method:N"),
        sheet.chart(mine).mark_line(strokeWidth=1.8).encode(x=x, y=y, color=color, strokeDash=dash),
        dots.encode(x=x, y=y, color=color),
        open_ones.encode(x=x, y=y, color=color),
    )
    return sheet.finished(layers.properties(width=430, height=280))


def schedules(table: pl.DataFrame) -> Spec | None:
    """Speed-up over slots between the bounds, a panel per size; means over presets."""
    sheet = Sheet()
    alt = sheet.alt
    if table.is_empty():
        return None
    key = ["events", "agents", "method", "k"]
    means = table.group_by(key).agg(
        pl.col("speedup", "best", "worst").mean(), few=are_few(pl.col("n_tasks").min())
    )
    means = means.sort(key)
    queues = means["method"].unique().sort().to_list()
    across = _in_a_row(means.select("events", "agents").n_unique())
    panels = []
    for (events, agents), of_size in means.group_by("events", "agents", maintain_order=True):
        values = sheet.chart(of_size)
        x = alt.X("k:Q", title="slots").scale(type="log", base=2).axis(format="~s", tickCount=5, grid=False)
        title = "speed-up"
        y = alt.Y("speedup:Q", title=title).scale(type="log", base=2).axis(format="~g", tickCount=5)
        lower = alt.Y("worst:Q", title=title).scale(type="log", base=2)
        color = alt.Color("method:N", title="queue", sort=queues).scale(
            domain=queues, range=COLORS[: len(queues)]
        )
        color = color.legend(orient="bottom", symbolType="stroke", symbolSize=400, symbolOpacity=1)
        layers = [
            values.mark_area(color="#dfe3e8", opacity=1).encode(x=x, y=lower, y2="best:Q"),
            values.mark_line(strokeWidth=1.8).encode(x=x, y=y, color=color),
            *_points(sheet, of_size, x, y, color),
        ]
        head = sheet.head(f"{events:,} steps, {agents:,} agents")
        panels.append(alt.layer(*layers).properties(title=head, width=_WIDTHS[across], height=_HEIGHT))
    return sheet.grid(panels, across, _SPACING)


def trend(table: pl.DataFrame, looks: Looks) -> Spec | None:
    """Agreement of the beginning of recorded runs with the whole, and how concentrated credit is."""
    points = trend_rows(table)
    if points.is_empty():
        return None
    sheet = Sheet(looks)
    names = points["method"].unique().sort().to_list()[: len(COLORS)]
    points = points.filter(pl.col("method").is_in(names))
    panels = []
    for metric, title in TRENDS.items():
        of_metric = points.filter(metric=metric)
        if of_metric.is_empty():
            continue
        rows, room = _side_by_side(of_metric.rename({"mean_events": "events"}), names)
        x = sheet.steps("x", rows["events"], "events kept, mean of a run", room)
        layers = _layers(sheet, rows, names, x, _values_axis(sheet, rows, names, title, False))
        panels.append(sheet.alt.layer(*layers).properties(width=_WIDTHS[2], height=190))
    return sheet.grid(panels, len(panels), {"row": 14, "column": 30})


TRENDS: Final = {"spearman": "rank agreement with the whole", "top_share": "share of credit on the top 5 %"}


def trend_rows(table: pl.DataFrame) -> pl.DataFrame:
    """``metric mean_events method value lower upper few`` of the measures that a trend shows."""
    shown = table.drop_nulls("value").filter(pl.col("metric").is_in(list(TRENDS)))
    columns = ["metric", "mean_events", "method", "value", "lower", "upper"]
    return shown.select(*columns, few=are_few(pl.col("n_tasks")))
