"""Speed-up against slots, with the bounds that no greedy schedule leaves."""

import math
from typing import Any, Final

import polars as pl

from ..base.text import counted
from ..base.verbs import verb
from ..corpus.frames import collected
from ..schedules.speedup_fits import NEEDED, speedups
from .canvas import Canvas, number
from .palette import BLUE, GREY, SKY, VERMILION, Theme

_BOUNDS: Final = ("work", "span", "lower", "upper")


@verb
def scaling(curve: pl.DataFrame | pl.LazyFrame, *, title: str = "", theme: Theme = "auto") -> Any:
    """Draw speed-up against slots with its bounds, all traces together.

    Parameters
    ----------
    curve
        What `schedules.scaling_curve` returns for ``pool="all"``, with k = 1.
    title
        Over the plot; empty is "Speed-up against slots".
    theme
        As in `timeline`.

    Returns
    -------
    altair.LayerChart
        Speed-up Σ T_1 / Σ T_k against k, the band that no greedy schedule leaves, and T1/T∞, which no number
        of slots passes.

    Raises
    ------
    ParameterError
        Altair is not installed, a column is absent, or no row has k = 1.

    Notes
    -----
    Bounds of the sums are sums of the bounds. Source: Graham 1969, Brent 1974. O(rows).

    Examples
    --------
    >>> import orchestrace as ot
    >>> curve = ot.schedules.scaling_curve(ot.generate(traces=5, seed=0), slots=[1, 2, 4])
    >>> ot.plot.scaling(curve).to_dict()["description"].partition(":")[0]
    'Speed-up against slots'
    """
    canvas = Canvas(theme)
    alt = canvas.alt
    full_title = title or "Speed-up against slots"
    curve = collected(curve, "curve", (*NEEDED, *_BOUNDS))
    if curve.is_empty():
        return canvas.empty(full_title, "The curve has no rows.")
    points = speedups(curve, None)
    scheduled = curve.filter(pl.col("k").is_not_null() & pl.col("makespan").is_not_null())
    sums = scheduled.group_by("k").agg(pl.col(_BOUNDS).sum()).sort("k")
    drawn = points.join(sums, on="k").with_columns(
        best=pl.col("work") / pl.col("lower"), worst=pl.col("work") / pl.col("upper")
    )
    drawn = drawn.filter(pl.all_horizontal(pl.col("speedup", "best", "worst").is_finite()))
    if drawn.is_empty():
        return canvas.empty(full_title, "The runs take no time: there is no speed-up.")
    limit = sums["work"][0] / sums["span"][0] if sums["span"][0] else math.nan
    rows = canvas.chart(drawn.select("k", "speedup", "best", "worst"))
    ticks = [k for k in (2**n for n in range(33)) if drawn["k"].min() <= k <= drawn["k"].max()]
    x = alt.X("k:Q", title="slots").scale(type="log", base=2, nice=False).axis(values=ticks, format="~s")
    names = ["schedule", "bounds of any greedy schedule", "work / longest path"]
    color = alt.Color("what:N", title=None, sort=names).scale(domain=names, range=[BLUE, SKY, VERMILION])
    color = color.legend(
        orient="bottom", columns=3, symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3
    )

    def y(name: str) -> Any:
        return alt.Y(f"{name}:Q", title="speed-up").scale(zero=False).axis(format="~g")

    layers = [
        rows.transform_calculate(what=f"'{names[1]}'")
        .mark_area(opacity=0.3, color=SKY)
        .encode(x=x, y=y("worst"), y2="best:Q"),
        rows.mark_line(color=GREY, strokeWidth=0).encode(x=x, y=y("best")),
        rows.transform_calculate(what=f"'{names[0]}'")
        .mark_line(point=alt.OverlayMarkDef(size=36, filled=True), strokeWidth=2)
        .encode(x=x, y=y("speedup"), color=color, tooltip=["k:Q", "speedup:Q", "worst:Q", "best:Q"]),
    ]
    notes = []
    if math.isfinite(limit):
        rule = canvas.chart(pl.DataFrame({"limit": [limit], "what": [names[2]]}))
        rule = rule.mark_rule(strokeDash=[5, 4], strokeWidth=1.5)
        layers.append(rule.encode(y=y("limit"), color=color))
        notes.append(f"no number of slots passes {number(limit)}, work over longest path")
    runs = scheduled["trace"].n_unique() if "trace" in scheduled.columns else 1
    notes.insert(0, f"{counted(runs, 'run')} together; the band is what a greedy schedule can be")
    last = drawn.row(-1, named=True)
    description = (
        f"{full_title}: {number(last['speedup'])} times as fast on {last['k']} slots, bounds"
        f" {number(last['worst'])} to {number(last['best'])}; {'; '.join(notes)}."
    )
    return canvas.finished(
        alt.layer(*layers).properties(width=400, height=260), full_title, notes, description
    )
