"""Frames on a terminal: what fits its width, nothing that could act on it."""

import polars as pl
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .display import plain

_WIDEST = 44


def show(frame: pl.DataFrame, title: str, *, rows: int | None = None) -> None:
    """Print the head of a frame as a table, without empty columns and those beyond the width."""
    console = Console()
    head = frame if rows is None else frame.head(rows)
    shown: list[str] = []
    left = console.width - 1
    columns = {
        name: [plain(value) for value in head[name]] for name in head.columns if _has_value(head[name])
    }
    for name, cells in columns.items():
        left -= min(max(len(text) for text in [name, *cells]), _WIDEST) + 3
        if left < 0 and shown:
            break
        shown.append(name)
    notes = []
    if len(shown) < frame.width:
        notes.append(f"columns not shown, or empty: {frame.width - len(shown)}")
    if head.height < frame.height:
        notes.append(f"rows not shown: {frame.height - head.height:,}")
    table = Table(
        title=Text(plain(title)), caption=Text("; ".join(notes)), title_justify="left", caption_justify="left"
    )
    for name in shown:
        side = "right" if head[name].dtype.is_numeric() else "left"
        table.add_column(Text(name), justify=side, overflow="ellipsis", no_wrap=True, max_width=_WIDEST)  # type: ignore[arg-type]  # one of its words
    for i in range(head.height):
        table.add_row(*(Text(columns[name][i]) for name in shown))
    console.print(table)


def show_replays(table: pl.DataFrame, *, rows: int) -> None:
    """Print what replays say: effects on outcomes, then schedules.

    A number comes with its tier before everything else, then with its bounds, so that narrow terminals show
    them. The one intervention of a table stands over it.
    """
    ends = table.select("lower", "upper").iter_rows()
    bounds = [
        None if low is None and high is None else f"{_short(low)}..{_short(high)}" for low, high in ends
    ]
    table = table.with_columns(bounds=pl.Series(bounds, dtype=pl.String)).drop("lower", "upper", "params")
    timed = pl.col("makespan_cf").is_not_null().any().over("intervention")
    schedules = table.filter(timed)
    effects = table.filter(~timed)
    if effects.height or not schedules.height:
        _show_answers(effects, "effects on the outcome", "effect", rows)
    if schedules.height:
        _show_answers(schedules, "schedules", "makespan_cf", rows)


def _show_answers(table: pl.DataFrame, what: str, answer: str, rows: int) -> None:
    asked = table["intervention"].unique()
    title = f"{what} of {asked[0]}" if len(asked) == 1 else what
    by = ["trace", "intervention", "unit_id"] if len(asked) > 1 else ["trace", "unit_id"]
    recorded = ["makespan"] if answer == "makespan_cf" else []
    first = [*by, answer, "tier", *recorded, "reason", "bounds"]
    shown = table.select(*first, pl.exclude(*first, "intervention"))
    show(shown, f"{title}: {table.height:,} rows", rows=rows)


def _short(number: float | None) -> str:
    return "" if number is None else f"{number:.3g}" if abs(number) < 1000 else f"{number:.0f}"


def _has_value(column: pl.Series) -> bool:
    return column.len() == 0 or column.null_count() < column.len()
