"""How often tasks are solved: by all of k trials, by one of k, and how many trials were judged at all."""

from collections.abc import Sequence
from math import comb
from typing import Final, Literal

import polars as pl

from ..base.arguments import Success
from ..base.errors import ParameterError
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward, amounts, reaches

RATES: Final = pl.Schema(
    {
        "k": pl.UInt32(),
        "pass_all": pl.Float64(),
        "pass_any": pl.Float64(),
        "n_tasks": pl.UInt32(),
        "n_tasks_short": pl.UInt32(),
        "n_tasks_unjudged": pl.UInt32(),
        "n_runs": pl.UInt32(),
        "n_runs_unjudged": pl.UInt32(),
    }
)
"""Columns and types of what `pass_rates` returns."""

_MOST_TRIALS: Final = 2**32 - 1
"""The column ``k`` holds no more."""


@verb
def pass_rates(
    corpus: Corpus,
    *,
    reward: Reward = "team",
    success: Success = 1.0,
    k: int | Sequence[int] | None = None,
    by: Literal["task", "group"] = "task",
    each: bool = False,
) -> pl.DataFrame:
    """Estimate pass^k, the chance that k trials of a task all succeed, and pass@k, that one of them does.

    Parameters
    ----------
    corpus
        The recordings; trials of a task are traces with its ``task_id``.
    reward
        What a trial earned: a channel, or a weighted sum of channels, as in `credit`.
    success
        The smallest reward that counts as success, to 1e-6.
    k
        How many trials; None: 1 to the most judged trials of a task.
    by
        ``"group"``: trials are those of a ``group_id``, which tells models or steps of training apart.
    each
        A row per task instead: ``task_id`` (or ``group_id``) ``n_runs n_judged n_passed`` (UInt32).

    Returns
    -------
    DataFrame
        A row per k: ``k``; ``pass_all`` (pass^k) and ``pass_any`` (pass@k), means over the ``n_tasks`` tasks
        with k judged trials or more, null without any; ``n_tasks_short``, tasks with fewer, but some;
        ``n_tasks_unjudged``, tasks of which no trial was judged; ``n_runs``, and of them
        ``n_runs_unjudged``, trials without a reward, which are neither success nor failure.

    Raises
    ------
    ParameterError
        An unknown channel, or a k that is no whole number above 0, or beyond 32 bits.

    Notes
    -----
    Of a task with c successes in n judged trials, pass^k is C(c, k) / C(n, k) and pass@k is
    1 - C(n - c, k) / C(n, k), both unbiased. Sources: tau-bench, arXiv 2406.12045; M. Chen et al., arXiv
    2107.03374. O(traces).

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=4, seed=0)
    >>> corpus = corpus.with_measures(pl.DataFrame({"trace": [0, 1, 2], "right": [1.0, 0.0, 1.0]}))
    >>> ot.evaluation.pass_rates(corpus, reward="right", k=1).select("n_runs", "n_runs_unjudged").row(0)
    (4, 1)
    """
    name = f"{by}_id"
    runs = judged_runs(corpus, reward, success)
    tasks = runs.group_by(name).agg(
        n_runs=pl.len().cast(pl.UInt32),
        n_judged=pl.col("passed").count().cast(pl.UInt32),
        n_passed=pl.col("passed").sum().cast(pl.UInt32),
    )
    tasks = tasks.sort(name)
    if each:
        return tasks
    judged = tasks.filter(pl.col("n_judged") > 0)
    counts = list(judged.select("n_judged", "n_passed").iter_rows())
    sizes = numbers_of_trials(k, max((n for n, _ in counts), default=1))
    beside = {
        "n_tasks_unjudged": tasks.height - judged.height,
        "n_runs": runs.height,
        "n_runs_unjudged": runs["passed"].null_count(),
    }
    return pl.DataFrame([_rates(size, counts) | beside for size in sizes], schema=RATES)


def judged_runs(corpus: Corpus, reward: Reward, success: float) -> pl.DataFrame:
    """Every run: ``trace task_id group_id``, its ``reward``, whether it ``passed``; null if never judged."""
    paid = amounts(corpus, reward).select("trace", "reward", passed=reaches(pl.col("reward"), success))
    runs = corpus.traces.select("trace", "task_id", "group_id").collect(engine="streaming")
    return runs.join(paid, on="trace", how="left", maintain_order="left")


def numbers_of_trials(k: object, most: int) -> list[int]:
    """Each k that is asked for; of None, 1 to the most judged trials of a task."""
    if k is None:
        return list(range(1, most + 1))
    sizes = list(k) if isinstance(k, Sequence) and not isinstance(k, str) else [k]
    counts = [size for size in sizes if isinstance(size, int) and not isinstance(size, bool) and size > 0]
    if len(counts) != len(sizes) or not counts:
        raise ParameterError(f"k is {k!r}, expected whole numbers above 0")
    if max(counts) > _MOST_TRIALS:
        raise ParameterError(f"k is {max(counts)}, expected at most {_MOST_TRIALS:,}")
    return counts


def chances(k: int, n: int, c: int) -> tuple[float, float]:
    """pass^k and pass@k of a task with c successes in n >= k judged trials, unbiased."""
    return comb(c, k) / comb(n, k), 1.0 - comb(n - c, k) / comb(n, k)


def _rates(k: int, counts: list[tuple[int, int]]) -> dict[str, object]:
    each = [chances(k, n, c) for n, c in counts if n >= k]
    return {
        "k": k,
        "pass_all": sum(every for every, _ in each) / len(each) if each else None,
        "pass_any": sum(some for _, some in each) / len(each) if each else None,
        "n_tasks": len(each),
        "n_tasks_short": len(counts) - len(each),
    }
