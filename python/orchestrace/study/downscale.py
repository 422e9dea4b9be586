"""Prefixes of long recordings that keep every cause, on which estimators run again."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from ..base.arguments import Confidence, Count, Number, PositiveShare, Seed, Threads
from ..base.checks import expect_each
from ..base.errors import ParameterError
from ..base.progress import Progress, reporting
from ..base.schema import CREDITS, Unit, unknown_name
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.frames import tasks_of
from ..corpus.parts import sizes_of
from ..credit.verb import Rewards, credit, list_methods
from ..disk.partitioned import PartitionedCorpus
from ..evaluation.comparison import Method
from ..evaluation.rank_agreement import agreement, one_run
from ..statistics import rankings
from ..statistics.influence import mean_interval
from .config import MethodRun

TOP: Final = 0.05
_SCHEMA: Final[dict[str, Any]] = {
    "share": pl.Float64,
    "mean_events": pl.Float64,
    "mean_lost": pl.Float64,
    "method": pl.String,
    "unit": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
    "lower": pl.Float64,
    "upper": pl.Float64,
    "n_traces": pl.UInt32,
    "n_tasks": pl.UInt32,
    "interval_reason": CREDITS["reason"],
    "null_share": pl.Float64,
    "error": pl.String,
}


@verb
def prefixes(corpus: Corpus, share: PositiveShare, *, min_events: Count = 1) -> Corpus:
    """Cut every trace to its beginning, as if the recording had stopped there.

    Parameters
    ----------
    corpus
        The recordings, in memory.
    share
        Of the events of each trace, in order of time, rounded up; above 0, at most 1.
    min_events
        Traces that have fewer are left out.

    Returns
    -------
    Corpus
        The same traces with their rewards. An event is kept if it is among the first and all its predecessors
        are kept; edges between kept events stay. Labels, costs and metrics are of the whole, and left out.
        A trace of which nothing is left is left out, too: all that it begins with depends on a later event,
        as in a cycle.

    Raises
    ------
    ParameterError
        A share that is not above 0 and at most 1, or a corpus on disk.

    Notes
    -----
    Time goes by (t, seq), so an edge that leads back in time loses its end and what follows from it. O(events
    log events + edges).

    Source: down-scaling of recorded traces, methods 9.4.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=3, seed=0)
    >>> half = ot.study.prefixes(corpus, 0.5)
    >>> len(half), half.events.collect().height < corpus.events.collect().height
    (3, True)
    """
    if isinstance(corpus, PartitionedCorpus):
        raise ParameterError("prefixes need a corpus in memory: read_traces, or one of corpus.pieces()")
    traces = corpus.traces.filter(pl.col("n_events") >= min_events).collect()
    wanted = traces.select("trace", most=(pl.col("n_events") * share - 1e-9).ceil())
    events = corpus.events.collect().join(wanted, on="trace", maintain_order="left")
    place = pl.struct("t", "seq").rank("ordinal").over("trace")
    beginning = events.filter(place <= pl.col("most")).drop("most")
    edges = corpus.edges.collect()
    beginning = _closed(beginning, edges)
    traces = traces.join(beginning.select("trace").unique(), on="trace", how="semi", maintain_order="left")
    numbers = beginning.select("trace", "seq", new=pl.int_range(pl.len()).over("trace").cast(pl.UInt32))
    for end in ("src", "dst"):
        renamed = numbers.rename({"seq": end, "new": f"new_{end}"})
        edges = edges.join(renamed, on=["trace", end], how="inner", maintain_order="left")
    edges = edges.select("trace", "type", src="new_src", dst="new_dst")
    rewards = corpus.measures.filter(pl.col("kind") == "reward").collect()
    return Corpus.from_arrow(
        traces=traces.drop("n_events", "n_edges", "n_agents"),
        events=beginning.with_columns(seq=numbers["new"]),
        edges=edges,
        measures=rewards.join(traces, on="trace", how="semi", maintain_order="left"),
    )


def _closed(events: pl.DataFrame, edges: pl.DataFrame) -> pl.DataFrame:
    """Without the events that lack a predecessor, and those that follow from them. O(events + edges)."""
    numbered = events.select("trace", "seq", row=pl.int_range(pl.len(), dtype=pl.Int64))
    into = edges.join(numbered.rename({"seq": "dst", "row": "to"}), on=["trace", "dst"], how="inner")
    into = into.join(numbered.rename({"seq": "src", "row": "from"}), on=["trace", "src"], how="left")
    torn = into.filter(pl.col("from").is_null())["to"].unique().to_numpy()
    inner = into.filter(pl.col("from").is_not_null()).sort("from")
    begin = np.searchsorted(inner["from"].to_numpy(), np.arange(events.height + 1))
    ends = inner["to"].to_numpy()
    lost = np.zeros(events.height, bool)
    while len(torn):
        lost[torn] = True
        n = begin[torn + 1] - begin[torn]
        edge = np.repeat(begin[torn] - np.cumsum(n) + n, n) + np.arange(n.sum())
        following = np.unique(ends[edge])
        torn = following[~lost[following]]
    return events.filter(pl.Series(~lost))


@verb
def downscale(
    corpus: Corpus,
    methods: Sequence[Method],
    *,
    shares: Sequence[float] = (0.125, 0.25, 0.5, 0.75),
    unit: Unit = "agent",
    reward: Rewards = "team",
    min_events: Count = 16,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Run estimators again on the beginnings of long recordings, to see how results change with length.

    Parameters
    ----------
    corpus
        The recordings, in memory.
    methods
        Names, or pairs of a name and its parameters, as in `compare`.
    shares
        Of the events of each trace, above 0 and below 1; the whole is always added.
    unit, reward, seed, threads
        As in `credit`.
    min_events
        Shorter traces are left out: one set of traces for all shares.
    confidence
        Coverage of the intervals, between 0 and 1.
    progress
        As in `read_traces`; counts calls.

    Returns
    -------
    DataFrame
        A row per share, method and metric: ``share``, ``mean_events`` (kept, per trace), ``mean_lost`` (per
        trace, among the first events but without a cause that is), ``method unit metric value lower upper``,
        ``n_traces n_tasks`` (with a value), ``interval_reason`` (``support.absent``: fewer than two tasks
        have no interval), ``null_share`` of the units without credit, ``error`` (why the method could not
        run). Metrics: ``spearman``, ``top_k_overlap`` and ``sign_agreement`` with the credit that the whole
        recording gives the same units, as in `agreement` with ``k=0.05``; ``top_share``: of the absolute
        credit of a trace, what the 5 % of its units have that have most.

    Raises
    ------
    ParameterError
        No method of a name, a share out of range, or no trace is long enough.

    Notes
    -----
    The reward is that of the whole run at every length: an estimator is asked what it had said of a run that
    ended so when less of it was recorded. Nobody knows the truth of a recording; agreement with the whole is
    stability, not accuracy. `scaling.fit_law` turns the trend into a law, where that is built.

    Time is that of the methods, once for each share. Source: methods 9.4.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=20, seed=0)
    >>> trend = ot.study.downscale(corpus, ["flow"], shares=[0.5])
    >>> trend.filter(metric="spearman", share=1.0)["value"].to_list()
    [1.0]
    """
    expect_each("shares", shares, Number(above=0, high=1))
    steps = sorted({*map(float, shares), 1.0})
    runs = _runs(methods)
    options: dict[str, Any] = {"unit": unit, "reward": reward, "seed": seed, "threads": threads}
    cut = {share: prefixes(corpus, share, min_events=min_events) for share in steps}
    if not len(cut[1.0]):
        raise ParameterError(f"no trace has {min_events} events: give a smaller min_events")
    rows: list[dict[str, Any]] = []
    with reporting(progress, "downscaling") as callback:
        done = 0
        for name, params in runs:
            full = None
            for share in reversed(steps):
                rows_now, full = _step(cut, share, name, params, options, confidence, full)
                rows += rows_now
                done += 1
                if callback is not None:
                    callback(done, len(runs) * len(steps))
    return pl.DataFrame(rows, schema=_SCHEMA).sort("method", "metric", "share", maintain_order=True)


