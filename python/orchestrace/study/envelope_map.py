"""The map of sizes: published systems, recorded corpora and the rungs of the ladder."""

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from ..base.errors import ParameterError
from ..corpus.corpus import Corpus
from .config import Size
from .sheet import COLORS, INK, Sheet

NEEDED: Final = ("system", "kind", "agents_max", "steps_max")
KINDS: Final = ["academic", "industrial", "recorded corpus", "rung of the ladder"]
_HEIGHT: Final = 330
_RANGE: Final = [COLORS[0], COLORS[1], COLORS[2], "#8a9099"]


def checked(envelopes: pl.DataFrame) -> pl.DataFrame:
    """Envelopes with the columns that a map needs; only what is of one run."""
    for name in NEEDED:
        if name not in envelopes.columns:
            raise ParameterError(f"envelopes lack the column '{name}'")
    if "scope" in envelopes.columns:
        envelopes = envelopes.filter(pl.col("scope") == "trace")
    return envelopes.with_columns(pl.col("agents_max", "steps_max").cast(pl.Float64))


def placed(envelopes: pl.DataFrame) -> pl.DataFrame:
    """Systems with at least one of both numbers, numbered as the map numbers them: ``number system kind
    agents steps source note``. What is blank stays null."""
    systems = checked(envelopes).filter(
        pl.col("agents_max").is_not_null() | pl.col("steps_max").is_not_null()
    )
    both = pl.col("agents_max").is_not_null() & pl.col("steps_max").is_not_null()
    systems = systems.with_columns(both=both).sort(
        ["both", "steps_max", "agents_max", "system"], descending=[True, True, True, False], nulls_last=True
    )
    systems = systems.with_row_index("number", offset=1)
    blank = pl.lit(None, pl.String)
    return systems.select(
        "number",
        "system",
        "kind",
        agents="agents_max",
        steps="steps_max",
        source="source" if "source" in systems.columns else blank,
        note="note" if "note" in systems.columns else blank,
    )


def recorded(corpora: Mapping[str, Corpus]) -> pl.DataFrame:
    """Quantiles of the runs of corpora: ``letter name n`` and the 5 %, 50 % and 95 % points of steps and
    agents."""
    rows: list[dict[str, Any]] = []
    for name, corpus in corpora.items():
        runs = corpus.traces.select(steps="n_events", agents="n_agents").collect()
        runs = runs.filter(pl.col("steps") > 0, pl.col("agents") > 0)
        if runs.is_empty():
            continue
        row: dict[str, Any] = {"letter": _letter(len(rows)), "name": name, "n": runs.height}
        for column in ("steps", "agents"):
            for word, q in (("lower", 0.05), ("mid", 0.5), ("upper", 0.95)):
                row[f"{column}_{word}"] = runs[column].quantile(q, "nearest")
        rows.append(row)
    ends = {f"{c}_{w}": pl.Float64 for c in ("steps", "agents") for w in ("lower", "mid", "upper")}
    return pl.DataFrame(rows, schema={"letter": pl.String, "name": pl.String, "n": pl.UInt32, **ends})


