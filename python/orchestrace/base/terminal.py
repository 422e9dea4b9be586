"""Frames as text without control characters: as tables of a given width, or flat for CSV."""

import json
import math
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import polars as pl
from rich.cells import cell_len

from .text import plain

GAP = 2
"""Blanks between columns."""
PIPED = 120
"""Cells of a line where standard output is no terminal."""
_WIDEST = 44
"""Cells of a column beside others on a terminal; a longer id is cut only where a line has no room for it."""
_NARROWEST_ID = 12
_NARROWEST_PROSE = 24
_LINES = 4
"""Of a cell of prose that is folded."""


@dataclass(frozen=True)
class Table:
    """A frame laid out as text."""

    header: str
    rows: list[str]
    constants: dict[str, str]
    """What every row has in a column that is not shown."""
    hidden: list[str] = field(default_factory=list)
    """Columns for which there is no room."""
    empty: int = 0
    """Columns without any value."""
    cut: list[str] = field(default_factory=list)
    """Columns that have a value which is not there in full."""


def terminal_width() -> int | None:
    """Columns of the terminal, or that `COLUMNS` names; None where standard output is no terminal."""
    setting = os.environ.get("COLUMNS", "")
    if setting.isdecimal() and int(setting) > 0:
        return int(setting)
    shown = sys.stdout is not None and sys.stdout.isatty()  # None: closed by whoever started the command
    return shutil.get_terminal_size().columns if shown else None


def lay_out(
    frame: pl.DataFrame,
    first: Sequence[str] = (),
    *,
    width: int | None,
    rows: int | None = None,
    chosen: bool = False,
    piped: bool = False,
) -> Table:
    """Lay out a frame as a table of text.

    Parameters
    ----------
    frame
        The rows.
    first
        Columns that answer the question, the most important first; those that the frame does not have are
        left out. The others follow in their order, as far as there is room.
    width
        Cells of a line; None lays out everything as it is. A text that is too long is cut in its middle, one
        with blanks is folded. Numbers are never cut.
    rows
        How many of the rows are laid out; None for all.
    chosen
        Show exactly the columns of the frame, however wide they are.
    piped
        Leave columns out before values are cut: an id of up to 44 cells is whole, and so is what is folded.
        Where `first` names columns, no others follow. A text that every row has stands below the rows, a
        number stays in its column.
    """
    first = [name for name in first if name in frame.columns]
    order = frame.columns if chosen else [*first, *(name for name in frame.columns if name not in first)]
    filled = order if chosen else [name for name in order if _has_value(frame[name])]
    empty = len(order) - len(filled)
    constants: dict[str, str] = {}
    if width is not None and frame.height > 1 and not chosen:
        same = [name for name in filled if _is_constant(frame[name])]
        if piped:  # what one reads by its place in a row stays there: the first column, and numbers
            same = [name for name in same if name != filled[0] and not frame[name].dtype.is_numeric()]
        same = same[1:] if len(same) == len(filled) else same
        constants = {name: _texts(frame[name].head(1))[0] for name in same if name in first}
        filled = [name for name in filled if name not in constants]
    head = frame if rows is None else frame.head(rows)
    columns = [_Column.of(head[name]) for name in filled]
    if width is None:
        widths = {column.name: column.natural for column in columns}
    else:
        widths = _widths(columns, first, width, chosen, piped)
    shown = [column for column in columns if column.name in widths]
    return Table(
        header=_line([(column.name, widths[column.name], column.is_number) for column in shown]),
        rows=[
            line for at in range(head.height) for line in _row(shown, widths, at, width is not None, piped)
        ],
        constants=constants,
        hidden=[column.name for column in columns if column.name not in widths],
        empty=empty,
        cut=[column.name for column in shown if column.is_cut(widths[column.name], piped)],
    )


@dataclass(frozen=True)
class _Column:
    name: str
    texts: list[str]
    is_number: bool
    is_prose: bool
    """Texts with blanks, which are folded; others are ids, of which both ends matter."""
    natural: int

    @classmethod
    def of(cls, column: pl.Series) -> "_Column":
        texts = _texts(column)
        prose = column.dtype in (pl.String, pl.Categorical, pl.Enum) and any(" " in text for text in texts)
        natural = max(map(cell_len, (column.name, *texts)))
        return cls(column.name, texts, column.dtype.is_numeric(), prose, natural)

    def is_cut(self, width: int, piped: bool) -> bool:
        """Whether a column of this width lacks a part of a value."""
        return self.natural > width and not (self.is_prose and piped)

    def least(self, piped: bool) -> int:
        """Cells that it needs at least."""
        if self.is_number:
            return self.natural
        if piped and not self.is_prose:
            return min(self.natural, _WIDEST)
        narrow = _NARROWEST_PROSE if self.is_prose else _NARROWEST_ID
        return min(self.natural, max(len(self.name), narrow))


