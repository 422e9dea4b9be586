"""Rows of a trainer, whatever it calls them: rewards and masks of tokens, and what is known of each row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]

TurnsOf = Literal["row", "mask"]
OutcomeOf = Literal["last", "sum"]
RewardsOf = Literal["rollout", "turn"]
COLUMNS: Final = {
    "episode_id": "rollouts",
    "turn_id": "order",
    "agent": "agents",
    "trainable": "trainable",
}
"""What plug-ins read of the columns that a trainer carries along, and which field of `Batch` it is."""


@dataclass(frozen=True)
class Batch:
    """Rows of a trainer: each a response, or a whole rollout.

    Parameters
    ----------
    rewards
        (rows, tokens), what each token earned. Most trainers put the reward of a row on its last token.
    mask
        (rows, tokens), 1 where a token is trained.
    groups
        (rows,), what is compared: the prompt.
    rollouts
        (rows,), which rollout a row is of; None: each row is one.
    order
        (rows,), numbers in the order of time within a rollout; None: as the rows stand.
    agents
        (rows,), who acted. With ``turns="mask"`` it may be a list for each row, of who acted in each turn.
    trainable
        (rows,), whether the row's agent is trained; None: all are.
    """

    rewards: Floats
    mask: NDArray[Any]
    groups: Sequence[object] | NDArray[Any]
    rollouts: Sequence[object] | NDArray[Any] | None = None
    order: Sequence[float] | NDArray[Any] | None = None
    agents: Sequence[object] | NDArray[Any] | None = None
    trainable: Sequence[bool] | NDArray[Any] | None = None

    @classmethod
    def with_columns(
        cls,
        rewards: Floats,
        mask: NDArray[Any],
        groups: Sequence[object] | NDArray[Any],
        columns: Mapping[str, Any] | None,
    ) -> "Batch":
        """A batch, and what a trainer carries along of its rows: the columns of `COLUMNS` that are there."""
        fields = {field: (columns or {}).get(name) for name, field in COLUMNS.items()}
        return cls(rewards, mask, groups, **fields)

    @classmethod
    def of_lengths(
        cls,
        rewards: Floats,
        lengths: Sequence[int] | NDArray[Any],
        groups: Sequence[object] | NDArray[Any],
        **columns: Any,
    ) -> "Batch":
        """Rows of so many trained tokens, each with what it earned in all: (rows,) of both."""
        tokens = np.asarray(lengths, dtype=np.int64)
        mask = np.arange(max(int(tokens.max(initial=0)), 1)) < tokens[:, None]
        earned = np.zeros(mask.shape)
        earned[:, 0] = rewards
        return cls(earned, mask, groups, **columns)
