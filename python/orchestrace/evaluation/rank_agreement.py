"""Agreement of two credit assignments, unit by unit."""

import math
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from ..base.arguments import Confidence, Resamples, Seed
from ..base.arrays import Floats, Ints
from ..base.errors import ParameterError
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.frames import collected, tasks_of
from ..statistics import rankings
from ..statistics.influence import NO_INTERVAL, Interval, mean_interval
from ..statistics.resampling import FEWEST_CLUSTERS, draws, percentiles

By = Literal["trace", "corpus"]

METRICS: Final = ("kendall", "spearman", "top_k_overlap", "sign_agreement")
RANGES: Final = dict(zip(METRICS, ((-1.0, 1.0), (-1.0, 1.0), (0.0, 1.0), (0.0, 1.0)), strict=True))
_RUN: Final = ("method", "reward", "params")


@verb
def agreement(
    corpus: Corpus,
    a: pl.DataFrame | pl.LazyFrame,
    b: pl.DataFrame | pl.LazyFrame,
    *,
    by: By = "trace",
    k: int | float = 5,
    n_boot: Resamples = 2000,
    confidence: Confidence = 0.95,
    seed: Seed = 0,
) -> pl.DataFrame:
    """Compare two credit assignments of one corpus, unit by unit, with intervals over tasks.

    Parameters
    ----------
    corpus
        The recordings of both; only its ``traces`` are looked at, for their ``task_id``.
    a, b
        Rows of `credit` at one unit, one method with one set of parameters each: ``trace unit unit_id
        credit``. The order of rows does not matter.
    by
        ``"trace"``: units are ranked within their trace, and the result is the mean over traces.
        ``"corpus"``: all units of the corpus are one ranking.
    k
        How many of the highest credits ``top_k_overlap`` compares: a whole number of units, or a share of
        them between 0 and 1, rounded up.
    confidence
        Coverage of the intervals, between 0 and 1.
    n_boot, seed
        For ``by="corpus"``: resamples of tasks behind the intervals of all but ``sign_agreement``, and their
        seed.

    Returns
    -------
    DataFrame
        Four rows, ``metric`` = ``kendall`` (tau-b), ``spearman``, ``top_k_overlap``, ``sign_agreement``, with
        ``value lower upper`` (Float64; correlations in -1..1, the others in 0..1), ``n_traces`` that have a
        value, ``n_tasks`` they belong to, ``n_rows`` compared, and ``n_null``: units that only one frame has,
        or of which either credit is null, and which are left out (all UInt32). Rows without a unit are left
        out. ``interval_reason`` is ``support.absent`` where ``lower upper`` are null: fewer than two tasks
        have a value; of one ranking that is resampled, fewer than five. It is ``group.degenerate`` where all
        resamples of that say the same.

    Raises
    ------
    ParameterError
        A column is absent, the frames are at different units, a frame holds several methods or sets of
        parameters or one unit twice, a trace is not of this corpus, or an option is out of range.

    Notes
    -----
    *Ties* are never broken by the order of rows. ``kendall`` and ``spearman`` are corrected for them. At the
    cut of the `k` highest, tied units count with the share of them that has room, and the overlap is the sum
    of the smaller of the two shares, over `k`. ``sign_agreement`` counts the units on which not both credits
    are zero; zero agrees with zero only.

    *No value.* A trace counts for a metric only where that is defined: a correlation needs two units and
    credit that varies on either side, the overlap more than `k` units, the signs a credit other than zero.

    *Intervals* are those of a mean over tasks, Wilson's in the range of the metric with Student's t. One
    ranking of a corpus is no mean of tasks (but for its signs): there they are percentiles of resampled
    tasks, widened for few of them. docs/intervals.md says how often both cover.

    Time is O(n log n) in rows for ``by="trace"`` (some seconds for 10⁶) and n_boot times that for
    ``by="corpus"``, where every resample has to be ranked anew.

    Source: tau-b, Kendall 1945; intervals, Wilson 1927, Bell & McCaffrey 2002, Hesterberg 2015.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=20, seed=0)
    >>> flow = ot.credit(corpus, method="flow", unit="agent")
    >>> even = ot.credit(corpus, method="uniform", unit="agent")
    >>> table = ot.evaluation.agreement(corpus, flow, even, k=1)
    >>> table["metric"].to_list()
    ['kendall', 'spearman', 'top_k_overlap', 'sign_agreement']
    >>> ot.evaluation.agreement(corpus, flow, flow, k=1)["value"].to_list()
    [1.0, 1.0, 1.0, 1.0]
    """
    share = _check_k(k)
    left, right = one_run(a, "a"), one_run(b, "b")
    if left[1] != right[1]:
        raise ParameterError(f"a is at unit '{left[1]}', b at '{right[1]}': compute both at one unit")
    both = left[0].join(right[0], on=["trace", "unit_id"], how="full", coalesce=True, suffix="_b")
    rows = both.drop_nulls()
    tasks = tasks_of(corpus, rows.select("trace").unique())
    rows = rows.join(tasks, on="trace", how="left").sort("trace", "unit_id")
    n_null = both.height - rows.height
    trace = rows["trace"].to_numpy()
    task = rows["task"].to_numpy()
    x, y = rows["credit"].to_numpy(), rows["credit_b"].to_numpy()
    if by == "corpus":
        return _pooled(x, y, task, trace, share, n_boot, seed, confidence, n_null)
    starts = rankings.segment_starts(trace)
    values = statistics(x, y, starts, share)
    clusters = task[starts] if starts.size else task
    table: list[tuple[object, ...]] = []
    for metric, per_trace in values.items():
        mean = mean_interval(per_trace, clusters, confidence=confidence, within=RANGES[metric])
        table.append(
            _row(metric, mean.estimate, mean.around, int((per_trace == per_trace).sum()), mean.n_clusters)
        )
    return _tidy(table, rows.height, n_null)


