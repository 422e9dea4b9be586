"""The bibliography of the survey artifact: which papers have an entry, and which entries a paper."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
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

_ENTRY: Final = r"@[ \t]*(?P<kind>\w+)[ \t]*(?P<opened>[{(])"
_BEGIN: Final = re.compile(_ENTRY)
_LINE: Final = re.compile(rf"^[ \t]*{_ENTRY}", re.MULTILINE)
_OUTSIDE: Final = re.compile(rf"{_ENTRY}|%[^\n]*")
"""What counts between entries: an entry or a comment, which ends with its line."""
_MARK: Final = re.compile(rf'(?<!\\)[{{}})"]|^(?=[ \t]*{_ENTRY})', re.MULTILINE)
"""What counts inside an entry: brackets, quotation marks, and a line that may begin another."""
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
    Linear in the text, and once more for each entry that is not closed. Such an entry, one without a key,
    and one behind ``%`` are problems and not entries. A line may hold several entries.

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
    line, counted_to, at = 1, 0, 0
    while begin := _OUTSIDE.search(text, at):
        at = begin.end()
        line, counted_to = line + text.count("\n", counted_to, begin.start()), begin.start()
        kind, opened = begin["kind"], begin["opened"]
        if kind is None:  # a comment: prose, or an entry that somebody took out
            if (inner := _BEGIN.match(begin[0].lstrip("% \t"))) and inner["kind"].lower() not in _NO_ENTRY:
                problems.add(path, line, f"an entry @{inner['kind']} behind %, which is not read")
            continue
        is_comment = kind.lower() == "comment"
        end = _end_of(text, at, opened, text_only=is_comment)
        if kind.lower() in _NO_ENTRY:
            if is_comment and end and (inner := _BEGIN.search(text, at, end)):
                problems.add(path, line, f"an entry @{inner['kind']} in @{kind}, which is not read")
            at = end or at
            continue
        key = text[at : end and end - 1].partition(",")[0].strip()
        if end is None:
            problems.add(path, line, f"the entry @{kind} '{key[:80]}' is not closed")
            following = _LINE.search(text, at)
            end = following.start() if following else len(text)
        elif not key or re.search(r"[\s{}()=]", key):
            problems.add(path, line, f"the entry @{kind} has no key")
        else:
            yield key
        at = end


def _end_of(text: str, begin: int, opened: str, *, text_only: bool) -> int | None:
    """Where an entry ends; None where its bracket is not closed, or another entry begins between its fields.

    A line that begins with ``@`` is text where it is in braces or quotation marks, or where there are no
    fields but only text.
    """
    depth, quoted = 0, False
    for mark in _MARK.finditer(text, begin):
        if mark[0] == "{":
            depth += 1
        elif mark[0] == "}":
            depth -= 1
            if depth < 0:
                return mark.end() if opened == "{" else None
        elif depth == 0 and mark[0] == '"':
            quoted = not quoted and not text_only
        elif depth == 0 and not quoted:
            if mark[0] == ")" and opened == "(":
                return mark.end()
            if mark[0] != ")" and not text_only:
                return None
    return None
