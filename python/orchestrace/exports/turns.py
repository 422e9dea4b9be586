"""The turns of traces as rows, with what they wrote: where credit meets what a trainer trains on."""

from typing import Final

import polars as pl

from ..corpus import Corpus
from ..units import TracesByNumber

_FIELDS: Final = (
    *("content_ref", "tokens_out", "reward", "value", "p_behavior", "prefix_key"),
    pl.col("type").cast(pl.String),
)
_FOREIGN: Final = ("tool_result", "human_intervention")
"""Types of events whose tokens the policy did not write."""

KEY: Final = ("trace", "place")
"""Of a turn: its trace and its place among the turns of the trace."""


def members(piece: Corpus) -> pl.DataFrame:
    """The events of all turns, in order of trace, turn and event.

    ``trace place turn agent role seq``, what is recorded of the event, ``trained`` (whether the policy wrote
    it) and ``n`` (how many tokens it wrote, 0 where that is not recorded).
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
    made = pl.DataFrame(columns, schema={name: types.get(name, pl.String) for name in columns})
    told = piece.events.select("trace", "seq", *_FIELDS).collect()
    return made.join(told, on=["trace", "seq"], how="left", maintain_order="left").with_columns(
        trained=~pl.col("type").is_in(_FOREIGN), n=pl.col("tokens_out").fill_null(0).clip(0)
    )


def turns(events: pl.DataFrame) -> pl.DataFrame:
    """One row per turn: ``trace place turn agent role seqs content_refs prefix_key response_length reward
    value sequence_log_prob``; what is not recorded is null, rewards excepted."""
    written = pl.col("tokens_out").is_not_null()
    probability = pl.col("p_behavior")
    return events.group_by(KEY, maintain_order=True).agg(
        pl.col("turn", "agent", "role").first(),
        seqs=pl.col("seq"),
        content_refs=pl.col("content_ref"),
        prefix_key=pl.col("prefix_key").drop_nulls().first(),
        response_length=pl.when(written.any()).then(pl.col("n").sum()),
        # D14: a row without a reward of its own earns 0 but for the outcome
        reward=pl.col("reward").sum(),
        value=pl.col("value").drop_nulls().first(),
        sequence_log_prob=pl.when(probability.is_not_null().any()).then(probability.log().sum()),
    )
