"""The tables and sentences of a report, computed from the tables of a study."""

import math
from typing import Any, Final, NamedTuple

import polars as pl

from .config import FEWEST_TASKS, Size
from .measure import OK, TOO_SLOW

FINDS: Final = "finds"
NOTHING: Final = "nothing"
FEW: Final = "few"
SLOW: Final = "slow"
NONE: Final = "none"


class Verdict(NamedTuple):
    """A method at a size, over all presets."""

    kind: str
    """``finds``: the interval of its correlation is above 0 in most presets; ``nothing``: in fewer; ``few``:
    every preset that has a value has it from fewer than five tasks, so that nothing is concluded; ``slow``;
    ``none``: not defined or refused."""
    rho: float | None
    """Median of rho, else of the pooled correlation, over the presets that have it from enough tasks; of kind
    ``few`` over all that have it."""
    pooled: bool
    """Whether it is the pooled one, since the method ranks nothing inside a trace."""
    seconds: float | None
    """Median over presets of seconds for a trace, measured or extrapolated."""
    measured: bool
    """Whether those seconds are measured."""
    finds: int
    presets: int
    at_least: bool = False
    """Whether those seconds are a lower bound, since calls were stopped."""
    lower: float | None = None
    upper: float | None = None
    """Medians of the ends of the intervals that the values of `rho` have."""
    tasks: int | None = None
    """The most tasks that one of these values rests on."""


def averaged(table: pl.DataFrame) -> pl.DataFrame:
    """Replicates of a cell as one row: means of numbers and of the ends of their intervals; the status that
    most have."""
    key = ["kind", "preset", "events", "agents", "method", "unit"]
    numeric = [name for name, kind in table.schema.items() if kind.is_float() and name not in key]
    return table.group_by(key, maintain_order=True).agg(
        pl.col(numeric).mean(),
        pl.col("status", "reason").mode().sort().first(),
        pl.col("n_traces", "rho_n_tasks", "pooled_n_tasks", "peak_bytes").max(),
        pl.col("lower_bound").any(),
    )


def correlations(table: pl.DataFrame) -> pl.DataFrame:
    """Rows with ``value value_lower value_upper n_tasks few pooled_used``: the rank correlation inside
    traces; of methods that rank nothing there (one number for a whole trace) the pooled one."""
    pooled = pl.col("rho").is_null() & pl.col("pooled").is_not_null()

    def either(of_rho: str, of_pooled: str) -> pl.Expr:
        return pl.when(pooled).then(of_pooled).otherwise(of_rho)

    n_tasks = either("rho_n_tasks", "pooled_n_tasks")
    return table.with_columns(
        value=either("rho", "pooled"),
        value_lower=either("rho_lower", "pooled_lower"),
        value_upper=either("rho_upper", "pooled_upper"),
        n_tasks=n_tasks,
        few=are_few(n_tasks),
        pooled_used=pooled,
    )


def are_few(n_tasks: pl.Expr) -> pl.Expr:
    """Whether a value rests on fewer than five tasks; one that does not say on how many is not trusted."""
    return (n_tasks < FEWEST_TASKS).fill_null(True)


def verdict(rows: pl.DataFrame) -> Verdict:
    """The verdict on one method at one unit and size; `rows` are its presets."""
    presets = rows.height
    each = rows["seconds"] / rows["n_traces"]
    measured = not each.drop_nulls().is_empty()
    if not measured:
        each = rows["cost_s_extrapolated"] / rows["traces"]
    cost = _median(each)
    bounds = rows.filter(pl.col("cost_s_extrapolated").is_not_null())["lower_bound"]
    at_least = not measured and bounds.any()
    slow = rows.filter(status=TOO_SLOW).height
    valued = correlations(rows.filter(status=OK)).drop_nulls("value")
    enough = valued.filter(~pl.col("few"))
    if valued.is_empty():
        return Verdict(SLOW if slow else NONE, None, False, cost, measured, 0, presets, at_least)
    shown = valued if enough.is_empty() else enough
    finds = enough.filter(pl.col("value_lower") > 0).height
    kind = FEW if enough.is_empty() else FINDS if finds * 2 > presets else NOTHING
    most = shown["n_tasks"].max()
    return Verdict(
        SLOW if slow * 2 > presets else kind,
        _median(shown["value"]),
        bool(shown["pooled_used"].any()),
        cost,
        measured,
        finds,
        presets,
        at_least,
        _median(shown["value_lower"]),
        _median(shown["value_upper"]),
        most if isinstance(most, int) else None,
    )


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
    for (method, unit), part in joined.group_by("method", "unit", maintain_order=True):
        at = [part.filter(events=size.events, agents=size.agents) for size in sizes]
        verdicts = [
            verdict(cell) if cell.height else Verdict(NONE, None, False, None, False, 0, 0) for cell in at
        ]
        rows.append((str(method), str(unit), verdicts))
    rank = {FINDS: 0, NOTHING: 1, FEW: 1, SLOW: 2, NONE: 3}

    def order(row: tuple[str, str, list[Verdict]]) -> tuple[Any, ...]:
        largest = list(reversed(row[2]))
        settled = [verdict for verdict in largest if verdict.rho is not None and verdict.kind != FEW]
        # What rests on few tasks puts no method before another one.
        kind = settled[0].kind if settled and largest[0].kind == FEW else largest[0].kind
        values = [verdict.rho for verdict in settled if verdict.rho is not None and not verdict.pooled]
        return row[1], rank[kind], -(values[0] if values else -1.0), row[0]

    return sorted(rows, key=order)


