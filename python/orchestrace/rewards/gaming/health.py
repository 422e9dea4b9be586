"""Whether a judge's scores still mean what they meant: calibration, discrimination and drift (R6)."""

import json
from typing import Any, Final

import numpy as np
import polars as pl

from ... import _core
from ...base.arguments import Channel, Confidence, Resamples, Seed, Success
from ...base.arrays import Floats, Ints
from ...base.schema import CREDITS
from ...base.text import in_json
from ...base.verbs import verb
from ...corpus.corpus import Corpus
from ...corpus.names import measure_of_traces
from ...corpus.reward import Reward, amounts, check_channels, reaches
from ...statistics.rankings import midranks
from ...statistics.resampling import Statistic, ratio_of, resampled
from ...statistics.sums import sums_of

FEWEST_WINDOWS: Final = 3
BINS: Final = 10
HEALTH: Final = pl.Schema(
    {
        "train_step": pl.Float64(),
        "judge": pl.String(),
        "system": pl.String(),
        "statistic": pl.String(),
        "value": pl.Float64(),
        "lower": pl.Float64(),
        "upper": pl.Float64(),
        "alarm": pl.Boolean(),
        "n_scores": pl.UInt32(),
        "n_traces": pl.UInt32(),
        "n_tasks": pl.UInt32(),
        "reason": CREDITS["reason"],
        "params": CREDITS["params"],
    }
)
"""Columns and types of what `verifier_health` returns."""


@verb
def verifier_health(
    corpus: Corpus,
    *,
    judge: Channel | None = None,
    outcome: Reward = "team",
    success: Success = 1.0,
    confidence: Confidence = 0.95,
    n_boot: Resamples = 2000,
    seed: Seed = 0,
) -> pl.DataFrame:
    """Compare a judge's scores with the outcomes of runs, step by step of training, and look for drift.

    Parameters
    ----------
    corpus
        The recordings.
    judge
        A reward channel whose values are the scores, one per run; None is the field `score` of events, each
        set against the outcome of its run.
    outcome, success
        The outcome of the run, and the smallest outcome that counts as success.
    confidence, n_boot, seed
        Coverage of the intervals, resamples of tasks, and the seed of these.

    Returns
    -------
    DataFrame
        One row per step of training, system and statistic: ``train_step judge system statistic value lower
        upper alarm n_scores n_traces n_tasks reason params``. Statistics: ``brier`` mean (s - y)²; ``auc``
        with ties ½, null where runs have one class (``group.degenerate``); ``calibration_error``
        Σ n_b/n |mean s - mean y| over ten equal bins; ``inflation`` mean s - mean y. Scores
        outside 0..1 have an AUC alone (``result.range``). With three steps or more one row ``drift`` for
        each system, without a step: the inflation of the last third of the steps less that of the first;
        ``alarm`` where its interval is above 0: the judge has come to praise what does not succeed.

    Raises
    ------
    ParameterError
        An unknown channel, or an option out of range.

    Notes
    -----
    O(n log n) in scores, O(n_boot · tasks) for intervals; AUC and calibration error have none. Scores of one
    run are not independent: intervals resample tasks. Source: verifier collusion, arXiv 2605.02801, problem
    P7; Brier 1950; the alarm is this project's (docs/reference/definitions.md, D26).

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=40, seed=0)
    >>> health = ot.rewards.verifier_health(corpus, judge="team", success=0.8, n_boot=200)
    >>> health["statistic"].unique(maintain_order=True).to_list()
    ['brier', 'auc', 'calibration_error', 'inflation']
    """
    rows = _scores(corpus, judge, outcome, success)
    options = {"judge": judge, "outcome": outcome, "success": success, "confidence": confidence}
    params = json.dumps(
        {**options, "n_boot": n_boot, "seed": seed, "version": _core.VERSION}, sort_keys=True, default=in_json
    )
    resampling = {"n_boot": n_boot, "confidence": confidence, "seed": seed}
    same = {"judge": judge or "score", "alarm": False, "params": params}
    results: list[dict[str, Any]] = []
    for (system,), of in rows.sort("system", nulls_last=True).group_by("system", maintain_order=True):
        steps = of["train_step"].unique().sort(nulls_last=True)
        for step in steps:
            part = of.filter(pl.col("train_step").eq_missing(pl.lit(step, pl.Float64)))
            head = same | {"train_step": step, "system": system} | _counts(part)
            results += [head | row for row in _of_window(part, resampling)]
        named = steps.drop_nulls()
        if len(named) >= FEWEST_WINDOWS:
            head = same | {"train_step": None, "system": system} | _counts(of)
            results.append(head | _drift(of, named.to_list(), resampling))
    return pl.DataFrame(results, schema=HEALTH)


