"""At which branch the passed and the failed runs of a group part."""

from statistics import NormalDist
from typing import Final

import numpy as np
import polars as pl

from ..base.arguments import Confidence, Success, Threads
from ..base.division import Division, Order
from ..base.engines import RunBy
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward
from .lanes import Key
from .run_tree import RunTree, described

DIVERGENCE: Final = pl.Schema(
    {
        "group_id": pl.String(),
        "task_id": pl.String(),
        "depth": pl.UInt32(),
        "type": pl.String(),
        "label": pl.String(),
        "tool": pl.String(),
        "n_pass": pl.UInt32(),
        "n_fail": pl.UInt32(),
        "n_unjudged": pl.UInt32(),
        "p": pl.Float64(),
        "p_siblings": pl.Float64(),
        "effect": pl.Float64(),
        "log_odds": pl.Float64(),
        "lower": pl.Float64(),
        "upper": pl.Float64(),
        "trace": pl.UInt32(),
        "seq": pl.UInt32(),
        "tier": CREDITS["tier"],
        "reason": CREDITS["reason"],
    }
)
"""Columns and types of what `divergence` returns."""

ATYPICAL: Final = pl.Schema(
    {
        "trace": pl.UInt32(),
        "trace_id": pl.String(),
        "group_id": pl.String(),
        "n_passes": pl.UInt32(),
        "atypical": pl.Float64(),
        "depth": pl.UInt32(),
        "n_others": pl.UInt32(),
        "luck": pl.Float64(),
        "reason": CREDITS["reason"],
    }
)
"""Columns and types of what `lucky_passes` returns."""

SCORES: Final = pl.Schema({"trace": pl.UInt32(), "seq": pl.UInt32(), "score": pl.Float64()})
"""Columns and types of what `divergence_scores` returns."""

_PRIOR: Final = 2.0
"""Runs at the rate of the node that each share is shrunk by."""


@verb(rows="a branch", division=Division())
def divergence(
    corpus: Corpus,
    *,
    key: Key = "shape",
    reward: Reward = "team",
    success: Success = 1.0,
    confidence: Confidence = 0.95,
    engine: RunBy = None,
    threads: Threads = None,
) -> pl.DataFrame:
    """Show where the runs of each group part, and how many pass and fail on each branch.

    The runs of a group are a tree: a node is what their first (root) agent did up to a step. Where runs that
    did the same go on differently, each way on is a branch.

    Parameters
    ----------
    corpus
        The recordings; runs are compared with those of their group.
    key
        When two steps are equal, as in `align`.
    reward, success
        What runs are paid, and from which reward on they passed, as in `pass_rates`.
    confidence
        Coverage of the intervals.
    engine
        Who computes a corpus on disk, as in `credit`.
    threads
        As in `read_traces`.

    Returns
    -------
    DataFrame
        A row per branch, groups in the order of their first runs (on disk piece by piece), branches in the
        order of the first run on each, by ``trace_id``: ``group_id task_id`` (String), ``depth`` (UInt32:
        steps before it), ``type label tool`` (String: the step that begins it and who takes it, role else
        name; null where the runs end there), ``n_pass n_fail n_unjudged`` (UInt32: runs on it),
        ``p p_siblings`` (Float64: share of failures on it and on the other branches of the node, shrunk to
        that of the node as by two runs more), ``effect``: the former less the latter; ``log_odds lower
        upper``: of failing on it against the others, 1/2 added to each count, with a normal interval;
        ``trace seq`` (UInt32): the first run on it, and the step there.

        ``tier`` is ``observed`` where keys are exact and each run has one agent, who then had seen the same,
        else ``surrogate``. A group that is not compared has one row with a ``reason``: ``reward.absent``, no
        run is judged; ``group.degenerate``, all pass or all fail; ``field.absent``, more than a fifth of its
        steps have no exact key; ``siblings.absent``, its runs do not part. A branch whose runs, or whose
        siblings, were not judged has ``reward.absent`` and no effect.

    Raises
    ------
    ParameterError
        Unknown words or channels.

    Notes
    -----
    No row is a finding: with eight runs a group no single branch can be one. `branch_tests` asks over all
    groups whether a step goes with failure. Branches near the root stand above what really differed later.
    Runs that share a beginning by a cache are not independent.

    O(steps). A corpus on disk goes by piece.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=64, seed=0)
    >>> branches = ot.evaluation.divergence(corpus, reward="team", success=0.5)
    >>> compared = branches.drop_nulls("effect")
    >>> bool((compared["effect"].abs() <= 1).all())
    True
    """
    pieces = [_branches(load(), key, reward, success, confidence, threads) for _, load in corpus.pieces()]
    return pl.concat([pl.DataFrame(schema=DIVERGENCE), *pieces])


