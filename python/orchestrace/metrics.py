"""What recordings say of themselves: efficiency, collaboration, overhead and safety, trace by trace."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, get_args

import polars as pl

from . import _core
from .agreement import check_corpus
from .corpus import Corpus, check_numbers
from .errors import ParameterError
from .progress import Progress, reporting
from .resampling import check_confidence, cluster_interval
from .schedule import DURATIONS, Durations, empty_store
from .schema import CREDITS, unknown_name

By = Literal["agent", "role", "task", "topology", "system", "importer"]

_MEMBERS: Final = ("agent", "role")
_KEYS: Final = {"task": "task_id", "topology": "topology", "system": "system", "importer": "importer"}
_TAIL: Final = ("time_unit", "durations")
FAMILIES: Final = {
    "E1": ("task_success",),
    "E2": ("parallelism",),
    "E3": ("utilisation", "message_redundancy"),
    "E4": ("protocol_overhead", "error_amplification", "taint_share", "outcome_tainted"),
}
"""The metrics of each evaluation family of the survey (arXiv 2605.02801, Table 13; ARCHITECTURE.md, D21)."""


def metric_definitions() -> pl.DataFrame:
    """List what `metrics` can tell.

    Returns
    -------
    DataFrame
        A row per metric: ``metric`` (column), ``group``, ``counts`` (``count``, ``tokens``, ``time`` in the
        trace's ``time_unit``, ``ratio``, ``nats``, ``usd``, ``score``, ``flag``), ``cost`` (``linear``, or
        ``super-linear`` and on request only), ``summary`` (its definition) and ``reference`` (sections of the
        methods reference, literature). The group ``members`` is what ``by="agent"`` and ``by="role"`` give.

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.metric_definitions().filter(metric="parallelism")["summary"].item()
    'work / span'
    """
    return pl.DataFrame(_core.metric_definitions())


def metrics(
    corpus: Corpus,
    *,
    by: By | None = None,
    groups: Sequence[str] | None = None,
    durations: Durations = "auto",
    program_order: bool = False,
    subtasks: Mapping[str, Collection[str]] | None = None,
    harness: Mapping[str, Collection[str]] | None = None,
    intervention_at: float | None = None,
    n_boot: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Measure how runs were organised, what that cost, and what of it was of use.

    Parameters
    ----------
    corpus
        The recordings.
    by
        None gives a row per trace. ``"agent"`` and ``"role"`` give a row for each of them in each trace; what
        nobody owns is the row with a null name, so that counts, tokens and work add up to those of the trace.
        ``"task"``, ``"topology"``, ``"system"`` and ``"importer"`` give means over traces.
    groups
        Names of groups of `metric_definitions`; None is all whose cost is linear. Not for agents and roles.
    durations, program_order
        As in `schedule`.
    subtasks
        Of tasks, by ``task_id``, the parts that they should be split into (``subtask_id``): what
        ``split_coverage``, ``split_precision`` and ``split_f1`` compare with.
    harness
        What the harness declares, for the group ``conformance``: names under ``"types"`` (of events),
        ``"tools"`` (that may be called) and ``"roles"`` (that may be spawned); what is left out is not
        judged.
    intervention_at
        A share (0..1) of the time of a run, for the group ``steering``: what an intervention then would find
        done already.
    n_boot, confidence, seed
        Resamples of tasks for the intervals of means, their coverage (0..1), and the seed.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        A row per trace: ``trace`` (UInt32), ``trace_id task_id`` (String), ``task_success`` and
        ``wall_clock_s`` (Float64) and ``train_step`` (Float64) where the recording has them among its
        measures, then a column per metric (Int64 for counts and tokens, Boolean for flags, else Float64),
        ``time_unit`` (what metrics that count ``time`` are in) and ``durations`` (where they come from);
        ``n_families`` (UInt8: how many of E1 to E4 have a value) and ``mas_native`` (Boolean: at least three)
        if all metrics of these are asked for; last ``reason``, a struct with a field per metric that says why
        it is null. By agent or role: ``trace trace_id``, the name (Categorical), its metrics,
        ``time_unit durations reason``. By task or another column: that column, ``metric`` (String), ``mean
        low high`` (Float64: mean over traces that have the metric, its percentile interval by bootstrap over
        tasks; null with fewer than two), ``n_traces n_null`` (UInt32), ``reason``, the most frequent one.
        Means of ``time`` are over the traces whose unit is the more frequent one, which ``time_unit`` names.

    Raises
    ------
    ParameterError
        Unknown word for `by`, `groups` or `durations`, or an option out of range.

    Notes
    -----
    O(events + edges) for the default groups. Sources: arXiv 2605.02801, Table 13 (E1 to E4); Brent 1974,
    Graham 1969 (work and span); arXiv 2512.08296 (message density); each metric's own in
    `metric_definitions`.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=8, seed=0)
    >>> table = ot.metrics(corpus)
    >>> bool((table["work"] >= table["span"]).all())
    True
    >>> ot.metrics(corpus, by="agent")["n_events"].sum() == table["n_events"].sum()
    True
    """
    check_corpus(corpus)
    check_numbers(n_boot=n_boot, seed=seed, threads=threads)
    confidence = check_confidence(confidence)
    if by is not None and by not in get_args(By):
        raise ParameterError(unknown_name("word for by", str(by), list(get_args(By))))
    if durations not in DURATIONS:
        raise ParameterError(unknown_name("word for durations", str(durations), list(DURATIONS)))
    if isinstance(groups, str):
        raise ParameterError(f"groups is {groups!r}, expected a list of names: [{groups!r}]")
    asked = None if groups is None else list(dict.fromkeys(groups))
    declared = {"subtasks": subtasks, "harness": harness, "intervention_at": intervention_at}
    given = [name for name, value in declared.items() if value is not None]
    if by in _MEMBERS and given:
        raise ParameterError(f"{given[0]} has no part in by={by!r}: it is about whole traces")
    if by in _MEMBERS and asked is not None:
        raise ParameterError(f"groups cannot be chosen with by={by!r}: all metrics of a member come together")
    options: dict[str, Any] = {"durations": durations, "program_order": program_order, "threads": threads}
    with reporting(progress, "measuring") as callback:
        options["progress"] = callback
        if by in _MEMBERS:
            return _packed(core_frames(corpus, lambda store: _core.member_metrics(store, str(by), **options)))
        options["subtasks"] = _names("subtasks", subtasks)
        options["harness"] = _names("harness", harness)
        options["intervention_at"] = intervention_at
        table = core_frames(corpus, lambda store: _core.trace_metrics(store, asked, **options))
    table = _with_families(_with_measures(corpus, _packed(table)))
    return table if by is None else _summarised(corpus, table, by, n_boot, seed, confidence)


