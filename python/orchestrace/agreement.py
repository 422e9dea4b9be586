"""Do two credit assignments say the same of the same units?"""

import math
from typing import TYPE_CHECKING, Final, Literal

import polars as pl

from . import rankings
from .corpus import Corpus, check_numbers
from .errors import ParameterError
from .resampling import check_confidence, cluster_interval, draws
from .schema import unknown_name

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

By = Literal["trace", "corpus"]

METRICS: Final = ("kendall", "spearman", "top_k_overlap", "sign_agreement")
_RUN: Final = ("method", "reward", "params")
_NUMBERS: Final = {"trace", "seq", "credit", "contribution"}


def agreement(
    corpus: Corpus,
    a: pl.DataFrame | pl.LazyFrame,
    b: pl.DataFrame | pl.LazyFrame,
    *,
    by: By = "trace",
    k: int | float = 5,
    n_boot: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
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
    n_boot, confidence, seed
        Resamples of tasks for the percentile intervals, their coverage, and the seed.

    Returns
    -------
    DataFrame
        Four rows, ``metric`` = ``kendall`` (tau-b), ``spearman``, ``top_k_overlap``, ``sign_agreement``,
        with ``value low high`` (Float64; correlations in -1..1, the others in 0..1), ``n_traces`` that have
        a value, ``n_tasks`` they belong to, ``n_rows`` compared, and ``n_null``: units that only one frame
        has, or of which either credit is null, and which are left out (all UInt32). The rows without a unit
        are no units. Intervals are null where fewer than two tasks have a value.

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

    Time is O(n log n) in rows for ``by="trace"`` (some seconds for 10⁶) and n_boot times that for
    ``by="corpus"``, where every resample has to be ranked anew.

    Source: tau-b, Kendall 1945; percentile bootstrap over clusters, Davison & Hinkley 1997, section 3.8.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=20, seed=0)
    >>> flow = ot.credit(corpus, method="flow", unit="agent")
    >>> even = ot.credit(corpus, method="uniform", unit="agent")
    >>> table = ot.agreement(corpus, flow, even, k=1)
    >>> table["metric"].to_list()
    ['kendall', 'spearman', 'top_k_overlap', 'sign_agreement']
    >>> ot.agreement(corpus, flow, flow, k=1)["value"].to_list()
    [1.0, 1.0, 1.0, 1.0]
    """
    if by not in ("trace", "corpus"):
        raise ParameterError(unknown_name("by", str(by), ["trace", "corpus"]))
    check_corpus(corpus)
    share = _check_k(k)
    check_numbers(n_boot=n_boot, seed=seed)
    confidence = check_confidence(confidence)
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
    for metric, one in values.items():
        mean, low, high = cluster_interval(one, clusters, n_boot, seed, confidence)
        known = one == one
        table.append((metric, mean, low, high, int(known.sum()), len(set(clusters[known].tolist()))))
    return _tidy(table, rows.height, n_null)


def statistics(a: "Floats", b: "Floats", starts: "Ints", k: int | float) -> "dict[str, Floats]":
    """All four metrics of every segment of rows, NaN where one is not defined."""
    import numpy as np

    sizes = np.diff(np.append(starts, a.size))
    counts = np.ceil(k * sizes - 1e-9) if isinstance(k, float) else np.full(sizes.size, k)
    return {
        "kendall": rankings.kendall(a, b, starts),
        "spearman": rankings.spearman(a, b, starts),
        "top_k_overlap": rankings.top_overlap(a, b, starts, counts.astype(np.int64)),
        "sign_agreement": rankings.sign_agreement(a, b, starts),
    }


def one_run(credits: pl.DataFrame | pl.LazyFrame, what: str) -> tuple[pl.DataFrame, str]:
    """Keys and credits of the units of one method with one set of parameters, and their unit.

    Not-a-number counts as null, and the row without a unit is left out.
    """
    frame = collected(credits, what, ("trace", "unit", "unit_id", "credit"))
    runs = frame.select(name for name in ("unit", *_RUN) if name in frame.columns).unique()
    if runs.height > 1:
        differs = next(name for name in runs.columns if runs[name].n_unique() > 1)
        raise ParameterError(f"{what} has several values of '{differs}': filter it to one method at one unit")
    keyed = frame.filter(pl.col("unit_id").is_not_null()).select(
        pl.col("trace").cast(pl.Int64),
        pl.col("unit_id").cast(pl.String),
        pl.col("credit").cast(pl.Float64).fill_nan(None),
    )
    twice = keyed.filter(pl.struct("trace", "unit_id").is_duplicated())
    if twice.height:
        trace, name, _ = twice.row(0)
        raise ParameterError(f"{what} has two credits for unit '{name}' of trace {trace}")
    return keyed, str(frame["unit"][0]) if frame.height else ""


def check_corpus(corpus: object) -> None:
    """Refuse what is no corpus before something deep inside of it is asked for."""
    if not isinstance(corpus, Corpus):
        raise ParameterError(f"corpus is of type {type(corpus).__name__}, expected a Corpus")


def collected(frame: pl.DataFrame | pl.LazyFrame, what: str, needed: tuple[str, ...]) -> pl.DataFrame:
    """A frame in memory that has the columns needed, those that are always numbers as such."""
    if isinstance(frame, pl.LazyFrame):
        try:
            frame = frame.collect(engine="streaming")
        except pl.exceptions.PolarsError as error:
            raise ParameterError(f"{what}: {str(error).splitlines()[0]}") from None
    if not isinstance(frame, pl.DataFrame):
        raise ParameterError(f"{what} is of type {type(frame).__name__}, expected a Polars frame")
    for name in needed:
        if name not in frame.columns:
            raise ParameterError(f"{what} has no column '{name}' (found: {', '.join(frame.columns)})")
    for name in _NUMBERS & set(needed):
        dtype = frame[name].dtype
        if not (dtype.is_numeric() or frame[name].null_count() == frame.height):
            raise ParameterError(f"{what}.{name} has type {dtype}, expected numbers")
    return frame


def tasks_of(corpus: Corpus, traces: pl.DataFrame) -> pl.DataFrame:
    """The task of each trace as a number, ``trace task``; all traces have to be of the corpus."""
    known = (
        corpus.traces.select(pl.col("trace").cast(pl.Int64), "task_id")
        .collect(engine="streaming")
        .with_columns(task=pl.col("task_id").rank("dense").cast(pl.Int64))
    )
    unknown = traces.join(known, on="trace", how="anti")
    if unknown.height:
        raise ParameterError(
            f"trace {unknown['trace'][0]} of the credits is not in the corpus: give the corpus they are of"
        )
    return known.select("trace", "task")


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
    import numpy as np

    start = np.zeros(1 if x.size else 0, np.int64)
    values = statistics(x, y, start, k)
    names, codes = np.unique(task, return_inverse=True)
    resampled = [
        [float(one[0]) for one in statistics(x[rows], y[rows], start, k).values()]
        for block in (draws(names.size, n_boot, seed) if names.size > 1 else ())
        for rows in (np.repeat(np.arange(x.size), times[codes].astype(np.int64)) for times in block)
    ]
    boot = np.array(resampled).reshape(-1, len(METRICS))
    table: list[tuple[object, ...]] = []
    for m, (metric, one) in enumerate(values.items()):
        value = float(one[0]) if one.size and math.isfinite(one[0]) else None
        known = boot[np.isfinite(boot[:, m]), m]
        low, high = (
            np.quantile(known, [(1 - confidence) / 2, (1 + confidence) / 2]).tolist()
            if known.size and value is not None
            else (None, None)
        )
        counted = value is not None
        table.append(
            (metric, value, low, high, len(np.unique(trace)) if counted else 0, names.size if counted else 0)
        )
    return _tidy(table, x.size, n_null)


def _tidy(table: list[tuple[object, ...]], n_rows: int, n_null: int) -> pl.DataFrame:
    schema = {
        "metric": pl.String,
        "value": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
        "n_traces": pl.UInt32,
        "n_tasks": pl.UInt32,
    }
    return pl.DataFrame(table, schema=schema, orient="row").with_columns(
        n_rows=pl.lit(n_rows, pl.UInt32), n_null=pl.lit(n_null, pl.UInt32)
    )
