"""What makes two sides of a gate no fair comparison: each is refused unless a caller allows it.

Every check stands for a mistake that was published (docs/reference/gate.md has the sources): tasks that only
one side ran, another model, another harness, unequal numbers of attempts, failed runs that are missing, and
one recording that counts twice.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

import polars as pl

from ..base.errors import InputError
from ..base.text import counted, plain
from ..corpus.corpus import Corpus

Allowed = Literal["tasks", "model", "harness", "attempts", "missing", "copies"]
"""A check that a caller may turn off."""

_SHOWN: Final = 3
"""Names that a message lists."""
_SAME: Final = (
    "seq",
    "id",
    "t",
    "type",
    "agent",
    "to",
    "tool",
    "duration_s",
    "tokens",
    "content_hash",
    "args_hash",
)
"""What two recordings of one run have alike, event by event."""
_SHIFT: Final = 24
"""Bits that a hash gives up, so that sums over up to 2**24 events stay whole."""


def refuse_before_reading(corpora: Mapping[str, Corpus], allow: Collection[str], *, measured: bool) -> None:
    """Refuse what the tables of two sides show before any metric is computed.

    Parameters
    ----------
    corpora
        Both sides by name, base first.
    allow
        Checks that are off.
    measured
        Whether a metric is measured on the recording, of which a part is less: not its outcome alone.

    Raises
    ------
    InputError
        Models or harnesses differ, records were rejected, recordings end early on one side, or a recording is
        there twice. One line, with the word that allows it.
    """
    if "model" not in allow:
        _refuse_other_names(corpora, "model", "models differ", "model")
        _refuse_other_models_of_tasks(corpora)
    if "harness" not in allow:
        _refuse_other_names(corpora, "harness_hash", "harnesses differ", "harness")
        formats = {side: _importers(corpus) for side, corpus in corpora.items()}
        _refuse_unequal(formats, "recorders differ", "harness")
    if "missing" not in allow:
        for side, corpus in corpora.items():
            if rejected := corpus.records["quarantined"]:
                raise _refusal(
                    f"{counted(rejected, 'record')} of {side} could not be read, and may be runs that failed",
                    "missing",
                )
        if measured:
            _refuse_cut_off(corpora)
    if "harness" not in allow and measured:
        _refuse_other_sums(corpora)
    if "copies" not in allow:
        _refuse_copies(corpora)


def refuse_runs(runs: Mapping[str, pl.DataFrame], names: Sequence[str], allow: Collection[str]) -> None:
    """Refuse two sides whose tasks, attempts or judged runs are not the same in number.

    Parameters
    ----------
    runs
        A row per run of each side: ``task_id``, and a column per metric, null where it has none.
    names
        The metrics.
    allow
        Checks that are off.

    Raises
    ------
    InputError
        One line: which task it is, and the word that allows it.
    """
    for side, frame in runs.items():
        if nameless := frame["task_id"].null_count():
            raise InputError(f"{counted(nameless, 'run')} of {side} have no task_id: a gate pairs tasks")
    counts = {side: frame.group_by("task_id").agg(n=pl.len()) for side, frame in runs.items()}
    (base, of_base), (new, of_new) = counts.items()
    if "tasks" not in allow:
        for side, left, right in ((base, of_base, of_new), (new, of_new, of_base)):
            alone = left.join(right, on="task_id", how="anti")["task_id"].sort()
            if len(alone):
                raise _refusal(f"tasks differ: only {side} has {_listed(alone.to_list())}", "tasks")
    for name in names:
        lost = {
            side: frame.group_by("task_id").agg(lost=pl.col(name).null_count())
            for side, frame in runs.items()
        }
        both = lost[base].join(lost[new], on="task_id", suffix="_new").sort("task_id")
        unequal = both.filter(pl.col("lost") != pl.col("lost_new"))
        if unequal.height and "missing" not in allow:
            task, one_side, other = unequal.row(0)
            raise _refusal(
                f"runs are missing on one side: of task '{task}' {base} lacks '{name}' of {one_side:,} and"
                f" {new} {other:,}",
                "missing",
            )
    if "attempts" not in allow:
        both = of_base.join(of_new, on="task_id", suffix="_new").sort("task_id")
        unequal = both.filter(pl.col("n") != pl.col("n_new"))
        if unequal.height:
            task, one_side, other = unequal.row(0)
            raise _refusal(
                f"attempts differ: task '{task}' has {one_side:,} in {base} and {other:,} in {new}",
                "attempts",
            )


def _refusal(problem: str, word: str) -> InputError:
    return InputError(plain(f"{problem}; to compare all the same, pass allow='{word}'"))


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:_SHOWN])
    more = len(names) - _SHOWN
    return f"{shown} and {more:,} more" if more > 0 else shown


def _refuse_other_names(corpora: Mapping[str, Corpus], column: str, problem: str, word: str) -> None:
    """Refuse if events of two sides name others in a column."""
    named = {
        side: corpus.events.select(pl.col(column).cast(pl.String).alias("name"))
        .drop_nulls()
        .unique()
        .collect(engine="streaming")["name"]
        .sort()
        .to_list()
        for side, corpus in corpora.items()
    }
    _refuse_unequal(named, problem, word)


def _refuse_other_models_of_tasks(corpora: Mapping[str, Corpus]) -> None:
    """Refuse if a task that one model does on either side is done by another one on the other."""
    named = []
    for corpus in corpora.values():
        tasks = corpus.traces.select("trace", "task_id")
        models = corpus.events.select("trace", model=pl.col("model").cast(pl.String)).drop_nulls().unique()
        of_task = models.join(tasks, on="trace").group_by("task_id").agg(pl.col("model").unique())
        named.append(of_task.filter(pl.col("model").list.len() == 1).explode("model"))
    both = named[0].join(named[1], on="task_id", suffix="_new").collect(engine="streaming")
    other = both.filter(pl.col("model") != pl.col("model_new")).sort("task_id")
    if other.height:
        task, one_side, another = other.select("task_id", "model", "model_new").row(0)
        base, new = corpora
        raise _refusal(
            f"models differ: task '{task}' is done by '{one_side}' in {base} and by '{another}' in {new}",
            "model",
        )


def _importers(corpus: Corpus) -> list[str]:
    names = corpus.traces.select(pl.col("importer").cast(pl.String)).unique().collect(engine="streaming")
    return names["importer"].drop_nulls().sort().to_list()


def _refuse_unequal(named: Mapping[str, Sequence[str]], problem: str, word: str) -> None:
    (base, of_base), (new, of_new) = named.items()
    if list(of_base) != list(of_new):
        sides = [
            f"{side} has {_listed(names) if names else 'none recorded'}"
            for side, names in ((base, of_base), (new, of_new))
        ]
        raise _refusal(f"{problem}: {sides[0]}, {sides[1]}", word)


def _refuse_cut_off(corpora: Mapping[str, Corpus]) -> None:
    """Refuse if recordings that end early are unequally many of a task."""
    cut = {
        side: corpus.traces.filter("partial").group_by("task_id").agg(n=pl.len()).collect(engine="streaming")
        for side, corpus in corpora.items()
    }
    (base, of_base), (new, of_new) = cut.items()
    both = of_base.join(of_new, on="task_id", how="full", coalesce=True, suffix="_new", nulls_equal=True)
    unequal = both.with_columns(pl.col("n", "n_new").fill_null(0)).filter(pl.col("n") != pl.col("n_new"))
    if unequal.height:
        task, one_side, other = unequal.sort("task_id").row(0)
        raise _refusal(
            f"recordings of task '{task}' end early: {one_side:,} in {base} and {other:,} in {new}",
            "missing",
        )


def _refuse_other_sums(corpora: Mapping[str, Corpus]) -> None:
    """Refuse if tokens or prices are sums of events on one side, and totals of runs on the other."""
    for column, total in (("tokens", "tokens"), ("cost_usd", "cost_usd")):
        sources = {}
        for side, corpus in corpora.items():
            events = corpus.events.group_by("trace").agg(summed=pl.col(column).count() > 0)
            of_run = (pl.col("kind").cast(pl.String) == "cost") & (pl.col("name").cast(pl.String) == total)
            totals = corpus.measures.filter(of_run & (pl.col("value") > 0)).select("trace").unique()
            runs = corpus.traces.select("trace").join(events, on="trace", how="left")
            runs = runs.join(totals.with_columns(stated=pl.lit(value=True)), on="trace", how="left")
            summed = pl.col("summed").fill_null(value=False)
            words = pl.when(summed).then(pl.lit("events")).when("stated").then(pl.lit("totals of runs"))
            sources[side] = runs.select(words.alias("from")).collect(engine="streaming")["from"]
        if all(len(of) and of.null_count() < len(of) for of in sources.values()):
            named = {side: of.drop_nulls().unique().sort().to_list() for side, of in sources.items()}
            _refuse_unequal(named, f"{column} are not counted alike", "harness")


def _refuse_copies(corpora: Mapping[str, Corpus]) -> None:
    """Refuse a recording that is there twice, on one side or on both, under one id or two.

    Without a clock two runs of a program without chance look alike; these count as copies under one id only.
    """
    prints = pl.concat([_prints(side, corpus) for side, corpus in corpora.items()])
    timed = pl.col("clocked")
    name = pl.when(timed).then(pl.lit("")).otherwise(pl.col("trace_id"))
    keys = ["task_id", "mark", "paid", "n_events", "name"]
    prints = prints.filter(pl.col("n_events") > 0).with_columns(name=name)
    twice = prints.filter(pl.struct(keys).is_duplicated()).sort("trace_id", "side", *keys)
    if twice.is_empty():
        return
    first = twice.row(0, named=True)
    alike = twice.filter(*(pl.col(key).eq_missing(pl.lit(first[key])) for key in keys))
    second = alike.row(1, named=True)
    places = [f"'{run['trace_id']}' of {run['side']}" for run in (first, second)]
    raise _refusal(f"one recording counts twice: {places[0]} and {places[1]} are the same", "copies")


def _prints(side: str, corpus: Corpus) -> pl.DataFrame:
    """A number per run that copies share: a sum over its events, whatever their order in the file."""
    names = {"type", "agent", "to", "tool"}
    parts = [pl.col(name).cast(pl.String) if name in names else pl.col(name) for name in _SAME]
    # steps and settings are whole numbers, halves, eighths; other fractions were measured, which is not done
    # twice the same
    fraction = pl.any_horizontal(
        (pl.col(name) * 8.0 % 1.0 != 0.0).fill_null(value=False) for name in ("t", "duration_s")
    )
    mark = pl.struct(parts).hash(seed=0) // 2**_SHIFT
    marks = (
        corpus.events.select("trace", mark=mark, fraction=fraction)
        .group_by("trace")
        .agg(pl.col("mark").sum(), clocked=pl.col("fraction").any())
        .collect(engine="streaming")
    )
    runs = corpus.traces.select(
        "trace",
        pl.col("trace_id").cast(pl.String),
        pl.col("task_id").cast(pl.String),
        "n_events",
        side=pl.lit(side),
    ).collect(engine="streaming")
    # runs of one program may be alike in all but what they earned
    paid = (
        corpus.measures.select("trace", paid=pl.struct("kind", "name", "value").hash(seed=0) // 2**_SHIFT)
        .group_by("trace")
        .agg(pl.col("paid").sum())
        .collect(engine="streaming")
    )
    runs = runs.join(marks, on="trace", how="left", maintain_order="left")
    return runs.join(paid, on="trace", how="left", maintain_order="left").drop("trace")
