"""One query in SQL over the tables of a corpus: it reads these tables and nothing else."""

import os
import re
from pathlib import Path
from typing import Final

import polars as pl

from ...base.errors import ParameterError
from ...base.schema import SCHEMAS
from ...base.text import plain
from ...corpus.corpus import Corpus
from ...disk.joined_views import joined_views

_BEGINNING: Final = re.compile(r"[\s(]*(select|with)\b", re.IGNORECASE)
_SCANNED: Final = re.compile(r"\b(?!PYTHON\b)\w+ SCAN \[", re.IGNORECASE)

# as the parser of Polars divides a query; quotes are doubled inside of quotes
_PIECES: Final = re.compile(
    r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|(?P<comment>--|/\*)|(?P<open>['"`])"""
)
_CALLED: Final = re.compile(r"(?:read|scan)_\w++", re.IGNORECASE)
_BRACKET: Final = re.compile(r"\s*\(")
_CALL: Final = re.compile(rf"({_CALLED.pattern}){_BRACKET.pattern}", re.IGNORECASE)
_OTHER_TEXT: Final = re.compile(r"[\w&$]'|\$")
"""Texts whose quotes are not doubled, such as `E'...'` and `$$...$$`."""


def answer_of(
    corpus: Corpus, query: str, rows: int, folder: str | None, root: Path
) -> tuple[pl.DataFrame, bool]:
    """The first rows that a query gives, and whether there are more.

    Parameters
    ----------
    corpus, query, rows
        The tables, what is asked of them, and how many rows are wanted.
    folder
        Where the files of a corpus on disk lie: a plan that scans another one is refused.
    root
        The folder that a client may read; files below it are named as a client names them.

    Raises
    ------
    ParameterError
        It is not one SELECT over these tables.
    """
    check(query)
    try:
        with pl.SQLContext(_tables(corpus, root)) as context:
            for name, view in joined_views(corpus.events.collect_schema().names()).items():
                context.execute(f'CREATE TABLE "{name}" AS {view}')
            plan = context.execute(query, eager=False)
            _check_files(plan.explain(optimized=False), folder)
            frame = plan.head(rows + 1).collect()
    except ParameterError:
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        raise ParameterError(f"query: {plain(str(error).strip().partition(chr(10))[0][:400])}") from None
    return frame.head(rows), frame.height > rows


def columns_of_tables() -> str:
    """The tables and their columns, in a line each."""
    return "\n".join(f"{name}: {' '.join(schema.names())}" for name, schema in SCHEMAS.items())


def check(query: str) -> None:
    """Refuse what is not one SELECT over the tables.

    Raises
    ------
    ParameterError
        Says what it is.
    """
    if not _BEGINNING.match(query):
        raise ParameterError("query does not begin with SELECT or WITH, expected one statement that reads")
    code = _code(query)
    if call := _CALL.search(code):
        raise _called(call[1])
    if _OTHER_TEXT.search(code):
        raise ParameterError(
            "query has '$', or a quote right behind a letter or digit, expected texts as 'text', with a space"
            " before them"
        )
    if _SCANNED.search(query):
        raise ParameterError(
            "query has a text or name with 'SCAN [', which looks like a file in its plan: ask without it"
        )


def _code(query: str) -> str:
    """A query without what its texts and quoted names say.

    Raises
    ------
    ParameterError
        It has a comment, a quote without its end, or a quoted name of a function that reads files.
    """
    parts, end = [], 0
    for piece in _PIECES.finditer(query):
        parts += [query[end : piece.start()], "''"]
        end = piece.end()
        if piece["comment"]:
            raise ParameterError("query has a comment, '--' or '/*', expected one without")
        if piece["open"]:
            raise ParameterError(f"query has a quote {piece[0]} that does not end, expected one that does")
        # Polars calls functions whose names are quoted in any way
        if (call := _CALLED.search(piece[0])) and _BRACKET.match(query, end):
            raise _called(call[0])
    return "".join(parts) + query[end:]


def _called(name: str) -> ParameterError:
    shown = plain(name[:100])
    return ParameterError(f"query calls '{shown}', expected one over the tables of the corpus alone")


def _check_files(plan: str, folder: str | None) -> None:
    """Refuse a plan that scans files of others, should `check` have missed their name in the query."""
    for scan in _SCANNED.finditer(plan):
        if folder is None or not plan.startswith(f"{folder}{os.sep}", scan.end()):
            raise ParameterError("query reads a file, expected one over the tables of the corpus alone")


def _tables(corpus: Corpus, root: Path) -> dict[str, pl.LazyFrame]:
    """The tables with words and names as text, as in the views of `disk.sql_views`, and files by their paths
    below the root."""
    frames = {}
    for name in SCHEMAS:
        frame: pl.LazyFrame = getattr(corpus, name)
        coded = [
            column
            for column, kind in frame.collect_schema().items()
            if isinstance(kind, pl.Enum | pl.Categorical)
        ]
        if coded:
            frame = frame.with_columns(pl.col(coded).cast(pl.String))
        if "file" in SCHEMAS[name]:
            frame = frame.with_columns(pl.col("file").str.strip_prefix(f"{root}{os.sep}"))
        frames[name] = frame
    return frames
