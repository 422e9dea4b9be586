"""Every method of `credit` as an advantage estimator of SkyRL.

SkyRL loads no plug-ins: one line of your entry point registers them, one line of the configuration chooses
one::

    orchestrace.trainers.skyrl.register(dr_mas={"compat": "verl"})  # before ray.init
    trainer.algorithm.advantage_estimator=orchestrace_dr_mas

An estimator sees rewards, masks and prompts. In step-wise training SkyRL shows it the last step of each
trajectory and repeats the answer; with `WithSteps` every step gets the number of its own.
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

import numpy as np

from ..base.errors import ParameterError
from ..base.schema import unknown_name
from .batches import PREFIX, Batch, array, estimators, installed, token_advantages

_REGISTRY: Final = "skyrl.backends.skyrl_train.utils.ppo_utils"
_steps: ContextVar[Any] = ContextVar("steps", default=None)
_options: dict[str, Mapping[str, Any]] = {}


def estimator(method: str, **options: Any) -> Callable[..., tuple[Any, Any]]:
    """An estimator in the shape that SkyRL calls.

    Parameters
    ----------
    method
        One of `list_methods`.
    **options
        Options of `orchestrace.trainers.batches.token_advantages` and parameters of the method.

    Returns
    -------
    callable
        Of ``token_level_rewards`` and ``response_mask``, (rows, tokens), and ``index``, (rows,); it gives
        ``(advantages, returns)``, (rows, tokens), which are one tensor.

    Examples
    --------
    >>> from orchestrace.trainers import skyrl
    >>> skyrl.estimator("rloo").__name__
    'orchestrace_rloo'
    """

    def estimate(token_level_rewards: Any, response_mask: Any, index: Any, **_: Any) -> tuple[Any, Any]:
        if (of_last_steps := _steps.get()) is not None:
            return of_last_steps, of_last_steps
        batch = Batch(array(token_level_rewards), array(response_mask), index)
        assigned = token_advantages(batch, method, **options)
        if not assigned.credited.all():
            response_mask.mul_(response_mask.new_tensor(assigned.credited))
        advantages = token_level_rewards.new_tensor(assigned.advantages)
        return advantages, advantages

    estimate.__name__ = estimate.__qualname__ = PREFIX + method
    return estimate


def register(**options: Mapping[str, Any]) -> list[str]:
    """Register an estimator for each method.

    Parameters
    ----------
    **options
        By method, what `estimator` takes: ``register(grpo={"ddof": 0})``.

    Returns
    -------
    list of str
        The names that ``trainer.algorithm.advantage_estimator`` may have.

    Raises
    ------
    ParameterError
        SkyRL is not installed, or a method is unknown.
    """
    methods = estimators()
    if unknown := sorted(options.keys() - set(methods)):
        raise ParameterError(unknown_name("method", unknown[0], methods))
    registry = installed(_REGISTRY, "skyrl").AdvantageEstimatorRegistry
    registered = set(registry.list_available())
    _options.update(options)
    for method in methods:
        if PREFIX + method not in registered:
            registry.register(PREFIX + method, estimator(method, **options.get(method, {})))
    return [PREFIX + method for method in methods]


class WithSteps:
    """Mix into SkyRL's trainer: in step-wise training every step gets the advantage of its own turn::

        class TeamTrainer(WithSteps, RayPPOTrainer): ...

    A trajectory is the rows up to one with ``is_last_step``. Who acted is ``data.metadata["agents"]``,
    (rows,), where your generator puts it there.
    """

    cfg: Any

    def compute_advantages_and_returns(self, data: Any) -> Any:
        """Of a batch of steps, what SkyRL computes, with advantages by step."""
        parent = super().compute_advantages_and_returns  # type: ignore[misc]
        name = str(self.cfg.trainer.algorithm.advantage_estimator)
        if not (name.startswith(PREFIX) and self.cfg.generator.step_wise_trajectories):
            return parent(data)
        method = name.removeprefix(PREFIX)
        last = np.asarray(data.metadata["is_last_step"], dtype=bool)
        trajectory = np.concatenate([[0], np.cumsum(last)[:-1]])
        batch = Batch(
            array(data["rewards"]),
            array(data["response_mask"]),
            data.metadata["uids"],
            rollouts=trajectory,
            agents=data.metadata.get("agents"),
        )
        assigned = token_advantages(batch, method, **_options.get(method, {}))
        by_step = data["rewards"].new_tensor(assigned.advantages)
        token = _steps.set(by_step[last.nonzero()[0].tolist()])
        try:
            data = parent(data)
        finally:
            _steps.reset(token)
        data["advantages"] = data["returns"] = by_step
        return data