def _names(what: str, given: Mapping[str, Collection[str]] | None) -> Any:
    """Names by name, as the core takes them."""
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise ParameterError(f"{what} is {given!r}, expected names by name: {{'name': ['name', ...]}}")
    for key, names in given.items():
        if isinstance(names, str) or not all(isinstance(name, str) for name in [key, *names]):
            raise ParameterError(f"{what}[{key!r}] is {names!r}, expected a list of names")
    kind = set if what == "subtasks" else list
    return {key: kind(names) for key, names in given.items()}


def core_frames(corpus: Corpus, kernel: Any) -> pl.DataFrame:
    """What the core says of every piece of a corpus."""
    frames = [pl.DataFrame(kernel(load()._store)) for _, load in corpus.pieces()]
    if not frames:  # a corpus on disk without a trace
        frames = [pl.DataFrame(kernel(empty_store()))]
    return pl.concat(frames)


def _packed(table: pl.DataFrame) -> pl.DataFrame:
    """The reasons, which the core gives column by column, as one struct."""
    suffix = ".reason"
    reasons = [name for name in table.columns if name.endswith(suffix)]
    fields = [pl.col(name).cast(CREDITS["reason"]).alias(name.removesuffix(suffix)) for name in reasons]
    kept = table.drop(reasons)
    return kept.with_columns(reason=table.select(pl.struct(fields).alias("reason")).to_series())