@verb(rows="a trace", division=Division(order=lambda arguments: Order(by=("trace",))))
def lucky_passes(
    corpus: Corpus,
    *,
    key: Key = "shape",
    reward: Reward = "team",
    success: Success = 1.0,
    engine: RunBy = None,
    threads: Threads = None,
) -> pl.DataFrame:
    """Tell apart passed runs that went another way than others, and those whose way mostly fails.

    Parameters
    ----------
    corpus, key, reward, success, engine, threads
        As in `divergence`.

    Returns
    -------
    DataFrame
        A row per passed run, in order: ``trace trace_id group_id``; ``n_passes`` (UInt32) of its group;
        ``atypical`` (Float64): 1 less the mean over its steps of the share of the other passes that did the
        same up to there, null with fewer than two others (``support.absent``); ``depth`` (UInt32): steps up
        to the last node that another run came to as well; ``n_others`` (UInt32): judged runs there beside it;
        ``luck`` (Float64): the share of these that failed, null without any. ``reason`` as in `divergence`,
        where the group has no failure or its steps no exact keys.

    Raises
    ------
    ParameterError
        As in `divergence`.

    Notes
    -----
    A second right way is atypical, and no luck: runs beside it do not fail. With ``key="exact"`` sampled
    texts make every run atypical. O(steps).

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=64, seed=0)
    >>> passes = ot.evaluation.lucky_passes(corpus, success=0.5)
    >>> bool(passes["luck"].drop_nulls().is_between(0, 1).all())
    True
    """
    pieces = [_passes(load(), key, reward, success, threads) for _, load in corpus.pieces()]
    return pl.concat([pl.DataFrame(schema=ATYPICAL), *pieces]).sort("trace")


@verb(rows="an event", division=Division(order=lambda arguments: Order(by=("trace", "seq"))))
def divergence_scores(
    corpus: Corpus,
    *,
    key: Key = "shape",
    reward: Reward = "team",
    success: Success = 1.0,
    engine: RunBy = None,
    threads: Threads = None,
) -> pl.DataFrame:
    """Score steps by how much more often runs fail that take them: what to suspect in a run.

    Parameters
    ----------
    corpus, key, reward, success, engine, threads
        As in `divergence`.

    Returns
    -------
    DataFrame
        A row per step of a root agent at a branching of a group that is compared: ``trace seq`` (UInt32),
        ``score`` (Float64): the ``effect`` of its branch where that is above 0, else 0. Steps that stand in
        no row have the score 0; the run itself counts among those on its branch.

    Raises
    ------
    ParameterError
        As in `divergence`.

    Notes
    -----
    O(steps).

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=64, seed=0)
    >>> bool((ot.evaluation.divergence_scores(corpus, success=0.5)["score"] >= 0).all())
    True
    """
    frames = []
    for _, load in corpus.pieces():
        tree = RunTree.of(load(), key, reward, success, threads)
        rows = tree.compared()
        effects = _effects(tree.children(rows), 0.95).select("node", "child", "effect")
        scored = rows.drop_nulls("seq").join(effects, on=["node", "child"], maintain_order="left")
        score = pl.col("effect").fill_null(0.0).clip(lower_bound=0.0)
        frames.append(scored.select("trace", "seq", score=score))
    return pl.concat([pl.DataFrame(schema=SCORES), *frames]).sort("trace", "seq")


def _branches(
    piece: Corpus, key: Key, reward: Reward, success: float, confidence: float, threads: int | None
) -> pl.DataFrame:
    tree = RunTree.of(piece, key, reward, success, threads)
    children = described(tree.children(tree.compared()))
    rows = _effects(children, confidence).rename({"place": "depth"})
    tier = (
        pl.when(pl.lit(key == "exact") & pl.col("alone"))
        .then(pl.lit("observed"))
        .otherwise(pl.lit("surrogate"))
    )
    groups = tree.groups.drop("n_pass", "n_fail", "n_unjudged")
    rows = rows.join(groups.drop("reason"), on="group", maintain_order="left").with_columns(tier=tier)
    others = (
        tree.groups.join(rows.select("group").unique(), on="group", how="anti", maintain_order="left")
        .with_columns(reason=pl.coalesce("reason", pl.lit("siblings.absent", CREDITS["reason"])), tier=tier)
        .drop("alone")
    )
    table = pl.concat([rows.drop("alone"), others], how="diagonal_relaxed").sort("group", maintain_order=True)
    table = table.with_columns(tier=pl.when(pl.col("effect").is_not_null()).then("tier"))
    return table.select(pl.col(name).cast(dtype) for name, dtype in DIVERGENCE.items())


