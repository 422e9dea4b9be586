"""Credit in rLLM: advantages of steps, from the episodes of a workflow.

Where steps have advantages, ``rllm.algorithm.use_precomputed_advantage=true`` trains with them. `assign`
gives them to all episodes of a batch. `register` adds each method as an estimator of trajectories by role::

    rllm.algorithm.adv_estimator=orchestrace_opo
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from .batches import PREFIX, Batch, estimators, installed, token_advantages

_REGISTRY: Final = "rllm.trainer.algorithms.advantage"


def assign(
    episodes: Sequence[Any], method: str, *, groups: Sequence[object] | None = None, **options: Any
) -> int:
    """Give each step of the episodes its advantage.

    Parameters
    ----------
    episodes
        Live episodes: ``id``, ``trajectories`` with ``name``, ``reward`` and ``steps``. A rollout is an
        episode, who acted is the name of the trajectory, and the outcome is the reward of the last trajectory
        that has one.
    method
        One of `list_methods`.
    groups
        (episodes,), what is compared. None: the ``id`` up to its last colon, as rLLM makes it of the task.
    **options
        Options of `orchestrace.trainers.batches.token_advantages` and parameters of the method. With
        ``rewards="turn"`` each step has earned its ``reward``.

    Returns
    -------
    int
        Steps that have an advantage. A step without one keeps None, and rLLM refuses it.

    Examples
    --------
    >>> from types import SimpleNamespace as Made
    >>> from orchestrace.trainers import rllm
    >>> def episode(name, reward):
    ...     steps = [Made(response_ids=[1, 2], reward=0.0, advantage=None)]
    ...     return Made(id=name, trajectories=[Made(name="solver", reward=reward, steps=steps)])
    >>> episodes = [episode("task:0", 1.0), episode("task:1", 0.0)]
    >>> rllm.assign(episodes, "dr_grpo")
    2
    >>> episodes[0].trajectories[0].steps[0].advantage
    0.5
    """
    rows = [
        (number, path, step)
        for number, episode in enumerate(episodes)
        for path in episode.trajectories
        for step in path.steps
    ]
    if not rows:
        return 0
    keys = [str(episode.id).rpartition(":")[0] or str(episode.id) for episode in episodes]
    named = list(groups) if groups is not None else keys
    of_turn = options.get("rewards") == "turn"
    rewards = np.array([_earned(step) if of_turn else _outcome(episodes[at]) for at, _, step in rows])
    batch = Batch(
        rewards[:, None],
        np.array([[len(step.response_ids) > 0] for _, _, step in rows]),
        [named[at] for at, _, _ in rows],
        rollouts=[at for at, _, _ in rows],
        agents=[str(path.name) for _, path, _ in rows],
    )
    assigned = token_advantages(batch, method, **options)
    count = 0
    for (_, _, step), value, is_known in zip(
        rows, assigned.advantages[:, 0], assigned.credited[:, 0], strict=True
    ):
        step.advantage = float(value) if is_known else None
        count += bool(is_known)
    return count


def estimator(method: str, **options: Any) -> Callable[..., tuple[list[Any], list[Any]]]:
    """An estimator in the shape that rLLM calls: rewards of trajectories by group, of one role.

    Parameters
    ----------
    method
        One of `list_methods`.
    **options
        As of `assign`.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.trainers import rllm
    >>> rllm.estimator("dr_grpo")([np.array([1.0, 0.0]), np.array([1.0])])[0]
    [array([ 0.5, -0.5]), array([0.])]
    """

    def estimate(
        rewards: Sequence[Any], algorithm_config: Any = None, traj_groups: Any = None, **_: Any
    ) -> tuple[list[Any], list[Any]]:
        sizes = [len(group) for group in rewards]
        flat = np.concatenate([np.asarray(group, dtype=float) for group in rewards]) if sizes else np.empty(0)
        lengths = [
            max(1, sum(len(step.response_ids) for step in path.steps))
            for group in traj_groups or []
            for path in group.trajectories
        ] or [1] * len(flat)
        # Tokens count in methods that weigh rollouts by their length, and say nothing else here.
        mask = np.arange(max(lengths, default=1)) < np.array(lengths, dtype=np.int64)[:, None]
        earned = np.zeros(mask.shape)
        earned[:, 0] = flat
        batch = Batch(earned, mask, np.repeat(np.arange(len(sizes)), sizes))
        values = token_advantages(batch, method, **options).advantages[:, 0].astype(float)
        answer = np.split(values, np.cumsum(sizes)[:-1])
        return answer, answer

    estimate.__name__ = estimate.__qualname__ = PREFIX + method
    return estimate


def register(**options: Mapping[str, Any]) -> list[str]:
    """Register an estimator for each method; by method, the options that `estimator` takes.

    Raises
    ------
    ParameterError
        rLLM is not installed.
    """
    module = installed(_REGISTRY, "rllm")
    adder = getattr(module, "register_adv_estimator", None) or module.register_rllm_adv_estimator
    for method in estimators():
        adder(PREFIX + method)(estimator(method, **options.get(method, {})))
    return [PREFIX + method for method in estimators()]


def _outcome(episode: Any) -> float:
    rewards = [path.reward for path in episode.trajectories if path.reward is not None]
    return float(rewards[-1]) if rewards else float("nan")


def _earned(step: Any) -> float:
    return float("nan") if step.reward is None else float(step.reward)
