"""The map of sizes: published systems and recorded corpora, by steps and agents of a run."""

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from ..base.errors import ParameterError
from ..base.text import counted
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.frames import collected
from ..scaling.published_sizes import list_envelopes as published
from .canvas import PLAINLY, Canvas, extent, log_ticks, number, shortened, shown_names, text_width
from .palette import BLUE, GREEN, GREY, VERMILION, Theme

_WIDTH: Final = 600
_HEIGHT: Final = 360
_KINDS: Final = {"academic": BLUE, "industrial": VERMILION, "recorded": GREEN}
_EDGE: Final = 8
"""Pixels from an axis to the ticks of systems of which one number is known."""


@verb
def envelopes(
    table: pl.DataFrame | pl.LazyFrame | None = None,
    corpora: Mapping[str, Corpus] | None = None,
    *,
    theme: Theme = "auto",
) -> Any:
    """Draw how large runs are: agents over steps, of published systems and of recordings.

    Parameters
    ----------
    table
        Systems in columns of `scaling.list_envelopes`: ``system kind agents_max steps_max`` and, if there,
        ``scope``, of which only ``trace`` is drawn. None takes those of `scaling.list_envelopes`.
    corpora
        Recordings by name: a diamond at the median run, bars from 5 % to 95 % of runs.
    theme
        As in `timeline`.

    Returns
    -------
    altair.LayerChart
        Both axes are logarithmic. A system of which one number is published is a tick on that axis. Names
        are written where there is room; the subtitle counts the others, which tooltips name.

    Raises
    ------
    ParameterError
        Altair is not installed, or a column is absent.

    Notes
    -----
    Published numbers are mostly maxima or caps. O(systems² + traces).

    Examples
    --------
    >>> import orchestrace as ot
    >>> chart = ot.plot.envelopes(corpora={"generated": ot.generate(traces=20, seed=0)})
    >>> chart.to_dict()["title"]["text"]
    ['Sizes of runs']
    """
    canvas = Canvas(theme)
    title = "Sizes of runs"
    rows = collected(
        published() if table is None else table, "table", ("system", "kind", "agents_max", "steps_max")
    )
    if corpora is not None and not isinstance(corpora, Mapping):
        raise ParameterError(
            f"corpora is of type {type(corpora).__name__}, expected a dict of corpora by name"
        )
    places = pl.concat([_systems(rows), _recorded(corpora or {})])
    if places.is_empty():
        return canvas.empty(title, "No system or run has a number of agents or steps.")
    both = places.drop_nulls(["steps", "agents"])
    x_domain, y_domain = _domain(places, "steps"), _domain(places, "agents")
    labels, unnamed = _labels(both, x_domain, y_domain)
    notes = []
    ticks = places.height - both.height
    if ticks:
        notes.append(f"ticks: {counted(ticks, 'system')} of which one number is published")
    if unnamed:
        notes.append(f"{counted(unnamed, 'point')} without a name, for want of room")
    chart = _chart(canvas, places, labels, x_domain, y_domain)
    return canvas.finished(chart, title, notes, _described(places))


def _systems(rows: pl.DataFrame) -> pl.DataFrame:
    if "scope" in rows.columns:
        rows = rows.filter(pl.col("scope").cast(pl.String) == "trace")
    numbers = pl.col("steps_max", "agents_max").cast(pl.Float64)
    rows = rows.with_columns(pl.when((numbers > 0) & numbers.is_finite()).then(numbers))
    nulls = {name: pl.lit(None, pl.Float64) for name in _SPREAD}
    kind = pl.col("kind").cast(pl.String)
    rows = rows.filter(pl.any_horizontal(pl.col("steps_max", "agents_max").is_not_null()))
    return rows.select(
        name=pl.Series(shown_names(rows["system"].cast(pl.String).to_list(), 60), dtype=pl.String),
        kind=pl.when(kind.is_in(list(_KINDS))).then(kind).otherwise(pl.lit("other")),
        steps="steps_max",
        agents="agents_max",
        **nulls,
    )


