"""Curves of a training run, a panel for each statistic, with the steps at which one jumped."""

from collections.abc import Iterable
from typing import Any, Final

import polars as pl

from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.text import counted
from ..base.verbs import verb
from ..corpus.frames import collected
from ..corpus.names import names_of
from .canvas import PLAINLY, Canvas, finite, number, shown_names
from .palette import BLUE, VERMILION, Theme

MOST_PANELS: Final = 12
MOST_STEPS: Final = 400
_WIDTH: Final = 480
_HEIGHT: Final = 64
_DOTTED: Final = 60  # steps up to which each has a point
_NEEDED: Final = ("train_step", "statistic", "reward", "value", "lower", "upper", "jump", "alarm")


@verb
def training(
    curves: pl.DataFrame | pl.LazyFrame,
    *,
    statistics: Iterable[str] | None = None,
    title: str = "",
    theme: Theme = "auto",
) -> Any:
    """Draw a training run step by step: a panel for each statistic, with intervals and the jumps found.

    Parameters
    ----------
    curves
        What `trainers.training_curves` returns.
    statistics
        Those that are drawn; None draws all that have a value, at most 12, those with an alarm first.
    title
        Over the plot; empty is "Training, step by step".
    theme
        As in `timeline`.

    Returns
    -------
    altair.VConcatChart
        The line is the value of each step, the band its interval. A vertical line is an alarm: the first step
        after a jump.

    Raises
    ------
    ParameterError
        Altair is not installed, a column is absent, or no row has a statistic of `statistics`.

    Notes
    -----
    Of more than 400 steps, each point is the mean over as many neighbors as leave 400, and the subtitle says
    so; alarms stand where they are. Rows without a step are left out. O(rows).

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> corpus = ot.synthetic.gamed("serial_collapse", tasks=4, seed=0)[0]
    >>> curves = ot.trainers.training_curves(corpus)
    >>> chart = ot.plot.training(curves, statistics=["reward_mean", "diversity"])
    >>> chart.to_dict()["description"].partition(":")[0]
    'Training, step by step'
    """
    canvas = Canvas(theme)
    over = title or "Training, step by step"
    rows = finite(collected(curves, "curves", _NEEDED), "train_step", "value", "lower", "upper", "jump")
    if statistics is not None:
        existing = rows["statistic"].unique(maintain_order=True).to_list()
        wanted = names_of("statistics", statistics)
        for name in wanted:
            if name not in existing:
                raise ParameterError(unknown_name("statistic", name, existing))
        rows = rows.filter(pl.col("statistic").is_in(wanted))
    several = pl.col("reward").n_unique().over("statistic") > 1
    named = pl.when(several).then(pl.format("{} of {}", "statistic", "reward")).otherwise("statistic")
    rows = rows.drop_nulls(["train_step", "value"]).with_columns(panel=named)
    if rows.is_empty():
        return canvas.empty(over, "No step has a value.")
    panels = rows.group_by("panel", maintain_order=True).agg(n=pl.col("alarm").fill_null(False).sum())
    shown = panels.sort("n", descending=True, maintain_order=True)["panel"][:MOST_PANELS].to_list()
    n_steps = rows["train_step"].n_unique()
    notes = [f"{counted(n_steps, 'step')}; bands are intervals over tasks"]
    if panels.height > len(shown):
        notes.append(f"{len(shown)} of {panels.height} statistics, those with an alarm first")
    if n_steps > MOST_STEPS:
        notes.append(f"each point is the mean of {-(-n_steps // MOST_STEPS)} steps")
    headings = shown_names(shown)
    drawn = [
        _panel(canvas, rows.filter(panel=name).sort("train_step"), heading, name == shown[-1])
        for name, heading in zip(shown, headings, strict=True)
    ]
    alarms = rows.filter(pl.col("alarm") & pl.col("panel").is_in(shown)).sort("train_step")
    jumps = "; ".join(
        f"{row['panel']} by {number(row['jump'])} at step {number(row['train_step'])}"
        for row in alarms.head(20).iter_rows(named=True)
    )
    if alarms.height:
        notes.append("upright lines: the first step after a jump")
    description = f"{over}: {', '.join(headings)}. Jumps: {jumps or 'none'}. {'; '.join(notes)}."
    return canvas.finished(canvas.alt.vconcat(*drawn, spacing=6), over, notes, description)


def _panel(canvas: Canvas, rows: pl.DataFrame, heading: str, is_last: bool) -> Any:
    alt = canvas.alt
    x = alt.X("train_step:Q", title="training step" if is_last else None)
    x = x.scale(zero=False, nice=False, padding=6).axis(labelExpr=PLAINLY, labelOverlap=True)
    points = _thinned(rows).select("train_step", "value", "lower", "upper")

    def y(column: str) -> Any:
        axis = {"labelExpr": PLAINLY, "labelOverlap": True, "tickCount": 3}
        return alt.Y(f"{column}:Q", title=None).scale(zero=False).axis(**axis)

    base = canvas.chart(points).encode(x=x)
    band = base.mark_area(color=BLUE, opacity=0.18).encode(y=y("lower"), y2="upper:Q")
    tooltip = [alt.Tooltip(f"{column}:Q", format=".4~g") for column in points.columns]
    dots = {"size": 14, "color": BLUE} if points.height <= _DOTTED else False
    line = base.mark_line(color=BLUE, strokeWidth=1.6, point=dots)
    layers = [band, line.encode(y=y("value"), tooltip=tooltip)]
    alarms = rows.filter("alarm").select("train_step", "jump")
    if alarms.height:
        rules = canvas.chart(alarms).mark_rule(color=VERMILION, strokeWidth=1.8)
        layers.append(rules.encode(x=x, tooltip=["train_step:Q", "jump:Q"]))
    head = alt.TitleParams(heading, anchor="start", frame="group", fontSize=11, offset=3)
    return alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT, title=head)


def _thinned(rows: pl.DataFrame) -> pl.DataFrame:
    """Means over as many neighboring steps as leave `MOST_STEPS`."""
    joined = -(-rows.height // MOST_STEPS)
    if joined == 1:
        return rows
    part = pl.int_range(pl.len()) // joined
    means = rows.group_by(part.alias("part"), maintain_order=True)
    return means.agg(pl.col("train_step", "value", "lower", "upper").mean())
