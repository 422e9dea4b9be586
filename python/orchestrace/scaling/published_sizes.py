"""Published sizes of systems, and the distance of recorded runs from them."""

import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from .. import _core
from ..base.arguments import Count
from ..base.arrays import Floats
from ..base.errors import InputError, ParameterError
from ..base.schema import CREDITS, unknown_name
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.frames import collected
from .axes import AXES, Axis, scale_of

_SCHEMA: Final[dict[str, Any]] = {
    "system": pl.String,
    "kind": pl.Enum(["academic", "industrial"]),
    "scope": pl.Enum(["trace", "project", "training"]),
    "agents_max": pl.Int64,
    "parallel_agents_max": pl.Int64,
    "tool_calls_max": pl.Int64,
    "steps_max": pl.Float64,
    "tokens_max": pl.Int64,
    "wall_clock": pl.String,
    "group_size": pl.Int64,
    "source": pl.String,
    "note": pl.String,
}
_SECONDS: Final = {"s": 1, "min": 60, "h": 3600, "day": 86_400, "week": 604_800}
_KEYS: Final = ("trace", "trace_id")


@verb
def list_envelopes() -> pl.DataFrame:
    """List the sizes of published systems, with sources; a blank value was not found.

    Returns
    -------
    DataFrame
        35 rows: ``system``; ``kind``, ``academic`` or ``industrial``; ``scope``, what the numbers are of: one
        ``trace``, a whole ``project``, or all of a ``training`` at once; ``agents_max``,
        ``parallel_agents_max``, ``tool_calls_max`` (Int64), ``steps_max`` (Float64, as one is a mean),
        ``tokens_max`` (Int64); ``wall_clock`` as published, and ``wall_clock_s`` (Float64, seconds) where it
        is a plain duration: "12 h+" is none; ``group_size`` (Int64, rollouts of one prompt); ``source``;
        ``note``, which says what a number counts: caps, means and lower bounds are among them.

    Examples
    --------
    >>> import orchestrace as ot
    >>> swarm = ot.scaling.list_envelopes().filter(system="Kimi K2.6 Agent Swarm (reported envelope)")
    >>> swarm.select("agents_max", "steps_max", "tokens_max").row(0)
    (300, 4000.0, None)
    """
    _core.check_process()
    return _packaged().clone()


@cache
def _packaged() -> pl.DataFrame:
    path = Path(__file__).with_name("published_sizes.csv")
    try:
        frame = pl.read_csv(path, schema=_SCHEMA)
    except OSError as error:
        raise InputError(f"the table of envelopes is missing: {os.fspath(path)}") from error
    seconds = [None if written is None else duration_seconds(written) for written in frame["wall_clock"]]
    return frame.with_columns(wall_clock_s=pl.Series(seconds, dtype=pl.Float64)).select(
        *list(_SCHEMA)[: list(_SCHEMA).index("group_size")], "wall_clock_s", "group_size", "source", "note"
    )


def duration_seconds(written: str) -> float | None:
    """A plain duration (``"13 h"``, ``"2 weeks"``) in seconds; None for anything else.

    Examples
    --------
    >>> from orchestrace.scaling.published_sizes import duration_seconds
    >>> duration_seconds("13 h"), duration_seconds("2 weeks"), duration_seconds("12 h+")
    (46800.0, 1209600.0, None)
    """
    number, _, unit = written.partition(" ")
    if not number.replace(".", "", 1).isdecimal():
        return None
    size = _SECONDS.get(unit) or _SECONDS.get(unit.removesuffix("s"))
    return None if size is None else float(number) * size


