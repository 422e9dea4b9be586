"""Epochs: the points of a run at which it could be stopped, with scores so far, costs and outcome."""

import warnings
from typing import Final

import polars as pl

from ..base.arguments import ColumnName
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.verbs import verb
from ..decisions.rows import REASON as KNOWN_REASONS

SOURCES: Final = ("draft", "score", "attempt", "turn", "decision")
ENDS: Final = ("agent", "budget", "error", "unknown")

EPOCHS: Final = pl.Schema(
    {
        "trace": pl.UInt32(),
        "trace_id": pl.String(),
        "task_id": pl.String(),
        "group_id": pl.String(),
        "k": pl.UInt32(),
        "seq": pl.Int64(),
        "source": pl.Enum(SOURCES),
        "q": pl.Float64(),
        "s": pl.Float64(),
        "tokens": pl.Float64(),
        "seconds": pl.Float64(),
        "usd": pl.Float64(),
        "last": pl.Boolean(),
        "y": pl.Float64(),
        "end": pl.Enum(ENDS),
    }
)
"""Columns of epochs: one row per run and epoch k = 1..K; costs are cumulative, y is of the whole run."""

REJECTED: Final = pl.Schema(
    {
        "trace_id": pl.String(),
        "code": pl.String(),
        "message": pl.String(),
        "n_steps": pl.UInt32(),
    }
)
"""Columns of what `unused_runs` returns."""

REASON: Final = pl.Enum([*KNOWN_REASONS.categories, "calibration.small", "class.single"])
"""Why a number of this room is null."""

_TRUE: Final = ("true", "yes", "1", "1.0")
_FALSE: Final = ("false", "no", "0", "0.0")
_JUDGMENTS: Final[tuple[tuple[str, pl.Expr, str], ...]] = (
    ("field.missing", pl.col("run").first().is_null(), "the run has no id"),
    ("field.missing", pl.col("k").is_null().any(), "a step has no number"),
    (
        "field.minimum",
        ((pl.col("k") < 1) | (pl.col("k") != pl.col("k").floor()) | pl.col("k").is_nan()).any(),
        "a step is no whole number from 1",
    ),
    ("id.duplicate", pl.col("k").n_unique() < pl.len(), "a step is there twice"),
    ("field.missing", pl.col("k").max() != pl.len(), "steps are not 1, 2, ... without a gap"),
    ("field.missing", pl.col("s").is_null().any(), "a step has no score"),
    ("number.nan", (~pl.col("s").is_finite()).any(), "a score is not finite"),
    ("field.enum", pl.col("odd").any(), "the outcome is neither a number nor true or false"),
    ("field.missing", pl.col("y").is_null().any(), "a step has no outcome"),
    ("number.nan", (~pl.col("y").is_finite()).any(), "the outcome is not finite"),
    ("outcome.ambiguous", pl.col("y").n_unique() > 1, "steps of the run have different outcomes"),
    ("field.missing", pl.col("task").is_null().any(), "a step has no task"),
    ("group.conflict", pl.col("task").n_unique() > 1, "steps of the run have different tasks"),
    ("field.missing", pl.col("tokens").is_null().any(), "a step has no tokens"),
    (
        "field.minimum",
        ((pl.col("tokens") < 0) | ~pl.col("tokens").is_finite()).any(),
        "tokens of a step are negative or not finite",
    ),
)


@verb
def epochs_from_frame(
    frame: pl.DataFrame,
    *,
    run: ColumnName = "run",
    step: ColumnName = "step",
    score: ColumnName = "score",
    success: ColumnName | None = "success",
    tokens: ColumnName | None = None,
    task: ColumnName | None = None,
) -> pl.DataFrame:
    """Make epochs of a table that has one row per step of a run.

    Parameters
    ----------
    frame
        One row per step, in any order.
    run, step, score, success
        Names of columns: the id of the run; the number of the step, 1..K; the score of the run up to this
        step; the outcome of the run, on every row: true or false, a number, or text that spells one. Without
        a `success` (None) outcomes are unknown, as of runs that still go on.
    tokens
        Name of the column with the tokens of the step, not cumulative; None if they are not known.
    task
        Name of the column with the task of the run; None if each run is a task of its own.

    Returns
    -------
    DataFrame
        Epochs, ordered by run (in order of appearance) and step: ``trace`` (UInt32, the number of the run)
        ``trace_id task_id`` (String) ``k`` (UInt32) ``source`` = score, ``s`` (Float64) ``tokens`` (Float64,
        cumulative) ``last`` (Boolean) ``y`` (Float64, the outcome); ``group_id seq q seconds usd`` are null,
        ``end`` is unknown. Runs that `unused_runs` lists are left out.

    Warns
    -----
    UserWarning
        Runs were left out; says how many, and where to see them.

    Raises
    ------
    ParameterError
        A column that the frame does not have, or one of a type that holds no numbers.

    Notes
    -----
    O(rows log rows).

    Source: the four columns that E-valuator reads (arXiv 2512.03109).

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> steps = pl.DataFrame({"run": ["a", "a", "b"], "step": [1, 2, 1], "score": [0.4, 0.2, 0.9],
    ...                       "success": [False, False, True]})
    >>> ot.stopping.epochs_from_frame(steps).select("trace_id", "k", "s", "last", "y").rows()
    [('a', 1, 0.4, False, 0.0), ('a', 2, 0.2, True, 0.0), ('b', 1, 0.9, True, 1.0)]
    """
    rows, rejects = _judged(frame, run, step, score, success, tokens, task)
    if rejects.height:
        first = rejects.row(0, named=True)
        warnings.warn(
            f"{rejects.height} of {rows['run'].n_unique()} runs are left out, the first because"
            f" {first['message']} ({first['code']}): see ot.stopping.unused_runs",
            UserWarning,
            stacklevel=3,
        )
    good = rows.filter(pl.col("run").is_not_null() & ~pl.col("run").is_in(rejects["trace_id"].implode()))
    numbers = good.select(pl.col("run").unique(maintain_order=True)).with_row_index("trace")
    good = good.join(numbers, on="run", maintain_order="left").sort("trace", "k")
    return good.select(
        "trace",
        trace_id="run",
        task_id="task",
        group_id=pl.lit(None),
        k=pl.col("k"),
        seq=pl.lit(None),
        source=pl.lit("score"),
        q=pl.lit(None),
        s="s",
        tokens=pl.col("tokens").cum_sum().over("trace") if tokens is not None else pl.lit(None),
        seconds=pl.lit(None),
        usd=pl.lit(None),
        last=pl.col("k") == pl.col("k").max().over("trace"),
        y=pl.lit(None) if success is None else pl.col("y"),
        end=pl.lit("unknown"),
    ).cast(EPOCHS)


