"""Frames as output of commands: tables on a terminal, CSV, JSON, Parquet."""

import json as json_text
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import polars as pl
import typer
from rich.cells import cell_len

from ..base.errors import ParameterError
from ..base.paths import path_of
from ..base.publication import refuse_existing, write_parquet
from ..base.schema import unknown_name
from ..base.terminal import PIPED, Table, fitting, flat, lay_out, shortened, terminal_width
from ..base.text import counted, plain, plain_json
from .options import Force, Json

ROWS: Final = 50
"""Rows on a terminal, by default."""


@dataclass(frozen=True)
class Columns:
    """Columns of a table, the most important first, with blanks between: what a command declares of each."""

    answer: str
    """What answers the question: 80 columns have to show it."""
    more: str = ""
    """What follows where there is room."""

    @property
    def names(self) -> list[str]:
        """All of them."""
        return f"{self.answer} {self.more}".split()


CREDITS: Final = Columns("trace_id unit_id credit stderr reason", "unit method quantity reward tier")
REJECTS: Final = Columns("code severity records message file line path")
CORPUS: Final = {
    "traces": Columns("trace_id task_id topology importer n_events n_edges n_agents"),
    "events": Columns("trace seq id t type agent tool"),
    "edges": Columns("trace src dst type"),
    "agents": Columns("trace agent role parent depth n_events"),
    "measures": Columns("trace kind name value"),
    "quarantine": Columns("line code path message file"),
    "record_counts": Columns("importer status kind count file"),
}
"""Of the tables of a corpus, by their names."""

Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the table to this Parquet file.")]


