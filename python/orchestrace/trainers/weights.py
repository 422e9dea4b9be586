"""Weights of tokens in a loss: rollouts of a group weigh the same, and so do agents of a rollout."""

from typing import Final

import polars as pl

from .. import _core
from ..base.arguments import Threads
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.parts import store_of

WEIGHTS: Final = pl.Schema(
    {
        "trace": pl.UInt32(),
        "trace_id": pl.String(),
        "group_id": pl.String(),
        "agent": pl.String(),
        "tokens": pl.Int64(),
        "n_agents": pl.UInt32(),
        "group_size": pl.UInt32(),
        "weight": pl.Float64(),
        "reason": CREDITS["reason"],
    }
)
"""Columns and types of what `token_weights` returns."""

_MOST_TOKENS: Final = 2**63 - 1


@verb
def token_weights(corpus: Corpus, *, threads: Threads = None) -> pl.DataFrame:
    """Weigh the tokens of each agent so that long agents and large teams do not dominate a loss.

    Parameters
    ----------
    corpus
        The recordings, for ``tokens_out``; rollouts of a group (``group_id``, else ``task_id``) share a loss.
    threads
        As in `read_traces`.

    Returns
    -------
    DataFrame
        One row per trace and agent that owns an event, in order of trace and of the agent's first event:
        ``trace`` (UInt32) ``trace_id group_id agent`` (String) ``tokens`` (Int64: sum of ``tokens_out`` over
        the agent's events) ``n_agents`` (UInt32: agents of the trace that wrote tokens) ``group_size``
        (UInt32: traces of the group) ``weight`` (Float64, per token: 1 / (group_size n_agents tokens))
        ``reason`` (Enum: ``field.absent`` where the agent has no tokens, and then no weight).

    Raises
    ------
    ParameterError
        `corpus` is not a corpus, or `threads` is out of range.

    Notes
    -----
    Multiply the loss of a token by its weight and by the advantage of its rollout. The weights of all tokens
    of an agent sum to 1 / (group_size n_agents), those of a rollout to 1 / group_size, those of a group to 1.
    A rollout in which nobody has tokens is counted in ``group_size``, so its group sums to less.

    The columns ``trace`` and ``agent`` are those of `trainers.trainer_table`, so that
    ``table.join(weights.select("trace", "agent", "weight"), on=["trace", "agent"], how="left")`` gives each
    row its weight. A trainer that masks tokens of tools has to leave them out of ``tokens_out``, or the sums
    above are of more tokens than it trains on.

    O(events + edges). Source: WideSeek-R1, arXiv 2602.04634: (1/G) Σ_i (1/N_i) Σ_a (1/tokens_ia) over the
    tokens of agents a of rollouts i.

    Examples
    --------
    >>> import polars as pl
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=2, seed=0)
    >>> wrote = corpus.events.select("trace", "seq", tokens_out=pl.lit(4)).collect()
    >>> weights = ot.trainers.token_weights(corpus.with_fields(wrote))
    >>> mass = weights.group_by("group_id").agg((pl.col("weight") * pl.col("tokens")).sum())["weight"]
    >>> mass.round(12).unique().to_list()
    [1.0]
    """
    frames = [_weighed(piece, threads) for piece in corpus.slices()]
    return pl.concat([WEIGHTS.to_frame(), *frames])


def _weighed(piece: Corpus, threads: int | None) -> pl.DataFrame:
    """The rows of a part of the corpus, which has its groups whole."""
    owned = pl.DataFrame(_core.ownership(store_of(piece), threads=threads)).select("trace", "seq", "owner")
    wrote = piece.events.select("trace", "seq", pl.col("tokens_out").clip(0)).collect()
    events = owned.join(wrote, on=["trace", "seq"], how="left", maintain_order="left")
    # wider than the counts themselves, of which a sum may not be one
    tokens = pl.col("tokens_out").cast(pl.Int128).sum().clip(0, _MOST_TOKENS).cast(pl.Int64)
    agents = (
        events.filter(pl.col("owner").is_not_null())
        .group_by("trace", agent=pl.col("owner").cast(pl.String), maintain_order=True)
        .agg(tokens=pl.when(pl.col("tokens_out").is_not_null().any()).then(tokens))
    )
    traces = piece.traces.select(
        "trace", "trace_id", "group_id", group_size=pl.len().over("group_id")
    ).collect()
    rows = agents.join(traces, on="trace", how="left", maintain_order="left")
    has = pl.col("tokens") > 0
    rows = rows.with_columns(n_agents=has.sum().over("trace"))
    share = pl.lit(1.0) / (pl.col("group_size").cast(pl.Float64) * pl.col("n_agents") * pl.col("tokens"))
    rows = rows.with_columns(weight=pl.when(has).then(share))
    reason = pl.when(pl.col("weight").is_null()).then(pl.lit("field.absent"))
    return rows.with_columns(reason=reason).select(WEIGHTS.names()).cast(WEIGHTS)
