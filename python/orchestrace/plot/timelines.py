"""The timeline of a run: a row for each agent, the critical path, and what went between agents."""

from typing import Any, Final

import polars as pl

from ..base.arguments import TraceName
from ..base.errors import ParameterError
from ..base.sums import total
from ..base.text import counted
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.frames import collected
from ..schedules.scheduling import MaxGap
from .canvas import PLAINLY, Canvas, extent, labeled, shown_names, text_width
from .palette import CRITICAL, DIVERGING, GREY, KIND_COLORS, Theme
from .trace_rows import CARRIED, TraceRows, trace_rows

MOST_MARKS: Final = 2_000
"""Bars of a chart; more events are joined."""
MOST_LINKS: Final = 400
_FLOWS: Final = ("spawn", *CARRIED)
_WIDTH: Final = 640
_PADDING: Final = 0.1
"""Of a row, on both sides together."""
_BAR: Final = 0.56
"""Of a row, which the bar of one event at a time takes."""
_BARS: Final = 0.68
"""Of a row, which those of several at a time take."""
_LANES: Final = 4
"""Events of one agent at one time that have a bar of their own."""


@verb
def timeline(
    corpus: Corpus,
    trace: TraceName,
    *,
    credit: pl.DataFrame | pl.LazyFrame | None = None,
    max_gap: MaxGap = "auto",
    theme: Theme = "auto",
) -> Any:
    """Draw a run along time: a row for each agent, its events, the critical path, and messages between rows.

    Parameters
    ----------
    corpus
        The recordings.
    trace
        A trace, by number or id.
    credit
        What `credit` returns at ``unit="event"``: it gives events their color, in place of their kind.
    max_gap
        As in `simulate`: longer gaps are idle, no work.
    theme
        ``"auto"``: a transparent page and greys that are legible on light and dark; ``"light"``; ``"dark"``.

    Returns
    -------
    altair.LayerChart
        Rows are agents in order of their first event, each below the one that spawned it; calls of tools and
        their results are in the row of who called. Bars are events that take time, ticks those that take
        none, at recorded times. Up to four that an agent has at one time lie below each other. The outline
        follows the critical path. Lines lead from row to row: spawns, messages, returns.
        ``chart.properties(width="container")`` fits a page.

    Raises
    ------
    ParameterError
        Altair is not installed, or an unknown trace or theme; credits of several methods or larger units.

    Notes
    -----
    More than 2,000 events are joined: those of a row, a kind and a bin of time become one bar, and the
    subtitle says so; more than 40 agents share the last row. O(events + edges).

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=2, seed=0)
    >>> chart = ot.plot.timeline(corpus, 0)
    >>> chart.to_dict()["description"].partition(";")[0]
    'Timeline of 5 agents over 110 s'
    """
    canvas = Canvas(theme)
    drawn = trace_rows(corpus, trace, max_gap)
    title = f"Timeline of {drawn.trace_id}"
    if drawn.events.is_empty():
        return canvas.empty(title, "The run has no events.")
    events = drawn.events
    if credit is not None:
        events = _with_credit(events, credit, trace, drawn.trace_id)
    bars, width = joined(events, by_kind=credit is None)
    links = _links(drawn)
    path = critical_stretches(drawn)
    layers = [*_flow_layers(canvas, drawn, links), *_event_layers(canvas, drawn, bars, credit is not None)]
    layers += _path_layers(canvas, drawn, path)
    chart = canvas.alt.layer(*layers).properties(width=_WIDTH, height=row_height(drawn) * len(drawn.rows))
    chart = chart.resolve_scale(color="shared")
    notes = [
        describe_path(drawn),
        *left_out(drawn, events.height, bars.height, width),
        _describe_links(links),
    ]
    return canvas.finished(chart, title, notes, _described(drawn, describe_path(drawn)))


def row_height(drawn: TraceRows) -> int:
    """Pixels of a row."""
    return 24 if len(drawn.rows) <= 12 else 18 if len(drawn.rows) <= 24 else 15


def time_axis(canvas: Canvas, drawn: TraceRows, field: str = "start") -> Any:
    """The encoding of time from the beginning of the run."""
    last = drawn.span / drawn.scale or 1.0  # a run without time has an axis of one
    axis = {"grid": True, "tickCount": 8, "labelOverlap": True, "labelExpr": PLAINLY}
    return canvas.alt.X(f"{field}:Q", title=drawn.axis).scale(domain=[0, last], nice=False).axis(**axis)


def row_axis(canvas: Canvas, drawn: TraceRows, field: str = "row") -> Any:
    """The encoding of rows, from the top; labels begin at one place, so that the tree is seen."""
    room = max(text_width(row) for row in drawn.rows)
    axis = {"domain": False, "ticks": False, "labelAlign": "left", "labelPadding": room + 10}
    y = canvas.alt.Y(f"{field}:N", title=None, sort=drawn.rows)
    y = y.scale(domain=drawn.rows, paddingInner=_PADDING, paddingOuter=_PADDING / 2)
    return y.axis(**axis, labelLimit=0)


