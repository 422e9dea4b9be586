"""Agreement of credit methods, pair by pair."""

import math
from collections.abc import Sequence
from typing import Any, Final, Literal

import polars as pl

from ..base.errors import ParameterError
from ..base.text import counted
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.frames import collected
from ..evaluation.rank_agreement import agreement as compared
from .canvas import Canvas, number, shown_names, unknown_width
from .palette import BLUE, ORANGE, Theme

Metric = Literal["spearman", "kendall", "top_k_overlap", "sign_agreement"]

_METRICS: Final = {
    "spearman": "Spearman's rho",
    "kendall": "Kendall's tau",
    "top_k_overlap": "overlap of the top 5",
    "sign_agreement": "agreement of signs",
}
_MOST: Final = 16
_ANGLE: Final = 40
"""Degrees by which names below the cells rise."""
_NEITHER: Final = "#6b7280"
"""A grey on which white numbers are legible."""


@verb
def agreement(
    corpus: Corpus,
    credits: Sequence[pl.DataFrame | pl.LazyFrame],
    *,
    metric: Metric = "spearman",
    theme: Theme = "auto",
) -> Any:
    """Draw how far credit methods agree: a cell for each pair, with its number.

    Parameters
    ----------
    corpus
        The recordings that all credits are of.
    credits
        What `credit` returns, a frame for each of 2 to 16 methods, all at one unit.
    metric
        A metric of `evaluation.agreement`, which is computed for each pair.
    theme
        As in `timeline`.

    Returns
    -------
    altair.LayerChart
        Orange cells disagree, grey ones have nothing to do with each other, blue ones agree. A cell
        whose number is in brackets has an interval that includes 0; a dash has no value.

    Raises
    ------
    ParameterError
        Altair is not installed, fewer than two frames or more than 16, an unknown metric, or frames that
        `evaluation.agreement` refuses.

    Notes
    -----
    O(pairs rows log rows). Source: as `evaluation.agreement`.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=20, seed=0)
    >>> credits = [ot.credit(corpus, method=name, unit="agent") for name in ("flow", "uniform")]
    >>> ot.plot.agreement(corpus, credits).to_dict()["description"].partition(":")[0]
    'Agreement of 2 credit methods, Spearman'
    """
    canvas = Canvas(theme)
    if isinstance(credits, pl.DataFrame | pl.LazyFrame | str) or not isinstance(credits, Sequence):
        raise ParameterError("credits is one frame, expected a list with a frame for each method")
    if not 2 <= len(credits) <= _MOST:
        raise ParameterError(f"credits has {counted(len(credits), 'frame')}, expected 2 to {_MOST}")
    frames = [
        collected(frame, f"credits[{at}]", ("trace", "unit", "unit_id", "credit"))
        for at, frame in enumerate(credits)
    ]
    names = shown_names([_method(frame, at) for at, frame in enumerate(frames)])
    title = "Agreement of credit methods"
    if any(frame.is_empty() for frame in frames):
        return canvas.empty(title, "A frame of credits has no rows.")
    rows = []
    for first, name in enumerate(names):
        for second in range(first + 1, len(names)):
            pair = compared(corpus, frames[first], frames[second]).filter(metric=metric).row(0, named=True)
            for a, b in ((name, names[second]), (names[second], name)):
                rows.append(
                    {
                        "a": a,
                        "b": b,
                        **{column: pair[column] for column in ("value", "lower", "upper", "n_traces")},
                    }
                )
    types = {"a": pl.String, "b": pl.String, "value": pl.Float64, "lower": pl.Float64, "upper": pl.Float64}
    cells = pl.DataFrame(rows, schema={**types, "n_traces": pl.UInt32})
    low = -1.0 if metric in ("spearman", "kendall") else 0.0
    unit = str(frames[0]["unit"].cast(pl.String)[0])
    runs = max(cells["n_traces"].to_list())
    notes = [f"{_METRICS[metric]} within runs, by {unit}; at most {runs:,} runs have a value"]
    if (cells["lower"] <= 0).any() and low < 0:
        notes.append("in brackets: the interval includes 0")
    description = _described(cells, names, metric)
    return canvas.finished(_chart(canvas, cells, names, low), title, notes, description)


def _method(frame: pl.DataFrame, at: int) -> str:
    names = (
        frame["method"].cast(pl.String).drop_nulls().unique().to_list() if "method" in frame.columns else []
    )
    return names[0] if len(names) == 1 else f"frame {at}"


def _chart(canvas: Canvas, cells: pl.DataFrame, names: list[str], low: float) -> Any:
    alt = canvas.alt
    crosses = (pl.col("lower") <= 0) & (pl.col("upper") >= 0) if low < 0 else pl.lit(False)
    text = [
        "-" if value is None else f"({value:.2f})" if cross else f"{value:.2f}"
        for value, cross in cells.select("value", cross=crosses.fill_null(False)).iter_rows()
    ]
    cells = cells.with_columns(text=pl.Series(text))
    size = 46
    scale: dict[str, Any] = {"domain": [low, 0, 1] if low < 0 else [0, 1], "interpolate": "rgb"}
    scale["range"] = [ORANGE, _NEITHER, BLUE] if low < 0 else [_NEITHER, BLUE]
    color = alt.Color("value:Q", title=None).scale(**scale)
    color = color.legend(orient="right", gradientLength=120, tickCount=5)
    labels = {"labelLimit": 0, "domain": False, "ticks": False, "grid": False}
    least = unknown_width(names)
    below = least * math.sin(math.radians(_ANGLE)) + 16 if least else 0.0
    x = (
        alt.X("b:N", title=None, sort=names)
        .scale(domain=names)
        .axis(labelAngle=-_ANGLE, orient="bottom", minExtent=below, **labels)
    )
    y = alt.Y("a:N", title=None, sort=names).scale(domain=names).axis(minExtent=least, **labels)
    colored = canvas.chart(cells.drop_nulls("value")).mark_rect(cornerRadius=3)
    tooltip = [
        "a:N",
        "b:N",
        *(alt.Tooltip(f"{column}:Q", format=".3f") for column in ("value", "lower", "upper")),
        "n_traces:Q",
    ]
    layers = [colored.encode(x=x, y=y, color=color, tooltip=tooltip)]
    for low_end, ink in ((True, "#1f2328"), (False, "white")):
        texts = cells.filter((pl.col("value") < -0.35) == low_end)
        if texts.height:
            written = canvas.chart(texts.select("a", "b", "text"))
            written = written.mark_text(fontSize=11, color=ink, fontWeight="bold")
            layers.append(written.encode(x=x, y=y, text="text:N"))
    absent = canvas.chart(cells.filter(pl.col("value").is_null()).select("a", "b", "text"))
    layers.append(absent.mark_text(color=canvas.ink).encode(x=x, y=y, text="text:N"))
    extent = size * len(names)
    return alt.layer(*layers).properties(width=extent, height=0.7 * extent)


def _described(cells: pl.DataFrame, names: list[str], metric: str) -> str:
    once = cells.filter(pl.col("a") < pl.col("b")).drop_nulls("value").sort("value", "a", "b")
    subject = f"Agreement of {counted(len(names), 'credit method')}, {_METRICS[metric].partition(chr(39))[0]}"
    if once.is_empty():
        return f"{subject}: no pair has a value."
    least, most = once.row(0, named=True), once.row(-1, named=True)
    return (
        f"{subject}: most for {most['a']} and {most['b']}, {number(most['value'])}; least for {least['a']}"
        f" and {least['b']}, {number(least['value'])}."
    )
