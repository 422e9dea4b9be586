"""The verb `metrics`: efficiency, collaboration, overhead and safety, trace by trace."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import polars as pl

from .. import _core
from ..base.arguments import Confidence, Share, Threads
from ..base.division import Arguments, Division
from ..base.engines import RunBy
from ..base.errors import ParameterError
from ..base.progress import Progress, reporting
from ..base.ranges import in_range
from ..base.schema import CREDITS
from ..base.sums import ordered_mean
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.names import TOOLS, declared_names, names_of, tools_by_trust, with_named_tools
from ..corpus.pieces import core_frames
from ..schedules.scheduling import Durations, MaxGap, timing_options
from ..statistics.influence import NO_INTERVAL, mean_interval

By = Literal["agent", "role", "task", "topology", "system", "importer"]

_MEMBERS: Final = ("agent", "role")
_KEYS: Final = {"task": "task_id", "topology": "topology", "system": "system", "importer": "importer"}
_TAIL: Final = ("time_unit", "durations")
_COUNTS: Final = ("n_tasks", "n_traces", "n_null")
FAMILIES: Final = {
    "E1": ("task_success",),
    "E2": ("parallelism",),
    "E3": ("utilization", "message_redundancy"),
    "E4": ("protocol_overhead", "error_amplification", "taint_share", "outcome_tainted"),
}
"""The metrics of each evaluation family (arXiv 2605.02801, Table 13; docs/reference/definitions.md, D21)."""


@verb
def list_metrics() -> pl.DataFrame:
    """List the metrics that `metrics` computes.

    Returns
    -------
    DataFrame
        A row per metric: ``metric`` (column), ``group``, ``counts`` (``count``, ``tokens``, ``time`` in the
        trace's ``time_unit``, ``clock`` in its ``clock_unit``, ``ratio``, ``nats``, ``usd``, ``score``,
        ``flag``), ``cost`` (``linear``, or ``super-linear`` and on request only), ``summary`` (its
        definition) and ``reference`` (definitions of docs/reference/definitions.md, literature). The group
        ``members`` is what ``by="agent"`` and ``by="role"`` give.

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.list_metrics().filter(metric="parallelism")["summary"].item()
    'work / span'
    """
    return pl.DataFrame(_core.metric_definitions())


_SUMMARIES: Final = ("by", "pool_harnesses", "confidence")
"""Arguments that means over traces need, not the tasks."""


def _measured(corpus: Corpus, arguments: Arguments) -> Arguments:
    arguments = with_named_tools(corpus, arguments)
    return arguments.without(*_SUMMARIES) if arguments.named.get("by") in _KEYS else arguments


def _summary(corpus: Corpus, arguments: Arguments, frame: pl.DataFrame) -> pl.DataFrame:
    named = arguments.by_name(metrics)
    if named["by"] not in _KEYS:
        return frame
    return summarized(corpus, frame, named["by"], named["pool_harnesses"], float(named["confidence"]))


@verb(
    rows="a trace, or a trace and member",
    division=Division(prepare=_measured, narrowed=(*TOOLS, *_SUMMARIES), finish=_summary),
)
def metrics(
    corpus: Corpus,
    *,
    by: By | None = None,
    groups: Sequence[str] | None = None,
    durations: Durations = "auto",
    max_gap: MaxGap = "auto",
    program_order: bool = False,
    subtasks: Mapping[str, Collection[str]] | None = None,
    harness: Mapping[str, Collection[str]] | None = None,
    untrusted_tools: Iterable[str] = (),
    trusted_tools: Iterable[str] = (),
    privileged_tools: Iterable[str] = (),
    intervention_at: Share | None = None,
    pool_harnesses: bool = False,
    confidence: Confidence = 0.95,
    engine: RunBy = None,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Measure how runs were organized, what that cost, and how much of it was useful.

    Parameters
    ----------
    corpus
        The recordings.
    by
        None gives a row per trace. ``"agent"`` and ``"role"`` give a row for each agent or role in each
        trace. The row with a null name holds what nobody owns, so that counts, tokens and work add up to
        those of the trace. ``"task"``, ``"topology"``, ``"system"`` and ``"importer"`` give means over
        traces.
    groups
        Names of groups that `list_metrics` lists. None computes all groups of linear cost. Agents and
        roles have no groups.
    durations, max_gap, program_order
        As in `simulate`.
    subtasks
        For each ``task_id``, the parts (``subtask_id``) into which the task should be split.
        ``split_coverage``, ``split_precision`` and ``split_f1`` compare with it.
    harness
        What the harness declares, for the group ``conformance``: names under ``"types"`` (of events),
        ``"tools"`` (that may be called) and ``"roles"`` (that may be spawned). A key that is left out is not
        checked.
    untrusted_tools, trusted_tools, privileged_tools
        As in `taint`, for the groups ``taint`` and ``cut``.
    intervention_at
        A share (0..1) of the time of a run, for the group ``steering``: how much would be done when somebody
        intervenes then.
    pool_harnesses
        Also take means over runs of different harnesses (``harness_hash``).
    confidence
        Coverage of the intervals of means, between 0 and 1.
    engine
        What computes a corpus on disk, as in `credit`.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        A row per trace: ``trace`` (UInt32), ``trace_id task_id`` (String), ``task_success`` and
        ``wall_clock_s`` (Float64) and ``train_step`` (Float64) where the recording has them among its
        measures, then a column per metric (Int64 for counts and tokens, Boolean for flags, else Float64),
        ``time_unit`` (what metrics that count ``time`` are in), ``durations`` (where these come from) and
        ``clock_unit`` (what metrics that count ``clock`` are in: those that are read off recorded times);
        ``n_families`` (UInt8: how many of E1 to E4 have a value) and ``mas_native`` (Boolean: at least three)
        if all metrics of these are asked for; last ``reason``, a struct with a field per metric that says why
        it is null. By agent or role: ``trace trace_id``, the name (Categorical), its metrics,
        ``time_unit durations clock_unit reason``. By task or another column: that column, ``harness_hash``
        (String, of the runs that are pooled), ``metric`` (String), ``mean lower upper`` (Float64: mean over
        traces that have the metric, and its interval over tasks), ``n_tasks`` and ``n_traces`` that have it,
        ``n_null`` traces that do not (UInt32), ``time_unit``, ``reason`` of these, the most frequent one,
        or ``result.range`` where the mean is beyond the floats and so null; ``interval_reason``, why ``lower
        upper`` are null: ``support.absent`` with fewer than two tasks, ``group.degenerate`` where all tasks
        have the same value, ``result.range``. Means of times are over the traces whose
        unit is the more frequent one, which ``time_unit`` names.

    Raises
    ------
    ParameterError
        Unknown word for `by`, `groups` or `durations`, an unknown tool, or an option out of range.

    Notes
    -----
    Intervals are Student's over tasks, of flags Wilson's with Student's t: rollouts of one task never count
    as independent. Intervals of skewed values cover less often than asked for (docs/intervals.md).

    O(events + edges) for the default groups. Sources: arXiv 2605.02801, Table 13 (E1 to E4); Brent 1974,
    Graham 1969 (work and span); arXiv 2512.08296 (message density); each metric's own in
    `list_metrics`; intervals, Bell & McCaffrey 2002, Wilson 1927.

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
    wanted = None if groups is None else list(dict.fromkeys(names_of("groups", groups)))
    if wanted == []:
        raise ParameterError("groups is empty, expected at least one name, or None for all that are linear")
    tools = tools_by_trust(corpus, untrusted_tools, trusted_tools, privileged_tools)
    declared: dict[str, Any] = {"subtasks": subtasks, "harness": harness, "intervention_at": intervention_at}
    declared |= {f"{trust}_tools": names or None for trust, names in tools.items()}
    stated = [name for name, value in declared.items() if value is not None]
    if by in _MEMBERS and stated:
        raise ParameterError(f"{stated[0]} has no effect with by={by!r}: it applies to whole traces")
    if by in _MEMBERS and wanted is not None:
        raise ParameterError(f"groups cannot be chosen with by={by!r}: all metrics of a member come together")
    options = {**timing_options(durations, max_gap, program_order), "threads": threads}
    with reporting(progress, "measuring") as callback:
        options["progress"] = callback
        if by in _MEMBERS:
            return core_frames(corpus, lambda store: _core.member_metrics(store, str(by), **options), _packed)
        options["subtasks"] = declared_names("subtasks", subtasks)
        options["harness"] = declared_names("harness", harness)
        options["tools"] = tools
        options["intervention_at"] = intervention_at
        table = core_frames(corpus, lambda store: _core.trace_metrics(store, wanted, **options), _packed)
    table = _with_families(_with_measures(corpus, table))
    if by is None:
        return table
    return summarized(corpus, table, by, pool_harnesses, confidence)


def _packed(table: pl.DataFrame) -> pl.DataFrame:
    """The reasons, which the core gives column by column, as one struct."""
    suffix = ".reason"
    reasons = [name for name in table.columns if name.endswith(suffix)]
    fields = [pl.col(name).cast(CREDITS["reason"]).alias(name.removesuffix(suffix)) for name in reasons]
    values = table.drop(reasons)
    return values.with_columns(reason=table.select(pl.struct(fields).alias("reason")).to_series())


def _with_measures(corpus: Corpus, table: pl.DataFrame) -> pl.DataFrame:
    """The measures that the survey's families and comparisons of checkpoints are about, beside each trace."""
    wanted = {"task_success": "metric", "train_step": "metric", "wall_clock_s": "cost"}
    named = pl.col("name").cast(pl.String)
    kinds = pl.any_horizontal(
        *((named == name) & (pl.col("kind").cast(pl.String) == kind) for name, kind in wanted.items())
    )
    measures = corpus.measures.filter(kinds).select("trace", named.alias("name"), "value")
    rows = measures.collect(engine="streaming")
    wide = rows.pivot("name", index="trace", values="value", aggregate_function="first")
    wide = wide.with_columns(
        **{name: pl.lit(None, pl.Float64) for name in wanted if name not in wide.columns}
    )
    # The traces alone are joined: a join of the table would copy all of it.
    beside = table.select("trace").join(wide, on="trace", how="left", maintain_order="left")
    head = ["trace", "trace_id", "task_id", *wanted]
    joined = table.with_columns(beside.select(*wanted))
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


