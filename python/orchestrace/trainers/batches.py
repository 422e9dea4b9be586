"""A batch of a trainer as a corpus: the credit of the offline engine, for each token that is trained.

Plug-ins of trainers hand their arrays to `token_advantages`. It makes a trace of each rollout and an event of
each turn, asks `credit`, and lays the answers over the tokens. So every method of `list_methods` can be
trained with, and its numbers are those that the recording of the same run gives.
"""

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..credit.verb import credit, list_methods
from . import advantages
from .batch import Batch, OutcomeOf, RewardsOf, TurnsOf
from .turn_layouts import Layout, Places, Rollouts, of_whole_rollouts

Nulls = Literal["error", "mask"]

_WORDS: Final = {
    "turns": ("row", "mask"),
    "outcome": ("last", "sum"),
    "rewards": ("rollout", "turn"),
    "null": ("error", "mask"),
}
PREFIX: Final = "orchestrace_"
"""Estimators of a trainer are called by the method, after this."""
_FROZEN: Final = "agent.frozen"
"""The reason of rows of agents that are not trained: that they get nothing is what was asked for."""

_ACROSS_BATCHES: Final = frozenset({"rae"})
"""Methods whose baseline goes on from batch to batch, so that a single one does not know it."""


_OF_OUTCOMES: Final = {"grpo": advantages.grpo, "dr_grpo": advantages.dr_grpo, "rloo": advantages.rloo}
"""Methods that read nothing but the outcome and the group of each rollout, as functions of arrays."""

_OF_ROLLOUTS: Final = frozenset({"opo", "maxrl", "pass_k", "reinforce_pp"})
"""Methods that read the outcome, the group and the trained tokens of each rollout, and none of its turns."""


class Assigned(NamedTuple):
    """Advantages of tokens, and which of them are known.

    Parameters
    ----------
    advantages
        (rows, tokens), Float32; 0 outside of the mask, and where nothing is known.
    credited
        (rows, tokens), False where the row has no advantage: such tokens have no part in the loss.
    """

    advantages: NDArray[np.float32]
    credited: NDArray[np.bool_]


def token_advantages(
    batch: Batch,
    method: str,
    *,
    turns: TurnsOf = "row",
    outcome: OutcomeOf = "last",
    rewards: RewardsOf = "rollout",
    null: Nulls = "error",
    **params: Any,
) -> Assigned:
    """The credit of a method for each token of a batch.

    Parameters
    ----------
    batch
        What the trainer holds.
    method
        One of `list_methods`.
    turns
        ``"row"``: a row is one turn. ``"mask"``: each run of trained tokens in a row is a turn.
    outcome
        Of a rollout with several rows: ``"last"`` is the reward of its last row, as trainers do that repeat
        it or put it there alone; ``"sum"`` is what all rows earned.
    rewards
        ``"rollout"``: methods divide the outcome. ``"turn"``: each turn has earned what stands on its tokens,
        for methods that read rewards of turns, as ``return_to_go``.
    null
        What is done where a method has no answer. ``"error"`` raises; ``"mask"`` leaves the row out of the
        loss.
    **params
        Parameters of the method, as of `credit`.

    Returns
    -------
    Assigned
        In the order of the batch.

    Raises
    ------
    ParameterError
        The method needs more than a batch, shapes differ, the rows of a rollout are of several groups, an
        option or parameter is unknown, or rows have no advantage and `null` is ``"error"``.

    Notes
    -----
    O(rows · tokens), and the cost of the method. Sums are in 64-bit floats, and rounded to 32 bits at the
    end.

    Examples
    --------
    >>> import numpy as np
    >>> from orchestrace.trainers.batch import Batch
    >>> from orchestrace.trainers.batches import token_advantages
    >>> rewards = np.array([[0, 0, 1.0], [0, 0.0, 0]])
    >>> batch = Batch(rewards, mask=[[1, 1, 1], [1, 1, 0]], groups=["a", "a"])
    >>> token_advantages(batch, "dr_grpo").advantages.tolist()
    [[0.5, 0.5, 0.5], [-0.5, -0.5, 0.0]]
    """
    check_method(method)
    chosen = {"turns": turns, "outcome": outcome, "rewards": rewards, "null": null}
    for name, value in chosen.items():
        if value not in _WORDS[name]:
            raise ParameterError(unknown_name(name, str(value), list(_WORDS[name])))
    rollouts = Rollouts(batch, outcome)
    if (direct := _of_rollouts(rollouts, batch, method, rewards, params)) is not None:
        assigned = np.zeros(rollouts.mask.shape, np.float32)
        np.copyto(assigned, direct[rollouts.of_row].astype(np.float32)[:, None], where=rollouts.mask)
        return Assigned(assigned, np.ones(rollouts.mask.shape, bool))
    layout = Layout(rollouts, turns)
    corpus = layout.corpus(batch, rewards)
    over: Literal["all", "trainable"] = "all" if batch.trainable is None else "trainable"
    table = credit(corpus, method=method, unit="event", over=over, **params)
    place = layout.place(table)
    values = np.full(layout.rows.size, np.nan)
    values[place] = table["credit"].to_numpy()
    unknown = table.filter(pl.col("credit").is_null() & (pl.col("reason").cast(pl.String) != _FROZEN))
    if null == "error" and unknown.height:
        raise ParameterError(_without(method, layout.rows[layout.place(unknown)], unknown))
    of_token = values[layout.turn_of_token]
    credited = ~np.isnan(of_token)
    return Assigned(np.where(layout.mask & credited, of_token, 0.0).astype(np.float32), credited)


