"""The turns of traces as rows, with the tokens that they wrote."""

from typing import Final

import polars as pl

from ..corpus.corpus import Corpus
from ..corpus.units import TracesByNumber
from ..decisions.rows import DECISIONS

_FIELDS: Final = (
    *("content_ref", "tokens_out", "reward", "value", "p_behavior", "prefix_key"),
    pl.col("type").cast(pl.String),
)
KEY: Final = ("trace", "place")
"""Of a turn: its trace and its place among the turns of the trace."""


def members(piece: Corpus) -> pl.DataFrame:
    """The events of all turns, in order of trace, turn and event.

    ``trace place turn agent role seq``, what is recorded of the event, ``trained`` (whether the policy wrote
    it: what an agent decided, asked for or said) and ``n`` (how many tokens it wrote, 0 where not recorded).
    """
    columns: dict[str, list[object]] = {
        name: [] for name in ("trace", "place", "turn", "agent", "role", "seq")
    }
    for number, trace in TracesByNumber(piece).items():
        for place, turn in enumerate(trace.turns):
            role = trace.role.get(turn.owner)
            for seq in turn.events:
                row = (number, place, turn.unit_id, turn.owner, role, seq)
                for name, value in zip(columns, row, strict=True):
                    columns[name].append(value)
    types = {"trace": pl.UInt32, "place": pl.UInt32, "seq": pl.UInt32}
    frame = pl.DataFrame(columns, schema={name: types.get(name, pl.String) for name in columns})
    fields = piece.events.select("trace", "seq", *_FIELDS).collect()
    return frame.join(fields, on=["trace", "seq"], how="left", maintain_order="left").with_columns(
        trained=pl.col("type").is_in(DECISIONS), n=pl.col("tokens_out").fill_null(0).clip(0)
    )


def turns(events: pl.DataFrame) -> pl.DataFrame:
    """One row per turn of which the policy wrote something: ``trace place turn agent role agent_step seqs
    content_refs prefix_key response_length reward value sequence_log_prob``.

    What is not recorded is null, rewards excepted. What a turn earned that wrote no text (a tool's results
    alone, say) was earned by the turn before it, or by the first one.
    """
    written = pl.col("tokens_out").is_not_null()
    probability = pl.col("p_behavior")
    every = events.group_by(KEY, maintain_order=True).agg(
        pl.col("turn", "agent", "role").first(),
        is_written=pl.col("trained").any(),
        seqs=pl.col("seq"),
        content_refs=pl.col("content_ref"),
        prefix_key=pl.col("prefix_key").drop_nulls().first(),
        response_length=pl.when(written.any()).then(pl.col("n").sum()),
        # D14: a row without a reward of its own earns 0 but for the outcome
        reward=pl.col("reward").sum(),
        value=pl.col("value").drop_nulls().first(),
        sequence_log_prob=pl.when(probability.is_not_null().any()).then(probability.log().sum()),
    )
    so_far = pl.col("is_written").cast(pl.UInt32).cum_sum().over("trace").clip(1)
    return (
        every.with_columns(reward=pl.col("reward").sum().over("trace", so_far))
        .filter("is_written")
        .with_columns(agent_step=pl.int_range(pl.len()).over("trace", "agent"))
        .drop("is_written")
    )


def agent_uids(piece: Corpus) -> pl.DataFrame:
    """What the recording calls each agent (``x_agent_id``): ``trace agent agent_uid``."""
    named = (
        piece.events.filter(pl.col("extras").str.contains("x_agent_id", literal=True))
        .select(
            "trace",
            "seq",
            # on these it is the id of whom they concern
            agent=pl.when(pl.col("type").is_in(["spawn", "despawn"]))
            .then("to")
            .otherwise("agent")
            .cast(pl.String),
            agent_uid=pl.col("extras").str.json_path_match("$.x_agent_id"),
        )
        .collect()
    )
    in_order = named.drop_nulls().sort("trace", "seq", maintain_order=True)
    return in_order.drop("seq").unique(["trace", "agent"], keep="first", maintain_order=True)