@verb
def unused_runs(
    frame: pl.DataFrame,
    *,
    run: ColumnName = "run",
    step: ColumnName = "step",
    score: ColumnName = "score",
    success: ColumnName | None = "success",
    tokens: ColumnName | None = None,
    task: ColumnName | None = None,
) -> pl.DataFrame:
    """List the runs that `epochs_from_frame` leaves out, and why.

    Parameters
    ----------
    frame, run, step, score, success, tokens, task
        As of `epochs_from_frame`.

    Returns
    -------
    DataFrame
        One row per run that cannot be used, in order of appearance: ``trace_id`` (String), ``code``, the
        first of docs/reference/codes.md that applies, ``message`` (String), ``n_steps`` (UInt32).

    Raises
    ------
    ParameterError
        As of `epochs_from_frame`.

    Notes
    -----
    O(rows log rows). Source: the checks of `epochs_from_frame`.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> steps = pl.DataFrame({"run": ["a", "a", "b"], "step": [1, 3, 1], "score": [0.4, 0.2, 0.9],
    ...                       "success": [False, False, True]})
    >>> ot.stopping.unused_runs(steps).rows()
    [('a', 'field.missing', 'steps are not 1, 2, ... without a gap', 2)]
    """
    return _judged(frame, run, step, score, success, tokens, task)[1]


def _judged(
    frame: pl.DataFrame,
    run: str,
    step: str,
    score: str,
    success: str | None,
    tokens: str | None,
    task: str | None,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Rows ``run task k s y odd tokens``, in order of the frame, and the runs that cannot be used."""
    named = {"run": run, "step": step, "score": score, "success": success, "tokens": tokens, "task": task}
    for option, name in named.items():
        if name is None and option in ("success", "tokens", "task"):
            continue
        if name not in frame.columns:
            raise ParameterError(f"{option}: {unknown_name('column', str(name), frame.columns)}")
    for option in ("step", "score", "tokens"):
        kind = frame.schema[str(named[option])] if named[option] is not None else pl.Float64()
        if not kind.is_numeric() and kind != pl.Null:
            raise ParameterError(f"{option}='{named[option]}' is a column of {kind}, expected numbers")
    for option in ("run", "task"):
        kind = frame.schema[str(named[option])] if named[option] is not None else pl.String()
        if kind.is_nested() or kind in (pl.Object, pl.Binary):
            raise ParameterError(f"{option}='{named[option]}' is a column of {kind}, expected ids")
    unknown = pl.repeat(0.0, frame.height, dtype=pl.Float64, eager=True)
    outcome, unreadable = _outcome(unknown if success is None else frame[success])
    rows = frame.select(
        run=pl.col(run).cast(pl.String),
        task=pl.col(run if task is None else task).cast(pl.String),
        k=pl.col(step).cast(pl.Float64),
        s=pl.col(score).cast(pl.Float64),
        tokens=pl.lit(0.0) if tokens is None else pl.col(tokens).cast(pl.Float64),
        y=outcome,
        odd=unreadable,
    )
    code, message = pl.lit(None, pl.String), pl.lit(None, pl.String)
    for label, wrong, text in reversed(_JUDGMENTS):
        wrong = wrong.fill_null(False)
        code = pl.when(wrong).then(pl.lit(label)).otherwise(code)
        message = pl.when(wrong).then(pl.lit(text)).otherwise(message)
    judged = rows.group_by("run", maintain_order=True).agg(code=code, message=message, n_steps=pl.len())
    rejects = judged.filter(pl.col("code").is_not_null()).rename({"run": "trace_id"})
    return rows, rejects.select(list(REJECTED)).cast(REJECTED)


def _outcome(column: pl.Series) -> tuple[pl.Series, pl.Series]:
    """The outcome as numbers, and whether a value is recorded that is no outcome."""
    if column.dtype == pl.Boolean or column.dtype.is_numeric() or column.dtype == pl.Null:
        return column.cast(pl.Float64), column.is_null() & False
    if column.dtype not in (pl.String, pl.Categorical, pl.Enum):
        raise ParameterError(
            f"success='{column.name}' is a column of {column.dtype}, expected true and false or numbers"
        )
    words = column.cast(pl.String).str.strip_chars().str.to_lowercase()
    spelled = pl.when(words.is_in(_TRUE)).then(1.0).when(words.is_in(_FALSE)).then(0.0)
    numbers = pl.select(spelled.otherwise(words.cast(pl.Float64, strict=False)).alias("y"))["y"]
    return numbers, numbers.is_null() & words.is_not_null()
