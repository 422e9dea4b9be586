"""The display of a corpus: a few lines of text, or a small self-contained table in a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from .corpus import Corpus


_TABLE = "border-collapse:collapse;font-variant-numeric:tabular-nums;width:auto"


def as_text(corpus: Corpus) -> str:
    """Counts per table, below one line about the records."""
    sizes = corpus._sizes()
    width = max(len(f"{rows:,}") for rows in sizes.values())
    lines = [f"  {name:<13}  {rows:>{width},}" for name, rows in sizes.items()]
    return "\n".join([_title(corpus), *lines])


def as_html(corpus: Corpus) -> str:
    """Counts per table, of what was quarantined, of importers and of time bases; every name is escaped."""
    traces = corpus.traces
    blocks = [
        _html_table("table", list(corpus._sizes().items())),
        _html_table("quarantined", _counts(corpus.quarantine, "code")),
        _html_table("importer", _counts(traces, "importer")),
        _html_table("time basis", _counts(traces, "time_basis")),
    ]
    row = "display:flex;flex-wrap:wrap;gap:2em;align-items:flex-start"
    return f'<div><p>{escape(_title(corpus))}</p><div style="{row}">{"".join(blocks)}</div></div>'


def _title(corpus: Corpus) -> str:
    records = corpus.records
    summary = f"{records['read']:,} records read, {records['quarantined']:,} quarantined"
    for kind in ("ignored", "duplicate"):
        if records[kind]:
            summary += f", {records[kind]:,} {kind}"
    return f"Corpus of {len(corpus):,} traces ({summary})"


def _counts(frame: pl.LazyFrame, column: str) -> list[tuple[str, int]]:
    counted = (
        frame.group_by(pl.col(column).cast(pl.String)).len().sort("len", column, descending=[True, False])
    )
    return counted.collect().rows()


def _html_table(heading: str, rows: list[tuple[str, int]]) -> str:
    if not rows:
        return ""
    cells = "".join(
        f"<tr>{_cell('td', 'left', name)}{_cell('td', 'right', f'{n:,}')}</tr>" for name, n in rows
    )
    head = f"<tr>{_cell('th', 'left', heading)}{_cell('th', 'right', 'rows')}</tr>"
    return f'<table style="{_TABLE}"><thead>{head}</thead><tbody>{cells}</tbody></table>'


def _cell(tag: str, side: str, text: str) -> str:
    # a space between columns that no style of the page takes away, and one that is copied with the text
    room = "padding:0.1em 1.2em 0.1em 0" if side == "left" else "padding:0.1em 0"
    return f'<{tag} style="text-align:{side};{room}">{escape(text)}</{tag}> '
