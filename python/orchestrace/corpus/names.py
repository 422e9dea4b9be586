"""Names in arguments, checked against the names that traces and tables have."""

from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

import polars as pl

from .. import _core
from ..base.division import Arguments
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.text import briefly
from .corpus import Corpus

TOOLS: Final = ("untrusted_tools", "trusted_tools", "privileged_tools")
"""Arguments that name tools or patterns of them."""
_SHOWN: Final = 20  # names that an error lists; of more it shows the nearest


def names_of(argument: str, value: object) -> list[str]:
    """The names that an argument lists, in the order given.

    Raises
    ------
    ParameterError
        A single name instead of a list, an argument that is not iterable, or an item that is not text.

    Examples
    --------
    >>> from orchestrace.corpus.names import names_of
    >>> names_of("tools", ("search", "read"))
    ['search', 'read']
    """
    if isinstance(value, str):
        raise ParameterError(f"{argument} is {value!r}, expected a list of names: [{value!r}]")
    # an array without a dimension has the method, but nothing to go over
    if not isinstance(value, Iterable) or getattr(value, "ndim", 1) == 0:
        raise ParameterError(f"{argument} is {briefly(value)}, expected a list of names")
    names = list(value)
    for name in names:
        if not isinstance(name, str):
            raise ParameterError(f"{argument} has {briefly(name)}, expected names")
    return [str(name) for name in names]  # those of NumPy, too, as plain text