def statistics(a: "Floats", b: "Floats", starts: "Ints", k: int | float) -> "dict[str, Floats]":
    """All four metrics of every segment of rows, NaN where one is not defined."""
    sizes = np.diff(np.append(starts, a.size))
    counts = np.ceil(k * sizes - 1e-9) if isinstance(k, float) else np.full(sizes.size, k)
    return {
        "kendall": rankings.kendall(a, b, starts),
        "spearman": rankings.spearman(a, b, starts),
        "top_k_overlap": rankings.top_overlap(a, b, starts, counts.astype(np.int64)),
        "sign_agreement": rankings.sign_agreement(a, b, starts),
    }


def one_run(credits: pl.DataFrame | pl.LazyFrame, side: str) -> tuple[pl.DataFrame, str]:
    """Keys and credits of the units of one method with one set of parameters, and their unit.

    Not-a-number counts as null, and the row without a unit is left out.
    """
    frame = collected(credits, side, ("trace", "unit", "unit_id", "credit"))
    runs = frame.select(name for name in ("unit", *_RUN) if name in frame.columns).unique()
    if runs.height > 1:
        differs = next(name for name in runs.columns if runs[name].n_unique() > 1)
        raise ParameterError(f"{side} has several values of '{differs}': filter it to one method at one unit")
    keyed = frame.filter(pl.col("unit_id").is_not_null()).select(
        pl.col("trace").cast(pl.Int64),
        pl.col("unit_id").cast(pl.String),
        pl.col("credit").cast(pl.Float64).fill_nan(None),
    )
    twice = keyed.filter(pl.struct("trace", "unit_id").is_duplicated())
    if twice.height:
        trace, name, _ = twice.row(0)
        raise ParameterError(f"{side} has two credits for unit '{name}' of trace {trace}")
    return keyed, str(frame["unit"][0]) if frame.height else ""


def _check_k(k: object) -> int | float:
    if isinstance(k, bool) or not isinstance(k, int | float):
        raise ParameterError(f"k is {k!r}, expected a number of units or a share of them")
    if isinstance(k, float) and not 0.0 < k < 1.0:
        raise ParameterError(f"k is {k}, expected a share between 0 and 1, or a whole number from 1")
    if isinstance(k, int) and k < 1:
        raise ParameterError(f"k is {k}, expected a whole number from 1, or a share between 0 and 1")
    return k


def _pooled(
    x: "Floats",
    y: "Floats",
    task: "Ints",
    trace: "Ints",
    k: int | float,
    n_boot: int,
    seed: int,
    confidence: float,
    n_null: int,
) -> pl.DataFrame:
    start = np.zeros(1 if x.size else 0, np.int64)
    values = statistics(x, y, start, k)
    names, codes = np.unique(task, return_inverse=True)
    n_tasks, n_traces = names.size, len(np.unique(trace))
    resampled = [
        [float(statistic[0]) for statistic in statistics(x[rows], y[rows], start, k).values()]
        for block in (draws(n_tasks, n_boot, seed) if n_tasks >= FEWEST_CLUSTERS else ())
        for rows in (np.repeat(np.arange(x.size), times[codes].astype(np.int64)) for times in block)
    ]
    boot = np.array(resampled).reshape(-1, len(METRICS))
    table: list[tuple[object, ...]] = []
    for m, (metric, statistic) in enumerate(values.items()):
        if not statistic.size or not math.isfinite(statistic[0]):
            table.append(_row(metric, None, NO_INTERVAL, 0, 0))
            continue
        if metric == "sign_agreement":  # a mean over units
            signed = (x != 0) | (y != 0)
            alike = (np.sign(x) == np.sign(y))[signed].astype(np.float64)
            around = mean_interval(alike, task[signed], confidence=confidence, within=RANGES[metric]).around
        else:
            lower, upper = percentiles(boot[:, m], n_tasks, confidence)
            around = NO_INTERVAL if lower is None else Interval(None, lower, upper, None)
            if lower is not None and lower == upper:  # resamples that all say the same show no spread
                around = Interval(None, None, None, "group.degenerate")
        table.append(_row(metric, float(statistic[0]), around, n_traces, n_tasks))
    return _tidy(table, x.size, n_null)


def _row(
    metric: str, value: float | None, around: Interval, n_traces: int, n_tasks: int
) -> tuple[object, ...]:
    return metric, value, around.lower, around.upper, n_traces, n_tasks, around.reason


def _tidy(table: list[tuple[object, ...]], n_rows: int, n_null: int) -> pl.DataFrame:
    schema: dict[str, Any] = {
        "metric": pl.String,
        "value": pl.Float64,
        "lower": pl.Float64,
        "upper": pl.Float64,
        "n_traces": pl.UInt32,
        "n_tasks": pl.UInt32,
        "interval_reason": CREDITS["reason"],
    }
    return pl.DataFrame(table, schema=schema, orient="row").select(
        pl.exclude("interval_reason"),
        pl.lit(n_rows, pl.UInt32).alias("n_rows"),
        pl.lit(n_null, pl.UInt32).alias("n_null"),
        "interval_reason",
    )
