"""Whether one reward of a sum drowns the others (R8), and weights that would balance them."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

import numpy as np
import polars as pl

from ... import _core
from ...base.arguments import Confidence, Finite, Number, Pair, Resamples, Seed
from ...base.arrays import Floats, Ints
from ...base.errors import ParameterError
from ...base.schema import CREDITS, unknown_name
from ...base.text import in_json
from ...base.verbs import verb
from ...corpus.corpus import Corpus
from ...corpus.frames import collected
from ...corpus.names import measure_of_traces
from ...statistics.resampling import Statistic, rank_correlation_of, ratio_of, resampled
from ...statistics.sums import sums_of
from ...statistics.within_groups import centered
from ..mixing import weights_by_reward

BALANCE: Final = pl.Schema(
    {
        "train_step": pl.Float64(),
        "reward": pl.String(),
        "statistic": pl.String(),
        "value": pl.Float64(),
        "lower": pl.Float64(),
        "upper": pl.Float64(),
        "n_traces": pl.UInt32(),
        "n_tasks": pl.UInt32(),
        "reason": CREDITS["reason"],
        "params": CREDITS["params"],
    }
)
"""Columns and types of what `balance` returns."""


@verb
def balance(
    corpus: Corpus,
    rewards: pl.DataFrame | pl.LazyFrame,
    weights: Mapping[str, float],
    *,
    outcome: str = "outcome",
    alpha: Finite = 1.0,
    limits: Annotated[tuple[float, float], Pair(Number(above=0), may_be_one=True)] = (0.1, 10.0),
    confidence: Confidence = 0.95,
    n_boot: Resamples = 2000,
    seed: Seed = 0,
) -> pl.DataFrame:
    """Report which part of a weighted sum of rewards drives it, step by step of training.

    Parameters
    ----------
    corpus
        The recordings; rollouts of a group (``group_id``) are compared with each other.
    rewards
        Rows of `compute` that pay the team.
    weights
        Of each reward that takes part, its weight λ.
    outcome
        Which of them is what the run is really for.
    alpha, limits
        Of the proposal: its exponent, and the least and greatest factor by which it changes a weight.
    confidence, n_boot, seed
        Coverage of the intervals, resamples of tasks, and the seed of these.

    Returns
    -------
    DataFrame
        One row per step of training (``train_step``, null where none is recorded), reward and statistic:
        ``train_step reward statistic value lower upper n_traces n_tasks reason params``. Statistics of each
        reward k: ``variance_share`` s_k = λ_k Cov(r_k, r)/Var(r) within groups, the mean over groups with
        spread, so that they sum to 1 over k; ``rank_correlation``, Spearman's, of r_k and the outcome over
        traces; ``weight``, the proposal λ_k (sd(outcome)/sd(r_k))^alpha, the factor cut to `limits`. Of the
        sum (reward ``total``): ``sign_flip``, the share of runs whose advantage by the outcome is not 0 and
        has another sign by the sum. Null with ``group.degenerate`` where no group has spread,
        ``ratio.empty`` where a side does not vary; no interval with fewer than five tasks
        (``support.absent``).

    Raises
    ------
    ParameterError
        An unknown reward, one that pays smaller units, `outcome` without a weight, an option out of range.

    Notes
    -----
    Traces that lack one of the rewards are left out. O(n_boot · traces) for rank correlations, else
    O(n_boot · tasks). Source: "signal drowning", arXiv 2605.02801, problem P8; the proposal after GradNorm,
    arXiv 1711.02257, in reward space; the forms are this project's (docs/reference/definitions.md, D26).

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=40, seed=0)
    >>> paid = ot.rewards.compute(corpus, ["outcome", "tokens"])
    >>> table = ot.rewards.balance(corpus, paid, {"outcome": 1.0, "tokens": 1e-6}, n_boot=200)
    >>> parts = table.filter(statistic="variance_share").group_by("train_step").agg(pl.col("value").sum())
    >>> parts["value"].round(9).to_list()
    [1.0, 1.0]
    """
    weights = weights_by_reward("weights", weights)
    if outcome not in weights:
        raise ParameterError(unknown_name("outcome among the weights", str(outcome), list(weights)))
    low, high = map(float, limits)
    wide = _wide(corpus, rewards, list(weights))
    options = {"weights": weights, "outcome": outcome, "alpha": alpha, "limits": [low, high]}
    options |= {"confidence": confidence, "n_boot": n_boot, "seed": seed, "version": _core.VERSION}
    params = json.dumps(options, sort_keys=True, default=in_json)
    rows: list[dict[str, Any]] = []
    steps = wide["train_step"].unique().sort(nulls_last=True)
    for step in steps if len(steps) else [None]:
        part = wide.filter(pl.col("train_step").eq_missing(pl.lit(step, pl.Float64)))
        _, tasks = np.unique(part["task"].to_numpy(), return_inverse=True)
        _, groups = np.unique(part["group"].to_numpy(), return_inverse=True)
        n = int(tasks.max()) + 1 if tasks.size else 0
        values = {name: part[name].to_numpy() for name in weights}
        frame = {"train_step": step, "n_traces": tasks.size, "n_tasks": n, "params": params}
        for (reward, statistic), (estimator, empty) in _statistics(
            values, weights, outcome, tasks, groups, n
        ).items():
            value, lower, upper = resampled(estimator, n, n_boot=n_boot, confidence=confidence, seed=seed)
            reason = empty if value is None else "support.absent" if lower is None else None
            row = {"reward": reward, "statistic": statistic, "value": value, "lower": lower, "upper": upper}
            rows.append(frame | row | {"reason": reason})
        for name, weight in weights.items():
            spread = {each: float(values[each].std()) if tasks.size else 0.0 for each in (outcome, name)}
            factor = (spread[outcome] / spread[name]) ** alpha if min(spread.values()) > 0 else None
            proposed = None if factor is None else weight * min(max(factor, low), high)
            row = {"reward": name, "statistic": "weight", "value": proposed}
            rows.append(frame | row | {"reason": None if factor is not None else "ratio.empty"})
    return pl.DataFrame(rows, schema=BALANCE)


def _statistics(
    values: dict[str, Floats],
    weights: dict[str, float],
    outcome: str,
    tasks: Ints,
    groups: Ints,
    n: int,
) -> dict[tuple[str, str], tuple[Statistic, str]]:
    """Each reward's statistics, and why one is null where it is."""
    total = np.zeros(tasks.size)
    for name, weight in weights.items():
        total = total + weight * values[name]
    n_groups = int(groups.max()) + 1 if groups.size else 0
    task_of = np.zeros(n_groups, np.int64)
    task_of[groups] = tasks
    r = centered(total, groups, n_groups)
    spread = sums_of(r * r, groups, n_groups)
    varies = spread > 0.0
    statistics: dict[tuple[str, str], tuple[Statistic, str]] = {}
    counted = sums_of(varies, task_of, n)
    for name, weight in weights.items():
        both = sums_of(weight * centered(values[name], groups, n_groups) * r, groups, n_groups)
        share = np.where(varies, both / np.where(varies, spread, 1.0), 0.0)
        statistics[name, "variance_share"] = ratio_of(sums_of(share, task_of, n), counted), "group.degenerate"
    for name in weights:
        statistics[name, "rank_correlation"] = (
            rank_correlation_of(values[name], values[outcome], tasks),
            "ratio.empty",
        )
    by_outcome = np.sign(centered(values[outcome], groups, n_groups))
    flipped = (by_outcome != 0) & (np.sign(r) != by_outcome)
    statistics["total", "sign_flip"] = (
        ratio_of(sums_of(flipped, tasks, n), sums_of(by_outcome != 0, tasks, n)),
        "group.degenerate",
    )
    return statistics


