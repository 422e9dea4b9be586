"""What a report says in tables and words, computed from the tables of a study."""

import math
from typing import Any, Final, NamedTuple

import polars as pl

from .config import Size
from .measure import OK, TOO_SLOW

FEWEST_TASKS: Final = 5
"""Fewer tasks with a value are not shown: their intervals span most of what a correlation can be."""

FINDS: Final = "finds"
NOTHING: Final = "nothing"
SLOW: Final = "slow"
NONE: Final = "none"


class Verdict(NamedTuple):
    """A method at a size, over all presets."""

    kind: str
    """``finds``: the interval of its correlation is above 0 in most presets; ``nothing``: in fewer; ``slow``;
    ``none``: not defined or refused."""
    rho: float | None
    """Median over presets of rho, else of the pooled correlation."""
    pooled: bool
    """Whether it is the pooled one, since the method ranks nothing inside a trace."""
    seconds: float | None
    """Median over presets of seconds for a trace, measured or extrapolated."""
    measured: bool
    """Whether those seconds are measured."""
    found: int
    presets: int
    at_least: bool = False
    """Whether those seconds are a lower bound: calls were stopped, and nobody knows when they had ended."""


def averaged(table: pl.DataFrame) -> pl.DataFrame:
    """Replicates of a cell as one row: means of numbers and of the ends of their intervals; the status that
    most have."""
    key = ["kind", "preset", "events", "agents", "method", "unit"]
    numeric = [name for name, kind in table.schema.items() if kind.is_float() and name not in key]
    return table.group_by(key, maintain_order=True).agg(
        pl.col(numeric).mean(),
        pl.col("status", "reason").mode().sort().first(),
        pl.col("n_traces", "rho_n_tasks", "peak_bytes").max(),
        pl.col("lower_bound").any(),
    )


def correlations(table: pl.DataFrame) -> pl.DataFrame:
    """Rows with ``value value_low value_high pooled_used``: the rank correlation inside traces; of methods
    that rank nothing there (one number for a whole trace) the pooled one."""
    told = (pl.col("rho_n_tasks") >= FEWEST_TASKS) & pl.col("rho").is_not_null()
    one_number = pl.col("rho").is_null() & pl.col("pooled").is_not_null()
    return table.with_columns(
        value=pl.when(told).then("rho").when(one_number).then("pooled"),
        value_low=pl.when(told).then("rho_low").when(one_number).then("pooled_low"),
        value_high=pl.when(told).then("rho_high").when(one_number).then("pooled_high"),
        pooled_used=~told & one_number,
    )


def verdict(rows: pl.DataFrame) -> Verdict:
    """What is said of one method, unit and size; `rows` are its presets."""
    presets = rows.height
    each = rows["seconds"] / rows["n_traces"]
    measured = not each.drop_nulls().is_empty()
    if not measured:
        each = rows["cost_s_extrapolated"] / rows["traces"]
    cost = _median(each)
    bounds = rows.filter(pl.col("cost_s_extrapolated").is_not_null())["lower_bound"]
    at_least = not measured and bounds.any()
    slow = rows.filter(status=TOO_SLOW).height
    done = rows.filter(status=OK)
    known = correlations(done).drop_nulls("value")
    if known.is_empty():
        return Verdict(SLOW if slow else NONE, None, False, cost, measured, 0, presets, at_least)
    found = known.filter(pl.col("value_low") > 0).height
    kind = SLOW if slow * 2 > presets else FINDS if found * 2 > presets else NOTHING
    pooled = bool(known["pooled_used"].any())
    return Verdict(kind, _median(known["value"]), pooled, cost, measured, found, presets, at_least)


def _median(values: pl.Series) -> float | None:
    middle = values.drop_nulls().median()
    return float(middle) if isinstance(middle, float) else None


def method_table(table: pl.DataFrame, sizes: tuple[Size, ...]) -> list[tuple[str, str, list[Verdict]]]:
    """``method unit`` and a verdict for each size, the best at the largest sizes first within a unit."""
    traces = pl.DataFrame(
        {
            "events": [size.events for size in sizes],
            "agents": [size.agents for size in sizes],
            "traces": [size.traces for size in sizes],
        },
        schema={"events": pl.UInt32, "agents": pl.UInt32, "traces": pl.UInt32},
    )
    joined = averaged(table).join(traces, on=["events", "agents"], how="left", maintain_order="left")
    rows = []
    for (method, unit), own in joined.group_by("method", "unit", maintain_order=True):
        at = [own.filter(events=size.events, agents=size.agents) for size in sizes]
        found = [verdict(one) if one.height else Verdict(NONE, None, False, None, False, 0, 0) for one in at]
        rows.append((str(method), str(unit), found))
    rank = {FINDS: 0, NOTHING: 1, SLOW: 2, NONE: 3}

    def order(row: tuple[str, str, list[Verdict]]) -> tuple[Any, ...]:
        largest = list(reversed(row[2]))
        values = [one.rho for one in largest if one.rho is not None and not one.pooled]
        return row[1], rank[largest[0].kind], -(values[0] if values else -1.0), row[0]

    return sorted(rows, key=order)