def _with_measures(corpus: Corpus, table: pl.DataFrame) -> pl.DataFrame:
    """The measures that the survey's families and comparisons of checkpoints are about, beside each trace."""
    wanted = {"task_success": "metric", "train_step": "metric", "wall_clock_s": "cost"}
    named = pl.col("name").cast(pl.String)
    kinds = pl.any_horizontal(
        *((named == name) & (pl.col("kind").cast(pl.String) == kind) for name, kind in wanted.items())
    )
    found = corpus.measures.filter(kinds).select("trace", named.alias("name"), "value")
    rows = found.collect(engine="streaming")
    wide = rows.pivot("name", index="trace", values="value", aggregate_function="first")
    wide = wide.with_columns(
        **{name: pl.lit(None, pl.Float64) for name in wanted if name not in wide.columns}
    )
    joined = table.join(wide.select("trace", *wanted), on="trace", how="left", maintain_order="left")
    head = ["trace", "trace_id", "task_id", *wanted]
    return joined.select(*head, *(name for name in table.columns if name not in head))


def _with_families(table: pl.DataFrame) -> pl.DataFrame:
    """How many of the evaluation families a trace reports, where all of their metrics were asked for."""
    if not all(name in table.columns for names in FAMILIES.values() for name in names):
        return table
    reported = [pl.any_horizontal(pl.col(*names).is_not_null()) for names in FAMILIES.values()]
    counted = table.with_columns(n_families=pl.sum_horizontal(reported).cast(pl.UInt8))
    return counted.select(
        pl.exclude("reason", "n_families"),
        "n_families",
        (pl.col("n_families") >= 3).alias("mas_native"),
        "reason",
    )


def numeric(table: pl.DataFrame) -> list[str]:
    """The metrics of a table of `metrics`, by name."""
    left_out = {"trace", "train_step", "mas_native", "n_families"}
    return [
        name
        for name, dtype in table.schema.items()
        if name not in left_out and (dtype.is_numeric() or dtype == pl.Boolean)
    ]


def times() -> frozenset[str]:
    """The metrics that are in the time unit of their trace."""
    return frozenset(metric_definitions().filter(counts="time")["metric"])


def _summarised(
    corpus: Corpus, table: pl.DataFrame, by: By, n_boot: int, seed: int, confidence: float
) -> pl.DataFrame:
    """Means over the traces of a key, with intervals over tasks."""
    key = _KEYS[by]
    if key not in table.columns:
        keys = corpus.traces.select("trace", key).collect(engine="streaming")
        table = table.join(keys, on="trace", how="left", maintain_order="left")
    table = table.with_columns(task=pl.col("task_id").rank("dense").cast(pl.Int64))
    names, in_time = numeric(table.drop("task")), times()
    fields = table["reason"].struct.fields
    rows: list[dict[str, object]] = []
    for (value,), part in table.group_by(key, maintain_order=True):
        units = part["time_unit"].drop_nulls().value_counts(sort=True)
        unit = units["time_unit"][0] if units.height else None
        for name in names:
            of = part.filter(time_unit=unit) if name in in_time and unit is not None else part
            values = of[name].cast(pl.Float64).fill_null(float("nan")).to_numpy()
            mean, low, high = cluster_interval(values, of["task"].to_numpy(), n_boot, seed, confidence)
            reasons = pl.Series(dtype=pl.String)
            if name in fields:
                reasons = of["reason"].struct.field(name).cast(pl.String).drop_nulls()
            rows.append(
                {
                    key: value,
                    "metric": name,
                    "mean": mean,
                    "low": low,
                    "high": high,
                    "n_traces": of.height - of[name].null_count(),
                    "n_null": part.height - of.height + of[name].null_count(),
                    "time_unit": unit if name in in_time else None,
                    "reason": reasons.mode().sort()[0] if len(reasons) else None,
                }
            )
    schema = {
        key: table.schema[key],
        "metric": pl.String(),
        "mean": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
        "n_traces": pl.UInt32(),
        "n_null": pl.UInt32(),
        "time_unit": table.schema["time_unit"],
        "reason": CREDITS["reason"],
    }
    return pl.DataFrame(rows, schema=schema)