def _wide(corpus: Corpus, rewards: pl.DataFrame | pl.LazyFrame, names: list[str]) -> pl.DataFrame:
    """A row per trace that has all of the rewards: ``task group train_step`` and a column for each."""
    paid = collected(rewards, "rewards", ("trace", "reward", "unit", "value")).with_columns(
        pl.col("reward", "unit").cast(pl.String)
    )
    recorded = paid["reward"].unique(maintain_order=True).to_list()
    for name in names:
        if name not in recorded:
            raise ParameterError(unknown_name("reward", name, recorded))
    paid = paid.filter(pl.col("reward").is_in(names))
    smaller = paid.filter(pl.col("unit") != "team")
    if smaller.height:
        raise ParameterError(
            f"reward '{smaller['reward'][0]}' pays the unit '{smaller['unit'][0]}', expected rewards of"
            " the team"
        )
    frame = corpus.traces.select(
        "trace",
        pl.col("task_id").rank("dense").cast(pl.Int64).alias("task"),
        # the same name in two tasks is two groups
        pl.struct("task_id", "group_id").rank("dense").cast(pl.Int64).alias("group"),
    ).collect(engine="streaming")
    frame = frame.join(
        measure_of_traces(corpus, "metric", "train_step"), on="trace", how="left", maintain_order="left"
    )
    if paid.join(frame, on="trace", how="anti").height:
        raise ParameterError("rewards has a trace that is not in the corpus: give the corpus they are of")
    for name in names:
        column = paid.filter(reward=name).select("trace", pl.col("value").alias(name))
        frame = frame.join(column, on="trace", how="inner", maintain_order="left")
    return frame.drop_nulls(names)