def _scores(corpus: Corpus, judge: str | None, outcome: Reward, success: float) -> pl.DataFrame:
    """A row per score of a run whose outcome is known: ``s y task train_step system trace``."""
    if judge is None:
        scores = corpus.events.filter(pl.col("score").is_not_null()).select(
            "trace", pl.col("score").alias("s")
        )
        judged = scores.collect(engine="streaming")
    else:
        check_channels(corpus, [judge])
        judged = amounts(corpus, judge).select("trace", s="reward").drop_nulls()
    earned = amounts(corpus, outcome).select("trace", y=reaches(pl.col("reward"), success).cast(pl.Float64))
    traces = corpus.traces.select(
        "trace",
        pl.col("task_id").rank("dense").cast(pl.Int64).alias("task"),
        pl.col("system").cast(pl.String),
    ).collect(engine="streaming")
    steps = measure_of_traces(corpus, "metric", "train_step")
    rows = judged.join(earned, on="trace", maintain_order="left").drop_nulls("y")
    return rows.join(traces, on="trace", maintain_order="left").join(
        steps, on="trace", how="left", maintain_order="left"
    )


def _counts(rows: pl.DataFrame) -> dict[str, int]:
    return {
        "n_scores": rows.height,
        "n_traces": rows["trace"].n_unique(),
        "n_tasks": rows["task"].n_unique(),
    }


def _of_window(rows: pl.DataFrame, resampling: dict[str, Any]) -> list[dict[str, Any]]:
    s, y = rows["s"].to_numpy(), rows["y"].to_numpy()
    _, tasks = np.unique(rows["task"].to_numpy(), return_inverse=True)
    n = int(tasks.max()) + 1
    inside = bool(((s >= 0) & (s <= 1)).all())
    ones = sums_of(np.ones(tasks.size), tasks, n)

    def mean_row(statistic: str, values: Floats) -> dict[str, Any]:
        if not inside:
            return {"statistic": statistic, "reason": "result.range"}
        return _interval(statistic, ratio_of(sums_of(values, tasks, n), ones), n, resampling)

    area, error = auc(s, y), calibration_error(s, y) if inside else None
    return [
        mean_row("brier", np.square(s - y)),
        {"statistic": "auc", "value": area, "reason": None if area is not None else "group.degenerate"},
        {"statistic": "calibration_error", "value": error, "reason": None if inside else "result.range"},
        mean_row("inflation", s - y),
    ]


def _interval(statistic: str, estimator: Statistic, n: int, resampling: dict[str, Any]) -> dict[str, Any]:
    value, lower, upper = resampled(estimator, n, **resampling)
    reason = "ratio.empty" if value is None else "support.absent" if lower is None else None
    return {"statistic": statistic, "value": value, "lower": lower, "upper": upper, "reason": reason}


def auc(scores: Floats, truth: Floats) -> float | None:
    """The chance that a success has the higher score, ties ½; None with one class. O(n log n)."""
    n_good = float(truth.sum())
    n_bad = truth.size - n_good
    if min(n_good, n_bad) == 0:
        return None
    ranks = midranks(scores, np.zeros(1, np.int64))
    return float((ranks[truth == 1].sum() - n_good * (n_good + 1) / 2) / (n_good * n_bad))


def calibration_error(scores: Floats, truth: Floats) -> float:
    """Σ n_b/n |mean score - mean truth| over bins [0, .1) … [.9, 1]. O(n)."""
    bins = np.minimum((scores * BINS).astype(np.int64), BINS - 1)
    return float(np.abs(sums_of(scores - truth, bins, BINS)).sum() / scores.size)


def _drift(rows: pl.DataFrame, steps: list[float], resampling: dict[str, Any]) -> dict[str, Any]:
    third = max(1, len(steps) // 3)
    s, y = rows["s"].to_numpy(), rows["y"].to_numpy()
    if not bool(((s >= 0) & (s <= 1)).all()):
        return {"statistic": "drift", "reason": "result.range"}
    _, tasks = np.unique(rows["task"].to_numpy(), return_inverse=True)
    n = int(tasks.max()) + 1
    means = [_part(rows["train_step"], part, s - y, tasks, n) for part in (steps[:third], steps[-third:])]
    row = _interval("drift", lambda times: means[1](times) - means[0](times), n, resampling)
    return row | {"alarm": row["lower"] is not None and row["lower"] > 0}


def _part(step: pl.Series, steps: list[float], values: Floats, tasks: Ints, n: int) -> Statistic:
    here = step.is_in(steps).fill_null(False).to_numpy().astype(np.float64)
    return ratio_of(sums_of(values * here, tasks, n), sums_of(here, tasks, n))
