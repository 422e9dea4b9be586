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


def names_of(what: str, given: object) -> list[str]:
    """The names that the argument `what` lists, in the order given.

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
    if isinstance(given, str):
        raise ParameterError(f"{what} is {given!r}, expected a list of names: [{given!r}]")
    # an array without a dimension has the method, but nothing to go over
    if not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
        raise ParameterError(f"{what} is {briefly(given)}, expected a list of names")
    names = list(given)
    for name in names:
        if not isinstance(name, str):
            raise ParameterError(f"{what} has {briefly(name)}, expected names")
    return [str(name) for name in names]  # those of NumPy, too, as plain text


def declared_names(what: str, given: Mapping[str, Collection[str]] | None) -> Any:
    """The names by name that the argument `what` declares, as the core takes them; None where it is None.

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
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise ParameterError(f"{what} is {given!r}, expected names by name: {{'name': ['name', ...]}}")
    named = {str(key): names_of(f"{what}[{key!r}]", names) for key, names in given.items()}
    kind = set if what == "subtasks" else list
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
    found = corpus.measures.filter(is_it).select("trace", pl.col("value").alias(name))
    return found.collect(engine="streaming").unique("trace", keep="first", maintain_order=True)


def number_column(what: str, given: str, of: str, schema: pl.Schema) -> str:
    """The column of numbers that the argument `what` names, one of `schema`, which is of `of`.

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
    if given not in schema:
        raise ParameterError(unknown_name(f"column of {of}", given, schema.names()))
    dtype = schema[given]
    # one that is null throughout may be of numbers
    if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
        raise ParameterError(f"{what} names the column '{given}' of type {dtype}, expected one of numbers")
    return given


def expect_known(corpus: Corpus, by: str, names: Iterable[str]) -> None:
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
        known = ids.collect(engine="streaming")["name"].to_list()
    else:
        there = frame.select(pl.col("name").cast(pl.String).unique()).drop_nulls()
        known = there.collect(engine="streaming")["name"].sort().to_list()
    missing = [name for name in names if name not in set(known)]
    if not missing or not len(corpus):
        return
    if frame is None:
        raise ParameterError(f"no trace has an event with the id '{missing[0]}' ({by}=)")
    raise ParameterError(_unknown(by, missing[0], known))


def named_tools(corpus: Corpus, what: str, given: object) -> list[str]:
    """List the tools of a corpus that the argument `what` means: names, or patterns such as ``"web.*"``.

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
    names = names_of(what, given)
    if not names or not corpus.is_whole or not len(corpus):
        return names
    agents = corpus.agents.filter(pl.col("kind") == "tool").select(name=pl.col("agent").cast(pl.String))
    events = corpus.events.select(name=pl.col("tool").cast(pl.String).unique())
    there = pl.concat([agents.unique(), events]).drop_nulls().unique()
    known = there.collect(engine="streaming")["name"].sort().to_list()
    # a tool may have a bracket or a star in its name
    found = {name: [tool for tool in known if tool == name or fnmatchcase(tool, name)] for name in names}
    missing = [name for name, tools in found.items() if not tools]
    if len(missing) == 1:
        raise ParameterError(f"{what}: {_unknown('tool', missing[0], known)}")
    if missing:
        listed = ", ".join(repr(name) for name in missing)
        shown = ", ".join(known[:_SHOWN]) + (f", … {len(known):,} in all" if len(known) > _SHOWN else "")
        raise ParameterError(f"{what}: unknown tools {listed} (known: {shown or 'none'})")
    return sorted({tool for tools in found.values() for tool in tools})


def said_of_tools(
    corpus: Corpus,
    untrusted: Iterable[str],
    trusted: Iterable[str],
    privileged: Iterable[str],
) -> dict[str, list[str]]:
    """What the core takes of the three arguments about tools, once patterns are names.

    Raises
    ------
    ParameterError
        As `named_tools`.

    Examples
    --------
    >>> import orchestrace as ot
    >>> from orchestrace.corpus.names import said_of_tools
    >>> said_of_tools(ot.generate(traces=8, seed=0), ["web.*"], [], ["bash"])
    {'untrusted': ['web.fetch'], 'trusted': [], 'privileged': ['bash']}
    """
    given = {"untrusted": untrusted, "trusted": trusted, "privileged": privileged}
    return {what: named_tools(corpus, f"{what}_tools", names) for what, names in given.items()}


def _column(corpus: Corpus, by: str) -> pl.LazyFrame | None:
    """The names there are, as ``name``; None where ids of events are meant."""
    if by == "tool":
        return corpus.events.select(name=pl.col("tool"))
    if by not in ("agent", "spawn", "role"):
        return None
    agents = corpus.agents.filter(pl.col("kind") == "agent")
    return agents.select(name=pl.col("role" if by == "role" else "agent"))


def _unknown(by: str, name: str, known: list[str]) -> str:
    if not known:
        return f"unknown {by} '{name}': no trace has a {by}"
    if len(known) <= _SHOWN:
        return unknown_name(by, name, known)
    nearest = _core.nearest(name, known)
    hint = f"; did you mean '{nearest}'?" if nearest else ""
    return f"unknown {by} '{name}'{hint} ({len(known):,} are known)"


def with_named_tools(corpus: Corpus, given: Arguments) -> Arguments:
    """Arguments with patterns of tools as the names that they stand for in the whole corpus."""
    names = {what: named_tools(corpus, what, given.named[what]) for what in TOOLS if what in given.named}
    return given.replacing(**names)
