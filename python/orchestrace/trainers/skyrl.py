"""Every method of `credit` as an advantage estimator of SkyRL.

SkyRL loads no plug-ins: one line of your entry point registers them, one line of the configuration chooses
one::

    orchestrace.trainers.skyrl.register(dr_mas={"compat": "verl"})  # before ray.init
    trainer.algorithm.advantage_estimator=orchestrace_dr_mas

An estimator sees rewards, masks and prompts. In step-wise training SkyRL shows it the last step of each
trajectory and repeats the answer; with `WithSteps` every step gets the number of its own.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import polars as pl

from ..base.errors import ParameterError
from .batch import Batch
from .batches import PREFIX, array, estimators, installed, token_advantages

_REGISTRY: Final = "skyrl.backends.skyrl_train.utils.ppo_utils"
_last_steps: ContextVar[Any] = ContextVar("last_steps", default=None)
"""What the last steps of a batch get, while SkyRL asks for them."""


@dataclass(frozen=True)
class Estimator:
    """A method in the shape that SkyRL calls, which its workers can be sent.

    Parameters
    ----------
    method
        One of `list_methods`.
    options
        Options of `orchestrace.trainers.batches.token_advantages` and parameters of the method.

    Examples
    --------
    >>> from orchestrace.trainers import skyrl
    >>> skyrl.Estimator("rloo", {"compat": "verl"}).method
    'rloo'
    """

    method: str
    options: dict[str, Any] = field(default_factory=dict)

    def __call__(self, token_level_rewards: Any, response_mask: Any, index: Any, **_: Any) -> tuple[Any, Any]:
        """``(advantages, returns)``, one tensor, (rows, tokens), of rewards and masks of that shape.

        Raises
        ------
        ParameterError
            Rows have no advantage; SkyRL shows an estimator no mask of the loss that could leave them out.
        """
        if (advantages := _last_steps.get()) is None:
            batch = Batch(array(token_level_rewards), array(response_mask), index)
            options = self.options | {"null": "error"}
            advantages = token_level_rewards.new_tensor(token_advantages(batch, self.method, **options)[0])
        return advantages, advantages


def register(**options: Mapping[str, Any]) -> list[str]:
    """Register an estimator for each method.

    Parameters
    ----------
    **options
        By method, the options of its `Estimator`: ``register(grpo={"ddof": 0})``.

    Returns
    -------
    list of str
        The names that ``trainer.algorithm.advantage_estimator`` may have.

    Raises
    ------
    ParameterError
        SkyRL is not installed, a method is unknown, or is registered with other options already.
    """
    registry = installed(_REGISTRY, "skyrl").AdvantageEstimatorRegistry
    registered = set(registry.list_available())
    chosen = estimators(options)
    for method, of_method in chosen.items():
        name = PREFIX + method
        if name not in registered:
            registry.register(name, Estimator(method, of_method))
        elif method in options and registry.get(name).options != of_method:
            raise ParameterError(f"{name} is registered with {registry.get(name).options}: register it once")
    return [PREFIX + method for method in chosen]


def table(data: Any, **columns: Any) -> pl.DataFrame:
    """The rows of a batch, as ``audit(..., trainer="skyrl")`` reads them.

    Parameters
    ----------
    data
        What ``compute_advantages_and_returns`` of SkyRL's trainer gives. What ``dump_data_batch`` writes has
        neither rewards nor prompts any more.
    **columns
        More of each row, or one value for all: ``step=3``.

    Returns
    -------
    DataFrame
        ``uids rewards response_mask advantages``, lists of tokens, and ``is_last_step`` in step-wise
        training; without the rows that fill the batch up.
    """
    n = len(data.metadata["uids"]) - data.metadata.get("pad_size", 0)
    columns_of = {name: data.metadata[name][:n] for name in ("uids", "is_last_step") if name in data.metadata}
    tokens = ("rewards", "response_mask", "advantages")
    return pl.DataFrame({**columns_of, **{name: array(data[name])[:n] for name in tokens}, **columns})


class WithSteps:
    """Mix into SkyRL's trainer: in step-wise training every step gets the advantage of its own turn::

        class TeamTrainer(WithSteps, RayPPOTrainer): ...

    A trajectory is the rows up to one with ``is_last_step``. Who acted is ``data.metadata["agents"]``,
    (rows,), where your generator puts it there. With ``null="mask"`` steps without an advantage leave the
    ``loss_mask``.
    """

    cfg: Any

    def compute_advantages_and_returns(self, data: Any) -> Any:
        """Of a batch of steps, what SkyRL computes, with advantages by step."""
        parent = super().compute_advantages_and_returns  # type: ignore[misc]
        name = str(self.cfg.trainer.algorithm.advantage_estimator)
        if not (name.startswith(PREFIX) and self.cfg.generator.step_wise_trajectories):
            return parent(data)
        estimator = installed(_REGISTRY, "skyrl").AdvantageEstimatorRegistry.get(name)
        is_last = np.asarray(data.metadata["is_last_step"], dtype=bool)
        batch = Batch(
            array(data["rewards"]),
            array(data["response_mask"]),
            data.metadata["uids"],
            rollouts=np.concatenate([[0], np.cumsum(is_last)[:-1]]),
            agents=data.metadata.get("agents"),
        )
        assigned = token_advantages(batch, estimator.method, **estimator.options)
        by_step = data["rewards"].new_tensor(assigned.advantages)
        token = _last_steps.set(by_step[np.flatnonzero(is_last).tolist()])
        try:
            data = parent(data)
        finally:
            _last_steps.reset(token)
        data["advantages"] = data["returns"] = by_step
        if not assigned.credited.all():
            data["loss_mask"] = data["loss_mask"] * data["loss_mask"].new_tensor(assigned.credited)
        return data
