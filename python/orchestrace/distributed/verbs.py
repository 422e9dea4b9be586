"""Verbs that a plan can divide: those that state a `Division`."""

from collections.abc import Mapping
from typing import Any, Final

import polars as pl

from ..base.division import Arguments, Division
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.verbs import Verb, all_verbs, verb, verb_named
from ..corpus.corpus import Corpus

RUNNING: Final = ("engine", "threads", "progress", "sink", "resume")
"""Arguments that are about how a verb runs; they change no row."""

_UNDIVIDED: Final[Mapping[str, str]] = {
    "compare": "a row of compare is of a method over all traces: give compare an engine=, or plan 'credit'"
    " for each method",
    "costs.table": "a row of costs.table may be of all traces: call it on one machine, or plan costs.spawns",
    "describe": "it has a row per corpus: plan 'metrics' with by='task' or by='topology'",
    "export": "an export writes files, not rows: call it on one machine, which goes slice by slice",
    "ingest": "an ingest makes the corpus that a plan divides: call it on one machine",
}


def verb_of(name: object) -> Verb:
    """A verb of `verbs` by its name.

    Raises
    ------
    ParameterError
        No verb that can be divided has this name.
    """
    about = verb_named(name) if isinstance(name, str) else None
    if about is not None and about.division is not None and about.name == name:
        return about
    if name in _UNDIVIDED:
        raise ParameterError(f"'{name}' cannot be divided: {_UNDIVIDED[str(name)]}")
    if isinstance(name, str) and name.partition(".")[0] in ("effects", "evaluation", "scaling", "outcomes"):
        raise ParameterError(
            f"'{name}' cannot be divided: it estimates from all runs of a corpus; call it on one machine"
        )
    raise ParameterError(unknown_name("verb of a plan", str(name), [about.name for about in _divided()]))


def division_of(about: Verb) -> Division:
    """How a verb of `verbs` is divided."""
    assert about.division is not None
    return about.division


def run_verb(about: Verb, corpus: Corpus, arguments: Arguments, threads: int | None) -> pl.DataFrame:
    """Call a verb on a part of a corpus."""
    more: dict[str, Any] = {"threads": threads} if "threads" in about.function.__annotations__ else {}
    table: pl.DataFrame = about.function(corpus, *arguments.positional, **arguments.named, **more)
    return table


def _divided() -> list[Verb]:
    return [about for about in all_verbs() if about.division is not None]


@verb
def list_verbs() -> pl.DataFrame:
    """List the verbs that `plan` can divide.

    Returns
    -------
    DataFrame
        A row per verb: ``verb`` (its name below ``ot``) and ``row`` (what a row of its table is of), both
        String.

    Notes
    -----
    A part of a corpus holds whole groups, so every verb whose rows are of a trace or of a group gives the
    same rows part by part.

    Examples
    --------
    >>> import orchestrace as ot
    >>> "credit" in ot.distributed.list_verbs()["verb"]
    True
    """
    listed = _divided()
    rows = {"verb": [about.name for about in listed], "row": [about.rows for about in listed]}
    return pl.DataFrame(rows, schema={"verb": pl.String, "row": pl.String})
