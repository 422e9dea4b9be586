"""Failure modes of orchestration, as detectors with intervals."""

import json
from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from ... import _core
from ...base.arguments import Amount, Confidence, Finite, Resamples, Seed, Threads
from ...base.progress import Progress, reporting
from ...base.text import in_json
from ...base.verbs import verb
from ...corpus.corpus import Corpus
from ...corpus.reward import Reward, amounts
from ...effects.observed import message
from ...metrics.verb import metrics
from ...stopping.answer_rules import regret
from ...stopping.recorded import epochs
from .detectors import (
    HAZARDS,
    Detector,
    Resampling,
    Within,
    chosen,
    idle_spawns,
    mean,
    rank,
    ratio,
    rows_of,
)
from .trends import slope

MODES: Final = (
    "serial_collapse",
    "spurious_parallelism",
    "dominant_agent",
    "over_communication",
    "aggregation_leakage",
    "stopping",
    "team_size",
)
FAILURES: Final = pl.Schema({**HAZARDS, "family": pl.Enum(MODES)})
"""Columns and types of what `failure_modes` returns."""


@verb
def failure_modes(
    corpus: Corpus,
    *,
    outcome: Reward = "team",
    price: Finite = 0.0,
    tolerance: Amount = 0.05,
    within: Within | None = None,
    confidence: Confidence = 0.95,
    n_boot: Resamples = 2000,
    seed: Seed = 0,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Look for the ways in which orchestration fails, with intervals over tasks.

    Parameters
    ----------
    corpus
        The recordings.
    outcome
        What the run earned: a channel, or a weighted sum of channels, as in `credit`.
    price
        What a draft costs, in units of its quality, as in `stopping.regret`.
    tolerance
        The loss from stopping late or early that is tolerated, in units of the quality of drafts.
    within, confidence, n_boot, seed
        As in `detect_hacking`.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        The columns of `detect_hacking`, with the mode as ``family``: ``serial_collapse``,
        ``spurious_parallelism``, ``dominant_agent``, ``over_communication``, ``aggregation_leakage``,
        ``stopping``, ``team_size``. One row per detector and step of training; slopes are over all steps and
        have none. ``reward`` and
        ``unit_id`` are null. ``alarm``: the whole interval is beyond ``bound``, and for slopes that of the
        other slope of their mode, too; never with fewer than 20 traces, 5 tasks or, for slopes, 5 steps with
        5 tasks each (``support.absent``). A detector whose input nothing gives is a row with null and
        ``field.absent``; without siblings, ``siblings.absent``.

    Raises
    ------
    ParameterError
        An unknown channel, or an option out of range.

    Notes
    -----
    Detectors: means over traces, unless it says otherwise; R is the outcome.

    - ``serial_collapse`` (O1): ``parallelism_slope`` and ``spawn_slope``, of work / span and of spawned
      agents per trace over ``train_step``: both below 0
    - ``spurious_parallelism`` (O1): ``idle_spawns`` as in `detect_hacking`; ``finish_rate``, spawned agents
      that return; ``steps_slope``, of ``total_steps``, above 0 while ``outcome_slope``, of R, is not
    - ``dominant_agent`` (O2): ``delegation_dominance`` of traces with two agents beside the root, or more
    - ``over_communication`` (O3): ``message_density``, messages per turn; ``redundancy``, repeated messages;
      ``message_utility``, mean effect of a message per token against its siblings, as in `effects.message`
    - ``aggregation_leakage`` (O4): ``leakage``, tokens of aggregates that are an input word for word;
      ``uplift``, the score of an aggregate less the mean of its inputs
    - ``stopping`` (O5): ``late_stop``, quality lost since the best draft; ``early_stop``, quality that longer
      runs of the group gained
    - ``team_size``: ``team_efficiency``, work / (agents · span), which is at least the efficiency
      T1 / (k T_k) of k slots for k agents; ``size_rank``, rank correlation of agents and R

    A slope is Theil and Sen's, the median over pairs of steps of the difference of means over the difference
    of steps; its interval resamples tasks within each step. O(n_boot · steps²) for it, as `detect_hacking`
    for the others. Source: modes, arXiv 2605.02801; Theil 1950, Sen 1968; Brent 1974; the detectors and
    bounds are this project's (docs/reference/definitions.md, D31).

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus, _, _ = ot.synthetic.gamed("late_stop", tasks=6, seed=0)
    >>> modes = ot.rewards.failure_modes(corpus, n_boot=200)
    >>> modes.filter("alarm").select("family", "detector").rows()
    [('stopping', 'late_stop')]
    >>> modes.filter(detector="spawn_slope")["reason"].item()
    'field.absent'
    """
    with reporting(progress, "looking for failure modes"):
        frame = _per_trace(corpus, outcome, price, threads)
    mode = chosen(within, frame)
    options: dict[str, Any] = {"outcome": outcome, "price": price, "tolerance": tolerance, "within": mode}
    resampling = {"n_boot": n_boot, "confidence": confidence, "seed": seed}
    params = json.dumps({**options, **resampling, "version": _core.VERSION}, sort_keys=True, default=in_json)
    rows = [*_slopes(frame, resampling), *rows_of(_detectors(float(tolerance)), frame, mode, resampling)]
    place = {family: at for at, family in enumerate(MODES)}
    rows.sort(key=lambda row: place[row["family"]])
    return pl.DataFrame([row | {"params": params} for row in rows], schema=FAILURES)


def _detectors(tolerance: float) -> Iterator[Detector]:
    """The detectors that look at each step of training by itself."""
    yield Detector("spurious_parallelism", "idle_spawns", ">", 0.3, ratio("n_idle", "n_spawned"))
    yield Detector("spurious_parallelism", "finish_rate", "<", 0.7, mean("finish_rate"))
    yield Detector("dominant_agent", "delegation_dominance", ">", 0.8, mean("dominance"))
    yield Detector("over_communication", "message_density", ">", 1.0, mean("message_density"))
    yield Detector("over_communication", "redundancy", ">", 0.3, mean("message_redundancy"))
    utility = mean("utility")
    yield Detector("over_communication", "message_utility", "<", 0.0, utility, absent="siblings.absent")
    yield Detector("aggregation_leakage", "leakage", ">", 0.5, mean("aggregation_leakage"))
    yield Detector("aggregation_leakage", "uplift", "<", 0.0, mean("aggregation_uplift_mean"))
    yield Detector("stopping", "late_stop", ">", tolerance, mean("late"))
    early = mean("early")
    yield Detector("stopping", "early_stop", ">", tolerance, early, absent="siblings.absent")
    yield Detector("team_size", "team_efficiency", "<", 0.25, mean("team_efficiency"))
    yield Detector("team_size", "size_rank", "<", 0.0, rank("n_agents", "outcome"))


def _per_trace(corpus: Corpus, outcome: Reward, price: float, threads: int | None) -> pl.DataFrame:
    """A row per trace with all that detectors look at."""
    groups = ["scale", "span", "stages", "protocol", "delegation", "quality"]
    measured = metrics(corpus, groups=groups, threads=threads)
    several = (pl.col("n_agents") > 2) | (pl.col("n_spawned") > 1)
    frame = measured.select(
        "trace",
        pl.col("task_id").rank("dense").cast(pl.Int64).alias("task"),
        *("train_step", "n_agents", "n_spawned", "parallelism", "total_steps", "finish_rate"),
        *("message_density", "message_redundancy", "aggregation_leakage", "aggregation_uplift_mean"),
        dominance=pl.when(several).then("delegation_dominance"),
        team_efficiency=pl.when(pl.col("n_agents") > 0).then(pl.col("parallelism") / pl.col("n_agents")),
    )
    earned = amounts(corpus, outcome).select("trace", outcome="reward")
    messages = message(corpus, reward=outcome).group_by("trace").agg(utility=pl.col("utility").mean())
    for more in (earned, messages, idle_spawns(corpus, threads), _regrets(corpus, outcome, price)):
        frame = frame.join(more, on="trace", how="left", maintain_order="left")
    return frame


def _regrets(corpus: Corpus, outcome: Reward, price: float) -> pl.DataFrame:
    """What runs with drafts lost by stopping late, and early."""
    drafts = epochs(corpus, "draft", reward=outcome)
    lost = regret(drafts, price=price)
    return lost.select("trace", late="regret", early="under_run")


# --- slopes over training --------------------------------------------------------------------------------


def _slopes(frame: pl.DataFrame, resampling: Resampling) -> list[dict[str, Any]]:
    """The rows of slopes; those of a mode alarm together."""
    falls = [
        slope("serial_collapse", name, column, frame, resampling) | {"bound": "< 0"}
        for name, column in (("parallelism_slope", "parallelism"), ("spawn_slope", "n_spawned"))
    ]
    collapsed = all(row["reason"] is None and row["upper"] < 0.0 for row in falls)
    steps = slope("spurious_parallelism", "steps_slope", "total_steps", frame, resampling) | {"bound": "> 0"}
    gains = slope("spurious_parallelism", "outcome_slope", "outcome", frame, resampling) | {
        "bound": "not > 0"
    }
    # without an interval the outcome may have risen
    has_intervals = steps["reason"] is None and gains["reason"] is None
    spurious = has_intervals and steps["lower"] > 0.0 and not gains["lower"] > 0.0
    return [row | {"alarm": collapsed} for row in falls] + [
        row | {"alarm": spurious} for row in (steps, gains)
    ]