def rungs(sizes: tuple[Size, ...], envelopes: pl.DataFrame) -> tuple[Size, Size]:
    """The sizes nearest to the longest published academic and industrial run, by their steps."""
    ordered = sorted(sizes, key=lambda size: size.events)

    def nearest(kind: str, default: Size) -> Size:
        steps = _most(envelopes, kind, "steps_max")
        if not steps:
            return default
        return min(ordered, key=lambda size: abs(math.log(size.events / steps)))

    return nearest("academic", ordered[0]), nearest("industrial", ordered[-1])


def _most(envelopes: pl.DataFrame, kind: str, column: str) -> float | None:
    own = envelopes.filter(pl.col("kind") == kind)
    if "scope" in own.columns:
        own = own.filter(pl.col("scope") == "trace")
    most = own[column].cast(pl.Float64).max()
    return float(most) if isinstance(most, float) else None


def gap_sentences(
    table: pl.DataFrame, schedules: pl.DataFrame, sizes: tuple[Size, ...], envelopes: pl.DataFrame
) -> list[str]:
    """The gap in numbers: what is published, what credit finds, rollouts, schedules; a sentence each."""
    small, large = rungs(sizes, envelopes)
    told = averaged(table)
    sentences = _published(envelopes)
    if small == large:
        return sentences
    sentences.append(
        f"On this ladder, whose contributions are planted, that is from {small.events:,} steps and"
        f" {small.agents:,} agents to {large.events:,} and {large.agents:,}."
    )
    sentences += [one for unit in ("event", "agent") for one in _ranks(told, small, large, unit)]
    sentences += _rollouts(told, small, large)
    return sentences + _speedups(schedules, small, large)


def _published(envelopes: pl.DataFrame) -> list[str]:
    parts = []
    for column, word in (("agents_max", "agents"), ("steps_max", "steps")):
        low, high = (_most(envelopes, kind, column) for kind in ("academic", "industrial"))
        if low and high:
            parts.append(f"{low:,.0f} against {high:,.0f} {word} ({math.log10(high / low):.1f} decades)")
    if not parts:
        return []
    return [f"The largest published academic and industrial runs have {' and '.join(parts)}."]


def _ranks(told: pl.DataFrame, small: Size, large: Size, unit: str) -> list[str]:
    """How correlations of the methods that rank units fall, and how many still find something."""
    ends = []
    for size in (small, large):
        own = told.filter(events=size.events, agents=size.agents, unit=unit, status=OK)
        own = correlations(own).drop_nulls("value").filter(~pl.col("pooled_used"))
        finds = (pl.col("value_low") > 0).mean() > 0.5
        ends.append(own.group_by("method").agg(value=pl.col("value").median(), finds=finds))
    both = ends[0].join(ends[1], on="method", suffix="_large")
    if both.is_empty():
        return []
    few, many = int(both["finds"].sum()), int(both["finds_large"].sum())
    best = both.sort(["value_large", "method"], descending=[True, False]).head(3)
    named = ", ".join(
        f"`{name}` {large:.2f} (from {small:.2f})"
        for name, small, large in best.select("method", "value", "value_large").iter_rows()
    )
    return [
        f"Of {both.height} methods that rank the {unit}s of a run, {few} find something (interval above 0 in"
        f" most worlds) at the small end and {many} at the large one, where the largest median rank"
        f" correlations are {named}."
    ]


def _rollouts(told: pl.DataFrame, small: Size, large: Size) -> list[str]:
    """What credit that is one number for a whole run needs to show the effect of one event."""
    known = told.filter(unit="event", status=OK).filter(pl.col("pooled_low") > 0)
    for name in ("broadcast", "rloo", "grpo"):
        few, many = (
            _median(known.filter(method=name, events=size.events, agents=size.agents)["rollouts"])
            for size in (small, large)
        )
        if few is not None and many is not None:
            return [
                f"With one number for a whole run (`{name}`) the effect of one event shows in about"
                f" {few:,.0f} rollouts at the small end and {many:,.0f} at the large one (5 %, power 80 %)."
            ]
    return []


def _speedups(schedules: pl.DataFrame, small: Size, large: Size) -> list[str]:
    """How much slots speed up, and how many of them pay."""
    parts = []
    for size in (small, large):
        own = schedules.filter(events=size.events, agents=size.agents)
        own = own.group_by("k").agg(pl.col("speedup").mean()).sort("k").drop_nulls()
        if own.is_empty():
            return []
        best = float(own["speedup"].to_numpy().max())
        enough = own.filter(pl.col("speedup") >= 0.9 * best)["k"][0]
        parts.append(f"{best:.1f} (nine tenths of it with {enough} slots)")
    return [f"The best mean speed-up of a schedule goes from {parts[0]} to {parts[1]}."]
