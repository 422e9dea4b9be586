"""Results of stopping rules: quality over cost, or values with intervals."""

from typing import Any, Final

import polars as pl

from ..base.errors import ParameterError
from ..base.text import counted
from ..base.verbs import verb
from ..corpus.frames import collected
from .canvas import PLAINLY, Canvas, finite, legend_columns, name_axis, number, shown_names
from .palette import BLUE, GREY, Theme, colors_of

_NEEDED: Final = ("method", "quality", "cost", "n_runs", "n_tasks")

_WIDTH: Final = 420
MOST_RULES: Final = 16
SHAPES: Final = ("circle", "square", "triangle-up", "cross", "diamond", "triangle-down", "triangle-right")
"""One fewer than there are colors, so that no two rules share both."""


@verb
def stopping(frame: pl.DataFrame | pl.LazyFrame, *, title: str = "", theme: Theme = "auto") -> Any:
    """Draw what rules of stopping reach: quality over cost as its price rises, or the value at one price.

    Parameters
    ----------
    frame
        What `stopping.frontier` or `stopping.evaluate` returns.
    title
        Over the plot; empty names what is drawn.
    theme
        As in `timeline`.

    Returns
    -------
    altair.LayerChart
        Of a frontier, mean quality against mean cost, a line for each rule through the prices. Of one
        price, the value of each rule with its interval, and its dual upper bound as a tick.

    Raises
    ------
    ParameterError
        Altair is not installed, a column is absent, no row has a quality, or more than 16 rules.

    Notes
    -----
    Points are means over held-out runs; those of a frontier are without their intervals, which the rows
    have. From the ninth rule on colors come again, with other shapes. O(rows).

    Examples
    --------
    >>> import orchestrace as ot
    >>> epochs, _ = ot.synthetic.stops(runs=100, seed=0)
    >>> curve = ot.stopping.frontier(epochs, ["fixed", "lsm"], prices=[0.0, 0.1], n_boot=100)
    >>> ot.plot.stopping(curve).to_dict()["title"]["text"]
    ['Quality over cost']
    """
    canvas = Canvas(theme)
    is_frontier = "price" in (
        frame.collect_schema() if isinstance(frame, pl.LazyFrame) else getattr(frame, "columns", ())
    )
    if not is_frontier:
        rows = collected(frame, "frame", ("method", "value", "lower", "upper", "n_runs", "n_tasks"))
        return _values(canvas, rows, title or "Value of rules of stopping")
    over = title or "Quality over cost"
    rows = collected(frame, "frame", (*_NEEDED, "price"))
    if rows.is_empty():
        return canvas.empty(over, "The frontier has no rows.")
    rows = finite(rows, "cost", "quality").drop_nulls(["cost", "quality"])
    if rows.is_empty():
        raise ParameterError("no row of the frame has a quality: draw a frontier of the problem 'answer'")
    return _frontier(canvas, rows, over)


def _basis(rows: pl.DataFrame) -> str:
    return f"{rows['n_runs'][0]:,} runs of {counted(int(rows['n_tasks'][0]), 'task')}, held out"


def _frontier(canvas: Canvas, rows: pl.DataFrame, over: str) -> Any:
    alt = canvas.alt
    methods = rows["method"].cast(pl.String).unique(maintain_order=True).to_list()
    if len(methods) > MOST_RULES:
        raise ParameterError(f"frame has {len(methods)} rules, expected at most {MOST_RULES}: filter it")
    names = shown_names(methods)
    shown = pl.col("method").cast(pl.String).replace_strict(dict(zip(methods, names, strict=True)))
    rows = rows.with_columns(rule=shown)
    base = canvas.chart(rows.select("price", "rule", "quality", "cost")).encode(
        x=alt.X("cost:Q", title="mean cost of a run")
        .scale(zero=False)
        .axis(labelExpr=PLAINLY, labelOverlap=True),
        y=alt.Y("quality:Q", title="mean quality").scale(zero=False),
        color=alt.Color("rule:N", title=None, sort=names)
        .scale(domain=names, range=colors_of(names))
        .legend(orient="bottom", columns=legend_columns(names, _WIDTH), symbolOpacity=1),
        shape=alt.Shape("rule:N", title=None, sort=names).scale(
            domain=names, range=[SHAPES[place % len(SHAPES)] for place in range(len(names))]
        ),
        order="price:Q",
        tooltip=["rule:N", "price:Q", "cost:Q", "quality:Q"],
    )
    line = base.mark_line(strokeWidth=1.8)
    dots = base.mark_point(size=44, filled=True, opacity=1)
    chart = alt.layer(line, dots).properties(width=_WIDTH, height=280)
    parts = []
    for name in names:
        points = rows.filter(rule=name).sort("cost")
        first, last = points.row(0, named=True), points.row(-1, named=True)
        parts.append(
            f"{name} from quality {number(first['quality'])} at cost {number(first['cost'])}"
            f" to {number(last['quality'])} at {number(last['cost'])}"
        )
    description = f"{over} for {counted(len(names), 'rule')}: {'; '.join(parts)}. {_basis(rows)}."
    return canvas.finished(chart, over, [_basis(rows) + "; a point for each price"], description)


def _values(canvas: Canvas, rows: pl.DataFrame, over: str) -> Any:
    alt = canvas.alt
    valued = (
        finite(rows, "value", "lower", "upper")
        .drop_nulls("value")
        .sort("value", descending=True, maintain_order=True)
    )
    if valued.is_empty():
        return canvas.empty(over, f"None of {counted(rows.height, 'rule')} has a value.")
    names = shown_names(valued["method"].cast(pl.String).to_list())
    bound = "bound" if "bound" in valued.columns else None
    drawn = valued.select(
        "value", "lower", "upper", rule=pl.Series(names), bound=bound or pl.lit(None, pl.Float64)
    )
    y = name_axis(canvas, "rule", names)
    title = "mean payoff of a run"
    numbers = {"labelExpr": PLAINLY, "labelOverlap": True, "tickCount": 6}

    def x(name: str) -> Any:
        return alt.X(f"{name}:Q", title=title).scale(zero=False).axis(**numbers)

    tooltip = ["rule:N", "value:Q", "lower:Q", "upper:Q", "bound:Q"]
    layers = []
    ends = drawn.drop_nulls(["lower", "upper"])
    if ends.height:
        bars = canvas.chart(ends).mark_rule(strokeWidth=1.8, color=BLUE, opacity=0.8)
        layers.append(bars.encode(x=x("lower"), x2="upper:Q", y=y))
    points = canvas.chart(drawn).mark_point(filled=True, size=46, color=BLUE, opacity=1)
    layers.append(points.encode(x=x("value"), y=y, tooltip=tooltip))
    notes = [f"{_basis(rows)}; bars are 95 % intervals over tasks" if ends.height else _basis(rows)]
    limits = drawn.drop_nulls("bound")
    if limits.height:
        ticks = canvas.chart(limits).mark_tick(thickness=2, size=13, color=GREY)
        layers.append(ticks.encode(x=x("bound"), y=y, tooltip=tooltip))
        notes.append("grey ticks: dual upper bounds on any rule that sees no more")
    best = drawn.row(0, named=True)
    description = (
        f"{over}: {best['rule']} has the most, {number(best['value'])}, of {len(names)}; {notes[0]}."
    )
    chart = alt.layer(*layers).properties(width=_WIDTH, height=22 * len(names))
    return canvas.finished(chart, over, notes, description)