@verb
def distance_to_published(
    data: Corpus | pl.DataFrame | pl.LazyFrame,
    *,
    by: Literal["trace", "axis"] = "trace",
    against: str | None = None,
    published: pl.DataFrame | None = None,
    axes: Sequence[str] | None = None,
    min_axes: Count | None = None,
) -> pl.DataFrame:
    """Locate runs on logarithmic axes of scale, and measure how far they are from published systems.

    Parameters
    ----------
    data
        A corpus, or a frame with a row per trace and any of the columns ``n_agents``, ``peak_concurrency``,
        ``n_steps`` (else ``total_steps``, ``n_events``), ``n_tool_calls``, ``depth`` (else ``agent_depth``),
        ``tokens``, ``wall_clock_s`` and ``group_size``; numbers of 0 or more, null where not known.
        Of a corpus, ``tokens`` fall back to the recorded cost, and ``wall_clock_s`` is taken from events
        where times are in seconds, else from the recorded cost. In a table of `metrics`, ``tokens`` are of
        events alone, ``wall_clock_s`` is the recorded cost alone, and there is no ``group_size``.
    by
        ``"trace"`` gives a row per trace, ``"axis"`` sums them up in a row per axis.
    against
        An envelope to compare with: its `system`, or a part of the name that only it has.
    published
        The envelopes to compare with, in columns of `list_envelopes`: ``system`` and any of the others. None
        takes those of `list_envelopes`. Where there is a column ``scope`` only rows of scope ``trace`` are
        looked at for the nearest and the largest one; `against` may name any.
    axes
        Names of the axes that the distance goes over; None takes all.
    min_axes
        How many axes a trace and an envelope must both have for a distance; None is 2, or 1 where `axes`
        names one. One axis in common makes many envelopes near by accident.

    Returns
    -------
    DataFrame
        Per trace, in the order of `data`: ``trace``, ``trace_id`` where it has them; for every axis
        ``log10_<axis>`` (Float64; of depth + 1, so that no spawns are at 0), null where the value is null or
        0; for every axis ``percentile_<axis>`` (0 to 100, among the traces that have the axis; equal values
        share the middle); ``nearest``, the envelope with the least ``distance`` (Float64: mean of the
        absolute differences over the common axes, in decades; a tie goes to more axes, then to the first
        row), ``nearest_kind``, ``axes_used`` (UInt32); ``reason`` where there is none: ``field.absent``, the
        trace has none of the axes, or ``support.absent``, no envelope shares `min_axes` with it. With
        `against` for every axis ``log10_ratio_<axis>``, trace over envelope: -1 is a tenth of it.

        Per axis: ``axis``, ``unit``, ``column`` it was taken from, ``traces`` and ``absent`` (UInt32),
        ``min``, ``median``, ``p90``, ``max`` (Float64), ``published_max`` and ``published_by``, the largest
        envelope of one trace, ``log10_gap`` (decades from the largest trace up to it; below 0 where traces
        are larger); with `against` its value ``against`` and ``log10_ratio_median``, ``log10_ratio_max``.

    Raises
    ------
    ParameterError
        No such envelope or axis, or several such envelopes; no column of an axis, or one with negative,
        infinite or undefined numbers; an option that is out of range.

    Notes
    -----
    O(traces times envelopes). Sizes span five decades, hence logarithms. Published numbers are mostly
    maxima or caps, sometimes means (``note``): a distance says which published regime a run resembles, not
    whether it would reach one. Axes and distance are defined by this project, for the gap that arXiv
    2605.02801, tables 7 to 9, describes.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> runs = pl.DataFrame({"trace": [0, 1], "n_agents": [3, 30], "n_steps": [40, 400]})
    >>> near = ot.scaling.distance_to_published(runs, against="K2.6 Agent Swarm")
    >>> near.select("nearest_kind", "axes_used", "log10_ratio_n_agents", "log10_ratio_n_steps").rows()
    [('academic', 2, -2.0, -2.0), ('industrial', 2, -1.0, -1.0)]
    """
    over = _axes(axes)
    min_axes = min(2, len(over)) if min_axes is None else min_axes
    if not 1 <= min_axes <= len(over):
        raise ParameterError(f"min_axes is {min_axes}, expected 1 to {len(over)}")
    table = _published(list_envelopes() if published is None else published)
    other = None if against is None else _named(table, against)
    runs, taken = _scales(data)
    values = runs.select(axis.name for axis in AXES)
    envelopes = table.filter(pl.col("scope") == "trace")
    if by == "axis":
        return _summary(values, taken, envelopes, other)
    logs = np.log10(_sizes(values))
    frame = _frame(logs)
    percentile = (pl.all().rank("average") - 0.5) / pl.all().count() * 100
    columns = [
        runs.select(name for name in _KEYS if name in runs.columns),
        frame.rename(lambda name: f"log10_{name}"),
        frame.select(percentile).rename(lambda name: f"percentile_{name}"),
        _nearest(logs[:, over], np.log10(_sizes(envelopes))[:, over], envelopes, min_axes),
    ]
    if other is not None:
        ratio = _frame(_decades(_sizes(values), _sizes(other)))
        columns.append(ratio.rename(lambda name: f"log10_ratio_{name}"))
    return pl.concat([column for column in columns if column.width], how="horizontal")


