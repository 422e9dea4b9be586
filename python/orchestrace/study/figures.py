"""The charts of a report; every one from a table of the study, none from anything else."""

from typing import Any, Final

import polars as pl

from .config import Size
from .measure import OK
from .sheet import COLOURS, GREY, Sheet
from .summary import averaged, correlations

_PANEL: Final = {"width": 210, "height": 150}
_ACROSS: Final = 3


def featured(table: pl.DataFrame, unit: str) -> list[str]:
    """The methods that a figure of many names: those with the largest mean correlation at a unit."""
    known = correlations(averaged(table).filter(unit=unit, status=OK)).drop_nulls("value")
    known = known.filter(~pl.col("pooled_used"))
    means = known.group_by("method").agg(n=pl.len(), mean=pl.col("value").mean())
    ranked = means.sort(["mean", "method"], descending=[True, False])["method"].to_list()
    return ranked[: len(COLOURS)]


def ladder(
    table: pl.DataFrame,
    unit: str,
    column: str,
    title: str,
    named: list[str],
    presets: list[str],
    *,
    log: bool = False,
) -> dict[str, Any] | None:
    """A measure against the length of a run, a panel per preset; methods not named are grey."""
    sheet = Sheet()
    rows = averaged(table).filter(unit=unit, status=OK)
    if column == "rho":
        rows = correlations(rows).filter(~pl.col("pooled_used")).drop_nulls("value")
        rows = rows.with_columns(rho="value", rho_low="value_low", rho_high="value_high")
    if column == "rollouts":
        rows = rows.filter(pl.col("pooled_low") > 0)  # what is not told apart from 0 needs no finite number
    rows = rows.drop_nulls(column)
    if column == "sign":
        rows = rows.filter(pl.col("rho_n_tasks") >= 5)
    if rows.is_empty() or not named:
        return None  # a figure that names no method says nothing, and has no size
    ends = {"low": f"{column}_low", "high": f"{column}_high"}
    rows = rows.select(
        "preset", "events", "method", value=column, low=pl.col(ends["low"]), high=pl.col(ends["high"])
    )
    panels = []
    domain = _domain(rows, log)
    for preset in presets:
        own = rows.filter(preset=preset)
        if own.is_empty():
            continue
        x = sheet.steps("events", rows["events"])
        panels.append(_panel(sheet, own, named, domain, title, preset, x, log))
    return sheet.grid(panels, _ACROSS, {"row": 14, "column": 18})


def _domain(rows: pl.DataFrame, log: bool) -> list[float]:
    low, high = rows["value"].min(), rows["value"].max()
    assert isinstance(low, float) and isinstance(high, float)
    if log:
        return [low / 1.5, high * 1.5]
    return [min(low, 0.0) - 0.02, max(high, 0.1) + 0.02]


def _panel(
    sheet: Sheet,
    own: pl.DataFrame,
    named: list[str],
    domain: list[float],
    title: str,
    preset: str,
    x: Any,
    log: bool,
) -> Any:
    alt = sheet.alt
    scale = {"type": "log"} if log else {}
    y = alt.Y("value:Q", title=title).scale(domain=domain, clamp=True, **scale)
    y = y.axis(format="~s", tickCount=5) if log else y.axis(format=".1f", tickCount=5)
    shown = [name for name in named if name in own["method"].to_list()]
    colour = alt.Color("method:N", title=None, sort=named).scale(domain=named, range=COLOURS[: len(named)])
    legend = colour.legend(orient="bottom", columns=3, symbolType="stroke")
    others = sheet.chart(own.filter(~pl.col("method").is_in(named)))
    mine = sheet.chart(own.filter(pl.col("method").is_in(shown)))
    base = mine.encode(x=x, color=legend)
    layers = [
        others.mark_line(color=GREY, strokeWidth=1).encode(x=x, y=y, detail="method:N"),
        base.mark_rule(strokeWidth=1.2, opacity=0.7).encode(
            y=alt.Y("low:Q", title=title).scale(domain=domain, clamp=True, **scale), y2="high:Q"
        ),
        base.mark_line(strokeWidth=1.8).encode(y=y),
        base.mark_point(filled=True, size=26, opacity=1).encode(y=y),
    ]
    if not log:
        zero = sheet.chart(pl.DataFrame({"value": [0.0]})).mark_rule(color="#8a9099", strokeWidth=1)
        layers.insert(0, zero.encode(y=y))
    head = sheet.head(preset)
    return alt.layer(*layers).properties(title=head, **_PANEL)


