"""Credit in TRL: advantages by turn for GRPO, by a class to mix in.

TRL computes advantages itself and has no hook for others, but its loss takes (rows, tokens)::

    class Trainer(WithCredit, GRPOTrainer): ...
    trainer = Trainer(..., credit_method="return_to_go", credit_options={"turns": "mask", "rewards": "turn"})

A completion is a rollout. With ``turns="mask"`` each run of trained tokens in it (``tool_mask``) is a turn; a
``rollout_func`` that returns ``agents``, a list of names for each rollout, says who acted in each, and one
that returns ``turn_rewards``, a list of numbers, what each earned.

Rules of rewards are reward functions (`rule_rewards`).
"""

from typing import Any

import numpy as np

from ..base.errors import ParameterError
from .batch import Batch
from .batches import Assigned, array, installed, token_advantages


class WithCredit:
    """Mix into ``GRPOTrainer``: its advantages become those of a method of `credit`.

    Parameters
    ----------
    credit_method
        One of `list_methods`.
    credit_options
        Options of `orchestrace.trainers.batches.token_advantages` and parameters of the method. With
        ``null="mask"`` tokens without an advantage are taken out of ``completion_mask``.
    *args, **kwargs
        Of the trainer.
    """

    num_generations: int
    num_generations_eval: int
    reward_weights: Any
    model: Any
    accelerator: Any

    def __init__(
        self, *args: Any, credit_method: str, credit_options: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        self._credit = (credit_method, dict(credit_options or {}))
        self._rewards: Any = None
        self._columns: dict[str, list[Any]] = {}
        super().__init__(*args, **kwargs)

    def _calculate_rewards(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        self._rewards = super()._calculate_rewards(inputs, *args, **kwargs)  # type: ignore[misc]
        names = ("agents", "turn_rewards")
        self._columns = {
            name: [row[name] for row in inputs] for name in names if all(name in row for row in inputs)
        }
        return self._rewards

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)  # type: ignore[misc]
        mask = output["completion_mask"]
        if "tool_mask" in output:
            mask = mask * output["tool_mask"]
        assigned = self._advantages(mask)
        output["advantages"] = output["advantages"].new_tensor(assigned.advantages)
        if not assigned.credited.all():
            output["completion_mask"] = output["completion_mask"] * mask.new_tensor(assigned.credited)
        return output

    def _advantages(self, mask: Any) -> Assigned:
        """Of the completions of this process, from the rewards of all."""
        accelerator = self.accelerator
        size = self.num_generations if self.model.training else self.num_generations_eval
        outcomes = (array(self._rewards) * array(self.reward_weights)).astype(float)
        alone = np.isnan(outcomes).all(axis=1)
        total = np.where(alone, np.nan, np.nansum(outcomes, axis=1))
        masks, columns = [array(mask)], self._columns
        if accelerator.num_processes > 1:
            gather = installed("accelerate.utils", "accelerate").gather_object
            masks = gather(masks)
            columns = {name: gather(values) for name, values in columns.items()}
        width = max(part.shape[1] for part in masks)
        trained = np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in masks])
        method, options = self._credit
        batch = Batch(
            rewards_on(trained, total, columns.get("turn_rewards")),
            trained,
            np.arange(len(trained)) // size,
            agents=columns.get("agents"),
        )
        answer = token_advantages(batch, method, **options)
        rows, tokens = mask.shape
        mine = slice(accelerator.process_index * rows, (accelerator.process_index + 1) * rows)
        return Assigned(answer.advantages[mine, :tokens], answer.credited[mine, :tokens])


def rewards_on(
    mask: "np.ndarray[Any, Any]", outcomes: "np.ndarray[Any, Any]", by_turn: list[list[float]] | None
) -> "np.ndarray[Any, Any]":
    """Rewards of tokens, (rows, tokens): of a row on its last trained token, or of each turn on its last one.

    Parameters
    ----------
    mask
        (rows, tokens), 1 where a token is trained. A run of them is a turn.
    outcomes
        (rows,), NaN where it is unknown.
    by_turn
        Of each row what its turns earned. The last one gets what is left of the outcome.

    Raises
    ------
    ParameterError
        A row has more or fewer turns.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.trainers.trl import rewards_on
    >>> rewards_on(np.array([[1, 1, 0, 1]]), np.array([1.0]), [[0.25, 0.5]]).tolist()
    [[0.0, 0.25, 0.0, 0.75]]
    """
    trained = mask > 0
    rewards = np.zeros(trained.shape)
    ends = trained & ~np.pad(trained[:, 1:], ((0, 0), (0, 1)))
    for row, outcome in enumerate(outcomes):
        places = np.flatnonzero(ends[row])
        last = places[-1] if places.size else -1
        earned = [] if by_turn is None else list(by_turn[row])
        if by_turn is not None and places.size and len(earned) != places.size:
            raise ParameterError(
                f"turn_rewards has {len(earned)} numbers for row {row}, its mask has {places.size} turns"
            )
        # of a row of which nothing is trained only the whole counts
        rewards[row, places] = earned[: places.size] or 0.0
        rewards[row, last] += outcome - rewards[row].sum()
    return rewards
