"""How many agents are present along the time of runs."""

from typing import Any, Final

import numpy as np
import polars as pl

from ..base.arrays import Floats
from ..base.text import counted
from ..base.verbs import verb
from ..corpus.frames import collected
from .canvas import Canvas, finite, number
from .palette import BLUE, Theme

MOST_STEPS: Final = 500
_NEEDED: Final = ("trace", "t", "after")


@verb
def concurrency(profile: pl.DataFrame | pl.LazyFrame, *, title: str = "", theme: Theme = "auto") -> Any:
    """Draw how many agents are present from the beginning of runs to their end, all runs together.

    Parameters
    ----------
    profile
        What `schedules.concurrency_profile` returns, of runs on one basis of time.
    title
        Over the plot; empty is "Agents present over time".
    theme
        As in `timeline`.

    Returns
    -------
    altair.LayerChart
        The mean number of agents that are present, over the runs that are still going, as steps along the
        time since each run began. Opacity is the share of runs that are still going.

    Raises
    ------
    ParameterError
        Altair is not installed, or a column is absent.

    Notes
    -----
    Between two moments nobody comes or goes, so the steps are exact; of more than 500 moments, each step is
    the mean over an equal part of the time, and the subtitle says so. The end of the curve is of the longest
    runs alone. Runs in seconds and runs in steps have no common axis: draw them apart. O(rows · log(rows)).

    Examples
    --------
    >>> import orchestrace as ot
    >>> profile = ot.schedules.concurrency_profile(ot.generate(traces=20, seed=0))
    >>> ot.plot.concurrency(profile).to_dict()["description"].partition(":")[0]
    'Agents present over time'
    """
    canvas = Canvas(theme)
    alt = canvas.alt
    full_title = title or "Agents present over time"
    rows = finite(collected(profile, "profile", _NEEDED), "t", "after").drop_nulls(_NEEDED)
    steps = _steps(rows)
    if steps.is_empty():
        return canvas.empty(full_title, "No run of the profile takes time.")
    runs = rows["trace"].n_unique()
    notes = [f"mean over {counted(runs, 'run')}; the paler, the fewer of them are still going"]
    moments = steps.height
    if moments > MOST_STEPS:
        steps = _joined(steps)
        notes.append(f"{moments:,} steps shown as {steps.height} of {number(steps['end'][0])} each")
    steps = steps.with_columns(mean=pl.col("total") / pl.col("runs"), going=pl.col("runs") / runs)
    x = alt.X("begin:Q", title="time since the run began").scale(nice=False).axis(format="~s")
    y = alt.Y("mean:Q", title="agents present").scale(zero=True).axis(format="~g")
    going = alt.Opacity("going:Q", legend=None).scale(domain=[0, 1], range=[0.1, 0.6])
    tooltip = [alt.Tooltip(f"{name}:Q", format=".4~g") for name in ("begin", "end", "mean", "going")]
    drawn = canvas.chart(steps.select("begin", "end", "mean", "going"))
    bars = drawn.mark_rect(color=BLUE).encode(
        x=x, x2="end:Q", y=y, y2=alt.datum(0), opacity=going, tooltip=tooltip
    )
    ends = drawn.mark_rule(color=BLUE, strokeWidth=2).encode(x=x, x2="end:Q", y=y)
    most = steps.row(int(np.argmax(steps["mean"].to_numpy())), named=True)
    description = (
        f"{full_title}: at most {number(most['mean'])} agents, {number(most['begin'])} after the beginning,"
        f" when {most['going']:.0%} of the runs are going; {'; '.join(notes)}."
    )
    chart = alt.layer(bars, ends).properties(width=480, height=240)
    return canvas.finished(chart, full_title, notes, description)


def _steps(rows: pl.DataFrame) -> pl.DataFrame:
    """``begin end total runs``: agents present and runs going in each stretch in which none comes or goes."""
    rows = rows.sort("trace", "t", maintain_order=True)
    before, after = pl.col("after").shift(1).over("trace"), pl.col("after")
    is_last = pl.col("t").shift(-1).over("trace").is_null()
    changes = rows.select(
        t=pl.col("t") - pl.col("t").first().over("trace"),
        total=pl.when(is_last).then(0).otherwise(after) - before.fill_null(0),
        runs=before.is_null().cast(pl.Int64) - is_last.cast(pl.Int64),
    )
    moments = changes.group_by("t").agg(pl.col("total", "runs").sum()).sort("t")
    steps = moments.select(
        begin="t", end=pl.col("t").shift(-1), total=pl.col("total").cum_sum(), runs=pl.col("runs").cum_sum()
    )
    return steps.filter(pl.col("end") > pl.col("begin"))


def _joined(steps: pl.DataFrame) -> pl.DataFrame:
    """Means of the steps over equal parts of the time."""
    ends = np.append(steps["begin"].to_numpy(), steps["end"][-1])
    edges = np.linspace(0.0, ends[-1], MOST_STEPS + 1)

    def mean(column: str) -> Floats:
        area = np.append(0.0, np.cumsum(steps[column].to_numpy() * np.diff(ends)))
        parts: Floats = np.diff(np.interp(edges, ends, area)) / np.diff(edges)
        return parts

    return pl.DataFrame({"begin": edges[:-1], "end": edges[1:], "total": mean("total"), "runs": mean("runs")})
