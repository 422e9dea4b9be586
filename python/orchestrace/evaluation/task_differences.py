"""Two sets of recordings of the same tasks, such as of two commits or models: what changed, task by task."""

from typing import Final

import polars as pl

from ..base.arguments import Size, Success, Threads
from ..base.progress import Progress
from ..base.schema import CREDITS
from ..base.sums import ordered_mean
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward
from .alignment import align
from .lanes import Key
from .pass_rates import judged_runs
from .sides import Order

TASK_DIFFERENCES: Final = pl.Schema(
    {
        "task_id": pl.String(),
        "n_a": pl.UInt32(),
        "n_b": pl.UInt32(),
        "pass_rate_a": pl.Float64(),
        "pass_rate_b": pl.Float64(),
        "change": pl.Float64(),
        "similarity": pl.Float64(),
        "alike": pl.Float64(),
        "label": pl.String(),
        "step_a": pl.String(),
        "step_b": pl.String(),
        "share": pl.Float64(),
        "trace_a": pl.UInt32(),
        "trace_b": pl.UInt32(),
        "reason": CREDITS["reason"],
    }
)
"""Columns and types of what `task_differences` returns."""

_END: Final = "(ends)"
_PAIR: Final = ["trace_a", "trace_b"]


@verb
def task_differences(
    corpus: Corpus,
    other: Corpus,
    *,
    key: Key = "shape",
    order: Order = "lanes",
    reward: Reward = "team",
    success: Success = 1.0,
    budget: Size = 10_000_000,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Compare two sets of recordings task by task: what passes, how alike runs are, where they mostly part.

    Parameters
    ----------
    corpus, other
        Recordings of the same tasks, before and after a change.
    key, order, reward, success, budget, threads, progress
        As in `align`.

    Returns
    -------
    DataFrame
        A row per task of either, by name: ``task_id`` (String); ``n_a n_b`` (UInt32): runs; ``pass_rate_a
        pass_rate_b`` (Float64): of those with a reward, null without any; ``change``: the latter less the
        former; ``similarity`` (Float64): of each run of one and each of the other, twice the steps in common
        over all, averaged; ``alike``: the share of pairs that do not part. Where most pairs first part:
        ``label``, whose agent parts (role, else name); ``step_a step_b`` (String): what it does in each,
        ``(ends)`` where it does nothing more; ``share`` (Float64) of the pairs, and ``trace_a trace_b``
        (UInt32) the first of them by ``trace_id``. ``reason``: ``siblings.absent`` where one side has no run
        of the task, or as of `align` where no pair of it could be aligned; with ``budget.exceeded``
        ``similarity`` alone is null.

    Raises
    ------
    ParameterError
        Unknown words or channels.

    Notes
    -----
    Pass rates of few runs differ by chance: the command ``gate`` says whether a change is one. Of places that
    as many pairs part at, the first in order of the columns counts. O(pairs · alignment): each run of a task
    is compared with each of the other side, 100 with 100 is 10,000 pairs.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=16, seed=0)
    >>> rows = ot.evaluation.task_differences(corpus, corpus, success=0.5)
    >>> rows["change"].drop_nulls().unique().to_list()
    [0.0]
    """
    sides = {"a": corpus, "b": other}
    tasks = None
    for at, side in sides.items():
        runs = (
            judged_runs(side, reward, success)
            .group_by("task_id")
            .agg(pl.len().alias(f"n_{at}"), pl.col("passed").cast(pl.Float64).mean().alias(f"pass_rate_{at}"))
        )
        tasks = runs if tasks is None else tasks.join(runs, on="task_id", how="full", coalesce=True)
    assert tasks is not None
    options = {"key": key, "order": order, "reward": reward, "success": success, "budget": budget}
    aligned = align(corpus, other, **options, threads=threads, progress=progress)  # type: ignore[arg-type]  # by name
    named = corpus.traces.select(trace_a="trace", task_id="task_id", name_a="trace_id").collect()
    others = other.traces.select(trace_b="trace", name_b="trace_id").collect()
    aligned = aligned.join(named, on="trace_a", how="left", maintain_order="left")
    aligned = aligned.join(others, on="trace_b", how="left", maintain_order="left")
    total = pl.col("n_a").cast(pl.Float64) + pl.col("n_b")
    # lanes beyond the budget part all the same: what is not known is how alike they are
    too_long = (pl.col("reason") == "budget.exceeded").fill_null(value=False)
    usable = aligned.filter(pl.col("reason").is_null() | too_long)
    pairs = usable.group_by("task_id", *_PAIR, maintain_order=True).agg(
        similarity=pl.when(~too_long.any()).then(1.0 - pl.col("edits").sum() / total.sum()),
        parts=pl.col("first").any(),
    )
    of_task = pairs.group_by("task_id", maintain_order=True).agg(
        similarity=ordered_mean(pl.col("similarity")), alike=(~pl.col("parts")).mean(), n_pairs=pl.len()
    )
    lost = (
        aligned.drop_nulls("reason")
        .group_by("task_id")
        .agg(because=pl.col("reason").sort_by("name_a", "name_b", "label", "ordinal").first())
    )
    table = (
        tasks.join(of_task, on="task_id", how="left")
        .join(_partings(usable, sides), on="task_id", how="left")
        .join(lost, on="task_id", how="left")
        .with_columns(
            pl.col("n_a", "n_b").fill_null(0),
            change=pl.col("pass_rate_b") - pl.col("pass_rate_a"),
            share=pl.col("n_here") / pl.col("n_pairs"),
        )
        .sort("task_id", nulls_last=True)
    )
    absent = (pl.col("n_a") == 0) | (pl.col("n_b") == 0)
    reason = (
        pl.when(absent)
        .then(pl.lit("siblings.absent", CREDITS["reason"]))
        .when(pl.col("similarity").is_null())
        .then("because")
    )
    return table.with_columns(reason=reason).select(
        pl.col(name).cast(dtype) for name, dtype in TASK_DIFFERENCES.items()
    )


def _partings(aligned: pl.DataFrame, sides: dict[str, Corpus]) -> pl.DataFrame:
    """Of each task where most pairs first part: ``task_id label step_a step_b trace_a trace_b n_here``."""
    first = aligned.filter("first").unique(_PAIR, keep="first", maintain_order=True)
    for at, side in sides.items():
        runs = first[f"trace_{at}"].unique().implode()
        words = pl.concat_str(
            pl.col("type").cast(pl.String), pl.col("tool").cast(pl.String), separator=" ", ignore_nulls=True
        )
        steps = side.events.filter(pl.col("trace").is_in(runs)).select(
            pl.col("trace").alias(f"trace_{at}"), pl.col("seq").alias(f"seq_{at}"), words.alias(f"step_{at}")
        )
        first = first.join(
            steps.collect(), on=[f"trace_{at}", f"seq_{at}"], how="left", maintain_order="left"
        ).with_columns(pl.col(f"step_{at}").fill_null(_END))
    keys = ["task_id", "label", "step_a", "step_b"]
    counts = (
        first.sort("name_a", "name_b", *_PAIR)
        .group_by(keys, maintain_order=True)
        .agg(pl.col(_PAIR).first(), n_here=pl.len())
    )
    most = counts.sort(pl.col("n_here"), *keys, descending=[True, *[False] * 4], nulls_last=True)
    return most.unique("task_id", keep="first", maintain_order=True)
