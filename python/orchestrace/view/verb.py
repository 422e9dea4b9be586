"""The verb `view`: recordings as one HTML file."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from ..base.arguments import Count, Threads
from ..base.errors import ParameterError
from ..base.paths import path_of
from ..base.progress import Progress, reporting
from ..base.publication import published_file, refuse_existing
from ..base.schema import unknown_name
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward
from ..costs.price_list import Prices
from ..costs.verb import tables
from ..credit.verb import list_methods as known_methods
from ..schedules.scheduling import MaxGap
from ..summaries.narrative import Summary, summary_of
from .answers import DEFAULT_METHODS, credits_of
from .beside import checked
from .building import Parts, built
from .naming import names_of, task_of
from .runs import DEFAULT_REWARD, list_runs, ranked
from .spending import spending

MAX_BYTES: Final = 20 * 2**20
"""A page that a browser opens at once, and that a mail may carry."""


@dataclass(frozen=True)
class View:
    """What `view` wrote.

    Attributes
    ----------
    bytes
        The size of the file.
    n_runs, n_listed, n_detailed
        Runs of the corpus, those in the list, and those with a timeline, credit and what if.
    left_out
        What is not in the page, a sentence each; the page says the same.
    """

    bytes: int
    n_runs: int
    n_listed: int
    n_detailed: int
    left_out: tuple[str, ...]


@verb
def view(
    corpus: Corpus,
    path: str | os.PathLike[str],
    *,
    methods: Iterable[str] | None = None,
    reward: Reward = DEFAULT_REWARD,
    runs: Count = 30,
    trace_id: str | Iterable[str] | None = None,
    text: bool = False,
    beside: pl.DataFrame | None = None,
    max_gap: MaxGap = "auto",
    untrusted_tools: Iterable[str] = (),
    trusted_tools: Iterable[str] = (),
    privileged_tools: Iterable[str] = (),
    prices: Prices = "package",
    max_bytes: Count = MAX_BYTES,
    overwrite: bool = False,
    threads: Threads = None,
    progress: Progress = None,
) -> View:
    """Write recordings as one HTML file that opens offline: runs, timelines, credit, and what if.

    The page fetches nothing, and its policy forbids that it could. It lists all runs; those in detail have a
    timeline by agent, the tree of spawns, credit by each method, what `replay` says of some interventions,
    findings, and their events, with search over all of them.

    Parameters
    ----------
    corpus
        The recordings.
    path
        The file, which has its name when it is complete.
    methods
        Credit methods, by the names of `methods`. None: ``flow``, ``difference`` and ``grpo``. A method that
        cannot serve a run says why.
    reward
        A reward channel, or a weighted sum of several, as in `credit`. Where recordings lack ``"team"``, the
        default, the page says so.
    runs
        Runs in detail, at most: those that `summary` names, then those with most events.
    trace_id
        Runs in detail by name, instead.
    text
        Embed the records of events, up to 4,000 characters each. They are what agents read and wrote, so that
        whoever has the page can read them.
    beside
        Steps of pairs of runs, as `evaluation.edit_script` gives them: these runs are in detail first, with a
        tab in which they stand side by side.
    max_gap
        As in `simulate`: longer gaps are idle, no work. Of recordings that have times.
    untrusted_tools, trusted_tools, privileged_tools
        As in `taint`.
    prices
        As in `costs.table`, for the bar of dollars.
    max_bytes
        The size of the file, at most. What does not fit is left out, and the page says what: runs in detail,
        then events of the only one, then rows of the list.
    overwrite
        Replace a file that exists.
    threads, progress
        As in `read_traces`; progress counts runs in detail.

    Returns
    -------
    View
        ``bytes n_runs n_listed n_detailed left_out``.

    Raises
    ------
    ParameterError
        An unknown method, trace, tool or reward, an option out of range, or a limit that is smaller than an
        empty page.
    InputError
        The file exists and `overwrite` is false, or it cannot be written.

    Notes
    -----
    Everything is what a verb says: `metrics`, `summary`, `schedules.simulate`, `safety.tainted_events`,
    `credit`, `replay`. The same recordings and options give the same bytes. Names are text in the page,
    whatever they hold: control and bidirectional characters are shown as escapes. O(events + edges) for the
    list; a run in detail costs what `replay` costs, and is read once more for the lines of its events, up to
    64 MiB of recordings in all. Of a run with more than 20,000 events the page has those of the
    critical path and the longest.

    Examples
    --------
    >>> import tempfile
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=3, seed=0)
    >>> page = ot.view(corpus, tempfile.mkdtemp() + "/page.html", methods=["uniform"])
    >>> page.n_listed, page.n_detailed, page.left_out
    (3, 3, ())
    """
    target = path_of(path)
    names = _method_names(DEFAULT_METHODS if methods is None else methods)
    if not overwrite:
        refuse_existing(target)
    names_of_tools = {
        "untrusted": list(untrusted_tools),
        "trusted": list(trusted_tools),
        "privileged": list(privileged_tools),
    }
    tools: dict[str, Any] = {f"{kind}_tools": patterns for kind, patterns in names_of_tools.items()}
    options: dict[str, Any] = {"max_gap": max_gap, "threads": threads}
    by_importer, by_agent = tables(corpus, ("importer", "agent"), prices=prices)
    narrative = summary_of(corpus, by_importer, names_of_tools, **options)
    rows, no_reward = list_runs(corpus, reward, {**options, **tools})
    pairs = None if beside is None else checked(beside, set(rows["trace"].to_list()))
    order = _order(rows, narrative, trace_id, pairs)
    chosen = order[:runs] if trace_id is None else _named(rows, trace_id)
    rows = rows.join(names_of(corpus), on="trace", how="left", maintain_order="left")
    if text:
        rows = rows.with_columns(_tasks(corpus, rows, chosen))
    parts = Parts(
        rows=rows,
        order=order,
        chosen=chosen,
        story=narrative,
        spending=spending(corpus, by_agent),
        no_reward=no_reward,
        credits=credits_of(corpus, chosen, names, reward, options),
        tools=tools,
        options=options,
        text=bool(text),
        beside=pairs,
    )
    with reporting(progress, "viewing") as callback:
        page, extent = built(corpus, parts, max_bytes, callback)
    with published_file(target, overwrite=overwrite) as file:
        file.write(page)
    return View(len(page), rows.height, extent.listed, extent.detailed, tuple(extent.left_out))


def _tasks(corpus: Corpus, rows: pl.DataFrame, chosen: list[int]) -> pl.Series:
    """The first words of the task of each run that is shown in detail."""
    tasks = {trace: task_of(corpus, trace) for trace in chosen}
    return pl.Series("words", [tasks.get(trace) for trace in rows["trace"]], pl.String)


def _method_names(names: Iterable[str]) -> list[str]:
    """Names of credit methods, each once, all of which exist."""
    chosen = [names] if isinstance(names, str) else list(names)
    existing = known_methods()["name"].to_list()
    for name in chosen:
        if name not in existing:
            raise ParameterError(unknown_name("method", str(name), existing))
    return list(dict.fromkeys(chosen))


def _order(
    rows: pl.DataFrame, narrative: Summary, trace_id: object, beside: pl.DataFrame | None
) -> list[int]:
    """All traces, those first that are asked for, that stand side by side, or that the story names."""
    if trace_id is not None:
        return ranked(rows, _named(rows, trace_id))
    first = narrative.runs["trace"].to_list()
    if beside is not None:
        first = [*pl.concat([beside["trace_a"], beside["trace_b"]]).unique(maintain_order=True), *first]
    return ranked(rows, list(dict.fromkeys(first)))


def _named(rows: pl.DataFrame, trace_id: Any) -> list[int]:
    """Numbers of the traces with these ids, in their order."""
    names: Sequence[str] = [trace_id] if isinstance(trace_id, str) else list(trace_id)
    traces = dict(rows.select("trace_id", "trace").iter_rows())
    for name in names:
        if name not in traces:
            raise ParameterError(unknown_name("trace_id", str(name), list(traces)))
    return list(dict.fromkeys(traces[name] for name in names))
