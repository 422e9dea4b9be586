"""Where untrusted content went in a run, on its timeline, and where it could have been stopped."""

from typing import Any, Final

import polars as pl

from ..base.arguments import TraceName
from ..base.text import counted
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.frames import collected, one_trace
from ..safety.tracking import sanitizer_cut, tainted_events
from .canvas import Canvas, labeled
from .palette import BLUE, GREY, VERMILION, Theme
from .timelines import MOST_LINKS, joined, left_out, row_axis, row_height, time_axis
from .trace_rows import TraceRows, trace_rows

_STATES: Final = {"untrusted": VERMILION, "tainted": "#e69f00", "clean": GREY}
_CUT: Final = "cut"


@verb
def taint(
    corpus: Corpus,
    trace: TraceName,
    *,
    events: pl.DataFrame | pl.LazyFrame | None = None,
    cut: pl.DataFrame | pl.LazyFrame | None = None,
    theme: Theme = "auto",
) -> Any:
    """Draw where untrusted content went in a run, and the fewest places that would have stopped it.

    Parameters
    ----------
    corpus
        The recordings.
    trace
        A trace, by number or id.
    events
        What `safety.tainted_events` returns, with options of your own; None follows taint with defaults.
    cut
        What `safety.sanitizer_cut` returns; None computes it with defaults.
    theme
        As in `timeline`.

    Returns
    -------
    altair.LayerChart
        The rows of `timeline`. Events where taint begins, events that it reached and clean ones differ in
        color and height; lines are the shortest ways along which it came, between rows; diamonds are the
        cut, events whose cleaning keeps the outcome clean.

    Raises
    ------
    ParameterError
        Altair is not installed, an unknown trace or theme, or a frame lacks a column.

    Notes
    -----
    More than 2,000 events are joined as in `timeline`. Taint is an upper bound, as `taint` says. O(events +
    edges), and the flow of the cut.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=2, seed=0)
    >>> ot.plot.taint(corpus, 0).to_dict()["description"].partition(":")[0]
    'Taint in a run of 5 agents over 110 s'
    """
    canvas = Canvas(theme)
    run = one_trace(corpus, trace)
    drawn = trace_rows(corpus, trace)
    title = f"Taint in {drawn.trace_id}"
    if drawn.events.is_empty():
        return canvas.empty(title, "The run has no events.")
    reached = (
        tainted_events(run) if events is None else collected(events, "events", ("seq", "seed", "before"))
    )
    cleaned = sanitizer_cut(run) if cut is None else collected(cut, "cut", ("seq", "reason"))
    reached, cleaned = _of_trace(reached, drawn.trace_id, trace), _of_trace(cleaned, drawn.trace_id, trace)
    if reached.is_empty():
        reasons = cleaned["reason"].drop_nulls().cast(pl.String).unique().to_list()
        why = f" ({', '.join(reasons)})" if reasons else ""
        return canvas.empty(title, f"No event of the run is untrusted or tainted{why}.")
    marked = drawn.events.join(
        reached.select(pl.col("seq").cast(pl.UInt32), "seed").unique("seq"),
        on="seq",
        how="left",
        maintain_order="left",
    ).with_columns(
        kind=pl.when(pl.col("seed"))
        .then(pl.lit("untrusted"))
        .when(pl.col("seed").is_not_null())
        .then(pl.lit("tainted"))
        .otherwise(pl.lit("clean"))
    )
    bars, width = joined(marked)
    cuts = drawn.events.join(
        cleaned.drop_nulls("seq").select(pl.col("seq").cast(pl.UInt32)).unique(),
        on="seq",
        how="semi",
        maintain_order="left",
    )
    layers = [*_ways(canvas, drawn, reached), *_marks(canvas, drawn, bars), *_cuts(canvas, drawn, cuts)]
    seeds = int(marked["kind"].eq("untrusted").sum())
    tainted = int(marked["kind"].eq("tainted").sum())
    counts = f"{seeds:,} untrusted and {tainted:,} tainted of {counted(marked.height, 'event')}"
    counts += f"; cleaning {counted(cuts.height, 'event')} keeps the outcome clean" if cuts.height else ""
    chart = canvas.alt.layer(*layers).properties(width=640, height=row_height(drawn) * len(drawn.rows))
    chart = chart.resolve_scale(color="shared")
    notes = [counts, *left_out(drawn, marked.height, bars.height, width)]
    span = drawn.text_of(drawn.span / drawn.scale)
    about = f"Taint in a run of {counted(drawn.n_agents, 'agent')} over {span}: {counts}."
    return canvas.finished(chart, title, notes, about)