def joined(events: pl.DataFrame, *, by_kind: bool = True) -> tuple[pl.DataFrame, float]:
    """Events as bars, ``row kind start finish n what tool tokens critical``, and how wide bins of time are.

    Where there are more than `MOST_MARKS`, those of a row, a kind and a bin are one bar, from the first
    begin to the last end: no edge is off by more than a bin. Zero where nothing is joined.
    """
    key = ["row", "kind", "instant"]
    events = events.with_columns(instant=pl.col("finish") <= pl.col("start"))
    summed = [pl.col("credit").sum()] if "credit" in events.columns else []
    if events.height <= MOST_MARKS:
        label = pl.format("{} {}", "type", "id")
        return events.with_columns(n=pl.lit(1), what=label), 0.0
    last = extent(events["finish"])[1]
    bins = 2 * MOST_MARKS
    while True:
        size = last / bins if last > 0 else 1.0
        bars = (
            events.with_columns(bin=(pl.col("start") / size).floor())
            .group_by(*key, "bin", maintain_order=True)
            .agg(
                pl.col("start").min(),
                pl.col("finish").max(),
                total(pl.col("tokens")).fill_null(0),
                pl.col("critical").any(),
                pl.len().alias("n"),
                pl.col("tool").drop_nulls().unique(maintain_order=True).head(3).str.join(", "),
                pl.col("id").first(),
                *summed,
            )
        )
        if bars.height <= MOST_MARKS or bins < 8:
            break
        bins //= 2
    single = pl.format("{} {}", "kind", "id")
    label = pl.when(pl.col("n") == 1).then(single).otherwise(pl.format("{} events: {}", "n", "kind"))
    return bars.with_columns(what=label), size


def in_lanes(bars: pl.DataFrame, height: int) -> pl.DataFrame:
    """Bars in order of start with ``offset`` and ``thick`` in pixels: those of one row at one time lie below
    each other, up to `_LANES`."""
    lanes: list[int] = []
    most: dict[str, int] = {}
    ends: dict[str, list[float]] = {}
    for row, start, finish in bars.select("row", "start", "finish").iter_rows():
        taken = ends.setdefault(row, [])
        lane = next((lane for lane, end in enumerate(taken) if end <= start), len(taken))
        if lane == len(taken) < _LANES:
            taken.append(finish)
        lane = min(lane, _LANES - 1)
        taken[lane] = max(taken[lane], finish)
        lanes.append(lane)
        most[row] = max(most.get(row, 0), lane + 1)
    of_row = pl.col("row").replace_strict(most, default=1.0, return_dtype=pl.Float64)
    part = pl.when(pl.col("lanes") == 1).then(_BAR).otherwise(_BARS / pl.col("lanes"))
    below = pl.col("lane") - (pl.col("lanes") - 1) / 2
    # an offset in pixels counts from the upper end of a row
    return (
        bars.with_columns(lane=pl.Series(lanes, dtype=pl.Float64), lanes=of_row)
        .with_columns(offset=height * ((1 - _PADDING) / 2 + below * part), thick=height * part)
        .drop("lane", "lanes")
    )


def _with_credit(
    events: pl.DataFrame, credit: pl.DataFrame | pl.LazyFrame, trace: TraceName, trace_id: str
) -> pl.DataFrame:
    rows = collected(credit, "credit", ("trace", "seq", "credit"))
    if "trace_id" in rows.columns:
        rows = rows.filter(pl.col("trace_id").cast(pl.String) == trace_id)
    elif not isinstance(trace, str):
        rows = rows.filter(pl.col("trace") == trace)
    rows = rows.drop_nulls("seq").select("seq", pl.col("credit").cast(pl.Float64))
    if rows["seq"].is_duplicated().any():
        raise ParameterError("an event has two credits: give the rows of one method at unit='event'")
    if rows.is_empty():
        raise ParameterError(f"credit has no event of {trace_id!r}: give the rows of ot.credit(unit='event')")
    rows = rows.with_columns(pl.col("seq").cast(pl.UInt32))
    return events.join(rows, on="seq", how="left", maintain_order="left")


