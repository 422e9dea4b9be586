"""The bibliography of the survey artifact: which papers have an entry, and which entries a paper."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Final

import polars as pl

from .artifact_files import Problems, text_of

BIBLIOGRAPHY: Final = pl.Schema(
    {
        "key": pl.String(),
        "entry": pl.String(),
        "entries": pl.UInt32(),
        "status": pl.Enum(["matched", "matched_without_year", "duplicate", "no_entry", "no_paper"]),
    }
)
"""Columns and types of the table of entries."""

_BEGIN: Final = re.compile(r"^[ \t]*@[ \t]*(\w+)[ \t]*([{(])", re.MULTILINE)
_NO_ENTRY: Final = ("comment", "preamble", "string")
_YEAR: Final = re.compile(r"-?(?:19|20)\d\d$")


def bibliography(path: Path, papers: Iterable[str], problems: Problems) -> pl.DataFrame:
    """Match the entries of a BibTeX file with the keys of the pool.

    Returns
    -------
    DataFrame
        A row per paper, then a row per entry without one: ``key`` (of the pool), ``entry`` (key of the
        bibliography), ``entries`` (UInt32: how many have it), ``status`` (Enum): ``matched``,
        ``matched_without_year`` (an entry is named as the paper with a year behind it), ``duplicate`` (two
        entries or more), ``no_entry``, ``no_paper``.

    Notes
    -----
    Linear in the text. An entry that is not closed, or has no key, is a problem and not an entry.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from orchestrace.scaling.artifact_files import Problems
    >>> from orchestrace.scaling.bibliography import bibliography
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "papers.bib"
    >>> _ = path.write_text("@misc{a2024, title = {A}}\\n@misc{z, title = {Z}}")
    >>> bibliography(path, ["a", "b"], Problems()).rows()[:2]
    [('a', 'a2024', 1, 'matched_without_year'), ('b', None, 0, 'no_entry')]
    """
    entries = Counter(_keys(path, problems))
    listed = list(dict.fromkeys(papers))
    unmatched = [entry for entry in entries if entry not in set(listed)]
    by_name: dict[str, str] = {}
    for entry in unmatched:
        by_name.setdefault(_YEAR.sub("", entry), entry)
    rows: list[tuple[str | None, str | None, int, str]] = []
    for key in listed:
        name = key if key in entries else by_name.get(key)
        if name is None:
            rows.append((key, None, 0, "no_entry"))
            continue
        status = "matched" if name == key else "matched_without_year"
        rows.append((key, name, entries[name], "duplicate" if entries[name] > 1 else status))
    used = {name for _, name, _, _ in rows}
    rows += [(None, entry, entries[entry], "no_paper") for entry in unmatched if entry not in used]
    return pl.DataFrame(rows, schema=BIBLIOGRAPHY, orient="row")


def _keys(path: Path, problems: Problems) -> Iterator[str]:
    """The keys of all entries, in their order, repeated where they are."""
    text = text_of(path, problems) or ""
    begins = list(_BEGIN.finditer(text))
    line, counted_to = 1, 0
    for begin, following in zip_longest(begins, begins[1:]):
        line, counted_to = line + text.count("\n", counted_to, begin.start()), begin.start()
        if begin[1].lower() in _NO_ENTRY:
            continue
        body = text[begin.end() : following.start() if following else None]
        key = body.partition(",")[0].strip()
        if not _is_closed(body, begin[2]):
            problems.add(path, line, f"the entry @{begin[1]} '{key[:80]}' is not closed")
        elif not key or re.search(r"[\s{}()=]", key):
            problems.add(path, line, f"the entry @{begin[1]} has no key")
        else:
            yield key


def _is_closed(body: str, opened: str) -> bool:
    """Whether the bracket that opens an entry is closed before the next entry begins."""
    depth = 1 if opened == "{" else 0
    for bracket in re.finditer(r"(?<!\\)[{})]", body):
        if bracket[0] == ")":
            if opened == "(" and depth == 0:
                return True
            continue
        depth += 1 if bracket[0] == "{" else -1
        if depth == 0 and opened == "{":
            return True
    return False