_SPREAD: Final = ("steps_lower", "steps_upper", "agents_lower", "agents_upper")


def _recorded(corpora: Mapping[str, Corpus]) -> pl.DataFrame:
    rows: list[dict[str, Any]] = []
    for name, corpus in corpora.items():
        sizes = corpus.traces.select(steps="n_events", agents="n_agents").collect()
        sizes = sizes.filter(pl.col("steps") > 0, pl.col("agents") > 0)
        if sizes.is_empty():
            continue
        row: dict[str, Any] = {"name": f"{name} ({sizes.height:,})", "kind": "recorded"}
        for column in ("steps", "agents"):
            for word, q in (("", 0.5), ("_lower", 0.05), ("_upper", 0.95)):
                row[column + word] = sizes[column].quantile(q, "nearest")
        rows.append(row)
    numbers = {column: pl.Float64 for column in ("steps", "agents", *_SPREAD)}
    spreads = pl.DataFrame(rows, schema={"name": pl.String, "kind": pl.String, **numbers})
    return spreads.with_columns(name=pl.Series(shown_names(spreads["name"].to_list(), 40), dtype=pl.String))


def _domain(places: pl.DataFrame, axis: str) -> tuple[float, float]:
    """A logarithmic axis with room on both sides."""
    columns = [places[axis], places[f"{axis}_lower"], places[f"{axis}_upper"]]
    if all(column.null_count() == column.len() for column in columns):
        return 0.5, 20.0
    low, high = extent(*columns)
    room = max((high / low) ** 0.08, 1.6)
    return low / room, high * room


def _labels(
    both: pl.DataFrame, x_domain: tuple[float, float], y_domain: tuple[float, float]
) -> tuple[pl.DataFrame, int]:
    """``name x y align`` of the names that fit beside their points without touching another, and how many
    points have none."""
    taken: list[tuple[float, float, float, float]] = []
    spots = []
    for row in both.iter_rows(named=True):
        px = _WIDTH * _share(row["steps"], x_domain)
        py = _HEIGHT * (1 - _share(row["agents"], y_domain))
        spots.append((px, py, row))
        taken.append((px - 6, py - 6, px + 6, py + 6))
        for (low, high), flat in (
            ((row["steps_lower"], row["steps_upper"]), True),
            ((row["agents_lower"], row["agents_upper"]), False),
        ):
            if low is None or high is None:
                continue
            if flat:
                a, b = (_WIDTH * _share(end, x_domain) for end in (low, high))
                taken.append((a, py - 1, b, py + 1))
            else:
                a, b = (_HEIGHT * (1 - _share(end, y_domain)) for end in (high, low))
                taken.append((px - 1, a, px + 1, b))
    labels, unnamed = [], 0
    for px, py, row in spots:
        text = shortened(row["name"].partition(" (reported")[0], 34)
        width = text_width(text) * 0.95
        for dx, dy in (
            (10, 0),
            (-10 - width, 0),
            (-width / 2, -14),
            (-width / 2, 14),
            (8, -12),
            (8, 12),
            (-8 - width, -12),
            (-8 - width, 12),
        ):
            box = (px + dx, py + dy - 6, px + dx + width, py + dy + 6)
            inside = box[0] >= 2 and box[2] <= _WIDTH and box[1] >= 0 and box[3] <= _HEIGHT - 16
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                labels.append({"name": text, "px": px + dx, "py": py + dy})
                break
        else:
            unnamed += 1
    return pl.DataFrame(labels, schema={"name": pl.String, "px": pl.Float64, "py": pl.Float64}), unnamed


