"""Effects of interventions on recorded runs, with the bounds of what is not certain."""

from typing import Any, Final

import polars as pl

from ..base.arguments import Top
from ..base.text import counted
from ..base.verbs import verb
from ..corpus.frames import collected
from .canvas import PLAINLY, Canvas, finite, name_axis, number, shown_names
from .palette import BLUE, GREEN, GREY, ORANGE, Theme

_NEEDED: Final = (
    "trace",
    "intervention",
    "unit_id",
    "effect",
    "lower",
    "upper",
    "makespan",
    "makespan_cf",
    "tier",
    "reason",
)
_TIERS: Final = {"observed": GREEN, "schedule": ORANGE, "surrogate": BLUE}
_OF: Final = {"outcome": "change of the outcome", "makespan": "change of the makespan, %"}


@verb
def effects(frame: pl.DataFrame | pl.LazyFrame, *, top: Top = 30, theme: Theme = "auto") -> Any:
    """Draw what interventions do: the effect of each with its bounds, colored by the tier of the answer.

    Parameters
    ----------
    frame
        What `replay` returns, of one or several interventions.
    top
        How many rows are shown, 1 to 60: those with the largest effects or bounds.
    theme
        As in `timeline`.

    Returns
    -------
    altair.LayerChart
        A row per intervention and unit. The point is the effect on the outcome, the bar its bounds. A row
        without a point has no answer but the bounds; ``reason`` of the frame says why. Of a frame of
        schedules alone, the change of the makespan in %. Of several runs, means over those that have a value.

    Raises
    ------
    ParameterError
        Altair is not installed, a column is absent, or `top` is out of range.

    Notes
    -----
    The mean of bounds bounds the mean. A point of several runs is a mean over the runs that have an answer;
    where that is not all of them, the point is hollow. O(rows).

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=20, seed=0)
    >>> effects = ot.replay(corpus, ot.interventions.drop(each="role"))
    >>> ot.plot.effects(effects).to_dict()["title"]["text"]
    ['Effects of interventions']
    """
    canvas = Canvas(theme)
    title = "Effects of interventions"
    rows = collected(frame, "frame", _NEEDED)
    of, values = _values(rows)
    values = finite(values, "effect", "lower", "upper")
    answered = values.filter(pl.col("lower").is_not_null() | pl.col("effect").is_not_null())
    if answered.is_empty():
        reasons = rows["reason"].drop_nulls().cast(pl.String).unique().sort()
        why = f" ({', '.join(reasons)})" if len(reasons) else ""
        return canvas.empty(title, f"None of {counted(rows.height, 'row')} has an effect{why}.")
    table = _table(answered)
    ranked = table.sort("size", descending=True, maintain_order=True)
    drawn = ranked.head(top)
    names = shown_names(drawn["name"].to_list(), 44)
    drawn = drawn.with_columns(name=pl.Series(names, dtype=pl.String))
    runs = rows["trace"].n_unique()
    how = {"outcome": "points are answers of the outcome model", "makespan": "points are schedules"}[of]
    notes = [f"{counted(runs, 'run')}; {how}, bars their bounds"]
    if (drawn["certain"] < drawn["n"]).any():
        notes.append("no point, or a hollow one: bounds alone in all, or in some runs")
    if table.height > drawn.height:
        notes.append(f"{table.height:,} interventions, the {drawn.height:,} largest shown")
    if lost := values.height - answered.height:
        notes.append(f"{lost:,} of {counted(rows.height, 'row')} have neither an effect nor bounds")
    return canvas.finished(_chart(canvas, drawn, of), title, notes, _described(drawn, of, notes))


