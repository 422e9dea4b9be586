"""Comparison of many methods over one corpus, in one table."""

import json
import math
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Final

import numpy as np
import polars as pl

from ..base.arguments import Confidence, Seed, Threads
from ..base.arrays import Floats, Ints
from ..base.engines import Engine, RunBy, engine_of
from ..base.errors import InputError, ParameterError
from ..base.progress import Progress, reporting
from ..base.schema import CREDITS, Unit, unknown_name
from ..base.text import plain
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.frames import collected, tasks_of
from ..corpus.parts import sizes_of
from ..corpus.reward import check_channels, weights_of
from ..credit.verb import credit, list_methods as registered
from ..statistics import rankings
from ..statistics.influence import mean_interval
from ..statistics.sums import mean_of
from .attribution import Blame, failure_attribution

Method = str | tuple[str, Mapping[str, Any]]

_BY_EVENT: Final = ("event", "message", "tool", "token")
_TOP: Final = 0.05


@verb
def compare(
    corpus: Corpus,
    methods: Sequence[Method] | None = None,
    *,
    unit: Unit = "agent",
    reward: str | Mapping[str, float] = "team",
    truth: pl.DataFrame | pl.LazyFrame | None = None,
    labels: pl.DataFrame | pl.LazyFrame | None = None,
    blame: Blame = "highest",
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    engine: RunBy = None,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Run several credit methods over a corpus and compare cost and results in one table.

    Parameters
    ----------
    corpus
        The recordings.
    methods
        Names, or pairs of a name and its parameters: ``["uniform", ("flow", {"retention": 0.2})]``. None is
        every method of `methods` with its defaults.
    unit, reward, seed, threads
        As in `credit`.
    engine
        Who computes the credits of a corpus on disk, as in `credit`: each method that can be divided is a
        plan. What is fitted to a whole corpus or is of a script is computed in this process, and so is what
        is compared. All columns but ``seconds`` and ``events_per_s`` are the same.
    truth
        Known contributions: columns ``trace`` and ``contribution``, and one that names the unit: ``unit_id``,
        a column called like the unit (``agent``), or ``seq`` for units of one event (event, message, tool,
        token).
    labels
        What one annotator blames, as in `evaluation.failure_attribution`. Whatever `unit` is, this also
        computes credit of turns and agents, and compares it on labeled traces.
    blame
        Whether labels are compared with the ``"highest"`` or the ``"lowest"`` credit. A reward of 0 says
        nothing in most methods, so give failures a channel of their own (`Corpus.with_measures`).
    confidence
        Coverage of the intervals against `truth` and `labels`, between 0 and 1.
    progress
        As in `read_traces`; counts methods.

    Returns
    -------
    DataFrame
        A row per method, in the order given: ``method params unit quantity``; ``n_rows`` (units),
        ``null_share`` of them without a credit (0..1) and the most frequent ``reason`` of these;
        ``seconds`` for one run at `unit` and ``events_per_s`` (1/s); ``agreement``: the mean over traces of
        Spearman's rho with another method, averaged over the others, in -1..1, null where no trace has one;
        ``error``: why the method could not run; everything else is then null. With `truth` also
        ``truth_spearman``, the mean within-trace rho with the contribution, and ``truth_sign_accuracy``, the
        share of right signs among the 5 % of a trace's units with the largest contribution (rounded up, ties
        shared out), each with ``_lower`` and ``_upper``, and ``truth_n_traces``. With `labels`
        ``agent_accuracy`` and ``step_accuracy`` (0..1) with ``_lower`` and ``_upper``. With either
        ``interval_reason``: ``support.absent`` where a mean has no interval, since fewer than two tasks have
        it.

    Raises
    ------
    ParameterError
        A method is unknown or given twice with the same parameters, a unit or reward is unknown, a column of
        `truth` or `labels` is absent, the labels match no trace, or an option is out of range. If only one
        method refuses, that is its ``error``. An engine is named for a corpus in memory, or does not exist.
    InputError
        With an engine: a task was lost or failed. What is done stays, and the same call resumes from it.

    Notes
    -----
    Time is the sum over the methods, plus O(n log n) in rows for each pair of them. ``seconds`` is one run
    beside whatever else the machine does: repeat it to compare speed. With an engine it includes the plan,
    the start of workers and the reduction. Memory is not measured.

    Intervals are Wilson's in the range of the metric, with Student's t over tasks (docs/intervals.md).
    Source: Wilson 1927, Bell & McCaffrey 2002.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=12, seed=0)
    >>> table = ot.compare(corpus, ["uniform", ("flow", {"retention": 0.2}), "gae"], unit="agent")
    >>> table.select("method", "quantity", "null_share").rows()[:2]
    [('uniform', 'share', 0.0), ('flow', 'share', 0.0)]
    """
    check_channels(corpus, [reward] if isinstance(reward, str) else weights_of(reward))
    runs, quantities = _runs(methods)
    unit_type = CREDITS["unit"]
    if isinstance(unit_type, pl.Enum) and unit not in unit_type.categories.to_list():
        raise ParameterError(unknown_name("unit", str(unit), unit_type.categories.to_list()))
    truths = None if truth is None else _truth(truth, unit)
    named = None if labels is None else _one_annotator(corpus, labels)
    n_events = sizes_of(corpus)["events"]
    options: dict[str, Any] = {"reward": reward, "seed": seed, "threads": threads}
    judging: dict[str, Any] = {"seed": seed, "confidence": confidence, "blame": blame}
    if named is not None:
        judging["tasks"] = corpus.traces.select("trace_id", "task_id").collect(engine="streaming")
    rows: list[dict[str, object]] = []
    credits: list[pl.DataFrame | None] = []
    runner = None if engine is None else engine_of(engine, threads)
    with (
        reporting(progress, "comparing") as callback,
        nullcontext() if runner is None else runner.joined(corpus),
    ):
        for done, (name, params) in enumerate(runs):
            if callback is not None:
                callback(done, len(runs))
            row: dict[str, object] = {"method": name, "unit": unit, "quantity": quantities[name]}
            frame = None
            try:
                frame, facts = _run(corpus, name, {**options, **params}, unit, runner, n_events)
                row |= facts
                if named is not None:
                    row |= _located(corpus, name, {**options, **params}, named, runner, judging)
            except Exception as error:  # one method must not cost the others their rows
                if runner is not None and isinstance(error, InputError):
                    raise  # a lost worker is no fault of the method
                kind = "" if isinstance(error, ParameterError) else f"{type(error).__name__}: "
                row = {**row, "params": json.dumps(dict(params), default=str, sort_keys=True)}
                row |= {"error": plain(kind + (str(error).splitlines() or [""])[0])}
                frame = None
            rows.append(row)
            credits.append(frame)
        if callback is not None:
            callback(len(runs), len(runs))
    for row, mean in zip(rows, _mean_agreement(credits), strict=True):
        row["agreement"] = mean
    if truths is not None:
        for row, frame in zip(rows, credits, strict=True):
            if frame is not None:
                row |= _against(corpus, frame, truths, confidence)
    return pl.DataFrame(rows, schema=_schema(truths is not None, named is not None))


def _runs(methods: Sequence[Method] | None) -> tuple[list[tuple[str, Mapping[str, Any]]], dict[str, str]]:
    quantities = dict(registered().select("name", "quantity").rows())
    if methods is None:
        return [(name, {}) for name in quantities], quantities
    if isinstance(methods, str):
        raise ParameterError(f"methods is the text '{methods}', expected a list: ['{methods}']")
    if not isinstance(methods, Sequence):
        raise ParameterError(f"methods is {methods!r}, expected a list of names")
    runs: list[tuple[str, Mapping[str, Any]]] = []
    for method in methods:
        name, params = (method, {}) if isinstance(method, str) else _pair(method)
        if name not in quantities:
            raise ParameterError(unknown_name("method", str(name), list(quantities)))
        if (name, params) in runs:
            raise ParameterError(f"method '{name}' is given twice with the same parameters")
        runs.append((name, params))
    if not runs:
        raise ParameterError("methods is empty: give at least one, or None for all")
    return runs, quantities


def _pair(method: object) -> tuple[str, Mapping[str, Any]]:
    if (
        isinstance(method, Sequence)
        and len(method) == 2
        and isinstance(method[0], str)
        and isinstance(method[1], Mapping)
    ):
        return _check_params(method[0], method[1])
    raise ParameterError(f"method {method!r}, expected a name or a pair of a name and its parameters")


def _check_params(name: str, params: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    for option in ("unit", "method", "corpus", "sink", "progress", "engine"):
        if option in params:
            of_all = option in ("unit", "progress", "engine")
            instead = f"give {option}= to compare" if of_all else "leave it out"
            raise ParameterError(f"{option}= is not a parameter of method '{name}': {instead}")
    return name, params


def _credits(
    corpus: Corpus, name: str, options: dict[str, Any], unit: Unit, engine: Engine | None
) -> pl.DataFrame:
    if engine is not None:
        shared = {key: value for key, value in options.items() if key != "threads"}  # the engine has its own
        try:
            frame: pl.DataFrame = credit(corpus, method=name, unit=unit, engine=engine, **shared)
            return frame
        except ParameterError:
            pass  # what cannot be divided is computed here, and what is wrong is said here
    here: pl.DataFrame = credit(corpus, method=name, unit=unit, **options)
    return here


def _run(
    corpus: Corpus,
    name: str,
    options: dict[str, Any],
    unit: Unit,
    engine: Engine | None,
    n_events: int,
) -> tuple[pl.DataFrame, dict[str, object]]:
    start = time.perf_counter()
    frame = _credits(corpus, name, options, unit, engine)
    seconds = time.perf_counter() - start
    units = frame.filter(pl.col("unit_id").is_not_null())
    absent = units.filter(pl.col("credit").fill_nan(None).is_null())
    reasons = absent["reason"].cast(pl.String).drop_nulls().value_counts()
    reasons = reasons.sort("count", "reason", descending=[True, False])
    keyed = units.select(
        pl.col("trace").cast(pl.Int64),
        pl.col("unit_id").cast(pl.String),
        pl.col("credit").cast(pl.Float64).fill_nan(None),
    )
    return keyed, {
        "params": str(frame["params"][0]) if frame.height else None,
        "n_rows": units.height,
        "null_share": absent.height / units.height if units.height else None,
        "reason": reasons["reason"][0] if reasons.height else None,
        "seconds": seconds,
        "events_per_s": n_events / seconds if seconds > 0 else None,
    }


def _mean_agreement(credits: list[pl.DataFrame | None]) -> list[float | None]:
    """Mean over the other methods of the mean over traces of rho."""
    computed = [(i, frame) for i, frame in enumerate(credits) if frame is not None]
    if not computed:
        return [None] * len(credits)
    keys = [frame.select("trace", "unit_id") for _, frame in computed]
    units, alike = keys[0], all(key.equals(keys[0]) for key in keys[1:])
    if not alike:
        units = pl.concat(keys).unique().sort("trace", "unit_id")
    trace = units["trace"].to_numpy()
    ranked: dict[int, tuple[Floats, Floats]] = {}
    for i, frame in computed:
        aligned = (
            frame if alike else units.join(frame, on=["trace", "unit_id"], how="left", maintain_order="left")
        )
        values = aligned["credit"].fill_null(float("nan")).to_numpy()
        valued = np.flatnonzero(values == values)
        ranks = np.full(values.size, np.nan)
        ranks[valued] = rankings.midranks(values[valued], rankings.segment_starts(trace[valued]))
        ranked[i] = values, ranks
    rhos: list[list[float]] = [[] for _ in credits]
    for i in ranked:
        for j in ranked:
            if j < i and (rho := _mean_rho(trace, ranked[i], ranked[j])) is not None:
                rhos[i].append(rho)
                rhos[j].append(rho)
    return [math.fsum(of_method) / len(of_method) if of_method else None for of_method in rhos]


def _mean_rho(trace: "Ints", a: tuple["Floats", "Floats"], b: tuple["Floats", "Floats"]) -> float | None:
    """Ranks that are there hold for the traces in which both methods value the same units."""
    starts = rankings.segment_starts(trace)
    n_traces = starts.size
    segment = np.repeat(np.arange(n_traces), np.diff(np.append(starts, trace.size)))
    both = (a[0] == a[0]) & (b[0] == b[0])
    either = (a[0] == a[0]) ^ (b[0] == b[0])
    torn = np.bincount(segment[either], minlength=n_traces) > 0
    parts = []
    for rows, which in ((both & ~torn[segment], 1), (both & torn[segment], 0)):
        begins = rankings.segment_starts(trace[rows])
        if begins.size:
            compare = rankings.correlation if which else rankings.spearman
            parts.append(compare(a[which][rows], b[which][rows], begins))
    rho = np.concatenate(parts) if parts else np.zeros(0)
    finite = rho[rho == rho]
    return mean_of(finite) if finite.size else None


def _truth(truth: pl.DataFrame | pl.LazyFrame, unit: str) -> pl.DataFrame:
    frame = collected(truth, "truth", ("trace", "contribution"))
    keys = ("unit_id", unit, *(("seq",) if unit in _BY_EVENT else ()))
    key = next((name for name in keys if name in frame.columns), None)
    if key is None:
        raise ParameterError(f"truth has none of the columns {', '.join(keys)} to find the units by")
    if key == unit:
        frame, key = frame.rename({unit: "unit_id"}), "unit_id"
    frame = frame.select(
        pl.col("trace").cast(pl.Int64),
        pl.col(key).cast(pl.String if key == "unit_id" else pl.Int64),
        pl.col("contribution").cast(pl.Float64).fill_nan(None),
    ).drop_nulls()
    if frame.select("trace", key).is_duplicated().any():
        raise ParameterError(f"truth has one {key} of a trace twice")
    return frame


def _against(
    corpus: Corpus, credits: pl.DataFrame, truth: pl.DataFrame, confidence: float
) -> dict[str, object]:
    if "seq" in truth.columns:
        ids = corpus.events.select(
            pl.col("trace", "seq").cast(pl.Int64), unit_id=pl.col("id").cast(pl.String)
        ).collect(engine="streaming")
        truth = truth.join(ids, on=["trace", "seq"]).drop("seq")
    rows = credits.join(truth, on=["trace", "unit_id"]).drop_nulls()
    rows = rows.join(tasks_of(corpus, rows.select("trace").unique()), on="trace").sort("trace", "unit_id")
    starts = rankings.segment_starts(rows["trace"].to_numpy())
    ours, theirs = rows["credit"].to_numpy(), rows["contribution"].to_numpy()
    tasks = rows["task"].to_numpy()[starts]
    rho = rankings.spearman(ours, theirs, starts)
    sizes = np.diff(np.append(starts, ours.size))
    k = np.ceil(_TOP * sizes - 1e-9).astype(np.int64)
    share = rankings.top(np.abs(theirs), starts, k) if ours.size else ours
    right = share * (np.sign(ours) == np.sign(theirs))
    with np.errstate(invalid="ignore"):
        accuracy = rankings.sums(right, starts) / rankings.sums(share, starts)
    row: dict[str, object] = {"truth_n_traces": int(np.isfinite(rho).sum())}
    for name, values, within in (
        ("truth_spearman", rho, (-1.0, 1.0)),
        ("truth_sign_accuracy", accuracy, (0.0, 1.0)),
    ):
        mean = mean_interval(values, tasks, confidence=confidence, within=within)
        row |= {name: mean.estimate, f"{name}_lower": mean.around.lower, f"{name}_upper": mean.around.upper}
        if mean.estimate is not None and mean.around.reason is not None:
            row["interval_reason"] = mean.around.reason
    return row


def _one_annotator(corpus: Corpus, labels: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    frame = collected(labels, "labels", ("trace_id", "annotator", "turn", "agent"))
    who = frame["annotator"].cast(pl.String).unique().drop_nulls().sort().to_list()
    if len(who) > 1:
        raise ParameterError(f"labels have the annotators {', '.join(who)}: filter them to one")
    frame = frame.with_columns(pl.col("trace_id").cast(pl.String))
    recorded = corpus.traces.select(pl.col("trace_id").cast(pl.String)).collect(engine="streaming")
    if frame.join(recorded, on="trace_id", how="semi").is_empty():
        raise ParameterError("labels are of no trace of the corpus: their trace_id do not meet")
    return frame


def _located(
    corpus: Corpus,
    name: str,
    options: dict[str, Any],
    labels: pl.DataFrame,
    engine: Engine | None,
    judging: dict[str, Any],
) -> dict[str, object]:
    levels: tuple[Unit, ...] = ("turn", "agent")
    # credit first: methods of groups and corpora compare with traces that have no label, too
    frames = [
        _credits(corpus, name, options, unit, engine).join(
            labels.select("trace_id").unique(), on="trace_id", how="semi", maintain_order="left"
        )
        for unit in levels
    ]
    table = failure_attribution(pl.concat(frames), labels, **judging)
    row = table.row(0, named=True)
    ends = {
        f"{metric}{end}": row[f"{metric}{end}"]
        for metric in ("agent_accuracy", "step_accuracy")
        for end in ("", "_lower", "_upper")
    }
    return {**ends, "interval_reason": row["interval_reason"]}


def _schema(truth: bool, labels: bool) -> dict[str, Any]:
    schema: dict[str, Any] = {
        "method": pl.String,
        "params": pl.String,
        "unit": pl.String,
        "quantity": pl.String,
        "n_rows": pl.UInt32,
        "null_share": pl.Float64,
        "reason": pl.String,
        "seconds": pl.Float64,
        "events_per_s": pl.Float64,
        "agreement": pl.Float64,
    }
    metrics = ["truth_spearman", "truth_sign_accuracy"] if truth else []
    metrics += ["agent_accuracy", "step_accuracy"] if labels else []
    for name in metrics:
        schema |= dict.fromkeys((name, f"{name}_lower", f"{name}_upper"), pl.Float64)
    if truth:
        schema["truth_n_traces"] = pl.UInt32
    if metrics:
        schema["interval_reason"] = CREDITS["reason"]
    return {**schema, "error": pl.String}
