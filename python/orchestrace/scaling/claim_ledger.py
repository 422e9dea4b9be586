"""The survey's ledger: what supports each claim, up to where, and whether the pool counts the same."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from .artifact_files import Problems, text_of

AS_OF: Final = "as of the survey (May 2026)"
"""When the claims of the ledger held."""

CLAIMS: Final = pl.Schema(
    {
        "claim": pl.String(),
        "support": pl.String(),
        "boundary": pl.String(),
        "field": pl.String(),
        "value": pl.String(),
        "stated": pl.UInt32(),
        "counted": pl.UInt32(),
        "agrees": pl.Boolean(),
        "as_of": pl.String(),
    }
)
"""Columns and types of the table of claims."""

ROWS: Final = pl.Schema(
    {
        "key": pl.String(),
        "level": pl.String(),
        "rationale": pl.String(),
        "boundary": pl.String(),
        "pool_level": pl.String(),
        "agrees": pl.Boolean(),
    }
)
"""Columns and types of the table of papers whose tag the ledger explains."""

CELLS: Final = pl.Schema(
    {"cell": pl.String(), "broad": pl.UInt32(), "strict": pl.UInt32(), "boundary": pl.String()}
)
"""Columns and types of the table of strict and broad counts, as the ledger states them."""

_CLAIM_HEADER: Final = ("claim", "artifact check", "boundary")
_ROW_HEADER: Final = ("row", "tagged level", "rationale", "mechanism boundary")
_CELL_HEADER: Final = ("cell", "broad tags", "strict or near-strict subset", "boundary")
_HEADERS: Final = (_CLAIM_HEADER, _ROW_HEADER, _CELL_HEADER)
_LEVEL: Final = "credit_granularity"
_PAIR: Final = re.compile(r"`(\w+)\s*=\s*([^`]+)`")
_NUMBERS: Final = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_STATED: Final = re.compile(rf"\b(\d{{1,6}}|{'|'.join(_NUMBERS)})\s+(?:retained\s+)?tags?\b", re.IGNORECASE)


@dataclass(frozen=True)
class Ledger:
    """The tables of a ledger.

    Parameters
    ----------
    claims
        ``claim support boundary`` (String, as written); of a claim that states how many papers have a tag
        ``field value`` (String), ``stated counted`` (UInt32: by the ledger, in the pool) and ``agrees``
        (Boolean), else null; ``as_of``.
    rows
        Of each paper whose tag is explained ``key level rationale boundary`` (String, as written),
        ``pool_level`` (String: its tag in the pool) and ``agrees`` (null where the pool lacks the paper).
    cells
        ``cell`` (String: a level of credit, or a decision), ``broad strict`` (UInt32, as stated: papers with
        the tag, and those of them with an explicit mechanism), ``boundary``.
    """

    claims: pl.DataFrame
    rows: pl.DataFrame
    cells: pl.DataFrame


def claim_ledger(path: Path, papers: pl.DataFrame, fields: Sequence[str], problems: Problems) -> Ledger:
    """Read a ledger, and count again in the pool what its claims count.

    Notes
    -----
    Linear. A claim states a count where its support has one pair ``field=value`` and a number of tags. A row
    with another number of cells, a count that is no number, and a paper that the pool does not have are
    problems.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import polars as pl
    >>> from orchestrace.scaling.artifact_files import Problems
    >>> from orchestrace.scaling.claim_ledger import claim_ledger
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "claim_ledger.md"
    >>> lines = ["|Claim|Artifact check|Boundary|", "|---|---|---|", "|Rare|`x=a` has two tags|-|"]
    >>> _ = path.write_text("\\n".join(lines))
    >>> ledger = claim_ledger(path, pl.DataFrame({"key": ["p"], "x": ["a"]}), ["x"], Problems())
    >>> ledger.claims.select("stated", "counted", "agrees").row(0)
    (2, 1, False)
    """
    levels = dict(papers.select("key", _LEVEL).iter_rows()) if _LEVEL in papers.columns else {}
    claims: list[tuple[object, ...]] = []
    rows: list[tuple[object, ...]] = []
    counts: list[tuple[object, ...]] = []
    text = text_of(path, problems)
    for line, header, cells in _table_rows(text or ""):
        if len(cells) != len(header):
            problems.add(path, line, f"{len(cells)} cells, expected {len(header)}")
        elif header == _CLAIM_HEADER:
            claims.append((*cells, *_recount(cells[1], papers, fields), AS_OF))
        elif header == _CELL_HEADER:
            broad, strict = map(_number, cells[1:3])
            if broad is None or strict is None:
                problems.add(path, line, f"'{cells[1]}' and '{cells[2]}', expected two whole numbers")
            counts.append((cells[0].strip("`"), broad, strict, cells[3]))
        else:
            key, level, rationale, boundary = (cell.strip("`") for cell in cells)
            if key not in levels:
                problems.add(path, line, f"'{key}' is not in the paper pool")
            tag = levels.get(key)
            rows.append((key, level, rationale, boundary, tag, None if tag is None else tag == level))
    if text is not None and not (claims or rows or counts):
        problems.add(path, None, "no table with the columns 'Claim', 'Artifact check', 'Boundary'")
    tables = zip((claims, rows, counts), (CLAIMS, ROWS, CELLS), strict=True)
    return Ledger(*(pl.DataFrame(listed, schema=schema, orient="row") for listed, schema in tables))


def strict_and_broad(papers: pl.DataFrame, codings: pl.DataFrame | None, cells: pl.DataFrame) -> pl.DataFrame:
    """Put strict counts beside broad ones: of the pool, of the spot check and of the ledger.

    Parameters
    ----------
    papers
        The pool: ``key credit_granularity``.
    codings
        Of the spot check: ``date key strict``; of a paper that was read twice the last reading counts. None
        if there was none.
    cells
        The counts that the ledger states (`Ledger`).

    Returns
    -------
    DataFrame
        A row per level of credit in the pool, the most frequent first, then other cells of the ledger:
        ``cell`` (String), ``broad`` (UInt32: papers with the tag, null where it is none of the pool),
        ``strict`` (UInt32: of these with an explicit credit mechanism by the spot check), ``at_most``
        (UInt32: if every paper that was not read had one), ``checked`` (UInt32: papers read),
        ``ledger_broad ledger_strict`` (UInt32: as stated), ``agrees`` (Boolean: the broad counts are the
        same, and the strict one is possible; null without a statement), ``boundary`` (String), ``as_of``.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.scaling.claim_ledger import CELLS, strict_and_broad
    >>> papers = pl.DataFrame({"key": ["a", "b"], "credit_granularity": ["turn", "turn"]})
    >>> read = pl.DataFrame({"date": ["2026-05-03"], "key": ["a"], "strict": [True]})
    >>> stated = pl.DataFrame([("turn", 2, 2, "no more")], schema=CELLS, orient="row")
    >>> strict_and_broad(papers, read, stated).row(0)[:8]
    ('turn', 2, 1, 2, 1, 2, 2, True)
    """
    read = pl.DataFrame(schema={"key": pl.String, "strict": pl.Boolean})
    if codings is not None:
        read = codings.drop_nulls("strict").group_by("key").agg(pl.col("strict").sort_by("date").last())
    tagged = papers.select("key", cell=_LEVEL).filter(pl.col("cell") != "NA")
    levels = (
        tagged.join(read, on="key", how="left")
        .group_by("cell")
        .agg(
            broad=pl.len().cast(pl.UInt32),
            strict=pl.col("strict").sum().cast(pl.UInt32),
            at_most=pl.col("strict").fill_null(value=True).sum().cast(pl.UInt32),
            checked=pl.col("strict").count().cast(pl.UInt32),
        )
        .sort("broad", "cell", descending=[True, False])
    )
    stated = cells.rename({"broad": "ledger_broad", "strict": "ledger_strict"}).unique("cell", keep="first")
    rows = levels.join(stated, on="cell", how="left", maintain_order="left")
    others = stated.join(levels, on="cell", how="anti").sort("cell")
    possible = pl.col("ledger_strict").is_between("strict", "at_most")
    return pl.concat([rows, others], how="diagonal").select(
        *("cell", "broad", "strict", "at_most", "checked", "ledger_broad", "ledger_strict"),
        agrees=(pl.col("broad") == pl.col("ledger_broad")) & possible,
        boundary="boundary",
        as_of=pl.lit(AS_OF),
    )


def _number(cell: str) -> int | None:
    return int(cell) if re.fullmatch(r"[0-9]{1,9}", cell) else None


def _recount(
    support: str, papers: pl.DataFrame, fields: Sequence[str]
) -> tuple[str | None, str | None, int | None, int | None, bool | None]:
    """Field, value, the stated number, the number in the pool, and whether they agree."""
    pairs = [pair for pair in _PAIR.findall(support) if pair[0] in fields and pair[0] in papers.columns]
    number = _STATED.search(support)
    if len(pairs) != 1 or number is None:
        return None, None, None, None, None
    (field, value), word = pairs[0], number[1].lower()
    stated = _NUMBERS.index(word) if word in _NUMBERS else int(word)
    n = papers.filter(pl.col(field) == value.strip()).height
    return field, value.strip(), stated, n, stated == n


def _table_rows(text: str) -> Iterator[tuple[int, tuple[str, ...], list[str]]]:
    """Line, header and cells of each row of the tables that are the ledger's."""
    header: tuple[str, ...] | None = None
    begins = True
    for number, line in enumerate(text.split("\n"), 1):
        if not line.lstrip().startswith("|"):
            header, begins = None, True
            continue
        cells = _cells(line)
        if begins:
            names = tuple(cell.lower() for cell in cells)
            header, begins = (names if names in _HEADERS else None), False
        elif header is not None and not all(re.fullmatch(r":?-+:?", cell) for cell in cells):
            yield number, header, cells


def _cells(line: str) -> list[str]:
    """The cells of a row of Markdown; a pipe behind a backslash is text."""
    inner = line.strip().removeprefix("|")
    parts = re.split(r"(?<!\\)\|", inner)
    if not parts[-1].strip():
        parts.pop()
    return [part.strip().replace("\\|", "|") for part in parts]