def unit_columns() -> dict[str, str]:
    """Of each metric that is a time, the column that names its unit."""
    columns = {"time": "time_unit", "clock": "clock_unit"}
    rows = list_metrics().filter(pl.col("counts").is_in(list(columns)), pl.col("group") != "members")
    return {name: columns[counts] for name, counts in rows.select("metric", "counts").iter_rows()}


def summarized(corpus: Corpus, table: pl.DataFrame, by: By, pooled: bool, confidence: float) -> pl.DataFrame:
    """Means over the traces of a key, with intervals over tasks."""
    key = _KEYS[by]
    if key not in table.columns:
        named = corpus.traces.select("trace", key).collect(engine="streaming")
        table = table.join(named, on="trace", how="left", maintain_order="left")
    table = table.join(_harnesses(corpus, pooled), on="trace", how="left", maintain_order="left")
    table = table.with_columns(task=pl.col("task_id").rank("dense").cast(pl.Int64))
    keys = [key, "harness_hash"]
    units, fields = unit_columns(), table["reason"].struct.fields
    usual = {column: _usual(table, keys, column) for column in ("time_unit", "clock_unit")}
    schema = table.schema  # every look at it makes the types of all columns anew
    flags = {name for name, dtype in schema.items() if dtype == pl.Boolean}
    parts = []
    for name in numeric(table.drop("task")):
        reason = pl.col("reason").struct.field(name) if name in fields else pl.lit(None, CREDITS["reason"])
        rows = table.select(*keys, "task", *usual, value=pl.col(name).cast(pl.Float64), reason=reason)
        unit, n = pl.lit(None, schema["time_unit"]), pl.len().over(keys)
        if name in units:
            column = units[name]
            rows = rows.with_columns(n=n).join(
                usual[column], on=keys, nulls_equal=True, maintain_order="left"
            )
            rows = rows.filter(pl.col(column).eq_missing(pl.col("usual")))
            unit = pl.col("usual").first()
        else:
            rows = rows.with_columns(n=n)
        has_value = pl.col("value").is_not_null()
        parts.append(
            rows.group_by(keys, maintain_order=True).agg(
                pl.lit(name).alias("metric"),
                ordered_mean(pl.col("value")).alias("mean"),
                # one task has no interval: nothing has to be computed where there are many of them
                pl.col("value", "task").filter(has_value & (pl.col("task").filter(has_value).n_unique() > 1)),
                pl.col("task").filter(has_value).n_unique().cast(pl.UInt32).alias("n_tasks"),
                has_value.sum().alias("n_traces"),
                (pl.col("n").first() - has_value.sum()).alias("n_null"),
                unit.alias("time_unit"),
                pl.col("reason").drop_nulls().mode().sort().first(),
            )
        )
    means = pl.concat(parts)
    around = [
        mean_interval(
            values.to_numpy(),
            tasks.to_numpy(),
            confidence=confidence,
            within=(0.0, 1.0) if metric in flags else None,
        ).around
        if len(values)
        else NO_INTERVAL
        for metric, values, tasks in zip(means["metric"], means["value"], means["task"], strict=True)
    ]
    order = {value: at for at, value in enumerate(table.select(keys).unique(maintain_order=True).iter_rows())}
    places = pl.Series([order[pair] for pair in means.select(keys).iter_rows()], dtype=pl.Int64)
    return (
        in_range(means, ["mean"])
        .with_columns(
            pl.col("n_traces", "n_null").cast(pl.UInt32),
            lower=pl.Series([interval.lower for interval in around], dtype=pl.Float64),
            upper=pl.Series([interval.upper for interval in around], dtype=pl.Float64),
            interval_reason=pl.Series([interval.reason for interval in around], dtype=CREDITS["reason"]),
            place=places,
        )
        .sort("place", maintain_order=True)
        .select(*keys, "metric", "mean", "lower", "upper", *_COUNTS, "time_unit", "reason", "interval_reason")
    )


def _usual(table: pl.DataFrame, keys: list[str], column: str) -> pl.DataFrame:
    """The unit that most traces of a key have, ``usual``; seconds where it is even."""
    counts = table.filter(pl.col(column).is_not_null()).group_by(*keys, column).len()
    ordered = counts.sort("len", pl.col(column).cast(pl.String), descending=[True, False])
    return ordered.group_by(keys, maintain_order=True).agg(pl.col(column).first().alias("usual"))


def _harnesses(corpus: Corpus, pooled: bool) -> pl.DataFrame:
    """The first harness that each trace names, or none where they are pooled."""
    if pooled:
        return pl.DataFrame(schema={"trace": pl.UInt32, "harness_hash": pl.String})
    named = corpus.events.select("trace", "harness_hash").filter(pl.col("harness_hash").is_not_null())
    return named.group_by("trace").agg(pl.col("harness_hash").first()).collect(engine="streaming")
