"""Every method of `credit` as an advantage estimator of verl.

Where both are installed, verl loads this module by its entry point ``verl.plugins``. One line of its
configuration chooses a method, others give parameters::

    algorithm.adv_estimator=orchestrace_dr_grpo
    +algorithm.orchestrace.compat=verl

verl 0.9.1 passes rewards, masks and prompts to an estimator. Agents, turns and episodes reach it where the
trainer passes ``non_tensor_batch``, or mixes in `WithSessions`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import polars as pl

from ..base.errors import ParameterError
from .batch import COLUMNS, Batch
from .batches import PREFIX, array, estimators, installed, token_advantages

_CORE: Final = "verl.trainer.ppo.core_algos"
_columns: ContextVar[Mapping[str, Any] | None] = ContextVar("columns", default=None)


def estimator(method: str) -> Callable[..., tuple[Any, Any]]:
    """An estimator in the shape that verl calls.

    Parameters
    ----------
    method
        One of `list_methods`.

    Returns
    -------
    callable
        Of ``token_level_rewards`` and ``response_mask``, (rows, tokens), and ``index``, (rows,); it gives
        ``(advantages, returns)``, (rows, tokens), which are one tensor. Options of `token_advantages` and
        parameters of the method are those of ``config.orchestrace``. Rows without an advantage are an error,
        or, with ``null: mask``, are taken out of ``response_mask`` where it stands.

    Examples
    --------
    >>> from orchestrace.trainers import verl
    >>> verl.estimator("dr_mas").__name__
    'orchestrace_dr_mas'
    """

    def estimate(
        token_level_rewards: Any,
        response_mask: Any,
        index: Any = None,
        config: Any = None,
        non_tensor_batch: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> tuple[Any, Any]:
        if index is None:
            raise ParameterError(f"{PREFIX}{method} needs to know the prompt of each row: verl passed no uid")
        columns = {**(_columns.get() or {}), **(non_tensor_batch or {})}
        batch = Batch.with_columns(array(token_level_rewards), array(response_mask), index, columns)
        assigned = token_advantages(batch, method, **settings(config))
        if not assigned.credited.all():
            response_mask.mul_(response_mask.new_tensor(assigned.credited))
        advantages = token_level_rewards.new_tensor(assigned.advantages)
        return advantages, advantages

    estimate.__name__ = estimate.__qualname__ = PREFIX + method
    return estimate


def settings(config: Any) -> dict[str, Any]:
    """What ``algorithm.orchestrace`` of a configuration says.

    Examples
    --------
    >>> from orchestrace.trainers import verl
    >>> verl.settings({"gamma": 1.0, "orchestrace": {"ddof": 0}}), verl.settings(None)
    ({'ddof': 0}, {})
    """
    chosen = config.get("orchestrace", None) if config is not None else None
    return {str(name): value for name, value in chosen.items()} if chosen else {}


def register() -> list[str]:
    """Register an estimator for each method; again changes nothing.

    Returns
    -------
    list of str
        The names that ``algorithm.adv_estimator`` may have.

    Raises
    ------
    ParameterError
        verl is not installed.
    """
    core = installed(_CORE, "verl")
    for method in estimators():
        if PREFIX + method not in core.ADV_ESTIMATOR_REGISTRY:
            core.register_adv_est(PREFIX + method)(estimator(method))
    return [PREFIX + method for method in estimators()]


@contextmanager
def rows_of(columns: Mapping[str, Any]) -> Iterator[None]:
    """Say of rows that are estimated inside what verl does not pass: ``episode_id turn_id agent trainable``.

    Examples
    --------
    >>> from orchestrace.trainers import verl
    >>> with verl.rows_of({"episode_id": ["a", "a"], "agent": ["lead", "coder"]}):
    ...     pass  # compute_advantage(...)
    """
    token = _columns.set(columns)
    try:
        yield
    finally:
        _columns.reset(token)


def sessions(keys: list[str], extra_fields: list[Any] | None = None) -> dict[str, Any]:
    """What the keys of a batch say, ``{uid}_{session}_{index}``, and the extra fields of an agent loop.

    Raises
    ------
    ParameterError
        A key is of another form.

    Examples
    --------
    >>> from orchestrace.trainers import verl
    >>> verl.sessions(["p_0_0", "p_0_1", "p_1_0"])
    {'episode_id': ['p_0', 'p_0', 'p_1'], 'turn_id': [0, 1, 0]}
    """
    parts = [key.rsplit("_", 2) for key in keys]
    for key, part in zip(keys, parts, strict=True):
        if len(part) != 3 or not part[2].isdecimal():
            raise ParameterError(f"a row of verl has the key '{key}', expected uid_session_index")
    columns: dict[str, Any] = {
        "episode_id": [f"{uid}_{session}" for uid, session, _ in parts],
        "turn_id": [int(index) for _, _, index in parts],
    }
    extras = [getattr(extra, "data", extra) or {} for extra in extra_fields or []]
    for name in COLUMNS:
        if extras and all(name in extra for extra in extras):
            columns[name] = [extra[name] for extra in extras]
    return columns


def table(data: Any, **columns: Any) -> pl.DataFrame:
    """The rows of a batch, as ``audit(..., trainer="verl")`` reads them.

    Parameters
    ----------
    data
        A `DataProto` whose advantages are computed.
    **columns
        More of each row, or one value for all: ``step=3``.

    Returns
    -------
    DataFrame
        ``uid token_level_rewards response_mask advantages``, lists of tokens, and what an agent loop said of
        rows: ``episode_id turn_id agent trainable``.
    """
    tokens = ("token_level_rewards", "response_mask", "advantages")
    carried = {name: list(data.non_tensor_batch[name]) for name in COLUMNS if name in data.non_tensor_batch}
    rows = {"uid": list(data.non_tensor_batch["uid"])} | {name: array(data.batch[name]) for name in tokens}
    return pl.DataFrame(rows | carried | columns)


class WithSessions:
    """Mix into a trainer of verl's ``trainer.v1``, so that estimators know episodes, turns and agents::

        @register_trainer("team")
        class TeamTrainer(WithSessions, PPOTrainerSync): ...

    and ``trainer.v1.trainer_mode=team``. Agents are those that the agent loop puts into
    ``extra_fields["agent"]``.
    """

    def _compute_advantage(self, batch: Any, metrics: dict[str, Any]) -> Any:
        queue = installed("transfer_queue", "verl")
        fields = queue.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=["extra_fields"]
        )
        with rows_of(sessions(list(batch.keys), list(fields["extra_fields"]))):
            return super()._compute_advantage(batch, metrics)  # type: ignore[misc]


def __getattr__(name: str) -> Any:
    # What the entry point names: loading it is all that verl does.
    if name == "plugin":
        return register()
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