def _letter(place: int) -> str:
    """A, B, ... Z, A2, B2, ..."""
    return chr(ord("A") + place % 26) + (str(place // 26 + 1) if place >= 26 else "")


def envelope_map(
    envelopes: pl.DataFrame | None, corpora: pl.DataFrame, sizes: tuple[Size, ...]
) -> dict[str, Any]:
    """The map. A system of which only one number is published is a tick on that axis."""
    sheet = Sheet()
    alt = sheet.alt
    systems = pl.DataFrame(schema={"number": pl.UInt32, "kind": pl.String, "agents": float, "steps": float})
    if envelopes is not None:
        systems = placed(envelopes).select("number", "kind", "agents", "steps")
    x, y = _axes(sheet, "steps", "agents")
    present = {*systems["kind"], KINDS[3], *([KINDS[2]] if corpora.height else [])}
    shown = [kind for kind in KINDS if kind in present]
    colors = [_RANGE[KINDS.index(kind)] for kind in shown]
    color = alt.Color("kind:N", title=None, sort=shown).scale(domain=shown, range=colors)
    color = color.legend(orient="bottom", symbolType="circle", symbolSize=70)
    both = systems.drop_nulls(["agents", "steps"])
    layers = []
    steps = [{"steps": size.events, "agents": size.agents, "kind": KINDS[3]} for size in sizes]
    rungs = sheet.chart(pl.DataFrame(steps))
    layers.append(rungs.mark_line(color=_RANGE[3], strokeDash=[3, 3], strokeWidth=1).encode(x=x, y=y))
    layers.append(
        rungs.mark_point(shape="cross", filled=True, size=55, opacity=1).encode(x=x, y=y, color=color)
    )
    layers += _ticks(sheet, systems, color)
    if corpora.height:
        layers += _corpora(sheet, corpora, color)
    places = both.group_by("steps", "agents", "kind", maintain_order=True).agg(
        label=pl.col("number").cast(pl.String).str.join(", ")
    )
    dots = sheet.chart(places)
    layers.append(dots.mark_point(filled=True, size=80, opacity=1).encode(x=x, y=y, color=color))
    layers.append(
        dots.mark_text(dy=-9, fontSize=9.5, color=INK, align="center").encode(x=x, y=y, text="label:N")
    )
    return sheet.finished(alt.layer(*layers).properties(width=640, height=_HEIGHT))


def _axes(sheet: Sheet, across: str, up: str) -> tuple[Any, Any]:
    """Both axes, in the same way for every layer."""
    alt = sheet.alt
    x = alt.X(f"{across}:Q", title="steps in a run").scale(type="log", domain=[0.8, 300_000], nice=False)
    y = alt.Y(f"{up}:Q", title="agents").scale(type="log", domain=[0.7, 700], nice=False)
    return x.axis(format="~s", values=[10.0**n for n in range(6)]), y.axis(
        format="~g", values=[1, 3, 10, 30, 100, 300]
    )


def _ticks(sheet: Sheet, systems: pl.DataFrame, color: Any) -> list[Any]:
    """Systems of which one number is published, at the edge of the map."""
    alt = sheet.alt
    x, y = _axes(sheet, "steps", "agents")
    layers = []
    for shown, absent in (("steps", "agents"), ("agents", "steps")):
        rows = systems.filter(pl.col(absent).is_null()).select("kind", shown).unique().sort(shown, "kind")
        if rows.is_empty():
            continue
        values = sheet.chart(rows)
        if shown == "steps":
            tick = values.mark_tick(thickness=2.2, size=12, opacity=0.9)
            layers.append(tick.encode(x=x, y=alt.value(_HEIGHT - 6), color=color))
        else:
            tick = values.mark_tick(thickness=2.2, size=12, opacity=0.9, orient="horizontal")
            layers.append(tick.encode(x=alt.value(6), y=y, color=color))
    return layers


def _corpora(sheet: Sheet, corpora: pl.DataFrame, color: Any) -> list[Any]:
    values = sheet.chart(corpora.with_columns(kind=pl.lit(KINDS[2])))
    x, y = _axes(sheet, "steps_mid", "agents_mid")
    from_x, from_y = _axes(sheet, "steps_lower", "agents_lower")
    lines = values.mark_rule(strokeWidth=1.3, opacity=0.55)
    across = lines.encode(x=from_x, x2="steps_upper:Q", y=y, color=color)
    upright = lines.encode(x=x, y=from_y, y2="agents_upper:Q", color=color)
    dots = values.mark_point(filled=True, size=70, shape="diamond", opacity=1).encode(x=x, y=y, color=color)
    joined = corpora.group_by("steps_mid", "agents_mid", maintain_order=True).agg(
        label=pl.col("letter").str.join(", ")
    )
    names = sheet.chart(joined)
    names = names.mark_text(dy=13, fontSize=10, fontWeight="bold", color=INK).encode(x=x, y=y, text="label:N")
    return [across, upright, dots, names]
