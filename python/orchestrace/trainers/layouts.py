"""Column names of trainers for a table of turns.

Sources: verl 0.9, `DataProto` (protocol.py) and what its advantage estimators and losses read (core_algos.py,
losses.py); TRL 1.16, what `GRPOTrainer` puts into a batch, and `RolloutSample` of its asynchronous trainer.
"""

from dataclasses import dataclass
from typing import Final

import polars as pl

_NUMBERS: Final = pl.List(pl.Float64())
_MASK: Final = pl.List(pl.Int64())

TURN: Final[dict[str, pl.DataType]] = {
    "trace": pl.UInt32(),
    "trajectory_id": pl.String(),
    "group": pl.String(),
    "task_id": pl.String(),
    "prefix_key": pl.String(),
    "agent": pl.String(),
    "role": pl.String(),
    "turn": pl.String(),
    "turn_index": pl.UInt32(),
    "agent_step": pl.UInt32(),
    "agent_uid": pl.String(),
    "seqs": pl.List(pl.UInt32()),
    "content_refs": pl.List(pl.String()),
    "response_length": pl.Int64(),
    "advantages": pl.Float64(),
    "returns": pl.Float64(),
    "reward": pl.Float64(),
    "sequence_log_prob": pl.Float64(),
    "method": pl.String(),
    "channel": pl.String(),
    "reason": pl.String(),
}
"""Columns of one row per turn, under the names that no trainer gave."""

TOKEN: Final[dict[str, pl.DataType]] = {
    **TURN,
    "advantages": _NUMBERS,
    "returns": _NUMBERS,
    "token_rewards": _NUMBERS,
    "mask": _MASK,
    "trained": _MASK,
    "log_probs": _NUMBERS,
}
"""The same with lists that have a number for each token of the response."""


@dataclass(frozen=True)
class Layout:
    """Names that one trainer reads."""

    turn: dict[str, str]
    """Its names of our columns; those that are not named keep ours."""
    token: dict[str, str]
    """The same where columns hold lists; an empty name leaves a column out."""

    def names(self, per: str) -> dict[str, str]:
        """What our columns are called."""
        ours = {name: name for name in (TURN if per == "turn" else TOKEN)}
        named = ours | (self.turn if per == "turn" else self.turn | self.token)
        return {name: word for name, word in named.items() if word}


LAYOUTS: Final[dict[str, Layout]] = {
    "verl": Layout(
        turn={"group": "uid"},
        # what verl masks is both what is padding and what the policy did not write
        token={
            "token_rewards": "token_level_rewards",
            "mask": "",
            "trained": "response_mask",
            "log_probs": "old_log_probs",
        },
    ),
    "trl": Layout(
        turn={"group": "group_id"},
        token={
            "token_rewards": "",
            "mask": "completion_mask",
            "trained": "tool_mask",
            "log_probs": "old_per_token_logps",
        },
    ),
}
"""By the name that a call gives."""
