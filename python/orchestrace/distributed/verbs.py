"""Verbs that a plan can divide: the call of a task, and how the rows of all tasks are combined."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl

from .. import decisions, rewards, schedules
from ..base.arguments import public
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..corpus.corpus import Corpus
from ..corpus.names import expect_known, named_tools
from ..corpus.reward import check_channels, weights_of
from ..credit.registry import OWN, described, registered
from ..credit.rollout_values import ROLLOUT_METHODS
from ..credit.verb import credit, sunk_by_others
from ..decisions.tables.verb import table
from ..disk.partitioned import PartitionedCorpus
from ..interventions.composition import parts_of
from ..metrics.verb import metrics, summarized
from ..replay.verb import NAMED, STRUCTURAL, replay
from ..rewards.verb import compares_windows
from ..safety.tracking import sanitizer_cut, taint, tainted_events
from ..schedules.scheduling import scenarios_of
from ..stopping.recorded import epochs
from .arguments import Arguments
from .views import PlannedCorpus

RUNNING: Final = ("engine", "threads", "progress", "sink", "resume")
"""Arguments that are about how a verb runs; they change no row."""
_TOOLS: Final = ("untrusted_tools", "trusted_tools", "privileged_tools")
_SUMMARIES: Final = ("task", "topology", "system", "importer")
_OF_SUMMARIES: Final = ("by", "pool_harnesses", "confidence")
"""Arguments of `metrics` that the reduction needs, not the tasks."""


@dataclass(frozen=True)
class Order:
    """How the rows of tasks, which come in the order of the corpus, are ordered in the whole table.

    Parameters
    ----------
    blocks
        A column, and its values in the order in which one machine gives them; the rows of each stay in the
        order of the corpus.
    by
        Columns that the table is sorted by; all rows of one combination are of one task.
    """

    blocks: tuple[str, tuple[str, ...]] | None = None
    by: tuple[str, ...] = ()

    def apply(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of all tasks in the order of the whole table."""
        if self.blocks is not None:
            column, names = self.blocks
            places = {name: at for at, name in enumerate(names)}
            place = pl.col(column).cast(pl.String).replace_strict(places, return_dtype=pl.UInt32)
            return frame.sort(place, maintain_order=True)
        return frame.sort(*self.by, maintain_order=True) if self.by else frame

    @property
    def is_of_corpus(self) -> bool:
        """Whether the parts are the table, one after the other."""
        return self.blocks is None and not self.by


@dataclass(frozen=True)
class Pieces:
    """What a verb asks about the division of a corpus.

    Parameters
    ----------
    several
        Whether there is more than one piece.
    is_filtered
        Whether the corpus has lost traces to a filter.
    why
        Why there are several, and what to do about it.
    """

    several: Callable[[], bool]
    is_filtered: bool
    why: Callable[[], str]


def _accepts(given: Arguments, pieces: Pieces) -> None:
    """Every call can be divided."""


def _as_given(corpus: PlannedCorpus, given: Arguments) -> Arguments:
    return given


def _of_corpus(given: Arguments) -> Order:
    return Order()


def _as_joined(corpus: PartitionedCorpus, given: Arguments, frame: pl.DataFrame) -> pl.DataFrame:
    return frame


@dataclass(frozen=True)
class Verb:
    """A verb whose rows are of a trace or of a group.

    Parameters
    ----------
    function
        The verb itself.
    rows
        What a row is of.
    asked
        What each task is asked for, from the arguments of the caller and the names of the whole corpus.
    narrowed
        Arguments that `asked` replaces or leaves out.
    check
        Refuses calls that tasks cannot compute. It needs no corpus, so that a plan is judged again by it
        wherever it runs.
    order
        Of the whole table.
    finish
        What is left to do once all rows are there.
    sunk
        Of a verb with a ``sink``, what fills it from the rows of the pieces.
    """

    function: Callable[..., pl.DataFrame]
    rows: str
    asked: Callable[[PlannedCorpus, Arguments], Arguments] = field(default=_as_given)
    narrowed: tuple[str, ...] = ()
    check: Callable[[Arguments, Pieces], None] = field(default=_accepts)
    order: Callable[[Arguments], Order] = field(default=_of_corpus)
    finish: Callable[[PartitionedCorpus, Arguments, pl.DataFrame], pl.DataFrame] = field(default=_as_joined)
    sunk: Callable[..., pl.LazyFrame] | None = None

    @property
    def is_finished(self) -> bool:
        """Whether something is left to do once all rows are there."""
        return self.finish is not _as_joined

    def run(self, corpus: Corpus, given: Arguments, threads: int | None) -> pl.DataFrame:
        """Call the verb."""
        more: dict[str, Any] = {"threads": threads} if "threads" in self.function.__annotations__ else {}
        return self.function(corpus, *given.positional, **given.named, **more)


