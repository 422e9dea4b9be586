"""Training, step by step: which groups still teach, how runs change, how old they are, where curves jump."""

from typing import Any, Final

import numpy as np
import polars as pl

from ..base.arguments import Alpha, Confidence, Seed, Success, Threads
from ..base.errors import ParameterError
from ..base.progress import Progress, reporting
from ..base.schema import CREDITS
from ..base.text import briefly
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.names import measure_of_traces
from ..corpus.reward import Reward
from ..statistics.breaks import STEPS, breaks
from ..statistics.influence import Interval, interval, mean_interval
from .curve_rows import Curve, of_rewards, of_runs, of_strategies, of_versions, rows_of, runs_of
from .staleness import effective_share, ratios

CURVES: Final = pl.Schema(
    {
        "train_step": pl.Float64(),
        "statistic": pl.String(),
        "reward": pl.String(),
        "value": pl.Float64(),
        "lower": pl.Float64(),
        "upper": pl.Float64(),
        "n_traces": pl.UInt32(),
        "n_groups": pl.UInt32(),
        "n_tasks": pl.UInt32(),
        "reason": CREDITS["reason"],
        "jump": pl.Float64(),
        "alarm": pl.Boolean(),
        "p_value": pl.Float64(),
        "alarm_reason": CREDITS["reason"],
    }
)
"""Columns and types of what `training_curves` returns."""

_SHARES: Final = frozenset({"degenerate", "all_pass", "all_fail", "finish_rate", "diversity", "clipped"})
"""Statistics whose rows are between 0 and 1."""


