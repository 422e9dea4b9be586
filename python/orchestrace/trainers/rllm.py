"""Credit in rLLM: advantages of steps, from the episodes of a workflow.

Where steps have advantages, ``rllm.algorithm.use_precomputed_advantage=true`` trains with them. `assign`
gives them to all episodes of a batch. `register` adds each method as an estimator of trajectories by role::

    rllm.algorithm.adv_estimator=orchestrace_opo
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from .batch import Batch
from .batches import PREFIX, estimators, installed, token_advantages

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
    steps = [
        (episode, path, step)
        for episode, live in enumerate(episodes)
        for path in live.trajectories
        for step in path.steps
    ]
    of_episode = [episode for episode, _, _ in steps]
    if options.get("rewards") == "turn":
        rewards = [_number(step.reward) for _, _, step in steps]
    else:  # the outcome is what the last step earned
        is_last = np.diff(of_episode, append=-1) != 0
        rewards = [
            _outcome(episodes[at]) if last else 0.0 for at, last in zip(of_episode, is_last, strict=True)
        ]
    if groups is None:
        groups = [str(live.id).rpartition(":")[0] or str(live.id) for live in episodes]
    batch = Batch.of_lengths(
        np.array(rewards),
        [len(step.response_ids) for _, _, step in steps],
        [groups[episode] for episode in of_episode],
        rollouts=of_episode,
        agents=[str(path.name) for _, path, _ in steps],
    )
    assigned = token_advantages(batch, method, **options)
    credits = assigned.advantages[:, 0].tolist()
    is_credited = assigned.credited[:, 0]
    for (_, _, step), credit, is_known in zip(steps, credits, is_credited, strict=True):
        step.advantage = credit if is_known else None
    return int(is_credited.sum())


def estimator(method: str, **options: Any) -> Callable[..., tuple[list[Any], list[Any]]]:
    """An estimator in the shape that rLLM calls: rewards of trajectories by group, of one role.

    Parameters
    ----------
    method
        One of `list_methods`.
    **options
        As of `assign`. A trajectory without an advantage is an error: rLLM has no way to leave it out.

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
        paths = [path for group in traj_groups or [] for path in group.trajectories]
        lengths = [sum(len(step.response_ids) for step in path.steps) for path in paths] or [1] * sum(sizes)
        earned = np.concatenate([np.empty(0), *rewards])
        batch = Batch.of_lengths(earned, np.maximum(lengths, 1), np.repeat(np.arange(len(sizes)), sizes))
        values = token_advantages(batch, method, **options | {"null": "error"}).advantages[:, 0]
        answer = np.split(values.astype(float), np.cumsum(sizes)[:-1])
        return answer, answer

    estimate.__name__ = estimate.__qualname__ = PREFIX + method
    return estimate


def register(**options: Mapping[str, Any]) -> list[str]:
    """Register an estimator for each method; by method, the options that `estimator` takes.

    Raises
    ------
    ParameterError
        rLLM is not installed, or a method is unknown.
    """
    module = installed(_REGISTRY, "rllm")
    adder = getattr(module, "register_adv_estimator", None) or module.register_rllm_adv_estimator
    chosen = estimators(options)
    for method, of_method in chosen.items():
        adder(PREFIX + method)(estimator(method, **of_method))
    return [PREFIX + method for method in chosen]


def _outcome(episode: Any) -> float:
    rewards = [path.reward for path in episode.trajectories if path.reward is not None]
    return _number(rewards[-1] if rewards else None)


def _number(reward: float | None) -> float:
    return float("nan") if reward is None else float(reward)