def _credited(corpus: PlannedCorpus, given: Arguments) -> Arguments:
    reward, missing = (given.by_name(credit)[name] for name in ("reward", "missing"))
    for one in reward if isinstance(reward, list | tuple) else [reward]:
        weights = [one] if isinstance(one, str) else weights_of(one)
        check_channels(corpus, weights, scored=missing != "skip" or len(weights) < 2)
    return given


def _check_scope(given: Arguments, pieces: Pieces) -> None:
    name = given.by_name(credit)["method"]
    entry = described(name)
    if entry is None or entry["scope"] != "corpus" or not pieces.several():
        return
    if name in ROLLOUT_METHODS:
        if pieces.is_filtered:
            raise ParameterError(
                f"method '{name}' compares all traces of a corpus at once, and of a filtered one a task knows"
                " its own alone: write it with ot.export(corpus, 'parquet', folder) first, or credit it"
                " without an engine"
            )
        return
    fitted = name in registered() and registered()[name].fit is not None
    if fitted:
        raise ParameterError(
            f"method '{name}' is fitted to all traces of a corpus at once, and a task sees its own alone:"
            " credit it on one machine, without an engine; it works slice by slice there, with sink= too"
        )
    raise ParameterError(
        f"method '{name}' compares all traces of a corpus at once, and {pieces.why()}, or take a method"
        " that compares groups"
    )


def modules_of(verb: str, given: Arguments) -> tuple[str, ...]:
    """Modules that have to be imported before a task runs, since they register the method that it needs.

    Raises
    ------
    ParameterError
        The method is of a script, which no other process can import.
    """
    if verb != "credit":
        return ()
    name = given.by_name(credit)["method"]
    own = registered().get(name)
    if own is None or name in OWN:
        return ()
    module = own.function.__module__
    if module == "__main__":
        raise ParameterError(
            f"method '{name}' is of a script or notebook, which workers cannot import: put it into a module"
        )
    return (module,)


def _tools(corpus: PlannedCorpus, given: Arguments) -> Arguments:
    """Patterns of tools as the names that they stand for in the whole corpus."""
    names = {what: named_tools(corpus, what, given.named[what]) for what in _TOOLS if what in given.named}
    return given.replacing(**names)


def _measured(corpus: PlannedCorpus, given: Arguments) -> Arguments:
    given = _tools(corpus, given)
    if given.named.get("by") in _SUMMARIES:
        return given.without(*_OF_SUMMARIES)
    return given


def _summary(corpus: PartitionedCorpus, given: Arguments, frame: pl.DataFrame) -> pl.DataFrame:
    named = given.by_name(metrics)
    if named["by"] not in _SUMMARIES:
        return frame
    return summarized(corpus, frame, named["by"], named["pool_harnesses"], float(named["confidence"]))


def _scenario_names(given: Arguments) -> list[str]:
    names = []
    for one in given.positional:
        specs = [part.spec() for part in parts_of(one)]
        if all(spec["kind"] in STRUCTURAL for spec in specs):
            names.append(str(one))
        else:
            names += [name for name, _ in scenarios_of(one)]
    return names


def _replayed(corpus: PlannedCorpus, given: Arguments) -> Arguments:
    names = _scenario_names(given)
    if twice := [name for name in names if names.count(name) > 1]:
        raise ParameterError(f"two scenarios are called {twice[0]}: give each once, or plan them apart")
    for one in given.positional:
        if len(parts_of(one)) == 1:
            _expect_named(corpus, one)
    return given


def _expect_named(corpus: Corpus, intervention: Any) -> None:
    for part in parts_of(intervention):
        spec = part.spec()
        if spec["kind"] in STRUCTURAL:
            for by in NAMED:
                value = spec.get(by)
                if value is not None:
                    expect_known(corpus, by, value if isinstance(value, tuple) else [value])


def _known_scenarios(corpus: PartitionedCorpus, given: Arguments, frame: pl.DataFrame) -> pl.DataFrame:
    """Refuse a composed scenario that changes no trace of the corpus for a name that none has."""
    reason = pl.col("reason").cast(pl.String)
    acyclic = frame.filter((reason != "graph.cycle").fill_null(True))
    empty = acyclic.group_by("intervention").agg((reason == "selection.empty").fill_null(False).all())
    nothing = set(empty.filter("reason")["intervention"].cast(pl.String))
    for one in given.positional:
        if str(one) in nothing:
            _expect_named(corpus, one)
    return frame


