"""Where two runs part: the common beginning of what their agents did, and where they meet again."""

from typing import Any, Final

import numpy as np
import polars as pl

from ..base.arguments import Size, Success, Threads
from ..base.progress import Progress
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward
from .lanes import MOST_UNKNOWN, Key
from .pass_rates import judged_runs
from .sides import PAIR, Order, Pairs, Sides, sides_of

ALIGNED: Final = pl.Schema(
    {
        "trace_a": pl.UInt32(),
        "trace_b": pl.UInt32(),
        "label": pl.String(),
        "ordinal": pl.UInt32(),
        "n_a": pl.UInt32(),
        "n_b": pl.UInt32(),
        "prefix": pl.UInt32(),
        "seq_a": pl.UInt32(),
        "seq_b": pl.UInt32(),
        "rejoin_a": pl.UInt32(),
        "rejoin_b": pl.UInt32(),
        "sustained": pl.Boolean(),
        "first": pl.Boolean(),
        "edits": pl.UInt32(),
        "similarity": pl.Float64(),
        "outcome_delta": pl.Float64(),
        "reason": CREDITS["reason"],
    }
)
"""Columns and types of what `align` returns."""


@verb
def align(
    corpus: Corpus,
    other: Corpus | None = None,
    *,
    pairs: Pairs = "outcomes",
    key: Key = "shape",
    order: Order = "lanes",
    reward: Reward = "team",
    success: Success = 1.0,
    rejoin: Size = 3,
    budget: Size = 10_000_000,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Say where two runs part, agent by agent: the common beginning, the first difference, where they rejoin.

    Parameters
    ----------
    corpus
        The recordings that the first run of a pair is from.
    other
        Those that the second is from, such as the same tasks by another model; None: the same.
    pairs
        Of one corpus, ``"outcomes"``: each failed run of a group with each passed one; ``"all"``: all pairs
        of a group, the earlier trace first. With `other` both are each run with each run of the same task.
        Or a frame ``trace_a trace_b`` that names pairs; a pair that comes twice is compared once.
    key
        When two steps are equal. ``"shape"``: type, tool, and role (else name) of the agent. ``"exact"``:
        also what the step says, and what its agent got since the step before.
    order
        ``"canonical"``: one sequence for the whole run, in the order of time. Which of two agents came first
        is scheduling, so that such sequences differ where nobody behaved differently.
    reward, success
        What runs are paid, and from which reward on they passed, as in `pass_rates`.
    rejoin
        Equal steps in a row, after the first difference, that count as meeting again.
    budget
        Cells of the alignment of two lanes at most.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        A row per pair and lane that one of the two runs has, in order of ``trace_a trace_b label ordinal``
        (UInt32, String): a lane is an agent's role (else its name) and its number among agents of that role,
        by their first steps. ``n_a n_b``: its steps in each run; ``prefix``: how many are equal from the
        start; ``seq_a seq_b``: the first step that differs, null where the lane ends before or they are
        equal; ``rejoin_a rejoin_b``: where the first `rejoin` equal steps in a row after it begin;
        ``sustained`` (Boolean): they part and do not rejoin. ``first``: of the lanes of the pair that part,
        this one does so first, in the time of run a, of b where a's lane has ended. ``edits`` (UInt32):
        steps that only one of the two has, at least; ``similarity`` (Float64): twice the steps in common over
        all. ``outcome_delta`` (Float64): reward of a less that of b.

        ``reason``: ``budget.exceeded`` (``edits`` and what needs it are null); ``field.absent`` where
        ``"exact"`` is asked for, and more than a fifth of the two runs' steps have no exact key;
        ``support.absent`` where no agent of either run owns a step.

    Raises
    ------
    ParameterError
        Unknown words or channels; a frame of pairs without these columns, or with a trace that is none.

    Notes
    -----
    What the steps have in common is described, not caused: where runs part is not why they failed. Under
    ``"exact"`` the noise of sampled texts parts most runs at their first step. Of several longest common
    sequences the one that matches earliest in a, then in b, counts. O(V D) for lanes of V steps with D edits;
    lanes that are equal are aligned once. A corpus on disk goes by piece, with `other` or a frame of pairs
    the steps of the runs that are named are in memory.
    Source: Myers, An O(ND) difference algorithm and its variations, 1986.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=24, seed=0)
    >>> aligned = ot.evaluation.align(corpus, pairs="all")
    >>> bool((aligned["prefix"] <= aligned["n_a"]).all())
    True

    A run is like itself:

    >>> import polars as pl
    >>> itself = pl.DataFrame({"trace_a": [0], "trace_b": [0]})
    >>> ot.evaluation.align(corpus, pairs=itself)["similarity"].unique().to_list()
    [1.0]
    """
    options = {"budget": budget, "rejoin": rejoin, "matches": False}
    pieces = [
        _rows(sides, key, options, threads, progress)
        for sides in sides_of(corpus, other, pairs, key, order, (reward, success), threads)
    ]
    rows = pl.concat([pl.DataFrame(schema=ALIGNED), *pieces])
    paid = [
        judged_runs(side, reward, success).select(
            pl.col("trace").alias(f"trace_{at}"), pl.col("reward").alias(at)
        )
        for at, side in (("a", corpus), ("b", corpus if other is None else other))
    ]
    for at, column in zip(("a", "b"), paid, strict=True):
        rows = rows.join(column, on=f"trace_{at}", how="left", maintain_order="left")
    rows = rows.with_columns(outcome_delta=pl.col("a") - pl.col("b"))
    return rows.select(ALIGNED.names()).sort(*PAIR, "label", "ordinal", nulls_last=True)


def _rows(
    sides: Sides, key: Key, options: dict[str, Any], threads: int | None, progress: Progress
) -> pl.DataFrame:
    lanes = sides.lanes()
    aligned = sides.aligned(lanes, options, threads, progress)
    n_a, n_b = (lanes[f"n_{at}"].fill_null(0).to_numpy() for at in ("a", "b"))
    lane_a, lane_b = (lanes[f"lane_{at}"].fill_null(0).to_numpy() for at in ("a", "b"))
    prefix, common = aligned["prefix"].to_numpy(), aligned["common"].fill_null(0).to_numpy().astype(np.int64)
    met = aligned["rejoin_a"].is_not_null().to_numpy()
    back_a, back_b = (aligned[f"rejoin_{at}"].fill_null(0).to_numpy() for at in ("a", "b"))
    here_a, here_b = prefix < n_a, prefix < n_b
    total = n_a + n_b
    rank_a, rank_b = (
        sides.a.event("rank", lane_a, prefix, here_a),
        sides.b.event("rank", lane_b, prefix, here_b),
    )
    rows = lanes.with_columns(
        aligned["prefix"],
        pl.Series("n_a", n_a, pl.UInt32),
        pl.Series("n_b", n_b, pl.UInt32),
        sides.a.event("seq", lane_a, prefix, here_a).alias("seq_a"),
        sides.b.event("seq", lane_b, prefix, here_b).alias("seq_b"),
        sides.a.event("seq", lane_a, back_a, met).alias("rejoin_a"),
        sides.b.event("seq", lane_b, back_b, met).alias("rejoin_b"),
        edits=pl.Series(total - 2 * common, dtype=pl.UInt32),
        similarity=pl.Series(2.0 * common / np.maximum(total, 1)),
        parts=pl.Series(here_a | here_b),
        is_known=aligned["common"].is_not_null(),
        # of what differs first: its place in run a; where a's lane has ended in run b, whose clock is another
        clock=pl.select(pl.coalesce(rank_a.cast(pl.Int64), rank_b.cast(pl.Int64) + 2**32))[:, 0],
        outcome_delta=pl.lit(None, pl.Float64),
        has_lane=pl.Series(total > 0),
    )
    rows = rows.with_columns(first=pl.col("parts") & (pl.col("clock") == pl.col("clock").min().over("pair")))
    unknown = pl.lit(value=False)
    if key == "exact":
        rows = sides.with_unknown(rows)
        unknown = pl.col("unknown") > MOST_UNKNOWN
    reason = (
        pl.when(~pl.col("has_lane"))
        .then(pl.lit("support.absent"))
        .when(unknown)
        .then(pl.lit("field.absent"))
        .when(~pl.col("is_known"))
        .then(pl.lit("budget.exceeded"))
    )
    rows = rows.with_columns(
        reason=reason.cast(CREDITS["reason"]), sustained=pl.col("parts") & pl.col("rejoin_a").is_null()
    )
    no_row = pl.col("reason").is_not_null()
    hidden = pl.col("reason").is_in(["support.absent", "field.absent"])
    return rows.select(
        *PAIR,
        "label",
        "ordinal",
        "n_a",
        "n_b",
        *(pl.when(~hidden.fill_null(value=False)).then(name) for name in ("prefix", "seq_a", "seq_b")),
        *(pl.when(~no_row).then(name) for name in ("rejoin_a", "rejoin_b", "sustained")),
        pl.when(~hidden.fill_null(value=False)).then("first"),
        *(pl.when(~no_row).then(name) for name in ("edits", "similarity")),
        "outcome_delta",
        "reason",
    ).cast(ALIGNED)
