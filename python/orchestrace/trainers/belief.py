"""Advantages of turns, weighed by how much each turn moved the belief that the rollout succeeds."""

import itertools

import numpy as np
import polars as pl

from .. import _core
from ..base.arguments import ColumnName, Discount, PositiveShare, Share, Success
from ..base.arrays import Bools, Floats, Ints
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.text import briefly
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.parts import store_of
from ..corpus.reward import Reward, amounts, reaches


@verb
def agent_opsd(
    corpus: Corpus,
    credits: pl.DataFrame,
    evidence: ColumnName,
    *,
    reward: Reward = "team",
    success: Success = 1.0,
    gamma: Discount = 0.95,
    strength: Share = 0.25,
    mixture: Share = 1.0,
    floor: PositiveShare = 0.01,
) -> pl.DataFrame:
    """Weigh the advantage of each turn by its evidence: more where it moved the belief in its direction.

    Parameters
    ----------
    corpus
        The recordings.
    credits
        Rows of ``credit(..., unit="turn")`` of one method, whose credit is an advantage.
    evidence
        The column of events with signed evidence that the rollout succeeds: in the paper the log-probability
        that a teacher who knows the answer gives what was done, less that of the policy. Test results or
        marks of a judge will do. That of a turn is the sum over its events; a turn without any has 0.
    reward, success
        What makes a rollout a success. The share of successes in its group is the belief that it begins with.
    gamma
        What is left of the evidence of a turn at the next one.
    strength
        By how much an advantage is changed at most, of itself.
    mixture
        How much of the change is made: 0 leaves advantages as they are.
    floor
        The least belief, and the most is 1 less it.

    Returns
    -------
    DataFrame
        `credits` with other values in ``credit``. Nulls stay null, and a rollout without evidence, or whose
        turns moved the belief alike, stays as it is. Every advantage keeps its sign.

    Raises
    ------
    ParameterError
        The credits are at another unit or add up to the outcome, or the events have no such column of
        numbers.

    Notes
    -----
    B_0 = clip(successes / rollouts of the group), c_k = gamma c_(k-1) + e_k, B_k = sigmoid(logit B_0 + c_k),
    q_k = sign(A) (B_k - B_(k-1)), z_k = q_k standardized within the rollout, w_k = clip(1 + strength z_k) to
    1 ± strength, A_k <- ((1 - mixture) + mixture w_k) A_k. Turns are in canonical order, all agents
    together. The floor of the belief is this project's. O(turns log turns).
    Source: arXiv 2608.05987.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=16, seed=0)
    >>> credits = ot.credit(corpus, method="dr_grpo", unit="turn")
    >>> weighed = ot.trainers.agent_opsd(corpus, credits, "score", success=0.5)
    >>> bool(((weighed["credit"] / credits["credit"]).drop_nulls().drop_nans().is_between(0.75, 1.25)).all())
    True
    """
    for column in ("trace", "unit", "unit_id", "credit", "quantity"):
        if column not in credits.columns:
            raise ParameterError(f"credits: {unknown_name('column', column, credits.columns)}")
    units, quantities = (credits[name].cast(pl.String).unique().to_list() for name in ("unit", "quantity"))
    if units not in (["turn"], []) or quantities not in (["advantage"], []):
        raise ParameterError(
            f"credits has unit {briefly(units)} and quantity {briefly(quantities)}, expected rows of"
            " credit(..., unit='turn') of a method whose credit is an advantage"
        )
    turns = pl.concat([_evidence(piece, evidence) for piece in corpus.slices()])
    rows = credits.select(
        "trace", unit=pl.col("unit_id").cast(pl.String), advantage="credit"
    ).with_row_index()
    valued = (
        rows.drop_nulls("advantage")
        .join(turns, on=["trace", "unit"])
        .join(_beliefs(corpus, reward, success, floor), on="trace")
    )
    valued = valued.sort("trace", "place")
    run = np.unique(valued["trace"].to_numpy(), return_inverse=True)[1].astype(np.int64)
    advantage = valued["advantage"].to_numpy()
    moved = np.sign(advantage) * _moves(
        valued["evidence"].to_numpy(), valued["belief"].to_numpy(), run, gamma
    )
    weight = np.clip(1.0 + strength * _standardized(moved, run), 1.0 - strength, 1.0 + strength)
    has_evidence = np.bincount(run, valued["evidence"].to_numpy() != 0.0)[run] > 0 if len(run) else run > 0
    scaled = np.where(has_evidence, (1.0 - mixture) + mixture * weight, 1.0) * advantage
    values = valued.select("index", scaled=pl.Series(scaled))
    in_order = rows.select("index").join(values, on="index", how="left", maintain_order="left")
    return credits.with_columns(credit=pl.coalesce(in_order["scaled"], credits["credit"]))


