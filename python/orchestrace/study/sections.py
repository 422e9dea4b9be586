"""The sections of a report, in order."""

import os
from collections.abc import Callable, Sequence
from typing import Any, Final

import polars as pl

from ..base.text import plain
from . import figures
from .config import FEWEST_TASKS, Size, StudyConfig
from .envelope_map import envelope_map, placed
from .page import Cell, Figure, Grid, Section
from .sheet import COLORS, Looks, looks
from .summary import FEW, FINDS, NONE, NOTHING, SLOW, Verdict, are_few, gap_sentences, method_table

_PNG_SCALE: Final = 2.5
_ONE_NUMBER: Final = ("broadcast", "grpo", "rloo")


class Drawn:
    """Figures as they are made, with their files."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[str, bytes]] = {}

    def add(self, name: str, spec: dict[str, Any] | None, caption: str) -> list[Figure]:
        """The figure, or nothing where there is nothing to draw."""
        import vl_convert

        if spec is None:
            return []
        svg = vl_convert.vegalite_to_svg(spec)
        self.files[name] = svg, vl_convert.svg_to_png(svg, scale=_PNG_SCALE)
        return [Figure(name, svg, f"Figure {len(self.files)}. {caption}")]


def sections_of(
    config: StudyConfig,
    frames: dict[str, pl.DataFrame],
    envelopes: pl.DataFrame,
    corpora: pl.DataFrame,
    downscaled: pl.DataFrame | None,
    drawn: Drawn,
) -> list[Section]:
    """All sections; figures are drawn on the way."""
    table = frames["cells"].join(
        frames["costs"],
        on=["kind", "preset", "events", "agents", "replicate", "method", "unit"],
        how="left",
        maintain_order="left",
    )
    gap = " ".join(gap_sentences(table, frames["schedules"], config.sizes, envelopes))
    shown = _looks(table, config, downscaled)
    sections = [
        Section("The gap in numbers", [gap]),
        _map(config.sizes, envelopes, corpora, drawn),
        _ladder(table, config, shown, drawn),
        _methods(table, config.sizes),
        _costs(table, config.sizes, shown, drawn),
    ]
    if frames["schedules"].height:
        sections.append(_schedules(frames["schedules"], drawn))
    if frames["rewards"].height:
        sections.append(_rewards(frames["rewards"], config))
    if frames["stops"].height:
        sections.append(_stops(frames["stops"], config))
    if downscaled is not None:
        sections.append(_trend(downscaled, shown, drawn))
    sections.append(_how(config))
    return sections


def _looks(table: pl.DataFrame, config: StudyConfig, downscaled: pl.DataFrame | None) -> Looks:
    """The one look of each method in all figures: those that figures name first have their own colors."""
    ranked = [figures.featured(table, unit) for unit in config.units]
    longest = max(map(len, ranked), default=0)
    first = [names[place] for place in range(longest) for names in ranked if place < len(names)]
    methods = [run.label for run in config.methods]
    if downscaled is not None:
        methods += downscaled["method"].unique().sort().to_list()
    return looks(methods, first)


def _map(sizes: tuple[Size, ...], envelopes: pl.DataFrame, corpora: pl.DataFrame, drawn: Drawn) -> Section:
    systems = placed(envelopes)
    both = systems.drop_nulls(["agents", "steps"]).height
    words = (
        f"Steps and agents of a run, both on logarithmic axes. Published: {both} systems with both numbers,"
        f" by their number in the table below, and {systems.height - both} with one of them, as a tick on its"
        " axis; reported maxima, which have no intervals."
    )
    if corpora.height:
        words += (
            f" Recorded: the median run of each of {corpora.height} corpora ({int(corpora['n'].sum()):,}"
            " runs), by its letter, with lines from their 5 % to their 95 % point."
        )
    words += f" Synthetic: the {len(sizes)} rungs of the ladder."
    section = Section("Where published and recorded runs lie")
    section.parts += drawn.add("envelope-map", envelope_map(envelopes, corpora, sizes), words)
    if corpora.height:
        rows = [
            [
                Cell(row["letter"]),
                Cell(plain(row["name"])),
                Cell(f"{row['n']:,}"),
                Cell(_range(row, "steps")),
                Cell(_range(row, "agents")),
            ]
            for row in corpora.iter_rows(named=True)
        ]
        head = ["", "recorded corpus", "runs", "steps (5 % to 95 %)", "agents (5 % to 95 %)"]
        section.parts.append(Grid(head, rows))
    rows = [
        [
            Cell(str(row["number"])),
            Cell(plain(row["system"])),
            Cell(row["kind"]),
            Cell("" if row["agents"] is None else f"{row['agents']:,.4g}"),
            Cell("" if row["steps"] is None else f"{row['steps']:,.4g}"),
            Cell(plain(row["source"] or "")),
        ]
        for row in systems.iter_rows(named=True)
    ]
    head = ["", "published system", "kind", "agents", "steps", "source"]
    section.parts.append(Grid(head, rows, "Largest published numbers of one run; blank is not published."))
    return section


def _range(row: dict[str, Any], name: str) -> str:
    lower, middle, upper = (row[f"{name}_{end}"] for end in ("lower", "mid", "upper"))
    return f"{middle:,.0f} ({lower:,.0f} to {upper:,.0f})"


def _synthetic(config: StudyConfig) -> str:
    runs = ", ".join(f"{size.traces * config.replicates:,} of {size.events:,} steps" for size in config.sizes)
    return (
        f"Synthetic runs with planted contributions, in each world {runs}; bars are {config.confidence:.0%}"
        " intervals over tasks."
    )


def _hollow(few: Sequence[str]) -> str:
    """The sentence of a caption about hollow points; empty without such points."""
    if not few:
        return ""
    return (
        f" Hollow points rest on fewer than {FEWEST_TASKS} tasks ({', '.join(few)}): their intervals say"
        " little, and no conclusion is drawn from them."
    )


def _few_steps(rows: pl.DataFrame) -> list[str]:
    """The sizes at which rows are marked."""
    return [f"at {events:,} steps" for events in rows.filter("few")["events"].unique().sort()]


def _ladder(table: pl.DataFrame, config: StudyConfig, looks: Looks, drawn: Drawn) -> Section:
    section = Section("What credit finds as runs grow")
    section.parts.append(
        "In every world the contribution of each event is planted, so that it is known what a method should"
        " say. Methods that rank the units of a run are compared by rank correlation; those that give a whole"
        " run one number rank nothing in it, and are compared by how many rollouts show an effect. Two things"
        " to read it with: the field `value`, which `gae` and its kin read, is the exact expected outcome"
        " here unless a world has value_noise, a critic that nobody has; and under gates no outcome is"
        " negative, so that any share of it ranks who did more above who did less: there `uniform` is the"
        " baseline, not 0. A method has the same color and line in all figures; methods of one size stand"
        " side by side."
    )
    presets, words = list(config.presets), _synthetic(config)

    def add(
        name: str, column: str, title: str, named: Sequence[str], caption: str, log: bool = False
    ) -> None:
        rows = figures.measured_rows(table, unit, column)
        spec = figures.ladder(rows, title, named, presets, looks, log=log)
        section.parts += drawn.add(f"{name}-{unit}", spec, f"{caption} {words}{_hollow(_few_steps(rows))}")

    for unit in config.units:
        named = figures.featured(table, unit)
        others = set(figures.measured_rows(table, unit, "rho")["method"]) - set(named)
        colors = f" The {len(named)} methods with the largest mean have a color, the others are grey."
        caption = (
            f"Spearman's correlation of credit with contribution among the {unit}s of a run, a panel for each"
            f" world.{colors if others else ''}"
        )
        add("rank", "rho", "rank correlation", named, caption)
        caption = f"Share of right signs among the 5 % of the {unit}s of a run that matter most."
        add("sign", "sign", "right signs", named, caption)
        flat = [name for name in _ONE_NUMBER if name in set(table["method"])]
        caption = (
            f"Rollouts that show the effect of one {unit} (two-sided 5 %, power 80 %), from the correlation"
            " over the units of all rollouts of a task; only where its interval is above 0. With equal units"
            " and no noise, one number for all needs them in proportion to the units of a run."
        )
        chosen = list(dict.fromkeys([*flat, *named]))[: len(COLORS)]
        add("rollouts", "rollouts", "rollouts needed", chosen, caption, log=True)
    return section


def _methods(table: pl.DataFrame, sizes: tuple[Size, ...]) -> Section:
    head = ["method", "unit", *(f"{size.events:,} steps, {size.agents:,} agents" for size in sizes)]
    judged = method_table(table, sizes)
    rows = [
        [Cell(f"`{method}`"), Cell(unit), *map(_verdict_cell, verdicts)] for method, unit, verdicts in judged
    ]
    caption = (
        f"Median over {table['preset'].n_unique()} worlds of the rank correlation (*: of a method that ranks"
        " nothing inside a run, over the rollouts of a task), how many worlds have its interval above 0, and"
        " seconds for one run. Green: most of them. Grey: fewer, nothing to rely on. Orange: beyond the"
        " budget or refused, with the cost (~) extrapolated from smaller sizes, for exact games from the"
        " number of coalitions; at least so much if a call was stopped, or one size was measured. Synthetic"
        " runs, intervals over tasks."
    )
    if any(verdict.kind == FEW for *_, verdicts in judged for verdict in verdicts):
        caption += (
            f" †: no world has at least {FEWEST_TASKS} tasks with a value; median of the values and of the"
            " ends of their intervals, with the number of tasks. No conclusion rests on them."
        )
    return Section("Who is usable at which scale, at what cost", [Grid(head, rows, caption)])


def _verdict_cell(verdict: Verdict) -> Cell:
    cost = "" if verdict.seconds is None else format_seconds(verdict.seconds)
    if verdict.kind == SLOW or (verdict.kind == NONE and cost and not verdict.measured):
        about = "at least ~" if verdict.at_least else "~"
        return Cell(f"{about}{cost}" if cost else "too slow", SLOW)
    if verdict.kind == NONE or verdict.rho is None:
        return Cell(cost and f"no value {cost}", NONE)
    star = "*" if verdict.pooled else ""
    value = _correlation(verdict.rho, verdict.pooled)
    if verdict.kind == FEW:
        ends = ""
        if verdict.lower is not None and verdict.upper is not None:
            lower, upper = (_correlation(end, verdict.pooled) for end in (verdict.lower, verdict.upper))
            ends = f" [{lower}, {upper}]"
        tasks = f" {verdict.tasks} task{'' if verdict.tasks == 1 else 's'}" if verdict.tasks else ""
        return Cell(f"{value}{star}†{ends}{tasks} {cost}", FEW)
    return Cell(f"{value}{star} ({verdict.finds}/{verdict.presets}) {cost}", verdict.kind)


def _correlation(value: float, pooled: bool) -> str:
    # Over rollouts small correlations still count: they say how many rollouts are enough.
    return f"{value:.3f}" if pooled else f"{value:.2f}".replace("-0.00", "0.00")


def format_seconds(value: float) -> str:
    """A duration in few characters: 12.3 ms, 4.5 s, 2e+88 s."""
    if value >= 1e5:
        return f"{value:.0e} s"
    for scale, word in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= scale or word == "µs":
            number = value / scale
            return f"{number:,.0f} {word}" if number >= 100 else f"{number:.2g} {word}"
    raise AssertionError("microseconds take everything")


def _costs(table: pl.DataFrame, sizes: tuple[Size, ...], looks: Looks, drawn: Drawn) -> Section:
    section = Section("What it costs")
    for unit in table["unit"].unique().sort():
        section.parts += drawn.add(
            f"cost-{unit}",
            figures.costs(table, sizes, figures.featured(table, unit), unit, looks),
            f"Time for one run at unit {unit}, median over worlds; this report was written on a machine of"
            f" {os.cpu_count()} cores. Open triangles: beyond the budget, extrapolated by a power law through"
            " the last three measured sizes, or at least so much, from when a call was stopped. The slowest"
            " methods and those that find most have a color."
            " Synthetic runs, the shortest of up to five calls, no intervals.",
        )
    peaks = table.drop_nulls("peak_bytes").group_by("events").agg(pl.col("peak_bytes").max()).sort("events")
    if peaks.height:
        listed = ", ".join(f"{most / 1e6:,.0f} MB at {events:,} steps" for events, most in peaks.iter_rows())
        section.parts.append(f"The most that a process held, its corpus and the truth included: {listed}.")
    return section


def _schedules(table: pl.DataFrame, drawn: Drawn) -> Section:
    each = table.group_by("preset", "events", "agents", "replicate").agg(pl.col("n_traces").max())
    held = float(table["in_bounds"].to_numpy().min())
    share = "in all of them" if held == 1.0 else f"in at least {held:.1%} of them"
    few = _few_steps(table.with_columns(few=are_few(pl.col("n_tasks"))))
    caption = (
        "Speed-up of list schedules over the number of slots, between what the bounds of Graham and Brent"
        f" allow at best and at worst (grey); means over {table['preset'].n_unique()} worlds. Synthetic"
        f" durations, {int(each['n_traces'].sum()):,} runs; at every point both bounds hold {share}."
        f" Intervals of each world are in `schedules.parquet`.{_hollow(few)}"
    )
    return Section("Schedules", [*drawn.add("schedules", figures.schedules(table), caption)])


def _rewards(table: pl.DataFrame, config: StudyConfig) -> Section:
    """A row per rule of reward: how far it follows the outcome, by size."""

    def cell(here: pl.DataFrame) -> Cell:
        valued = here.drop_nulls("follows")
        if valued.is_empty():
            why = here["null_reason"].drop_nulls().to_list() + here["reason"].drop_nulls().to_list()
            return Cell(plain(why[0]) if why else "does not vary", NONE)
        follow = valued.filter(pl.col("follows_lower") > 0, ~are_few(pl.col("n_tasks"))).height
        value = _correlation(float(valued["follows"].to_numpy().mean()), False)
        return Cell(f"{value} ({follow}/{here.height})", FINDS if 2 * follow > here.height else NOTHING)

    caption = (
        "Correlation, inside tasks, of what a rule pays a run with how the run ended: mean over"
        " worlds, and in how many of them its interval is above 0. A rule of which the outcome is a"
        " part follows it by definition. What follows nothing here may still be worth paying for; it"
        " is then no substitute for the outcome. Synthetic runs, intervals over tasks."
    )
    return Section("What rewards follow", [_by_size(table, config.sizes, "rule", cell, caption)])


def _stops(table: pl.DataFrame, config: StudyConfig) -> Section:
    """A row per rule of stopping: what it gives up, by size."""

    def cell(here: pl.DataFrame) -> Cell:
        rows = here.drop_nulls("regret")
        if rows.is_empty():
            return Cell(plain(here["reason"].drop_nulls().first() or "no value"), NONE)
        ends = rows.drop_nulls(["regret_lower", "regret_upper"])
        value = float(rows["regret"].to_numpy().mean())
        if ends.height < rows.height:
            return Cell(f"{value:.3f}", FEW)
        lower, upper = (float(ends[f"regret_{end}"].to_numpy().mean()) for end in ("lower", "upper"))
        return Cell(f"{value:.3f} [{lower:.3f}, {upper:.3f}]", FINDS if lower <= 0.0 else NOTHING)

    caption = (
        "What a rule gives up against the best rule that sees the past, in units of the quality, on"
        " tasks that it was not fitted on; with its interval over tasks, mean over corpora. Green:"
        " the interval reaches 0. `oracle` sees the future. The longest run of a size has as many"
        " epochs as its runs have steps, all of which together cost 0.48. Synthetic epochs, whose"
        " best rule is known."
    )
    return Section("What rules of stopping give up", [_by_size(table, config.sizes, "rule", cell, caption)])


def _by_size(
    table: pl.DataFrame,
    sizes: tuple[Size, ...],
    name: str,
    cell_of: Callable[[pl.DataFrame], Cell],
    caption: str,
) -> Grid:
    """A row per method, a column per size."""
    head = [name, *(f"{size.events:,} steps, {size.agents:,} agents" for size in sizes)]
    rows = []
    for method in table["method"].unique(maintain_order=True):
        by_size = [table.filter(method=method, events=size.events, agents=size.agents) for size in sizes]
        rows.append([Cell(f"`{method}`"), *(cell_of(part) if part.height else Cell("") for part in by_size)])
    return Grid(head, rows, caption)


def _trend(table: pl.DataFrame, looks: Looks, drawn: Drawn) -> Section:
    most = table["n_traces"].drop_nulls()
    few = figures.trend_rows(table).filter("few")["method"].unique().sort().to_list()
    caption = (
        f"Recorded runs, up to {int(most.to_numpy().max()) if most.len() else 0:,}, cut to their beginnings"
        " with every cause kept. Left: rank correlation of the credit that a beginning gives its units with"
        " what the whole gives them. Right: share of absolute credit on the 5 % of units that have most. Bars"
        " are intervals over tasks. Nobody knows the truth of a recording: this is stability,"
        f" not accuracy.{_hollow([f'`{name}`' for name in few])}"
    )
    section = Section("Beginnings of recorded runs")
    section.parts += drawn.add("downscaled", figures.trend(table, looks), caption)
    if not section.parts:
        section.parts.append("No method has a value on the recorded runs that were given.")
    return section


def _how(config: StudyConfig) -> Section:
    words = (
        "Every cell is a method at a unit on a corpus that a seed determines. `cells.parquet` has the"
        " numbers, the same on every run, `costs.parquet` times and memory, which are not. A number that was"
        " not measured is null with its reason, never 0. `docs/study.md` defines the measures."
    )
    rows = [
        [
            Cell(f"`{name}`"),
            Cell(", ".join(f"{key} = {value}" for key, value in options.items()) or "defaults"),
        ]
        for name, options in config.presets.items()
    ]
    return Section("How it was measured", [words, Grid(["world", "options of `synthetic.planted`"], rows)])
