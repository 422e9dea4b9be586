"""How runs failed, by the shape of the record alone: classes of each run, rates of failed and passed ones."""

from collections.abc import Iterable
from typing import Any, Final

import numpy as np
import polars as pl

from .. import _core
from ..base.arguments import Confidence, Success, Threads
from ..base.arrays import Bools, Floats, Ints
from ..base.division import Division
from ..base.engines import RunBy
from ..base.progress import Progress, reporting
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.names import named_tools
from ..corpus.pieces import core_frames
from ..corpus.reward import Reward
from ..costs.tool_uses import USES, reading_tools, with_named_uses
from ..statistics.influence import NO_INTERVAL, interval, mean_interval
from .pass_rates import judged_runs

FAILURES: Final = pl.Enum(
    [
        *("unanswered_delegation", "unused_result", "retry_storm"),
        *("unverified_change", "answer_before_evidence", "deadlock_wait"),
    ]
)
"""The classes, in the order of their rows."""

RATES: Final = pl.Schema(
    {
        "class": FAILURES,
        **{
            f"{name}_{of}": pl.UInt32() if name in ("n", "shows") else pl.Float64()
            for of in ("failed", "passed")
            for name in ("n", "shows", "rate", "lower", "upper")
        },
        "difference": pl.Float64(),
        "lower": pl.Float64(),
        "upper": pl.Float64(),
        "n_unknown": pl.UInt32(),
        "n_unjudged": pl.UInt32(),
        "n_tasks": pl.UInt32(),
        "reason": CREDITS["reason"],
        "interval_reason": CREDITS["reason"],
    }
)
"""Columns and types of what `failure_rates` returns."""


@verb(rows="a trace and class", division=Division(prepare=with_named_uses, narrowed=USES))
def failure_classes(
    corpus: Corpus,
    *,
    reading: Iterable[str] = (),
    writing: Iterable[str] = (),
    verifying: Iterable[str] = (),
    engine: RunBy = None,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Say of every run which of six structural classes of failure its record shows.

    Parameters
    ----------
    corpus
        The recordings.
    reading, writing
        As in `costs.waste_events`.
    verifying
        Tools that verify what was changed, such as those that run tests: names or patterns.
    engine
        What computes a corpus on disk, as in `credit`.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        Six rows per trace: ``trace`` (UInt32), ``trace_id``, ``class`` (Enum), ``seq`` (UInt32: the first
        event at which it shows, null where it does not), ``n`` (UInt32: how often, 0 where it does not), and
        ``reason``, why ``n`` is null.

        - ``unanswered_delegation``: a spawn, or a message of the root to another agent, after which that
          agent addresses no return or message to the delegator before the outcome or before the delegator's
          last event. ``ratio.empty`` without a delegation.
        - ``unused_result``: a return or a tool's result that did not fail and has no path to the outcome.
        - ``retry_storm``: four calls of one agent in a row with the same tool and arguments, or four results
          of one of its tools in a row that failed. ``ratio.empty`` without calls, ``field.absent`` where
          neither arguments nor failures are recorded.
        - ``unverified_change``: calls of tools that do more than read, before the outcome, after which no
          verifying tool was called. ``field.absent`` without `verifying`.
        - ``answer_before_evidence``: a result of a call of the outcome's owner, or the return of an agent
          that it spawned, that came only after the outcome.
        - ``deadlock_wait``: agents whose last event is a message or spawn to another who does nothing after
          it: all on one cycle, or of a run without an outcome. ``ratio.empty`` with one agent.

        Those that hang on the outcome are null with ``outcome.absent``, ``outcome.ambiguous`` or
        ``graph.cycle``; all are null with ``trace.partial`` in a recording that ends before its run did.

    Raises
    ------
    ParameterError
        A tool that no trace has, or that is said to read and to write.

    Notes
    -----
    Signs, not causes: `failure_rates` says how often passed runs show them, too. To spawn and forget is a
    design, and a recording without edges makes results look unused. Definition:
    docs/reference/definitions.md, D39. O(events + edges), and a logarithm of delegations and calls.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=8, seed=0)
    >>> ot.evaluation.failure_classes(corpus).height
    48
    """
    reads = reading_tools(corpus, reading, writing)
    verifies = named_tools(corpus, "verifying", verifying) or None
    with reporting(progress, "looking for signs of failure") as callback:
        return core_frames(
            corpus,
            lambda store: _core.failure_classes(
                store, reading=reads, verifying=verifies, threads=threads, progress=callback
            ),
        )


@verb
def failure_rates(
    corpus: Corpus,
    *,
    reward: Reward = "team",
    success: Success = 1.0,
    reading: Iterable[str] = (),
    writing: Iterable[str] = (),
    verifying: Iterable[str] = (),
    confidence: Confidence = 0.95,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Compare how often failed and passed runs show each structural class of failure.

    Parameters
    ----------
    corpus
        The recordings.
    reward, success
        As in `pass_rates`.
    reading, writing, verifying, threads, progress
        As in `failure_classes`.
    confidence
        Coverage of the interval of a rate, and of the intervals of all six differences together.

    Returns
    -------
    DataFrame
        A row per class: ``class`` (Enum); of failed and of passed runs, as ``_failed`` and ``_passed``:
        ``n`` and ``shows`` (UInt32), judged runs of which the class is known and those that show it, ``rate``
        and its interval ``lower upper`` (Float64). The rate among passed runs is that of false alarms.
        ``difference`` (failed less passed) and its interval ``lower upper`` (Float64); ``n_unknown`` (UInt32:
        judged runs of which the class is not known), ``n_unjudged`` (runs without the reward), ``n_tasks``.
        ``reason`` says why ``difference`` is null: ``reward.absent`` where no run is judged,
        ``support.absent`` where no failed or no passed run has a known class. ``interval_reason`` says why
        its interval is (docs/intervals.md).

    Raises
    ------
    ParameterError
        An unknown channel, an option out of range, or a tool that no trace has.

    Notes
    -----
    Intervals are over tasks (docs/reference/definitions.md, D23), of rates within 0..1, of differences within
    -1..1. Six classes are six tests: each difference has the confidence 1 - (1 - `confidence`)/6
    (Bonferroni). A difference is no effect: hard tasks may fail and be long. O(events + edges).

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=64, seed=0)
    >>> rates = ot.evaluation.failure_rates(corpus, success=0.5)
    >>> rates.height, rates["rate_passed"].drop_nulls().is_between(0, 1).all()
    (6, True)
    """
    runs = judged_runs(corpus, reward, success).select("trace", "task_id", "passed")
    uses = {"reading": reading, "writing": writing, "verifying": verifying}
    shown = failure_classes(corpus, **uses, threads=threads, progress=progress)  # type: ignore[arg-type]
    rows = shown.with_columns(pl.col("class").cast(FAILURES)).join(runs, on="trace", maintain_order="left")
    _, tasks = np.unique(rows["task_id"].to_numpy(), return_inverse=True)
    rows = rows.with_columns(task=pl.Series(tasks.astype(np.int64)))
    table = [_rates(name, rows.filter(pl.col("class") == name), confidence) for name in FAILURES.categories]
    return pl.DataFrame(table, schema=RATES)