@verb
def training_curves(
    corpus: Corpus,
    *,
    reward: Reward = "team",
    success: Success = 1.0,
    policy_version: str | tuple[str, str] | None = None,
    log_probs: tuple[str, str] | None = None,
    confidence: Confidence = 0.95,
    alpha: Alpha = 0.05,
    seed: Seed = 0,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Follow a training run step by step, and find the steps at which something jumped.

    Parameters
    ----------
    corpus
        The rollouts, whose metric ``train_step`` says which step of training made them.
    reward
        A channel, or weights of several, each of which is then followed as well.
    success
        The reward from which on a run passed.
    policy_version
        The column of events that says which version of the policy acted, counted as training steps are; or
        two, of the version at which an event began and of that at which it ended.
    log_probs
        Two columns of events: the logarithm of the probability that the trained policy gave what was done,
        and that which the acting policy gave it.
    confidence
        Level of the intervals.
    alpha
        The chance that any alarm of the table is false.
    seed
        Of the simulation that alarms are judged by.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        A row per statistic and training step (``train_step``, null where none is recorded, last):
        ``train_step statistic reward value lower upper n_traces n_groups n_tasks reason jump alarm p_value
        alarm_reason``. ``value`` is a mean over the runs, groups or tasks of the step, ``lower upper`` its
        interval over tasks, ``reason`` why one is null. Statistics:

        - groups of two judged runs or more: ``degenerate``, the share whose rewards are all equal, so that
          they teach a group method nothing; ``all_pass`` and ``all_fail``, the shares in which every run or
          none reaches `success`; ``reward_sd``, the standard deviation within (n - 1); of each channel of a
          sum ``variance_share`` as in `rewards.balance`, which sums to 1
        - runs: ``reward_mean`` of the reward, and of each channel of a sum; ``tokens``, ``turns``, ``agents``
          and ``finish_rate`` as in `metrics`
        - tasks with two runs or more in the step: ``diversity`` and ``strategy_entropy`` of what runs did,
          the unbiased chance that two differ, and the entropy in nats, corrected (`strategies.diversity`)
        - with `policy_version`: ``lag``, the step less the mean version at which events began, and ``drift``,
          by how much the version moved during a run
        - with `log_probs`: ``effective_events`` and ``effective_runs``, the effective share of the sample
          (Σw)²/(nΣw²) with weights w of events, and with their product over a run; ``largest_event`` and
          ``largest_run``, what the largest weight has of their sum; ``clipped``, the share of a run's events
          with a weight beyond 1 ± 0.2

        ``alarm`` is True at the first step after a jump, whose size is ``jump``; ``p_value`` is that of the
        largest jump of the statistic, adjusted for all statistics of the table. With fewer than 30 steps that
        have a value there is no test (``support.absent`` in ``alarm_reason``).

    Raises
    ------
    ParameterError
        No trace has ``train_step``; an unknown channel or column; an option out of range.

    Notes
    -----
    An alarm says that a curve moved within a step by more than its trend and its noise explain, not that the
    move is bad, nor what caused it. It looks back: no early warning. How often it is false, and how large a
    jump has to be: docs/trainers/training-curves.md. A plan that changes tasks by step makes alarms, too.
    O(events log events), and 12 simulations of some 2,000 series of as many steps as there are.
    Source: arXiv 2605.02801, problems P1 and P8; the test, `statistics.breaks`; definitions.md, D34.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=80, seed=0)
    >>> steps = corpus.traces.select("trace", name=pl.lit("train_step"), value=pl.col("trace") // 2).collect()
    >>> corpus = corpus.with_measures(steps.with_columns(kind=pl.lit("metric"), value=pl.col("value") * 1.0))
    >>> curves = ot.trainers.training_curves(corpus)
    >>> curves.filter(statistic="reward_mean").height
    40
    """
    if log_probs is not None and not _is_pair(log_probs):
        raise ParameterError(
            f"log_probs is {briefly(log_probs)}, expected the names of two columns: of the trained policy,"
            " and of the one that acted"
        )
    if not (policy_version is None or isinstance(policy_version, str) or _is_pair(policy_version)):
        raise ParameterError(
            f"policy_version is {briefly(policy_version)}, expected the name of a column, or of two: of the"
            " version at which an event began, and at which it ended"
        )
    steps = measure_of_traces(corpus, "metric", "train_step")
    if not steps.height and len(corpus):
        raise ParameterError(
            "no trace has the metric train_step: expected recordings that say which training step made them,"
            " or corpus.with_measures(frame) with rows of kind 'metric' and name 'train_step'"
        )
    with reporting(progress, "following the training"):
        runs = runs_of(corpus, steps, threads)
        curves = [*of_rewards(corpus, reward, success, runs), *of_runs(runs), *of_strategies(corpus, runs)]
        if policy_version is not None:
            curves += of_versions(corpus, policy_version, runs)
        taken = runs["train_step"].unique().sort(nulls_last=True).to_list()
        tables = [_averaged(curve, taken, confidence) for curve in curves]
        if log_probs is not None:
            ratio = ratios(corpus, (log_probs[0], log_probs[1]))
            weights = runs.join(ratio, on="trace", maintain_order="left")
            tables += _of_weights(weights, taken, confidence)
            clipped = rows_of(weights, pl.col("clipped"))
            tables.append(_averaged(Curve("clipped", None, clipped, "field.absent"), taken, confidence))
        return _with_alarms(pl.concat(tables), alpha, seed)


def _is_pair(names: object) -> bool:
    return (
        isinstance(names, tuple | list) and len(names) == 2 and all(isinstance(name, str) for name in names)
    )


# --- means over rows --------------------------------------------------------------------------------------


def _averaged(curve: Curve, steps: list[float | None], confidence: float) -> pl.DataFrame:
    """The mean of each step with its interval; steps without a row say why."""
    within = (0.0, 1.0) if curve.statistic in _SHARES else None
    means = []
    by_step = curve.rows.partition_by("train_step", as_dict=True)
    for step in steps:
        rows = by_step.get((step,), curve.rows.clear())
        values, tasks = rows["value"].to_numpy(), rows["task"].to_numpy()
        mean = mean_interval(values, tasks, confidence=confidence, within=within)
        reason = mean.around.reason if rows.height else curve.absent
        if rows.height and mean.estimate is None:
            reason = "result.range"
        row = {"train_step": step, "value": mean.estimate, **_ends(mean.around), "reason": reason}
        counts = {"n_traces": rows["n_traces"].sum(), "n_groups": rows["n_groups"].sum()}
        means.append(row | counts | {"n_tasks": mean.n_clusters})
    return _table(means, curve.statistic, curve.reward)


def _of_weights(weights: pl.DataFrame, steps: list[float | None], confidence: float) -> list[pl.DataFrame]:
    """The effective share of each step and its largest weight: of events, and of products over runs."""
    by_step = weights.with_columns(twice=2.0 * pl.col("product"), alone=pl.lit(1.0)).partition_by(
        "train_step", as_dict=True
    )
    columns = {"event": ("first", "second", "n", "largest"), "run": ("product", "twice", "alone", "product")}
    tables = []
    for unit, names in columns.items():
        effective, largest = [], []
        for step in steps:
            rows = by_step.get((step,))
            row: dict[str, Any] = {"train_step": step, "n_traces": 0, "n_groups": 0, "n_tasks": 0}
            if rows is None:
                row["reason"] = "field.absent"
                effective.append(row)
                largest.append(row)
                continue
            row |= {f"n_{name}s": rows[name].n_unique() for name in ("trace", "group", "task")}
            first, second, n, most = (rows[name].to_numpy() for name in names)
            share, influence = effective_share(first, second, n)
            tasks = rows["task"].to_numpy()
            around = interval(share, influence, tasks, confidence=confidence, within=(0.0, 1.0))
            effective.append(row | {"value": share, **_ends(around), "reason": around.reason})
            largest.append(row | {"value": float(1.0 / np.exp(first - most.max()).sum())})
        tables += [_table(effective, f"effective_{unit}s", None), _table(largest, f"largest_{unit}", None)]
    return tables


def _ends(around: Interval) -> dict[str, float | None]:
    return {"lower": around.lower, "upper": around.upper}


def _table(rows: list[dict[str, Any]], statistic: str, reward: str | None) -> pl.DataFrame:
    named = [row | {"statistic": statistic, "reward": reward} for row in rows]
    return pl.DataFrame(named, schema=CURVES)


# --- jumps ------------------------------------------------------------------------------------------------


def _with_alarms(curves: pl.DataFrame, alpha: float, seed: int) -> pl.DataFrame:
    """The table with the jumps of each statistic that has enough steps."""
    numbered = curves.with_row_index("row").filter(pl.all_horizontal("train_step", "value").is_not_null())
    by_statistic = numbered.partition_by("statistic", "reward", as_dict=True, maintain_order=True)
    places = {str(key): rows["row"].to_numpy() for key, rows in by_statistic.items() if rows.height >= STEPS}
    values = curves["value"].to_numpy()
    jumps_of = breaks({name: values[rows] for name, rows in places.items()}, alpha=alpha, seed=seed)
    p_value, jump = np.full(curves.height, np.nan), np.full(curves.height, np.nan)
    for name, rows in places.items():
        p_value[rows] = jumps_of[name].p_value
        jump[rows[jumps_of[name].places]] = jumps_of[name].sizes
    tested = pl.Series(p_value).fill_nan(None)
    jumps = pl.Series(jump).fill_nan(None)
    return curves.with_columns(
        jump=jumps,
        alarm=pl.when(tested.is_not_null()).then(jumps.is_not_null()),
        p_value=tested,
        alarm_reason=pl.when(tested.is_null()).then(pl.lit("support.absent")).cast(CREDITS["reason"]),
    )