def _paid(corpus: PlannedCorpus, given: Arguments) -> Arguments:
    channels = given.named.get("channels")
    if isinstance(channels, dict):
        check_channels(corpus, channels.values())
    return _tools(corpus, given)


def _check_schedules(given: Arguments, pieces: Pieces) -> None:
    if compares_windows(given.by_name(rewards.compute)["rewards"]):
        raise ParameterError(
            "anneal='diagnostic' compares all traces of a step of training, and a task sees its own alone:"
            " compute this rule on one machine, or plan it with another schedule"
        )


def _rules(given: Arguments) -> Order:
    asked = given.by_name(rewards.compute)["rewards"]
    return Order(blocks=("reward", (asked,) if isinstance(asked, str) else tuple(asked)))


def _check_kind(given: Arguments, pieces: Pieces) -> None:
    kind = given.by_name(table)["kind"]
    if kind in ("spawn", "delegate"):
        raise ParameterError(
            f"decisions of kind '{kind}' have an effect that is estimated from all runs of a corpus: make"
            " this table on one machine, or plan 'decisions.contexts', whose rows are of one trace each"
        )
    _check_source(given, pieces)


def _check_source(given: Arguments, pieces: Pieces) -> None:
    if "attempt" in (given.named.get("source"), *given.positional):
        raise ParameterError(
            "with source='attempt' a row is numbered by its group in the whole corpus: make this table on one"
            " machine"
        )


VERBS: Final[Mapping[str, Verb]] = {
    "credit": Verb(credit, "a trace and unit", asked=_credited, check=_check_scope, sunk=sunk_by_others),
    "replay": Verb(
        replay,
        "a scenario and trace",
        asked=_replayed,
        order=lambda given: Order(blocks=("intervention", tuple(_scenario_names(given)))),
        finish=_known_scenarios,
    ),
    "metrics": Verb(
        metrics,
        "a trace, or a trace and member",
        asked=_measured,
        narrowed=(*_TOOLS, *_OF_SUMMARIES),
        finish=_summary,
    ),
    "taint": Verb(taint, "a trace", asked=_tools, narrowed=_TOOLS),
    "safety.tainted_events": Verb(tainted_events, "a tainted event", asked=_tools, narrowed=_TOOLS),
    "safety.sanitizer_cut": Verb(sanitizer_cut, "an event to clean", asked=_tools, narrowed=_TOOLS),
    "rewards.compute": Verb(
        rewards.compute,
        "a rule, trace and unit",
        asked=_paid,
        narrowed=_TOOLS,
        check=_check_schedules,
        order=_rules,
    ),
    "schedules.schedule": Verb(schedules.schedule, "an event"),
    "schedules.scaling_curve": Verb(
        schedules.scaling_curve, "a trace and number of slots", order=lambda given: Order(by=("trace",))
    ),
    "decisions.contexts": Verb(decisions.contexts, "a decision"),
    "decisions.table": Verb(
        table, "a decision", check=_check_kind, order=lambda given: Order(by=("trace_id", "trace"))
    ),
    "stopping.epochs": Verb(
        epochs, "an epoch of a run", check=_check_source, order=lambda given: Order(by=("trace",))
    ),
}

_WHOLE: Final = {
    "compare": "a row of compare is of a method over all traces: give compare an engine=, or plan 'credit'"
    " for each method",
    "report": "a report has a row per corpus: plan 'metrics' with by='task' or by='topology'",
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
    if name in VERBS:
        return VERBS[str(name)]
    if name in _WHOLE:
        raise ParameterError(f"'{name}' cannot be divided: {_WHOLE[str(name)]}")
    if isinstance(name, str) and name.partition(".")[0] in ("effects", "evaluation", "scaling", "outcomes"):
        raise ParameterError(
            f"'{name}' cannot be divided: it estimates from all runs of a corpus; call it on one machine"
        )
    raise ParameterError(unknown_name("verb of a plan", str(name), list(VERBS)))


@public
def verbs() -> pl.DataFrame:
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
    >>> ot.distributed.verbs()["verb"].head(3).to_list()
    ['credit', 'replay', 'metrics']
    """
    rows = {"verb": list(VERBS), "row": [one.rows for one in VERBS.values()]}
    return pl.DataFrame(rows, schema={"verb": pl.String, "row": pl.String})