def declared_names(argument: str, value: Mapping[str, Collection[str]] | None) -> Any:
    """The names by name that an argument declares, as the core takes them; None where it is None.

    Raises
    ------
    ParameterError
        Something else than names by name.

    Examples
    --------
    >>> from orchestrace.corpus.names import declared_names
    >>> declared_names("harness", {"tools": ("search", "read")})
    {'tools': ['search', 'read']}
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise ParameterError(f"{argument} is {value!r}, expected names by name: {{'name': ['name', ...]}}")
    named = {str(key): names_of(f"{argument}[{key!r}]", names) for key, names in value.items()}
    kind = set if argument == "subtasks" else list
    return {key: kind(names) for key, names in named.items()}


def measure_of_traces(corpus: Corpus, kind: str, name: str) -> pl.DataFrame:
    """A measure of the traces that have it: ``trace`` and a column of its name; the first value counts.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.corpus.names import measure_of_traces
    >>> measure_of_traces(ot.generate(traces=2, seed=0), "reward", "team").columns
    ['trace', 'team']
    """
    is_it = (pl.col("kind") == kind) & (pl.col("name").cast(pl.String) == name)
    rows = corpus.measures.filter(is_it).select("trace", pl.col("value").alias(name))
    return rows.collect(engine="streaming").unique("trace", keep="first", maintain_order=True)


def number_column(argument: str, value: str, of: str, schema: pl.Schema) -> str:
    """The column of numbers that an argument names, one of `schema`, which is of `of`.

    Raises
    ------
    ParameterError
        An unknown column, or a column that is not numeric.

    Examples
    --------
    >>> import polars as pl
    >>> from orchestrace.corpus.names import number_column
    >>> number_column("cost", "price", "events", pl.Schema({"id": pl.String, "price": pl.Float64}))
    'price'
    """
    if value not in schema:
        raise ParameterError(unknown_name(f"column of {of}", value, schema.names()))
    dtype = schema[value]
    # one that is null throughout may be of numbers
    if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
        raise ParameterError(
            f"{argument} names the column '{value}' of type {dtype}, expected one of numbers"
        )
    return value


def expect_names(corpus: Corpus, by: str, names: Iterable[str]) -> None:
    """Refuse names that no trace has; a corpus without traces has no answer to be wrong.

    Agents, spawns, roles and tools go by their name, everything else by the id of an event.

    Raises
    ------
    ParameterError
        The first name that is not there, with the nearest one that is.
    """
    if not corpus.is_whole:  # they were looked up before it was divided
        return
    names = sorted(set(names))
    frame = _column(corpus, by)
    if frame is None:
        ids = corpus.events.select(name=pl.col("id")).filter(pl.col("name").is_in(names)).unique()
        existing = ids.collect(engine="streaming")["name"].to_list()
    else:
        present = frame.select(pl.col("name").cast(pl.String).unique()).drop_nulls()
        existing = present.collect(engine="streaming")["name"].sort().to_list()
    missing = [name for name in names if name not in set(existing)]
    if not missing or not len(corpus):
        return
    if frame is None:
        raise ParameterError(f"no trace has an event with the id '{missing[0]}' ({by}=)")
    raise ParameterError(_unknown(by, missing[0], existing))


def named_tools(corpus: Corpus, argument: str, value: object) -> list[str]:
    """List the tools of a corpus that an argument means: names, or patterns such as ``"web.*"``.

    Tools are those of events, and agents of the kind ``tool``, which results may name alone. A corpus without
    traces has no answer to be wrong: there, names stay as they are. Patterns are those of `fnmatch`: ``*``,
    ``?`` and ``[...]``; case counts.

    Raises
    ------
    ParameterError
        Not a list of names, or names and patterns that no tool of the corpus has; the message lists them
        and the tools that are known.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.corpus.names import named_tools
    >>> named_tools(ot.generate(traces=8, seed=0), "untrusted_tools", ["web.*", "browser.*"])
    ['browser.open', 'browser.search', 'web.fetch']
    """
    names = names_of(argument, value)
    if not names or not corpus.is_whole or not len(corpus):
        return names
    agents = corpus.agents.filter(pl.col("kind") == "tool").select(name=pl.col("agent").cast(pl.String))
    events = corpus.events.select(name=pl.col("tool").cast(pl.String).unique())
    present = pl.concat([agents.unique(), events]).drop_nulls().unique()
    existing = present.collect(engine="streaming")["name"].sort().to_list()
    # a tool may have a bracket or a star in its name
    matches = {name: [tool for tool in existing if tool == name or fnmatchcase(tool, name)] for name in names}
    missing = [name for name, tools in matches.items() if not tools]
    if len(missing) == 1:
        raise ParameterError(f"{argument}: {_unknown('tool', missing[0], existing)}")
    if missing:
        listed = ", ".join(repr(name) for name in missing)
        shown = ", ".join(existing[:_SHOWN]) + (
            f", … {len(existing):,} in all" if len(existing) > _SHOWN else ""
        )
        raise ParameterError(f"{argument}: unknown tools {listed} (known: {shown or 'none'})")
    return sorted({tool for tools in matches.values() for tool in tools})


def tools_by_trust(
    corpus: Corpus,
    untrusted: Iterable[str],
    trusted: Iterable[str],
    privileged: Iterable[str],
) -> dict[str, list[str]]:
    """The three arguments about tools as the core takes them, with names in place of patterns.

    Raises
    ------
    ParameterError
        As `named_tools`.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.corpus.names import tools_by_trust
    >>> tools_by_trust(ot.generate(traces=8, seed=0), ["web.*"], [], ["bash"])
    {'untrusted': ['web.fetch'], 'trusted': [], 'privileged': ['bash']}
    """
    patterns = {"untrusted": untrusted, "trusted": trusted, "privileged": privileged}
    return {kind: named_tools(corpus, f"{kind}_tools", names) for kind, names in patterns.items()}


def _column(corpus: Corpus, by: str) -> pl.LazyFrame | None:
    """The names that the corpus has, as ``name``; None where `by` means ids of events."""
    if by == "tool":
        return corpus.events.select(name=pl.col("tool"))
    if by not in ("agent", "spawn", "role"):
        return None
    agents = corpus.agents.filter(pl.col("kind") == "agent")
    return agents.select(name=pl.col("role" if by == "role" else "agent"))


def _unknown(by: str, name: str, existing: list[str]) -> str:
    if not existing:
        return f"unknown {by} '{name}': no trace has a {by}"
    if len(existing) <= _SHOWN:
        return unknown_name(by, name, existing)
    nearest = _core.nearest(name, existing)
    hint = f"; did you mean '{nearest}'?" if nearest else ""
    return f"unknown {by} '{name}'{hint} ({len(existing):,} are known)"


def with_named_tools(corpus: Corpus, arguments: Arguments) -> Arguments:
    """Arguments with patterns of tools as the names that they stand for in the whole corpus."""
    names = {
        option: named_tools(corpus, option, arguments.named[option])
        for option in TOOLS
        if option in arguments.named
    }
    return arguments.replacing(**names)