@dataclass(frozen=True)
class TableOptions:
    """Which part of a table is wanted, and in which form."""

    columns: Annotated[
        str | None,
        typer.Option("--columns", help="Columns to show, with commas between; default: what fits."),
    ] = None
    sort: Annotated[
        str | None,
        typer.Option("--sort", help="COLUMN, or -COLUMN for the largest first; several with commas."),
    ] = None
    limit: Annotated[
        int | None, typer.Option("--limit", min=0, help=f"Rows; default: {ROWS} on a terminal, else all.")
    ] = None
    csv: Annotated[bool, typer.Option("--csv", help="CSV on standard output.")] = False
    json: Json = False
    output: Output = None
    force: Force = False

    def __post_init__(self) -> None:
        """Refuse what cannot be done before anything is read.

        Raises
        ------
        ParameterError, InputError
            Two forms at once, or a file that is no Parquet file or exists.
        """
        if self.csv and self.json:
            raise ParameterError("--csv and --json are two forms of one output: give one of them")
        if self.output is not None:
            if self.output.suffix != ".parquet":
                raise ParameterError(f"output '{self.output}' must end in .parquet")
            if not self.force:
                refuse_existing(path_of(self.output))

    @property
    def is_plain(self) -> bool:
        """Whether the table is printed to be read, without options that change it."""
        return not (self.csv or self.json or self.output or self.columns or self.sort)

    def give(self, frame: pl.DataFrame, title: str, columns: Columns) -> None:
        """Hand a frame out; a terminal shows these columns first."""
        frame = self._wanted(frame)
        if self.output is not None:
            write_parquet(frame, path_of(self.output), overwrite=self.force)
            report = f"wrote {plain(self.output)}: {counted(frame.height, 'row')}"
            typer.echo(report, err=self.csv or self.json)
        if self.json:
            typer.echo(plain_json(frame.write_json()))
        elif self.csv:
            typer.echo(flat(frame).write_csv(), nl=False)
        elif self.output is None:
            chosen = self.columns is not None
            show(frame, title, columns, limit=self.limit, chosen=chosen, hints=True)

    def _wanted(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows and columns that are asked for."""
        if self.sort is not None:
            keys = [key.strip() for key in self.sort.split(",")]
            names = [key.removeprefix("-") for key in keys]
            _check_columns(frame, names)
            falling = [key.startswith("-") for key in keys]
            frame = frame.sort(names, descending=falling, nulls_last=True, maintain_order=True)
        if self.columns is not None:
            wanted = [name.strip() for name in self.columns.split(",")]
            _check_columns(frame, wanted)
            frame = frame.select(list(dict.fromkeys(wanted)))
        hands_out = self.csv or self.json or self.output is not None
        return frame.head(self.limit) if self.limit is not None and hands_out else frame


def _check_columns(frame: pl.DataFrame, names: list[str]) -> None:
    for name in names:
        if name not in frame.columns:
            raise ParameterError(unknown_name("column", name, frame.columns))


def show(
    frame: pl.DataFrame,
    title: str,
    columns: Columns | None = None,
    *,
    limit: int | None = None,
    chosen: bool = False,
    hints: bool = False,
    rest: str = "--json",
) -> None:
    """Print a frame as a table, with what is left out below it.

    Where standard output is no terminal, lines have at most `PIPED` cells, and standard error says what is
    left out; columns that somebody chose are there as they are. `hints` says that the command has the options
    that show the rest; `rest` is the option of other commands, empty where their files have the rest.
    """
    terminal = terminal_width()
    piped = terminal is None
    width = PIPED if piped and not chosen else terminal
    limit = ROWS if limit is None and not piped else limit
    table = lay_out(
        frame,
        columns.names if columns else (),
        width=width,
        rows=limit,
        chosen=chosen,
        piped=piped and not chosen,
    )
    heading = plain(f"{title}: {counted(frame.height, 'row')}")
    typer.echo(heading if width is None or cell_len(heading) <= width else shortened(heading, width))
    typer.echo(typer.style(table.header, bold=True))
    for row in table.rows:
        typer.echo(row)
    left = 0 if limit is None else max(frame.height - limit, 0)
    for line in _constants(table, width):
        typer.echo(typer.style(line, dim=True))
    if piped:
        _say_left_out(table, left, "--csv, or --columns NAME,..." if hints else rest)
    else:
        for line in _notes(table, left, width, hints):
            typer.echo(typer.style(line, dim=True))
    typer.echo()


def _say_left_out(table: Table, rows: int, rest: str) -> None:
    """Say on standard error which parts of a table standard output lacks, and which option shows them."""
    parts = [
        counted(rows, "more row") if rows else "",
        counted(len(table.hidden), "more column") if table.hidden else "",
        f"long values cut in {', '.join(table.cut)}" if table.cut else "",
    ]
    if rest and (summary := ", ".join(part for part in parts if part)):
        typer.echo(plain(f"{summary}; for all: {rest}"), err=True)


def print_line(text: str) -> None:
    """Print a line of text; where standard output is no terminal, folded between words to `PIPED` cells."""
    line = plain(text)
    if terminal_width() is None and cell_len(line) > PIPED:
        line = "\n    ".join(_wrapped(line))
    typer.echo(line)


def _wrapped(line: str) -> list[str]:
    """A line in pieces, the first of `PIPED` cells at most, others of four less; words stay whole."""
    pieces: list[str] = []
    for word in line.split(" "):
        room = PIPED if len(pieces) < 2 else PIPED - 4
        if pieces and cell_len(pieces[-1]) + 1 + cell_len(word) <= room:
            pieces[-1] += f" {word}"
        else:
            pieces.append(word)
    return pieces


def _constants(table: Table, width: int | None) -> list[str]:
    """What every row has in a column that is not shown, in lines that fit."""
    lines: list[str] = []
    for name, value in table.constants.items():
        pair = plain(f"{name}: {value}")
        joined = f"{lines[-1]}  {pair}" if lines else pair
        if lines and (width is None or cell_len(joined) <= width):
            lines[-1] = joined
        else:
            lines.append(pair)
    return lines if width is None else [fitting(line, width) for line in lines]


def _notes(table: Table, rows: int, width: int | None, hints: bool) -> list[str]:
    """What is not in the table on a terminal, each in a line that fits."""
    lines: list[str] = []
    if rows:
        lines.append(counted(rows, "more row") + (": --limit N or --csv" if hints else ""))
    if table.hidden:
        count = counted(len(table.hidden), "more column")
        lines.append(f"{count}: --columns {','.join(table.hidden)} or --csv" if hints else count)
        if width is not None and len(lines[-1]) > width:
            room = width - len(f"{count}: --columns ,... or --csv")
            listed = ",".join(table.hidden)[: max(room, 0)].rpartition(",")[0]
            lines[-1] = f"{count}: --columns {listed},... or --csv" if listed else f"{count}: --csv"
    if table.empty and hints:
        lines.append(counted(table.empty, "empty column"))
    return [plain(line) if width is None else fitting(plain(line), width) for line in lines]


def print_json(tables: dict[str, pl.DataFrame]) -> None:
    """Print several tables as one JSON object."""
    pairs = (f"{json_text.dumps(name)}: {frame.write_json()}" for name, frame in tables.items())
    typer.echo(plain_json("{" + ", ".join(pairs) + "}"))