def _widths(
    columns: list[_Column], first: Sequence[str], width: int, chosen: bool, piped: bool
) -> dict[str, int]:
    """Cells of each column that is shown: first as narrow as need be, then wider, then others that fit."""
    widths: dict[str, int] = {}
    left = width + GAP
    wanted = [column for column in columns if chosen or column.name in first] or columns[:1]
    for column in wanted:
        if chosen or not widths or column.least(piped) + GAP <= left:
            widths[column.name] = column.least(piped)
            left -= column.least(piped) + GAP
    for column in wanted:  # what is left goes to texts that were cut, the first one first
        if column.name in widths and left > 0:
            most = column.natural if column.is_prose or piped else min(column.natural, _WIDEST)
            more = min(left, max(most - widths[column.name], 0))
            widths[column.name] += more
            left -= more
    for column in [] if piped and first else columns:
        needed = (column.natural if piped else min(column.natural, _WIDEST)) + GAP
        if column.name not in widths and column not in wanted and needed <= left:
            widths[column.name] = needed - GAP
            left -= needed
    return widths


def _row(columns: list[_Column], widths: dict[str, int], at: int, cut: bool, piped: bool) -> Iterable[str]:
    """The lines of a row: one, or more where prose is folded."""
    cells = []
    for column in columns:
        text, width = column.texts[at], widths[column.name]
        if not cut or cell_len(text) <= width:
            cells.append([text])
        else:
            cells.append(
                folded(text, width, None if piped else _LINES)
                if column.is_prose
                else [shortened(text, width)]
            )
    for line in range(max(map(len, cells), default=0)):
        texts = [cell[line] if line < len(cell) else "" for cell in cells]
        yield _line(
            [
                (text, widths[column.name], column.is_number)
                for column, text in zip(columns, texts, strict=True)
            ]
        )


def _line(cells: Iterable[tuple[str, int, bool]]) -> str:
    padded = []
    for text, width, right in cells:
        blanks = " " * max(width - cell_len(text), 0)
        padded.append(blanks + text if right else text + blanks)
    return (" " * GAP).join(padded).rstrip()


def shortened(text: str, width: int) -> str:
    """Both ends of a text."""
    head = fitting(text, width // 2)
    tail = fitting(text[::-1], width - 1 - cell_len(head))[::-1]
    return f"{head}…{tail}"


def fitting(text: str, width: int) -> str:
    """The beginning of a text, as many characters as fit."""
    taken = 0
    for end, character in enumerate(text):
        taken += cell_len(character)
        if taken > width:
            return text[:end]
    return text


def folded(text: str, width: int, most: int | None = None) -> list[str]:
    """A text in lines; of at most so many, the last says that there is more."""
    lines = [""]
    for word in text.split(" "):
        while cell_len(word) > width:  # a word that is longer than a line goes on in the next
            if lines[-1]:
                lines.append("")
            lines[-1] = fitting(word, width)
            word = word[len(lines[-1]) :]
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= width:
            lines[-1] = joined
        else:
            lines.append(word)
    if most is not None and len(lines) > most:
        lines = [*lines[: most - 1], fitting(lines[most - 1], width - 1) + "…"]
    return lines


def _texts(column: pl.Series) -> list[str]:
    return [cell_text(value) for value in column]


def cell_text(value: object) -> str:
    """A value as it stands in a cell: numbers with four digits, lists and fields of structures one by one."""
    if value is None:
        return ""
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, pl.Series | list | tuple):
        return f"[{', '.join(map(cell_text, value))}]"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {cell_text(item)}" for name, item in value.items() if item is not None)
    if isinstance(value, bool):
        return "true" if value else "false"
    return plain(value)


def _number(value: float) -> str:
    """Four significant digits, and all digits before the point."""
    if math.isfinite(value) and 1e4 <= abs(value) < 1e15:
        return f"{value:.0f}"
    return f"{value:.4g}"


def flat(frame: pl.DataFrame) -> pl.DataFrame:
    """A frame for CSV: lists and structures as JSON text, unprintable characters escaped."""
    columns = []
    for column in frame:
        if isinstance(column.dtype, pl.List | pl.Array | pl.Struct):
            texts = [None if value is None else _json(value) for value in column]
            columns.append(pl.Series(column.name, texts, pl.String))
        elif column.dtype in (pl.String, pl.Categorical, pl.Enum):
            texts = [None if value is None else plain(value) for value in column]
            columns.append(pl.Series(column.name, texts, pl.String))
        else:
            columns.append(column)
    return pl.DataFrame(columns)


def _json(value: object) -> str:
    return json.dumps(value.to_list() if isinstance(value, pl.Series) else value, default=str)


def _has_value(column: pl.Series) -> bool:
    if column.len() and isinstance(column.dtype, pl.Struct):
        return any(_has_value(part) for part in column.struct.unnest())
    return column.len() == 0 or column.null_count() < column.len()


def _is_constant(column: pl.Series) -> bool:
    return not isinstance(column.dtype, pl.List | pl.Array | pl.Struct) and column.n_unique() == 1