def _sizes(frame: pl.DataFrame) -> Floats:
    """Values as the axes count them, of shape (rows, axes); NaN where one is null or 0."""
    shifted = frame.select(pl.col(axis.name) + axis.offset for axis in AXES).to_numpy().astype(float)
    return np.where(shifted > 0, shifted, np.nan).reshape(frame.height, len(AXES))


def _decades(upper: Floats, lower: Floats) -> Floats:
    """log10(upper / lower), of the quotient as long as that is a normal float: a tenth is -1 to the bit."""
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        quotient = upper / lower
        exact = (quotient >= np.finfo(float).tiny) & np.isfinite(quotient)
        decades: Floats = np.where(exact, np.log10(quotient), np.log10(upper) - np.log10(lower))
    return decades


def _frame(sizes: Floats) -> pl.DataFrame:
    return pl.DataFrame({axis.name: sizes[:, place] for place, axis in enumerate(AXES)}).fill_nan(None)


def _axes(axes: object) -> list[int]:
    """Places of axes in `AXES`."""
    names = [axis.name for axis in AXES]
    if axes is None:
        return list(range(len(names)))
    if isinstance(axes, str) or not isinstance(axes, Sequence) or not axes:
        raise ParameterError(f"axes is {axes!r}, expected a list of names of axes")
    for name in axes:
        if name not in names:
            raise ParameterError(unknown_name("axis", str(name), names))
    return [place for place, name in enumerate(names) if name in axes]


def _scales(data: Corpus | pl.DataFrame | pl.LazyFrame) -> tuple[pl.DataFrame, dict[str, str]]:
    """Keys and axes (Float64, null where absent), and the column that each axis was taken from."""
    frame = scale_of(data) if isinstance(data, Corpus) else collected(data, "data", ())
    taken = {}
    for axis in AXES:
        for name in axis.columns:
            if name in frame.columns:
                taken[axis.name] = name
                break
    if not taken:
        expected = ", ".join(name for axis in AXES for name in axis.columns)
        raise ParameterError(f"data has no axis of scale (expected some of: {expected})")
    for name in taken.values():
        _check_sizes(frame[name], f"data.{name}")
    keys = [name for name in _KEYS if name in frame.columns]
    return frame.select(
        *keys,
        *(
            (pl.col(taken[axis.name]) if axis.name in taken else pl.lit(None))
            .cast(pl.Float64)
            .alias(axis.name)
            for axis in AXES
        ),
    ), taken


def _check_sizes(column: pl.Series, place: str) -> None:
    if column.null_count() == column.len():
        return
    if not column.dtype.is_numeric():
        raise ParameterError(f"{place} has type {column.dtype}, expected numbers")
    numbers = column.cast(pl.Float64)
    wrong = numbers.filter(numbers.is_nan() | numbers.is_infinite() | (numbers < 0))
    if wrong.len():
        raise ParameterError(f"{place} has the value {wrong[0]}, expected numbers of 0 or more")


def _published(table: pl.DataFrame) -> pl.DataFrame:
    """Envelopes by axis: ``system kind scope`` and a Float64 column per axis."""
    if "system" not in table.columns:
        raise ParameterError(f"published has no column 'system' (found: {', '.join(table.columns)})")
    present = [axis.envelope for axis in AXES if axis.envelope in table.columns]
    if not present:
        expected = ", ".join(axis.envelope for axis in AXES if axis.envelope)
        raise ParameterError(f"published has no axis of scale (expected some of: {expected})")
    for name in present:
        _check_sizes(table[name], f"published.{name}")
    return table.select(
        pl.col("system").cast(pl.String),
        (pl.col("kind") if "kind" in table.columns else pl.lit(None)).cast(pl.String).alias("kind"),
        (pl.col("scope") if "scope" in table.columns else pl.lit("trace")).cast(pl.String).alias("scope"),
        *(
            (pl.col(axis.envelope) if axis.envelope in present else pl.lit(None))
            .cast(pl.Float64)
            .alias(axis.name)
            for axis in AXES
        ),
    )