def _share(value: float, domain: tuple[float, float]) -> float:
    low, high = domain
    return float(pl.Series([value / low]).log()[0] / pl.Series([high / low]).log()[0])


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _chart(
    canvas: Canvas,
    places: pl.DataFrame,
    labels: pl.DataFrame,
    x_domain: tuple[float, float],
    y_domain: tuple[float, float],
) -> Any:
    alt = canvas.alt

    def x(name: str = "steps") -> Any:
        encoded = alt.X(f"{name}:Q", title="steps in a run").scale(type="log", domain=x_domain, nice=False)
        return encoded.axis(labelExpr=PLAINLY, values=log_ticks(*x_domain))

    def y(name: str = "agents") -> Any:
        encoded = alt.Y(f"{name}:Q", title="agents").scale(type="log", domain=y_domain, nice=False)
        return encoded.axis(labelExpr=PLAINLY, values=log_ticks(*y_domain))

    kinds = [kind for kind in (*_KINDS, "other") if kind in set(places["kind"])]
    color = alt.Color("kind:N", title=None, sort=kinds).scale(
        domain=kinds, range=[_KINDS.get(kind, GREY) for kind in kinds]
    )
    color = color.legend(orient="bottom", symbolType="circle", symbolOpacity=1)
    tooltip = ["name:N", "kind:N", "steps:Q", "agents:Q"]
    layers = []
    spread = places.drop_nulls(list(_SPREAD))
    if spread.height:
        bars = canvas.chart(spread).mark_rule(strokeWidth=1.6, opacity=0.7)
        layers.append(bars.encode(x=x("steps_lower"), x2="steps_upper:Q", y=y(), color=color))
        layers.append(bars.encode(x=x(), y=y("agents_lower"), y2="agents_upper:Q", color=color))
    both = places.drop_nulls(["steps", "agents"])
    for recorded, shape in ((False, "circle"), (True, "diamond")):
        points = both.filter((pl.col("kind") == "recorded") == recorded)
        if points.height:
            point = canvas.chart(points).mark_point(shape=shape, filled=True, size=70, opacity=0.9)
            layers.append(point.encode(x=x(), y=y(), color=color, tooltip=tooltip))
    alone = places.filter(pl.col("agents").is_null())
    if alone.height:
        tick = canvas.chart(alone).mark_tick(thickness=2, size=11, opacity=0.9)
        layers.append(tick.encode(x=x(), y=alt.value(_HEIGHT - _EDGE), color=color, tooltip=tooltip))
    alone = places.filter(pl.col("steps").is_null())
    if alone.height:
        tick = canvas.chart(alone).mark_tick(thickness=2, size=11, opacity=0.9, orient="horizontal")
        layers.append(tick.encode(x=alt.value(_EDGE), y=y(), color=color, tooltip=tooltip))
    if labels.height:
        text = canvas.chart(labels).mark_text(align="left", baseline="middle", fontSize=10, color=canvas.ink)
        at_x = alt.X("px:Q", axis=None).scale(domain=[0, _WIDTH], nice=False)
        at_y = alt.Y("py:Q", axis=None).scale(domain=[_HEIGHT, 0], nice=False)
        layers.append(text.encode(x=at_x, y=at_y, text="name:N"))
        plane = alt.layer(*layers[:-1])
        return (
            alt.layer(plane, layers[-1])
            .resolve_scale(x="independent", y="independent")
            .properties(width=_WIDTH, height=_HEIGHT)
        )
    return alt.layer(*layers).properties(width=_WIDTH, height=_HEIGHT)


def _described(places: pl.DataFrame) -> str:
    parts = []
    for kind in (*_KINDS, "other"):
        systems = places.filter(kind=kind)
        if systems.height:
            agents, steps = systems["agents"].max(), systems["steps"].max()
            most = [
                f"{number(value)} {noun}"
                for value, noun in ((agents, "agents"), (steps, "steps"))
                if isinstance(value, float)
            ]
            parts.append(f"{systems.height:,} {kind}, up to {' and '.join(most)}")
    return f"Sizes of runs: {'; '.join(parts)}."