def _of_trace(rows: pl.DataFrame, trace_id: str, trace: TraceName) -> pl.DataFrame:
    if "trace_id" in rows.columns:
        return rows.filter(pl.col("trace_id").cast(pl.String) == trace_id)
    return rows.filter(pl.col("trace") == trace) if "trace" in rows.columns else rows


def _ways(canvas: Canvas, drawn: TraceRows, reached: pl.DataFrame) -> list[Any]:
    """Steps of the shortest ways of taint that lead from one row to another."""
    ends = drawn.events.select("seq", "row", "start", "finish")
    steps = (
        reached.select(pl.col("seq", "before").cast(pl.UInt32))
        .drop_nulls()
        .join(ends, left_on="before", right_on="seq", maintain_order="left")
        .join(ends, on="seq", suffix="_to", maintain_order="left")
        .filter(pl.col("row") != pl.col("row_to"))
        .select("row", "row_to", "finish", begin=pl.max_horizontal("start_to", "finish"))
        .head(MOST_LINKS)
    )
    if steps.is_empty():
        return []
    rule = canvas.chart(steps).mark_rule(color=_STATES["tainted"], strokeWidth=1.2, opacity=0.8)
    x = time_axis(canvas, drawn, "finish")
    return [rule.encode(x=x, x2="begin:Q", y=row_axis(canvas, drawn), y2=canvas.alt.Y2("row_to:N"))]


def _marks(canvas: Canvas, drawn: TraceRows, bars: pl.DataFrame) -> list[Any]:
    alt = canvas.alt
    states = [name for name in _STATES if name in set(bars["kind"])]
    color = alt.Color("kind:N", title=None, sort=states).scale(
        domain=states, range=[_STATES[name] for name in states]
    )
    color = color.legend(orient="bottom", columns=4, symbolType="square", symbolOpacity=1)
    tooltip = ["what:N", alt.Tooltip("row:N", title="agent"), "tool:N"]
    layers = []
    columns = ["row", "kind", "start", "finish", "what", "tool"]
    heights = {"clean": 0.28, "tainted": 0.56, "untrusted": 0.8}
    for state, height in heights.items():
        events = bars.filter(kind=state)
        spans, instants = events.filter(~pl.col("instant")), events.filter("instant")
        encoded = {
            "x": time_axis(canvas, drawn),
            "y": row_axis(canvas, drawn),
            "color": color,
            "tooltip": tooltip,
        }
        if spans.height:
            mark = canvas.chart(spans.select(columns)).mark_bar(
                height=alt.RelativeBandSize(height), aria=labeled(bars)
            )
            layers.append(mark.encode(x2="finish:Q", **encoded))
        if instants.height:
            size = height * row_height(drawn)
            layers.append(
                canvas.chart(instants.select(columns))
                .mark_tick(thickness=1.6, size=size, aria=labeled(bars))
                .encode(**encoded)
            )
    return layers


def _cuts(canvas: Canvas, drawn: TraceRows, cuts: pl.DataFrame) -> list[Any]:
    if cuts.is_empty():
        return []
    alt = canvas.alt
    middle = cuts.head(MOST_LINKS).select(
        "row",
        start=(pl.col("start") + pl.col("finish")) / 2,
        what=pl.format("cut {} {}", "type", "id"),
        name=pl.lit(_CUT),
    )
    point = canvas.chart(middle).mark_point(
        shape="diamond", size=90, filled=True, opacity=1, stroke="white", strokeWidth=1
    )
    fill = alt.Fill("name:N", title=None).scale(domain=[_CUT], range=[BLUE])
    fill = fill.legend(orient="bottom", symbolType="diamond", symbolOpacity=1)
    return [
        point.encode(x=time_axis(canvas, drawn), y=row_axis(canvas, drawn), fill=fill, tooltip=["what:N"])
    ]
