"""One query in SQL over the tables of a corpus: it reads these tables and nothing else."""

import os
import re
import time
from typing import Final

import polars as pl

from ...base.errors import ParameterError
from ...base.schema import SCHEMAS
from ...base.text import plain
from ...corpus.corpus import Corpus
from ...disk.joined_views import joined_views

SECONDS: Final = 60.0
"""How long a query may take."""

_BEGINNING: Final = re.compile(r"[\s(]*(select|with)\b", re.IGNORECASE)
_COMMENT: Final = re.compile(r"--|/\*")
# whatever stands between the name and the bracket, a quote for one: comments are refused before
_FILES: Final = re.compile(r"((?:read|scan)_\w+)\W*?\(", re.IGNORECASE)
_SCANNED: Final = re.compile(r"\b(?!PYTHON\b)\w+ SCAN \[", re.IGNORECASE)


def answer_of(corpus: Corpus, query: str, rows: int, folder: str | None) -> tuple[pl.DataFrame, bool]:
    """The first rows that a query gives, and whether there are more.

    Parameters
    ----------
    corpus, query, rows
        The tables, what is asked of them, and how many rows are wanted.
    folder
        Where the files of a corpus on disk lie: a plan that scans another one is refused.

    Raises
    ------
    ParameterError
        It is not one SELECT over these tables, or takes too long.
    """
    _check(query)
    try:
        with pl.SQLContext(_tables(corpus)) as context:
            for name, view in joined_views(corpus.events.collect_schema().names()).items():
                context.execute(f'CREATE TABLE "{name}" AS {view}')
            plan = context.execute(query, eager=False)
            _check_files(plan.explain(optimized=False), folder)
            frame = _collected(plan.head(rows + 1))
    except ParameterError:
        raise
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, ValueError) as error:
        raise ParameterError(f"query: {plain(str(error).strip().partition(chr(10))[0][:400])}") from None
    return frame.head(rows), frame.height > rows


def columns_of_tables() -> str:
    """The tables and their columns, in a line each."""
    return "\n".join(f"{name}: {' '.join(schema.names())}" for name, schema in SCHEMAS.items())


def _check(query: str) -> None:
    if not _BEGINNING.match(query):
        raise ParameterError("query does not begin with SELECT or WITH, expected one statement that reads")
    if _COMMENT.search(query):
        raise ParameterError("query has a comment, '--' or '/*', expected one without")
    if call := _FILES.search(query):
        raise ParameterError(
            f"query calls '{plain(call[1])}', expected one over the tables of the corpus alone"
        )


def _check_files(plan: str, folder: str | None) -> None:
    """Refuse a plan that scans files of others, should `_check` have missed their name in the query."""
    for scan in _SCANNED.finditer(plan):
        if folder is None or not plan.startswith(f"{folder}{os.sep}", scan.end()):
            raise ParameterError("query reads a file, expected one over the tables of the corpus alone")


def _tables(corpus: Corpus) -> dict[str, pl.LazyFrame]:
    """The tables with words and names as text, as in the views of `disk.sql_views`."""
    frames = {}
    for name in SCHEMAS:
        frame: pl.LazyFrame = getattr(corpus, name)
        coded = [
            column
            for column, kind in frame.collect_schema().items()
            if isinstance(kind, pl.Enum | pl.Categorical)
        ]
        frames[name] = frame.with_columns(pl.col(coded).cast(pl.String)) if coded else frame
    return frames


def _collected(plan: pl.LazyFrame) -> pl.DataFrame:
    """The rows of a plan, given up after `SECONDS`."""
    running = plan.collect(background=True)
    deadline, pause = time.monotonic() + SECONDS, 0.001
    while (frame := running.fetch()) is None:
        if time.monotonic() > deadline:
            running.cancel()
            raise ParameterError(f"query takes more than {SECONDS:.0f} s: ask for less of it")
        time.sleep(pause)
        pause = min(pause * 2, 0.05)
    return frame