def _values(rows: pl.DataFrame) -> tuple[str, pl.DataFrame]:
    """``outcome`` or ``makespan``, whichever the effects are on, and ``label effect lower upper tier``."""
    unit = pl.when(pl.col("unit_id").is_not_null()).then(pl.format("{}: {}", "intervention", "unit_id"))
    label = unit.otherwise(pl.col("intervention").cast(pl.String))
    tier = pl.col("tier").cast(pl.String)
    on_outcome = rows.filter(tier.ne_missing("schedule"))
    if on_outcome.select(pl.any_horizontal(pl.col("effect", "lower").is_not_null()).any()).item():
        return "outcome", on_outcome.select("trace", "effect", "lower", "upper", tier=tier, label=label)
    before = pl.when(pl.col("makespan") > 0).then(pl.col("makespan"))
    change = {
        name: 100 * (pl.col(column) / before - 1)
        for name, column in (("effect", "makespan_cf"), ("lower", "lower"), ("upper", "upper"))
    }
    return "makespan", rows.select("trace", tier=tier, label=label, **change)


def _table(values: pl.DataFrame) -> pl.DataFrame:
    table = values.group_by("label", maintain_order=True).agg(
        pl.col("effect", "lower", "upper").mean(),
        pl.col("tier").drop_nulls().first(),
        certain=pl.col("effect").count(),
        n=pl.len(),
    )
    size = pl.max_horizontal(pl.col("effect").abs(), pl.col("lower").abs(), pl.col("upper").abs())
    state = pl.when(pl.col("certain") == pl.col("n")).then(pl.lit("all")).otherwise(pl.lit("some"))
    tier = pl.col("tier").fill_null("no tier")
    return table.rename({"label": "name"}).with_columns(size=size.fill_null(0.0), state=state, tier=tier)


def _chart(canvas: Canvas, drawn: pl.DataFrame, of: str) -> Any:
    alt = canvas.alt
    y = name_axis(canvas, "name", drawn["name"].to_list())
    tiers = [name for name in (*_TIERS, "no tier") if name in set(drawn["tier"])]
    color = alt.Color("tier:N", title="tier", sort=tiers).scale(
        domain=tiers, range=[_TIERS.get(name, GREY) for name in tiers]
    )
    color = color.legend(orient="bottom", symbolType="circle", symbolOpacity=1)

    def x(name: str) -> Any:
        return alt.X(f"{name}:Q", title=_OF[of]).axis(labelExpr=PLAINLY, tickCount=6, labelOverlap=True)

    layers = [
        canvas.chart(pl.DataFrame({"zero": [0.0]})).mark_rule(color=GREY, strokeWidth=1).encode(x=x("zero"))
    ]
    ends = drawn.drop_nulls(["lower", "upper"])
    tooltip = [
        "name:N",
        "tier:N",
        "certain:Q",
        "n:Q",
        *(alt.Tooltip(f"{column}:Q", format=".4~g") for column in ("effect", "lower", "upper")),
    ]
    if ends.height:
        bar = canvas.chart(ends).mark_rule(strokeWidth=4, opacity=0.45, strokeCap="round")
        layers.append(bar.encode(x=x("lower"), x2="upper:Q", y=y, color=color, tooltip=tooltip))
    for state in ("all", "some"):
        points = drawn.drop_nulls("effect").filter(state=state)
        if points.height:
            mark = canvas.chart(points).mark_point(filled=state == "all", size=52, opacity=1, strokeWidth=1.6)
            layers.append(mark.encode(x=x("effect"), y=y, color=color, tooltip=tooltip))
    return alt.layer(*layers).properties(width=420, height=20 * drawn.height)


def _described(drawn: pl.DataFrame, of: str, notes: list[str]) -> str:
    parts = []
    for row in drawn.head(3).iter_rows(named=True):
        point = "no answer" if row["effect"] is None else number(row["effect"])
        ends = f" ({number(row['lower'])} to {number(row['upper'])})" if row["lower"] is not None else ""
        parts.append(f"{row['name']} {point}{ends}")
    return f"Effects of {counted(drawn.height, 'intervention')}, {_OF[of]}: {'; '.join(parts)}. {notes[0]}."