def _named(table: pl.DataFrame, against: str) -> pl.DataFrame:
    if not against:
        raise ParameterError(f"against is {against!r}, expected the name of an envelope")
    names = table["system"].drop_nulls().to_list()
    matches = [name for name in names if name == against] or [
        name for name in names if against.casefold() in name.casefold()
    ]
    if not matches:
        nearest = _core.nearest(against, names)
        hint = f"; did you mean '{nearest}'?" if nearest else ""
        raise ParameterError(f"unknown envelope '{against}'{hint} ({len(names)} are known: see envelopes())")
    if len(matches) > 1:
        raise ParameterError(f"envelope '{against}' may be several: {'; '.join(matches)}")
    return table.filter(pl.col("system") == matches[0])


def _nearest(points: Floats, sizes: Floats, envelopes: pl.DataFrame, min_axes: int) -> pl.DataFrame:
    """``nearest nearest_kind distance axes_used reason`` of every point; `sizes` are of `envelopes`."""
    distance = np.full(len(points), np.inf)
    used = np.zeros(len(points), np.uint32)
    which = np.full(len(points), -1, np.int64)
    # one envelope at a time: memory stays that of the traces
    for row, envelope in enumerate(sizes):
        apart = np.abs(points - envelope)
        common = np.isfinite(apart)
        count = common.sum(axis=1)
        # added up axis by axis, so that sums do not depend on how many traces there are
        total = np.zeros(len(points))
        for axis in range(points.shape[1]):
            total += np.where(common[:, axis], apart[:, axis], 0.0)
        mean = np.where(count >= min_axes, total / np.maximum(count, 1), np.inf)
        nearer = (mean < distance) | ((mean == distance) & np.isfinite(mean) & (count > used))
        distance, used, which = (
            np.where(nearer, mean, distance),
            np.where(nearer, count, used).astype(np.uint32),
            np.where(nearer, row, which),
        )
    nearest = pl.Series("which", which)
    names = envelopes.with_row_index("which").select(pl.col("which").cast(pl.Int64), "system", "kind")
    has_axis = pl.Series("has", np.isfinite(points).any(axis=1))
    return (
        pl.DataFrame({"which": nearest, "distance": distance, "axes_used": used, "has": has_axis})
        .join(names, on="which", how="left", maintain_order="left")
        .select(
            nearest="system",
            nearest_kind="kind",
            distance=pl.when(pl.col("which") >= 0).then("distance"),
            axes_used=pl.when(pl.col("which") >= 0).then("axes_used"),
            reason=pl.when(~pl.col("has"))
            .then(pl.lit("field.absent"))
            .when(pl.col("which") < 0)
            .then(pl.lit("support.absent"))
            .cast(CREDITS["reason"]),
        )
    )


def _summary(
    values: pl.DataFrame, taken: dict[str, str], envelopes: pl.DataFrame, other: pl.DataFrame | None
) -> pl.DataFrame:
    rows = []
    for axis in AXES:
        # a size of 0 has no place on a logarithmic axis
        sizes = values[axis.name].filter(values[axis.name] + axis.offset > 0)
        largest = envelopes.sort(axis.name, descending=True, nulls_last=True, maintain_order=True).head(1)
        row: dict[str, Any] = {
            "axis": axis.name,
            "unit": axis.unit,
            "column": taken.get(axis.name),
            "traces": sizes.len(),
            "absent": values.height - sizes.len(),
            "min": sizes.min(),
            "median": sizes.median(),
            "p90": sizes.quantile(0.9, "linear"),
            "max": sizes.max(),
        }
        top = None if largest.is_empty() else largest[axis.name][0]
        row |= {
            "published_max": top,
            "published_by": None if top is None else largest["system"][0],
            "log10_gap": _ratio(axis, top, row["max"]),
        }
        if other is not None:
            size = other[axis.name][0]
            row |= {
                "against": size,
                "log10_ratio_median": _ratio(axis, row["median"], size),
                "log10_ratio_max": _ratio(axis, row["max"], size),
            }
        rows.append(row)
    words = dict.fromkeys(("axis", "unit", "column", "published_by"), pl.String)
    counts = dict.fromkeys(("traces", "absent"), pl.UInt32)
    schema: dict[str, Any] = {name: {**words, **counts}.get(name, pl.Float64) for name in rows[0]}
    return pl.DataFrame(rows, schema=schema)


def _ratio(axis: Axis, upper: float | None, lower: float | None) -> float | None:
    if upper is None or lower is None or upper + axis.offset <= 0 or lower + axis.offset <= 0:
        return None
    sizes = np.array([[upper + axis.offset], [lower + axis.offset]])
    return float(_decades(sizes[0], sizes[1])[0])
