"""Files of the survey artifact that may be absent: places, texts, and what is malformed in them."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl

from ..base.text import plain

MALFORMED: Final = pl.Schema({"file": pl.String(), "line": pl.UInt32(), "problem": pl.String()})
"""Columns and types of the table of what is malformed."""

_DATE: Final = re.compile(r"(\d{4}-\d{2}-\d{2})\.csv$")


@dataclass
class Problems:
    """What is malformed in files whose rows are data: a file with a broken row is read all the same."""

    rows: list[tuple[str, int | None, str]] = field(default_factory=list)

    def add(self, path: Path, line: int | None, problem: str) -> None:
        """Note a problem of a line, or of a file."""
        self.rows.append((plain(path.name), line, plain(problem)))

    def table(self) -> pl.DataFrame:
        """A row per problem: ``file line problem``; ``line`` is null where it is about the file."""
        return pl.DataFrame(self.rows, schema=MALFORMED, orient="row")


@dataclass(frozen=True)
class OptionalFiles:
    """Where the optional files of an artifact lie; None, or empty, where they are absent."""

    bibliography: Path | None
    ledger: Path | None
    spot_checks: tuple[tuple[str | None, Path], ...]
    """Of each its date, from its name, and its place."""

    @property
    def any(self) -> bool:
        """Whether one of them is there."""
        return bool(self.bibliography or self.ledger or self.spot_checks)


def optional_files(pool: Path) -> OptionalFiles:
    """The optional files of an artifact: in the folder of its paper pool, or in ``docs``.

    Notes
    -----
    In the repository the pool lies in ``papers``, beside ``docs``; a flat folder has everything in one place.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from orchestrace.scaling.artifact_files import optional_files
    >>> optional_files(pathlib.Path(tempfile.mkdtemp())).any
    False
    """
    documents = [pool, pool / "docs"]
    if pool.name == "papers":
        documents.append(pool.parent / "docs")
    audits = [folder for at in documents for folder in (at, at / "audits")]
    bibliography = pool / "papers.bib"
    ledgers = (at / "claim_ledger.md" for at in documents)
    checks = [path for at in audits for path in sorted(at.glob("independent_spotcheck_*.csv"))]
    dated = tuple((date[1] if (date := _DATE.search(path.name)) else None, path) for path in checks)
    return OptionalFiles(
        bibliography if bibliography.is_file() else None,
        next((path for path in ledgers if path.is_file()), None),
        tuple(pair for pair in dated if pair[1].is_file()),
    )


def text_of(path: Path, problems: Problems) -> str | None:
    """The text of a file; None, with a problem, where it is none."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        problems.add(path, None, "not UTF-8 text")
    except OSError as error:
        problems.add(path, None, error.strerror or "cannot be read")
    return None


def records_of(
    path: Path, needed: tuple[str, ...], problems: Problems
) -> Iterator[tuple[int, dict[str, str]]]:
    """Line and fields of each row of a CSV file that has as many fields as its header.

    Parameters
    ----------
    needed
        Columns without which the file has no rows.
    """
    text = text_of(path, problems)
    if text is None:
        return
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    try:
        header = next(lines, [])
        missing = [name for name in needed if header.count(name) != 1]
        if missing:
            problems.add(path, None, f"expected one column '{missing[0]}'")
            return
        for row in lines:
            if row and len(row) != len(header):
                problems.add(path, lines.line_num, f"{len(row)} fields, expected {len(header)}")
            elif row:
                yield lines.line_num, dict(zip(header, row, strict=True))
    except csv.Error as error:  # what follows cannot be told apart
        problems.add(path, lines.line_num, f"not a CSV file: {error}")