def _rates(name: str, rows: pl.DataFrame, confidence: float) -> dict[str, Any]:
    """The row of one class."""
    judged = rows.drop_nulls("passed")
    decided = judged.drop_nulls("n")
    shows = (decided["n"] > 0).cast(pl.Float64).to_numpy()
    passed, tasks = decided["passed"].to_numpy(), decided["task"].to_numpy()
    row: dict[str, Any] = {
        "class": name,
        "n_unknown": judged.height - decided.height,
        "n_unjudged": rows.height - judged.height,
        "n_tasks": decided["task"].n_unique(),
    }
    for of, chosen in (("failed", ~passed), ("passed", passed)):
        mean = mean_interval(shows[chosen], tasks[chosen], confidence=confidence, within=(0.0, 1.0))
        counts = {"n": int(chosen.sum()), "shows": int(shows[chosen].sum()), "rate": mean.estimate}
        around = {"lower": mean.around.lower, "upper": mean.around.upper}
        row |= {f"{key}_{of}": value for key, value in (counts | around).items()}
    return row | _difference(shows, passed, tasks, confidence, is_judged=judged.height > 0)


def _difference(
    shows: Floats, passed: Bools, tasks: Ints, confidence: float, *, is_judged: bool
) -> dict[str, Any]:
    """The rate among failed less that among passed runs, and its interval over tasks."""
    if passed.all() or not passed.any():
        reason = "support.absent" if is_judged else "reward.absent"
        return {"reason": reason, "interval_reason": reason}
    failed = ~passed
    rates = shows[failed].mean(), shows[passed].mean()
    influence = np.where(failed, (shows - rates[0]) / failed.sum(), (rates[1] - shows) / passed.sum())
    each = 1.0 - (1.0 - confidence) / len(FAILURES.categories)
    around = NO_INTERVAL
    if np.unique(tasks).size > 1:
        around = interval(float(rates[0] - rates[1]), influence, tasks, confidence=each, within=(-1.0, 1.0))
    return {
        "difference": float(rates[0] - rates[1]),
        "lower": around.lower,
        "upper": around.upper,
        "interval_reason": around.reason,
    }
