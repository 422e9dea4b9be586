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
_SPAN: Final = re.compile(r"`[^`]*`")
_PAIR: Final = re.compile(r"`\s*(\w+)\s*=\s*([^\s=,;&]+)\s*`")
_NUMBERS: Final = {
    **{"no": 0, "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6},
    **{"seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12},
}
_TAGS: Final = re.compile(r"(\S+)\s+(?:retained\s+)?tags?\b", re.IGNORECASE)
_BEFORE: Final = re.compile(
    r"(?:\b(?:has|have|with|is|are|in|on|for|exactly|only|just)\s+|[:;(]\s*|^\s*)$", re.I
)
"""What a number that stands alone may follow: "at least two" and "twenty one" say something else."""
_AFTER: Final = re.compile(
    r"\s*(?:at|of|or|and|to|per|each|plus|minus|out|more|less|fewer)\b|\s*[-+/*%]", re.I
)
"""What may not follow it: "two tags or more" is no number."""
_DENIED: Final = re.compile(r"\b(?:not|no|never|neither|nor|nobody|none|nothing|without)\b|n't\b", re.I)
_DIVIDES: Final = re.compile(r":?-+:?")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


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
    Linear. A claim states a count where its support has one pair ``field=value`` and one plain number of
    tags: digits, or a word up to twelve. "At least two tags", "not one tag" and "1,002 tags" state none.
    Problems: a row with another number of cells, a count that is no number, a paper that the pool does not
    have, a second row of a cell or a paper (the first is read), and tables without rows.

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
    headers = 0
    first: dict[tuple[tuple[str, ...], str], int] = {}
    for line, header, cells in _table_rows(text or ""):
        if cells is None:
            headers += 1
            continue
        if len(cells) != len(header):
            problems.add(path, line, f"{len(cells)} cells, expected {len(header)}")
            continue
        name = cells[0].strip("`")
        earlier = line if header == _CLAIM_HEADER else first.setdefault((header, name), line)
        if earlier != line:
            problems.add(path, line, f"'{name}' is listed twice: only line {earlier} is read")
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
        absent = "no table with the columns 'Claim', 'Artifact check', 'Boundary'"
        problems.add(path, None, "its tables have no rows" if headers else absent)
    tables = zip((claims, rows, counts), (CLAIMS, ROWS, CELLS), strict=True)
    return Ledger(*(pl.DataFrame(listed, schema=schema, orient="row") for listed, schema in tables))


def strict_and_broad(papers: pl.DataFrame, codings: pl.DataFrame | None, cells: pl.DataFrame) -> pl.DataFrame:
    """Put strict counts beside broad ones: of the pool, of the spot check and of the ledger.

    Parameters
    ----------
    papers
        The pool: ``key credit_granularity``.
    codings
        Of the spot check: ``date key strict``; of a paper that was read twice the last reading counts, also
        one that says neither yes nor no. None if there was none.
    cells
        The counts that the ledger states (`Ledger`).

    Returns
    -------
    DataFrame
        A row per level of credit in the pool, the most frequent first, then other cells of the ledger:
        ``cell`` (String), ``broad`` (UInt32: papers with the tag, null where it is none of the pool),
        ``strict`` (UInt32: of these with an explicit credit mechanism by the spot check, null where no paper
        was read), ``at_most`` (UInt32: if every paper that was not read had one), ``checked`` (UInt32: papers
        read), ``ledger_broad ledger_strict`` (UInt32: as stated), ``agrees`` (Boolean: the broad counts are
        the same, and the strict one is possible; null without a statement, or where only the strict count is
        in question and no paper was read), ``boundary`` (String), ``as_of``.

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
        read = codings.group_by("key").agg(pl.col("strict").sort_by("date", maintain_order=True).last())
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
        .with_columns(strict=pl.when(pl.col("checked") > 0).then("strict"))
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
    spans = [span for span in _SPAN.findall(support) if "=" in span]
    pair = _PAIR.fullmatch(spans[0]) if len(spans) == 1 else None
    stated = _stated(_SPAN.sub("`", support))
    if pair is None or stated is None or pair[1] not in fields or pair[1] not in papers.columns:
        return None, None, None, None, None
    n = papers.filter(pl.col(pair[1]) == pair[2]).height
    return pair[1], pair[2], stated, n, stated == n


def _stated(words: str) -> int | None:
    """The number of tags that a sentence states; None where it states none, several, or a bound."""
    mentions = list(_TAGS.finditer(words))
    numbers = [
        mention for mention in mentions if _count_of(mention[1]) is not None or re.search(r"\d", mention[1])
    ]
    if len(numbers) != 1:
        return None
    (mention,) = numbers
    before, after = words[: mention.start()], words[mention.end() :]
    if not _BEFORE.search(before) or _DENIED.search(before) or _AFTER.match(after):
        return None
    return _count_of(mention[1])


def _count_of(word: str) -> int | None:
    word = word.lower()
    return int(word) if re.fullmatch(r"[0-9]{1,6}", word) else _NUMBERS.get(word)


def _table_rows(text: str) -> Iterator[tuple[int, tuple[str, ...], list[str] | None]]:
    """Line, header and cells of each row of the tables that are the ledger's; of a header no cells."""
    header: tuple[str, ...] | None = None
    fence = ""
    in_table = 0
    for number, line in enumerate(text.split("\n"), 1):
        mark = _FENCE.match(line)
        if fence:  # what is in a block of code is an example
            if mark and mark[1].startswith(fence) and not mark[2].strip():
                fence = ""
            continue
        if mark:
            fence = mark[1]
        if not line.lstrip().startswith("|"):
            header, in_table = None, 0
            continue
        cells = _cells(line)
        in_table += 1
        if in_table == 1:
            names = tuple(cell.lower() for cell in cells)
            header = names if names in _HEADERS else None
            if header is not None:
                yield number, header, None
        # only the second line divides: a row of hyphens further down is a row
        elif header is not None and (in_table > 2 or not all(map(_DIVIDES.fullmatch, cells))):
            yield number, header, cells


def _cells(line: str) -> list[str]:
    """The cells of a row of Markdown; a pipe behind a backslash is text."""
    inner = line.strip().removeprefix("|")
    parts = re.split(r"(?<!\\)\|", inner)
    if not parts[-1].strip():
        parts.pop()
    return [part.strip().replace("\\|", "|") for part in parts]