def _effects(children: pl.DataFrame, confidence: float) -> pl.DataFrame:
    """The children with ``p p_siblings effect log_odds lower upper reason``."""
    node = children["node"].rle_id() if children.is_empty() else children["node"].rank("dense")
    codes = node.to_numpy().astype(np.int64) - (0 if children.is_empty() else 1)
    passed, failed = (children[name].to_numpy().astype(np.float64) for name in ("n_pass", "n_fail"))
    n_nodes = int(codes.max()) + 1 if len(codes) else 0
    all_passed, all_failed = (np.bincount(codes, counts, n_nodes)[codes] for counts in (passed, failed))
    others_passed, others_failed = all_passed - passed, all_failed - failed
    with np.errstate(invalid="ignore", divide="ignore"):
        rate = all_failed / (all_failed + all_passed)
        p = (failed + _PRIOR * rate) / (failed + passed + _PRIOR)
        p_siblings = (others_failed + _PRIOR * rate) / (others_failed + others_passed + _PRIOR)
    log_odds = np.log((failed + 0.5) * (others_passed + 0.5) / ((passed + 0.5) * (others_failed + 0.5)))
    stderr = np.sqrt(sum(1.0 / (n + 0.5) for n in (failed, passed, others_failed, others_passed)))
    # of the lower tail: (1 + confidence) / 2 may round to 1
    reach = -NormalDist().inv_cdf((1.0 - confidence) / 2.0) * stderr
    is_judged = pl.Series((failed + passed > 0) & (others_failed + others_passed > 0))
    numbers = {
        "p": p,
        "p_siblings": p_siblings,
        "effect": p - p_siblings,
        "log_odds": log_odds,
        "lower": log_odds - reach,
        "upper": log_odds + reach,
    }
    return children.with_columns(
        *(pl.when(is_judged).then(pl.Series(values)).alias(name) for name, values in numbers.items()),
        reason=pl.when(~is_judged).then(pl.lit("reward.absent")).cast(CREDITS["reason"]),
    )


def _passes(piece: Corpus, key: Key, reward: Reward, success: float, threads: int | None) -> pl.DataFrame:
    tree = RunTree.of(piece, key, reward, success, threads)
    rows = tree.rows
    # of each node that runs share: who came there, and of each child: which passes went on to it
    at_node = rows.group_by("node").agg(
        judged=pl.col("passed").count().cast(pl.Int64), failed=(~pl.col("passed")).sum().cast(pl.Int64)
    )
    to_child = rows.group_by("child").agg(passes=pl.col("passed").sum().cast(pl.Int64))
    of_passes = rows.filter("passed")
    deepest = (
        of_passes.group_by("trace")
        .agg(pl.col("node", "place").sort_by("place").last())
        .join(at_node, on="node")
    )
    alike = (
        of_passes.drop_nulls("seq")
        .join(to_child, on="child")
        .group_by("trace")
        .agg(alike=(pl.col("passes") - 1).sum())
    )
    groups = tree.groups.select("group", n_passes="n_pass", because="reason")
    table = (
        tree.runs.filter("passed")
        .join(groups, on="group", how="left", maintain_order="left")
        .join(deepest.drop("node"), on="trace", how="left", maintain_order="left")
        .join(alike, on="trace", how="left", maintain_order="left")
    )
    others = pl.col("n_passes").cast(pl.Int64) - 1
    is_compared = pl.col("because").is_null() | (pl.col("because") == "group.degenerate")
    share = pl.col("alike").fill_null(0) / (others * pl.col("n_steps"))
    enough = is_compared & (others >= 2) & (pl.col("n_steps") > 0)
    reason = (
        pl.when(pl.col("because").is_not_null())
        .then("because")
        .when(others < 2)
        .then(pl.lit("support.absent", CREDITS["reason"]))
    )
    near = pl.col("judged") - 1
    return table.select(
        "trace",
        "trace_id",
        "group_id",
        "n_passes",
        atypical=pl.when(enough).then(1.0 - share),
        depth=pl.when(is_compared).then("place"),
        n_others=pl.when(is_compared).then(near.fill_null(0)),
        luck=pl.when(is_compared & (near > 0)).then(pl.col("failed") / near),
        reason=reason,
    ).cast(ATYPICAL)
