"""Advantages on plain arrays: no recording, no units, one number per row.

The rules are those of `credit` (``grpo``, ``dr_grpo``, ``rloo``, ``gdpo``, ``dr_mas``, ``gae``,
``return_to_go``), for rewards that a training loop has in its hands. Arrays of NumPy, Series of Polars and
whatever else `polars.Series` takes without copying go in; a Series comes out, whose ``to_numpy()`` shares its
memory.

>>> import orchestrace as ot
>>> ot.trainers.advantages.rloo([1.0, 0.0, 0.0, 1.0], groups=[7, 7, 7, 9]).to_list()
[1.0, -0.5, -0.5, 0.0]
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from .. import _core
from ..base.arguments import Amount, Discount, Number
from ..base.checks import expect
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.verbs import verb
from ..credit.decoupled import TRL_EPSILON, decoupled

Numbers = pl.Series | NDArray[np.floating[Any]] | NDArray[np.integer[Any]] | Sequence[float]
Codes = pl.Series | NDArray[np.integer[Any]] | Sequence[int] | Sequence[str]

Compat = Literal["verl"] | None


@verb
def grpo(
    rewards: "Numbers",
    groups: "Codes",
    *,
    ddof: Literal[0, 1] = 1,
    epsilon: Amount = 1e-6,
    compat: Compat = None,
    threads: int | None = None,
) -> pl.Series:
    """Rewards less the mean of their group, divided by its standard deviation.

    Parameters
    ----------
    rewards
        (rollouts,), finite numbers.
    groups
        (rollouts,), what distinguishes the groups: whole numbers or text.
    ddof
        1 divides the squares by n - 1, 0 by n.
    epsilon
        Added to the standard deviation; 0 or more.
    compat
        ``"verl"``: a group of one keeps its reward, divided by 1 + epsilon, as in the released code. None: it
        gets 0.
    threads
        None: the machine's cores. The numbers do not depend on it.

    Returns
    -------
    Series
        ``advantage``, Float64, (rollouts,), in the order of `rewards`. Exactly 0 in a group whose rewards are
        all equal, that is, differ by less than 1e-12 of the largest of them.

    Raises
    ------
    ParameterError
        Lengths differ, a reward is null or no finite number, a group is null, an option is out of range.

    Notes
    -----
    O(rollouts), two passes in 64-bit floats; O(rollouts log rollouts) where codes are far apart or numbers
    beyond 1e±120.

    Source: DeepSeekMath, arXiv 2402.03300, eq. 3.

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.trainers.advantages.grpo([1.0, 0.0, 1.0, 0.0], groups=["a", "a", "a", "b"]).round(3).to_list()
    [0.577, -1.155, 0.577, 0.0]
    """
    return _relative(
        rewards, groups, scale="deviation", ddof=ddof, epsilon=epsilon, compat=compat, threads=threads
    )


@verb
def dr_grpo(
    rewards: "Numbers", groups: "Codes", *, compat: Compat = None, threads: int | None = None
) -> pl.Series:
    """Rewards less the mean of their group; arguments, result and errors as of `grpo`.

    Source: Dr. GRPO, arXiv 2503.20783. O(rollouts).

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.trainers.advantages.dr_grpo([1.0, 0.0, 5.0], groups=[0, 0, 1]).to_list()
    [0.5, -0.5, 0.0]
    """
    return _relative(rewards, groups, scale="none", compat=compat, threads=threads)


@verb
def rloo(
    rewards: "Numbers", groups: "Codes", *, compat: Compat = None, threads: int | None = None
) -> pl.Series:
    """Rewards less the mean of the others of their group; arguments, result and errors as of `grpo`.

    Source: RLOO, arXiv 2402.14740. O(rollouts).

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.trainers.advantages.rloo([1.0, 0.0, 0.0], groups=[3, 3, 3]).to_list()
    [1.0, -0.5, -0.5]
    """
    return _relative(rewards, groups, scale="others", compat=compat, threads=threads)


@verb
def gdpo(
    rewards: "Mapping[str, Numbers]",
    groups: "Codes",
    *,
    weights: Mapping[str, float] | None = None,
    batches: "Codes | Literal[False] | None" = None,
    ddof: Literal[0, 1] = 1,
    epsilon: Amount = 1e-6,
    batch_ddof: Literal[0, 1] = 0,
    compat: Literal["trl"] | None = None,
    threads: int | None = None,
) -> pl.Series:
    """Several rewards, each normalized within its group by itself, added up, and normalized over the batch.

    Parameters
    ----------
    rewards
        Of each reward its numbers, (rollouts,). A null or NaN is a reward that a rollout does not have: it is
        left out of that reward's mean and of its own sum.
    groups
        (rollouts,), as of `grpo`.
    weights
        Of each reward; 1 where none is given.
    batches
        (rollouts,), what distinguishes the batches. None: all rollouts are one. False: sums stay as they are.
    ddof, epsilon
        As of `grpo`, within groups; `epsilon` is added to the deviation of the batch, too.
    batch_ddof
        The same as `ddof`, of the batch.
    compat
        ``"trl"``: `epsilon` is 1e-4 and `batch_ddof` 1, as in its ``normalize_then_sum``.
    threads
        None: the machine's cores. The numbers do not depend on it.

    Returns
    -------
    Series
        ``advantage``, Float64, (rollouts,). Exactly 0 in a group in which no reward has spread, null for a
        rollout without any reward.

    Raises
    ------
    ParameterError
        No reward, lengths that differ, an infinite reward, a weight of no reward, an option out of range.

    Notes
    -----
    O(rewards · rollouts). Source: GDPO, arXiv 2601.05242, section 3.

    Examples
    --------
    >>> import orchestrace as ot
    >>> rewards = {"easy": [0.0, 1.0, 0.0, 1.0], "hard": [0.0, 0.0, 0.0, 1.0]}
    >>> ot.trainers.advantages.gdpo(rewards, ["P", "P", "Q", "Q"], batches=False).round(3).to_list()
    [-0.707, 0.707, -1.414, 1.414]
    """
    if not isinstance(rewards, Mapping) or not rewards:
        raise ParameterError("rewards names no reward, expected arrays by name: {'correct': [1.0, 0.0]}")
    weight_of = {} if weights is None else dict(weights)
    if unknown := [name for name in weight_of if name not in rewards]:
        raise ParameterError(unknown_name("reward in weights", str(unknown[0]), list(rewards)))
    for name, weight in weight_of.items():
        expect(f"weights[{name!r}]", weight, Number())
    columns = [_numbers(str(name), numbers).fill_null(float("nan")) for name, numbers in rewards.items()]
    labels = [_codes("groups", groups)]
    if batches is not None and batches is not False:
        labels.append(_codes("batches", batches))
    frame = _frame([*columns, *labels])
    if frame.select(pl.col(label.name).null_count() for label in labels).sum_horizontal().item():
        raise ParameterError("groups or batches has a null, expected none")
    for column in columns:
        if column.is_infinite().any():
            raise ParameterError(f"reward '{column.name}' has an infinite number, expected finite ones")
    codes = [label.to_numpy().astype(np.int64) for label in labels]
    single_batch = np.zeros(frame.height, np.int64)
    trl = compat == "trl"
    values, _ = decoupled(
        [column.to_numpy() for column in columns],
        [float(weight_of.get(name, 1.0)) for name in rewards],
        codes[0],
        None if batches is False else codes[1] if len(codes) > 1 else single_batch,
        ddof=ddof,
        epsilon=TRL_EPSILON if trl else epsilon,
        batch_ddof=1 if trl else batch_ddof,
        threads=threads,
    )
    return pl.Series("advantage", values).fill_nan(None)


@verb
def dr_mas(
    rewards: "Numbers",
    groups: "Codes",
    rollouts: "Codes",
    agents: "Codes",
    *,
    ddof: Literal[0, 1] = 1,
    epsilon: Amount = 1e-6,
    compat: Compat = None,
    threads: int | None = None,
) -> pl.Series:
    """Rewards less the mean over the rows of one agent in a group, divided by their standard deviation.

    Parameters
    ----------
    rewards, groups
        (rollouts,), as of `grpo`.
    rollouts
        (rows,), whole numbers: place of each row's rollout in `rewards`. A row is a turn or a step.
    agents
        (rows,), whole numbers or text: who acted in each row.
    ddof, epsilon, compat, threads
        As of `grpo`.

    Returns
    -------
    Series
        ``advantage``, Float64, (rows,).

    Raises
    ------
    ParameterError
        As of `grpo`; a rollout is no place in `rewards`.

    Notes
    -----
    O(rollouts + rows). Source: Dr. MAS, arXiv 2602.08847.

    Examples
    --------
    >>> import orchestrace as ot
    >>> rows = {"rollouts": [0, 0, 1, 1], "agents": ["lead", "coder", "lead", "lead"]}
    >>> ot.trainers.advantages.dr_mas([1.0, 0.0], [0, 0], **rows).round(3).to_list()
    [1.155, 0.0, -0.577, -0.577]
    """
    rows = _frame([_codes("rollouts", rollouts), _codes("agents", agents)])
    return _relative(
        rewards,
        groups,
        rows=rows,
        scale="deviation",
        ddof=ddof,
        epsilon=epsilon,
        compat=compat,
        threads=threads,
    )


@verb
def gae(
    rewards: "Numbers",
    values: "Numbers",
    offsets: "Codes",
    *,
    order: "Codes | None" = None,
    gamma: Discount = 0.99,
    lambda_: Discount = 0.95,
    threads: int | None = None,
) -> pl.Series:
    """Generalized advantages along sequences of rows.

    Parameters
    ----------
    rewards
        (rows,): what each step earned, the outcome on the last one of its sequence. Finite numbers.
    values
        (rows,): the critic's estimate before each step. After the last step of a sequence it is 0.
    offsets
        (sequences + 1,), whole numbers: where each sequence begins among the rows; the last number is the
        number of rows.
    order
        (rows,), whole numbers: the rows in the order of time, sequence by sequence. None: as they stand.
    gamma, lambda_
        Discount and mixing, 0 to 1.
    threads
        None: the machine's cores. The numbers do not depend on it.

    Returns
    -------
    Series
        ``advantage``, Float64, (rows,), in the order of `rewards`, whatever `order` is.

    Raises
    ------
    ParameterError
        Lengths differ, `offsets` do not ascend from 0 to the number of rows, `order` has a row twice or in a
        sequence of another, there are nulls or numbers that are not finite, an option is out of range.

    Notes
    -----
    O(rows). Source: arXiv 1506.02438, eq. 16.

    Examples
    --------
    >>> import orchestrace as ot
    >>> rewards, values = [0.0, 1.0, 1.0], [0.5, 0.5, 0.0]
    >>> advantages = ot.trainers.advantages.gae(rewards, values, offsets=[0, 2, 3], gamma=1.0, lambda_=1.0)
    >>> advantages.to_list()
    [0.5, 0.5, 1.0]
    """
    rows = _frame([_numbers("rewards", rewards), _numbers("values", values)])
    return _along(rows, offsets, order, gamma, gamma * lambda_, threads)


@verb
def return_to_go(
    rewards: "Numbers",
    offsets: "Codes",
    *,
    order: "Codes | None" = None,
    gamma: Discount = 0.99,
    threads: int | None = None,
) -> pl.Series:
    """Discounted sums of the rewards from each row on; arguments, result and errors as of `gae`.

    Source: Sutton & Barto 2018, section 3.3. O(rows).

    Examples
    --------
    >>> import orchestrace as ot
    >>> ot.trainers.advantages.return_to_go([0.0, 1.0, 2.0], offsets=[0, 2, 3], gamma=0.5).to_list()
    [0.5, 1.0, 2.0]
    """
    return _along(_frame([_numbers("rewards", rewards)]), offsets, order, gamma, gamma, threads)


def _relative(
    rewards: "Numbers",
    groups: "Codes",
    *,
    rows: pl.DataFrame | None = None,
    scale: Literal["deviation", "none", "others"],
    ddof: int = 1,
    epsilon: float = 0.0,
    compat: Compat,
    threads: int | None,
) -> pl.Series:
    frame = _frame([_numbers("rewards", rewards), _codes("groups", groups)])
    values = _core.relative(
        frame, rows=rows, scale=scale, ddof=ddof, epsilon=epsilon, lone=compat == "verl", threads=threads
    )
    return pl.DataFrame(values).to_series()


def _along(
    rows: pl.DataFrame,
    offsets: "Codes",
    order: "Codes | None",
    gamma: float,
    fading: float,
    threads: int | None,
) -> pl.Series:
    values = _core.generalized(
        rows,
        pl.DataFrame([_integers("offsets", offsets)]),
        None if order is None else pl.DataFrame([_integers("order", order)]),
        gamma=gamma,
        fading=fading,
        threads=threads,
    )
    return pl.DataFrame(values).to_series()


def _frame(columns: list[pl.Series]) -> pl.DataFrame:
    first = columns[0]
    for column in columns[1:]:
        if len(column) != len(first):
            raise ParameterError(
                f"{column.name} has {len(column):,} rows, {first.name} {len(first):,}: expected as many"
            )
    return pl.DataFrame(columns)


def _series(name: str, values: "Numbers | Codes") -> pl.Series:
    _core.check_process()
    try:
        if isinstance(values, pl.Series):
            return values.alias(name)
        try:
            return pl.Series(name, values)
        except TypeError:  # numbers of several kinds: [0, 0.5, True]
            return pl.Series(name, np.asarray(values, dtype=float))
    except (TypeError, ValueError, pl.exceptions.PolarsError) as error:
        raise ParameterError(f"{name} is not an array of one dimension: {error}") from None


def _numbers(name: str, values: "Numbers") -> pl.Series:
    series = _series(name, values)
    if not series.dtype.is_numeric() and len(series):
        raise ParameterError(f"{name} has type {series.dtype}, expected numbers")
    return series if series.dtype == pl.Float64 else series.cast(pl.Float64)


def _integers(name: str, values: "Codes") -> pl.Series:
    series = _series(name, values)
    if series.dtype == pl.Int64:
        return series
    if not series.dtype.is_integer() and len(series):
        raise ParameterError(f"{name} has type {series.dtype}, expected whole numbers")
    try:
        return series.cast(pl.Int64)
    except pl.exceptions.PolarsError:
        raise ParameterError(f"{name} has a number beyond 64 bits") from None


def _codes(name: str, values: "Codes") -> pl.Series:
    """Small codes for what distinguishes groups; nulls stay, and are refused by the core."""
    series = _series(name, values)
    if not len(series):
        return series.cast(pl.UInt32)
    if series.dtype == pl.UInt32 or (series.dtype == pl.Int32 and not (series < 0).any()):
        return series
    if series.dtype.is_integer():
        narrow = series.cast(pl.UInt32, strict=False)
        if narrow.null_count() == series.null_count():
            return narrow
        if name == "rollouts":
            raise ParameterError("rollouts has a number that is not a position in rewards")
    elif not isinstance(series.dtype, pl.String | pl.Categorical | pl.Enum):
        if series.null_count() == len(series):
            raise ParameterError(f"{name} has {len(series):,} nulls, expected none")
        raise ParameterError(f"{name} has type {series.dtype}, expected whole numbers or text")
    return (series.rank("dense") - 1).cast(pl.UInt32)
