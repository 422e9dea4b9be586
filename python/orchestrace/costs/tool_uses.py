"""Which tools only read: listed ones, and what a caller says (docs/reference/definitions.md, D38)."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

import polars as pl

from ..base.division import Arguments
from ..base.errors import ParameterError
from ..corpus.corpus import Corpus
from ..corpus.names import named_tools

USES: Final = ("reading", "writing", "verifying")
"""Arguments that name tools or patterns of them by what they do."""


@cache
def listed_reading() -> tuple[str, ...]:
    """Names of tools that are known to read alone, in order.

    Examples
    --------
    >>> from orchestrace.costs.tool_uses import listed_reading
    >>> "read_file" in listed_reading()
    True
    """
    place = Path(__file__).parent / "reading_tools.csv"
    return tuple(sorted(set(pl.read_csv(place, infer_schema=False)["tool"])))


def reading_tools(corpus: Corpus, reading: Iterable[str], writing: Iterable[str]) -> list[str]:
    """Names of the tools that only read: listed ones and `reading`, without `writing`.

    Raises
    ------
    ParameterError
        A name or pattern that no tool of the corpus has, or a tool that is said to do both.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.costs.tool_uses import reading_tools
    >>> "web.fetch" in reading_tools(ot.generate(traces=8, seed=0), ["web.*"], [])
    True
    """
    reads, writes = named_tools(corpus, "reading", reading), named_tools(corpus, "writing", writing)
    both = sorted(set(reads) & set(writes))
    if both:
        raise ParameterError(f"the tool '{both[0]}' is in reading and in writing, expected one of them")
    return sorted((set(listed_reading()) | set(reads)) - set(writes))


def with_named_uses(corpus: Corpus, arguments: Arguments) -> Arguments:
    """Arguments with patterns of tools as the names that they stand for in the whole corpus."""
    names = {use: named_tools(corpus, use, arguments.named[use]) for use in USES if use in arguments.named}
    return arguments.replacing(**names)