def _event_layers(canvas: Canvas, drawn: TraceRows, bars: pl.DataFrame, credited: bool) -> list[Any]:
    alt = canvas.alt
    y = row_axis(canvas, drawn)
    tooltip = [
        alt.Tooltip("what:N", title="event"),
        alt.Tooltip("row:N", title="agent"),
        alt.Tooltip("tool:N"),
        alt.Tooltip("start:Q", title=f"begins, {drawn.axis}", format=".4~g"),
        alt.Tooltip("finish:Q", title=f"ends, {drawn.axis}", format=".4~g"),
        alt.Tooltip("tokens:Q", format=","),
    ]
    columns = ["row", "kind", "start", "finish", "what", "tool", "tokens"]
    if credited:
        columns.append("credit")
        tooltip.append(alt.Tooltip("credit:Q", format=".4~g"))
        color = alt.Color("credit:Q", title="credit").scale(**diverging(bars["credit"]))
        color = color.legend(orient="bottom", format=".3~g", gradientLength=200, direction="horizontal")
        bars = bars.with_columns(pl.col("credit").fill_null(0.0))
    else:
        names = [name for name in KIND_COLORS if name in set(bars["kind"])]
        color = alt.Color("kind:N", title=None, sort=names).scale(
            domain=names, range=[KIND_COLORS[name] for name in names]
        )
        color = color.legend(orient="bottom", columns=8, symbolType="square", symbolOpacity=1)
    layers = []
    spans, instants = bars.filter(~pl.col("instant")), bars.filter("instant")
    if spans.height:
        spans = in_lanes(spans, row_height(drawn))
        mark = canvas.chart(spans.select(*columns, "offset", "thick")).mark_bar(aria=labeled(bars))
        layers.append(
            mark.encode(
                x=time_axis(canvas, drawn),
                x2="finish:Q",
                y=y,
                yOffset=alt.YOffset("offset:Q", scale=None),
                size=alt.Size("thick:Q", scale=None, legend=None),
                color=color,
                tooltip=tooltip,
            )
        )
    if instants.height:
        tick = canvas.chart(instants.select(columns)).mark_tick(
            thickness=1.6, size=_BAR * row_height(drawn), aria=labeled(bars)
        )
        layers.append(tick.encode(x=time_axis(canvas, drawn), y=y, color=color, tooltip=tooltip))
    return layers


def diverging(values: pl.Series) -> dict[str, Any]:
    """A scale of color for numbers around zero: both sides of the same length, or one where there is one."""
    numbers = values.drop_nulls().to_list()
    most = max((abs(float(number)) for number in numbers), default=0.0) or 1.0
    if min(numbers, default=0.0) >= 0:
        return {"domain": [0, most], "range": list(DIVERGING[1:]), "interpolate": "rgb"}
    return {"domain": [-most, 0, most], "range": list(DIVERGING), "interpolate": "rgb"}


def critical_stretches(drawn: TraceRows) -> pl.DataFrame:
    """The critical path as stretches within one row: ``stretch row start finish``, in order of time."""
    path = drawn.events.filter("critical").sort("finish", "start", "seq")
    stretches = (
        path.with_columns(stretch=(pl.col("row") != pl.col("row").shift()).fill_null(True).cum_sum())
        .group_by("stretch", "row", maintain_order=True)
        .agg(pl.col("start").min(), pl.col("finish").max())
    )
    return stretches


def _path_layers(canvas: Canvas, drawn: TraceRows, path: pl.DataFrame) -> list[Any]:
    """Outlines around the stretches of the critical path, and lines from each to the next."""
    if path.is_empty():
        return []
    alt = canvas.alt
    y = row_axis(canvas, drawn)
    stroke = alt.Stroke("name:N", title=None).scale(domain=["critical path"], range=[CRITICAL])
    stroke = stroke.legend(orient="bottom", symbolType="square", symbolFillColor="transparent")
    size = drawn.span / drawn.scale / 1_000 or 1.0
    thin = path.height > 60
    boxes = path
    if boxes.height > MOST_LINKS:
        boxes = boxes.group_by("row", (pl.col("start") / size).floor(), maintain_order=True).agg(
            pl.col("start").min().alias("from"), pl.col("finish").max()
        )
        boxes = boxes.drop("start").rename({"from": "start"})
    outline = canvas.chart(boxes.select("row", "start", "finish", name=pl.lit("critical path"))).mark_bar(
        height=alt.RelativeBandSize(0.8),
        fill="transparent",
        fillOpacity=0,
        aria=labeled(boxes),
        strokeWidth=0.9 if thin else 1.4,
    )
    layers = [outline.encode(x=time_axis(canvas, drawn), x2="finish:Q", y=y, stroke=stroke)]
    if 1 < path.height <= MOST_LINKS:
        steps = path.select(
            "row",
            "finish",
            next="row",
            begin=pl.max_horizontal(pl.col("start").shift(-1), "finish"),
        ).with_columns(next=pl.col("row").shift(-1))
        line = canvas.chart(steps.drop_nulls("next")).mark_rule(
            color=CRITICAL, strokeWidth=0.7 if thin else 1.4, opacity=0.55 if thin else 1, aria=labeled(steps)
        )
        layers.append(
            line.encode(x=time_axis(canvas, drawn, "finish"), x2="begin:Q", y=y, y2=alt.Y2("next:N"))
        )
    return layers