def rungs(sizes: tuple[Size, ...], envelopes: pl.DataFrame) -> tuple[Size, Size] | None:
    """The sizes nearest to the longest published academic and industrial run, by their steps, of those that
    have enough tasks; None if none has."""
    ordered = sorted((size for size in sizes if size.tasks >= FEWEST_TASKS), key=lambda size: size.events)
    if not ordered:
        return None

    def nearest(kind: str, default: Size) -> Size:
        steps = _most(envelopes, kind, "steps_max")
        if not steps:
            return default
        return min(ordered, key=lambda size: abs(math.log(size.events / steps)))

    return nearest("academic", ordered[0]), nearest("industrial", ordered[-1])


def marked_sentence(sizes: tuple[Size, ...]) -> str:
    """Which sizes have too few tasks for conclusions, and what the report does about that; empty if none."""
    few = [size for size in sizes if size.tasks < FEWEST_TASKS]
    if not few:
        return ""
    listed = ", ".join(f"{size.events:,} steps ({_tasks(size)})" for size in few)
    return (
        f"Values from fewer than {FEWEST_TASKS} tasks are shown with their intervals and marked: hollow"
        " points in figures, † in tables. No conclusion rests on them. That concerns everything at"
        f" {listed}."
    )


def _tasks(size: Size) -> str:
    runs = f"{size.traces:,} runs in groups of {size.group_size:,}"
    return f"{size.tasks} task{'s' if size.tasks > 1 else ''}: {runs}"


def _most(envelopes: pl.DataFrame, kind: str, column: str) -> float | None:
    of_kind = envelopes.filter(pl.col("kind") == kind)
    if "scope" in of_kind.columns:
        of_kind = of_kind.filter(pl.col("scope") == "trace")
    most = of_kind[column].cast(pl.Float64).max()
    return float(most) if isinstance(most, float) else None


def gap_sentences(
    table: pl.DataFrame, schedules: pl.DataFrame, sizes: tuple[Size, ...], envelopes: pl.DataFrame
) -> list[str]:
    """The gap in numbers: what is published, what credit finds, rollouts, schedules; a sentence each."""
    means = averaged(table)
    sentences = _published(envelopes)
    marked = [sentence for sentence in [marked_sentence(sizes)] if sentence]
    ends = rungs(sizes, envelopes)
    if ends is None or ends[0] == ends[1]:
        return sentences + marked
    small, large = ends
    sentences.append(
        f"On this ladder, whose contributions are planted, that is from {small.events:,} steps and"
        f" {small.agents:,} agents to {large.events:,} and {large.agents:,}."
    )
    sentences += [sentence for unit in ("event", "agent") for sentence in _ranks(means, small, large, unit)]
    sentences += _rollouts(means, small, large)
    return sentences + _speedups(schedules, small, large) + marked


def _published(envelopes: pl.DataFrame) -> list[str]:
    parts = []
    for column, word in (("agents_max", "agents"), ("steps_max", "steps")):
        least, most = (_most(envelopes, kind, column) for kind in ("academic", "industrial"))
        if least and most:
            parts.append(f"{least:,.0f} against {most:,.0f} {word} ({math.log10(most / least):.1f} decades)")
    if not parts:
        return []
    return [f"The largest published academic and industrial runs have {' and '.join(parts)}."]


def _ranks(means: pl.DataFrame, small: Size, large: Size, unit: str) -> list[str]:
    """How correlations of the methods that rank units fall, and how many still find something."""
    ends = []
    for size in (small, large):
        ranked = means.filter(events=size.events, agents=size.agents, unit=unit, status=OK)
        ranked = correlations(ranked).drop_nulls("value").filter(~pl.col("pooled_used") & ~pl.col("few"))
        finds = (pl.col("value_lower") > 0).mean() > 0.5
        ends.append(ranked.group_by("method").agg(value=pl.col("value").median(), finds=finds))
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


def _rollouts(means: pl.DataFrame, small: Size, large: Size) -> list[str]:
    """What credit that is one number for a whole run needs to show the effect of one event."""
    shown = means.filter(unit="event", status=OK).filter(pl.col("pooled_lower") > 0)
    shown = shown.filter(~are_few(pl.col("pooled_n_tasks")))
    for name in ("broadcast", "rloo", "grpo"):
        few, many = (
            _median(shown.filter(method=name, events=size.events, agents=size.agents)["rollouts"])
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
        speedups = schedules.filter(events=size.events, agents=size.agents)
        speedups = speedups.group_by("k").agg(pl.col("speedup").mean()).sort("k").drop_nulls()
        if speedups.is_empty():
            return []
        best = float(speedups["speedup"].to_numpy().max())
        enough = speedups.filter(pl.col("speedup") >= 0.9 * best)["k"][0]
        parts.append(f"{best:.1f} (nine tenths of it with {enough} slots)")
    return [f"The best mean speed-up of a schedule goes from {parts[0]} to {parts[1]}."]