def _evidence(piece: Corpus, column: str) -> pl.DataFrame:
    """``trace unit place evidence`` of every turn, in canonical order."""
    schema = piece.events.collect_schema()
    if column not in schema or not schema[column].is_numeric():
        numbers = [name for name, kind in schema.items() if kind.is_numeric()]
        raise ParameterError(f"evidence: {unknown_name('column of numbers', column, numbers)}")
    units = pl.DataFrame(_core.unit_ids(store_of(piece), "turn"))
    recorded = piece.events.select("t", e=pl.col(column).cast(pl.Float64).fill_nan(None)).collect()
    events = units.select("trace", "seq", unit=pl.col("unit_id").cast(pl.String)).hstack(recorded)
    ordered = events.sort("trace", "t", "seq").with_row_index("place").drop_nulls("unit")
    turns = ordered.group_by("trace", "unit", maintain_order=True)
    return turns.agg(pl.col("place").first(), evidence=pl.col("e").fill_null(0.0).cum_sum().last())


def _beliefs(corpus: Corpus, reward: Reward, success: float, floor: float) -> pl.DataFrame:
    """``trace belief`` of every run: the share of successes among the judged runs of its group."""
    groups = corpus.traces.select("trace", "group_id").collect(engine="streaming")
    paid = amounts(corpus, reward).select("trace", passed=reaches(pl.col("reward"), success))
    runs = groups.join(paid, on="trace", how="left", maintain_order="left")
    share = pl.col("passed").cast(pl.Float64).mean().over("group_id")
    low, high = min(floor, 0.5), max(1.0 - floor, 0.5)
    return runs.select("trace", belief=share.fill_null(0.5).clip(low, high))


def _moves(evidence: Floats, belief: Floats, run: Ints, gamma: float) -> Floats:
    """By how much each turn moved the belief of its run."""
    begins = np.diff(run, prepend=-1) != 0
    place = np.arange(len(run)) - np.maximum.accumulate(np.where(begins, np.arange(len(run)), 0))
    order, heard = np.argsort(place, kind="stable"), evidence.copy()
    for begin, end in itertools.pairwise(
        np.cumsum(np.bincount(place))
    ):  # a step for each turn of the longest run
        rows = order[begin:end]
        heard[rows] += gamma * heard[rows - 1]
    now = _sigmoid(np.log(belief / (1.0 - belief)) + heard)
    before = np.where(begins, belief, np.roll(now, 1))
    moves: Floats = now - before
    return moves


def _sigmoid(x: Floats) -> Floats:
    small = np.exp(-np.abs(x))
    values: Floats = np.where(x >= 0.0, 1.0, small) / (1.0 + small)
    return values


def _standardized(values: Floats, run: Ints) -> Floats:
    """Values less the mean of their run, by its deviation; 0 where that is 0."""
    n = np.maximum(np.bincount(run), 1)
    apart = values - (np.bincount(run, values) / n)[run]
    deviation = np.sqrt(np.bincount(run, apart**2) / n)[run]
    moves: Bools = deviation > 1e-12
    return np.divide(apart, deviation, out=np.zeros(len(values)), where=moves)