def _step(
    cut: dict[float, Corpus],
    share: float,
    name: str,
    params: dict[str, Any],
    options: dict[str, Any],
    confidence: float,
    full: pl.DataFrame | None,
) -> tuple[list[dict[str, Any]], pl.DataFrame | None]:
    """Rows of one method on one share, and its credit on the whole, which comes first."""
    corpus = cut[share]
    sizes, n = sizes_of(corpus), len(cut[1.0])
    wished = cut[1.0].traces.select((pl.col("n_events") * share - 1e-9).ceil().sum()).collect().item()
    key = {
        "share": share,
        "mean_events": sizes["events"] / n,
        "mean_lost": (wished - sizes["events"]) / n,
        "method": MethodRun(name, params).label,
        "unit": options["unit"],
    }
    try:
        credits = credit(corpus, method=name, **options, **params)
    except ParameterError as error:
        return [{**key, "metric": None, "error": str(error).splitlines()[0]}], full
    full = credits if share == 1.0 else full
    units = credits.filter(pl.col("unit_id").is_not_null())
    empty = units.filter(pl.col("credit").fill_nan(None).is_null()).height
    key["null_share"] = empty / units.height if units.height else None
    rows = [key | _top_share(corpus, credits, confidence)]
    if full is not None:
        table = agreement(cut[1.0], credits, full, k=TOP, confidence=confidence)
        rows += [key | row for row in table.iter_rows(named=True) if row["metric"] != "kendall"]
    return [{name: row.get(name) for name in _SCHEMA} for row in rows], full


def _top_share(corpus: Corpus, credits: pl.DataFrame, confidence: float) -> dict[str, Any]:
    """How much of the absolute credit of a trace few of its units have."""
    rows = one_run(credits, "credits")[0].drop_nulls().sort("trace", "unit_id")
    rows = rows.join(tasks_of(corpus, rows.select("trace").unique()), on="trace", maintain_order="left")
    trace = rows["trace"].to_numpy()
    starts = rankings.segment_starts(trace)
    size = np.abs(rows["credit"].to_numpy())
    counts = np.ceil(TOP * np.diff(np.append(starts, size.size)) - 1e-9).astype(np.int64)
    with np.errstate(invalid="ignore"):
        value = rankings.sums(size * rankings.top(size, starts, counts), starts) / rankings.sums(size, starts)
    tasks = rows["task"].to_numpy()[starts]
    mean = mean_interval(value, tasks, confidence=confidence, within=(0.0, 1.0))
    return {
        "metric": "top_share",
        "value": mean.estimate,
        "lower": mean.around.lower,
        "upper": mean.around.upper,
        "n_traces": int(np.isfinite(value).sum()),
        "n_tasks": mean.n_clusters,
        "interval_reason": mean.around.reason,
    }


def _runs(methods: Sequence[Method]) -> list[tuple[str, dict[str, Any]]]:
    if isinstance(methods, str) or not methods:
        raise ParameterError(f"methods is {methods!r}, expected a list of names")
    names = list_methods()["name"].to_list()
    runs = [(method, {}) if isinstance(method, str) else (method[0], dict(method[1])) for method in methods]
    for name, _ in runs:
        if name not in names:
            raise ParameterError(unknown_name("method", str(name), names))
    return runs