def _links(drawn: TraceRows) -> tuple[pl.DataFrame, int]:
    """Lines between rows, ``row row_to finish begin n kind``, and the number of edges that they stand for."""
    ends = drawn.events.select("seq", "row", "start", "finish")
    edges = drawn.edges.filter(pl.col("type").is_in(_FLOWS))
    crossing = (
        edges.join(ends, left_on="src", right_on="seq", maintain_order="left")
        .join(ends, left_on="dst", right_on="seq", suffix="_to", maintain_order="left")
        .filter(pl.col("row") != pl.col("row_to"))
        .with_columns(finish=pl.col("finish"), begin=pl.max_horizontal("start_to", "finish"))
    )
    total = crossing.height
    bins = 256
    links = crossing.with_columns(n=pl.lit(1))
    while links.height > MOST_LINKS and bins:
        size = drawn.span / drawn.scale / bins or 1.0
        links = (
            crossing.with_columns(bin=(pl.col("begin") / size).floor())
            .group_by("row", "row_to", "type", "bin", maintain_order=True)
            .agg(pl.col("finish", "begin").first(), pl.len().alias("n"))
        )
        bins //= 2
    links = links.sort("n", descending=True, maintain_order=True).head(MOST_LINKS)
    return links.select("row", "row_to", "finish", "begin", "n", kind="type"), total


def _flow_layers(canvas: Canvas, drawn: TraceRows, links: tuple[pl.DataFrame, int]) -> list[Any]:
    rows, _ = links
    if rows.is_empty():
        return []
    alt = canvas.alt
    # not `kind`, the field of events: some versions of Vega-Lite have one legend for a field, or none
    rows = rows.rename({"kind": "edge"})
    tooltip = [alt.Tooltip("edge:N"), alt.Tooltip("row:N", title="from"), alt.Tooltip("row_to:N", title="to")]
    tooltip.append(alt.Tooltip("n:Q", title="how many"))
    dash = alt.StrokeDash("edge:N", legend=None).scale(
        domain=["spawn", *_FLOWS[1:]], range=[[4, 2], [1, 0], [1, 0], [1, 0]]
    )
    rule = canvas.chart(rows).mark_rule(
        color=GREY, strokeWidth=1, opacity=0.75 if rows.height < 120 else 0.4, aria=labeled(rows)
    )
    return [
        rule.encode(
            x=time_axis(canvas, drawn, "finish"),
            x2="begin:Q",
            y=row_axis(canvas, drawn),
            y2=alt.Y2("row_to:N"),
            strokeDash=dash,
            tooltip=tooltip,
        )
    ]


def describe_path(drawn: TraceRows) -> str:
    """A sentence on the length of the critical path, and on the agents whose time it is."""
    if drawn.reason is not None:
        return f"no critical path ({drawn.reason})"
    path = drawn.events.filter("critical").with_columns(lasts=pl.col("finish") - pl.col("start"))
    whose = path.group_by("owner", maintain_order=True).agg(pl.col("lasts").sum())
    whose = whose.sort("lasts", descending=True, maintain_order=True).filter(pl.col("lasts") > 0)
    total = float(path["lasts"].sum())
    names = shown_names(whose["owner"].head(3).to_list())
    parts = [f"{name} {lasts / total:.0%}" for name, lasts in zip(names, whose["lasts"], strict=False)]
    more = f" and {whose.height - 3:,} more" if whose.height > 3 else ""
    whom = f": {', '.join(parts)}{more}" if parts else ""
    return f"critical path of {drawn.text_of(total)} in {counted(path.height, 'event')}{whom}"


def left_out(drawn: TraceRows, events: int, bars: int, width: float) -> list[str]:
    """Sentences on the events and agents that the chart joins."""
    notes = []
    if width:
        notes.append(f"{events:,} events shown as {bars:,} bars: bins of {drawn.text_of(width)}")
    if drawn.owners and drawn.owners[-1] is None:
        notes.append(f"{drawn.n_agents:,} agents shown as {len(drawn.rows)} rows: the last is all others")
    return notes


def _describe_links(links: tuple[pl.DataFrame, int]) -> str:
    rows, total = links
    return (
        f"{total:,} messages, spawns and returns shown as {rows.height:,} lines"
        if rows.height < total
        else ""
    )


def _described(drawn: TraceRows, path: str) -> str:
    agents, span = counted(drawn.n_agents, "agent"), drawn.text_of(drawn.span / drawn.scale)
    return f"Timeline of {agents} over {span}; {path}. {counted(drawn.events.height, 'event')}."