def costs(table: pl.DataFrame, sizes: tuple[Size, ...], named: list[str], unit: str) -> dict[str, Any] | None:
    """Seconds for a trace against its length; hollow points are extrapolated."""
    sheet = Sheet()
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
    )
    frame = frame.sort("method", "events").with_columns(
        kind=pl.when("measured").then(pl.lit("measured")).otherwise(pl.lit("extrapolated"))
    )
    slow = frame.filter(pl.col("events") == frame["events"].max()).sort(
        ["seconds", "method"], descending=[True, False]
    )
    chosen = [*slow["method"].to_list()[:5], *(name for name in named if name in set(frame["method"]))]
    chosen = list(dict.fromkeys(chosen))[: len(COLOURS)]
    x = sheet.steps("events", frame["events"])
    y = alt.Y("seconds:Q", title="seconds for a run").scale(type="log").axis(format="~g", tickCount=7)
    colour = alt.Color("method:N", title=None, sort=chosen).scale(domain=chosen, range=COLOURS[: len(chosen)])
    mine = sheet.chart(frame.filter(pl.col("method").is_in(chosen)))
    rest = sheet.chart(frame.filter(~pl.col("method").is_in(chosen)))
    mine = mine.encode(x=x, y=y, color=colour.legend(orient="right", symbolType="stroke"))
    hollow = alt.FillOpacity("kind:N", legend=None).scale(domain=["measured", "extrapolated"], range=[1, 0])
    points = mine.mark_point(size=44, opacity=1, strokeWidth=1.6).encode(fill="method:N", fillOpacity=hollow)
    fill = alt.Fill("method:N", legend=None).scale(domain=chosen, range=COLOURS[: len(chosen)])
    layers = alt.layer(
        rest.mark_line(color=GREY, strokeWidth=1).encode(x=x, y=y, detail="method:N"),
        mine.mark_line(strokeWidth=1.8),
        points.encode(fill=fill),
    )
    return sheet.finished(layers.properties(width=430, height=280))


def schedules(table: pl.DataFrame) -> dict[str, Any] | None:
    """Speed-up over slots between the bounds, a panel per size; means over presets."""
    sheet = Sheet()
    alt = sheet.alt
    if table.is_empty():
        return None
    key = ["events", "agents", "method", "k"]
    means = table.group_by(key).agg(pl.col("speedup", "best", "worst").mean()).sort(key)
    queues = means["method"].unique().sort().to_list()
    panels = []
    for (events, agents), own in means.group_by("events", "agents", maintain_order=True):
        values = sheet.chart(own)
        x = alt.X("k:Q", title="slots").scale(type="log", base=2).axis(format="~s", tickCount=5, grid=False)
        title = "speed-up"
        y = alt.Y("speedup:Q", title=title).scale(type="log", base=2).axis(format="~g", tickCount=5)
        low = alt.Y("worst:Q", title=title).scale(type="log", base=2)
        colour = alt.Color("method:N", title="queue", sort=queues).scale(
            domain=queues, range=COLOURS[: len(queues)]
        )
        layers = [
            values.mark_area(color="#dfe3e8", opacity=1).encode(x=x, y=low, y2="best:Q"),
            values.mark_line(strokeWidth=1.8).encode(x=x, y=y, color=colour.legend(orient="bottom")),
            values.mark_point(filled=True, size=22, opacity=1).encode(x=x, y=y, color=colour),
        ]
        head = sheet.head(f"{events:,} steps, {agents:,} agents")
        panels.append(alt.layer(*layers).properties(title=head, **_PANEL))
    return sheet.grid(panels, _ACROSS, {"row": 14, "column": 18})


def trend(table: pl.DataFrame) -> dict[str, Any] | None:
    """Agreement of the beginning of recorded runs with the whole, and how concentrated credit is."""
    sheet = Sheet()
    alt = sheet.alt
    known = table.drop_nulls("value").filter(pl.col("metric").is_in(["spearman", "top_share"]))
    if known.is_empty():
        return None
    words = {"spearman": "rank agreement with the whole", "top_share": "share of credit on the top 5 %"}
    names = known["method"].unique().sort().to_list()[: len(COLOURS)]
    panels = []
    for metric, word in words.items():
        own = known.filter(pl.col("metric") == metric, pl.col("method").is_in(names))
        if own.is_empty():
            continue
        values = sheet.chart(own.select("mean_events", "method", "value", "low", "high"))
        x = (
            alt.X("mean_events:Q", title="events kept, mean of a run")
            .scale(type="log")
            .axis(format="~s", grid=False)
        )
        colour = alt.Color("method:N", title=None, sort=names).scale(
            domain=names, range=COLOURS[: len(names)]
        )
        base = values.encode(x=x, color=colour.legend(orient="bottom", symbolType="stroke"))
        y = alt.Y("value:Q", title=word).scale(zero=True)
        layers = [
            base.mark_rule(strokeWidth=1.2, opacity=0.7).encode(y=alt.Y("low:Q", title=word), y2="high:Q"),
            base.mark_line(strokeWidth=1.8).encode(y=y),
            base.mark_point(filled=True, size=26, opacity=1).encode(y=y),
        ]
        panels.append(alt.layer(*layers).properties(width=300, height=190))
    return sheet.grid(panels, len(panels), {"row": 14, "column": 30})