def _of_rollouts(
    rollouts: Rollouts, batch: Batch, method: str, rewards: RewardsOf, params: dict[str, Any]
) -> NDArray[np.float64] | None:
    """The advantage of each rollout, (rollouts,), to the bits of `credit` on all turns: by its kernel on
    arrays, or on one event for each rollout.

    None where a method reads more than that, or something is wrong: `credit` says what of each row.
    """
    if rewards == "turn" or batch.agents is not None or batch.trainable is not None:
        return None
    if not rollouts.total.size or not np.isfinite(rollouts.total).all():
        return None
    if method in _OF_ROLLOUTS and params.get("length") != "events":
        table = credit(of_whole_rollouts(rollouts), method=method, unit="event", **params)
        credits = table["credit"]
        return None if credits.null_count() else credits.to_numpy()
    rule = _OF_OUTCOMES.get(method)
    if rule is None:
        return None
    try:
        values = rule(rollouts.total, rollouts.groups[rollouts.last_row], **params)
    except (ParameterError, TypeError):  # an option that it has not, or not so
        return None
    return values.to_numpy()


def _without(method: str, rows: Places, unknown: pl.DataFrame) -> str:
    reasons = ", ".join(sorted(set(unknown["reason"].cast(pl.String))))
    count = np.unique(rows).size
    return (
        f"{method} has no advantage for {count:,} of the rows, the first is row {rows.min()}: {reasons}. "
        "null='mask' leaves them out of the loss"
    )


def estimators(options: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, dict[str, Any]]:
    """The methods that answer for a turn, and so for its tokens, each with the options that somebody chose.

    Raises
    ------
    ParameterError
        Options are of no such method.

    Examples
    --------
    >>> from orchestrace.trainers.batches import estimators
    >>> chosen = estimators({"grpo": {"ddof": 0}})
    >>> chosen["grpo"], chosen["dr_mas"]
    ({'ddof': 0}, {})
    """
    chosen = options or {}
    of_events = list_methods().filter(pl.col("units").list.contains("event"))["name"].to_list()
    methods = [method for method in of_events if method not in _ACROSS_BATCHES]
    if unknown := sorted(set(chosen) - set(methods)):
        raise ParameterError(unknown_name("method", unknown[0], methods))
    return {method: dict(chosen.get(method, {})) for method in methods}


def check_method(method: str) -> None:
    """Refuse a method that one batch does not have the numbers of.

    Raises
    ------
    ParameterError
        The baseline of the method goes on from batch to batch.
    """
    if method in _ACROSS_BATCHES:
        message = f"method is '{method}', whose baseline goes on from batch to batch"
        raise ParameterError(f"{message}: no batch has its numbers, use ot.credit on the recorded run")


def array(tensor: Any) -> NDArray[Any]:
    """A tensor as an array, wherever it lies, in a type that NumPy has.

    Examples
    --------
    >>> from orchestrace.trainers.batches import array
    >>> array([[1, 0]]).shape
    (1, 2)
    """
    return np.asarray(tensor.detach().cpu().double().numpy() if hasattr(tensor, "detach") else tensor)


def installed(module: str, package: str) -> ModuleType:
    """A module of a trainer, imported now.

    Raises
    ------
    ParameterError
        The trainer is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if not module.startswith(str(error.name)):
            raise
        raise ParameterError(f"{package} is not installed here: pip install {package}") from None
