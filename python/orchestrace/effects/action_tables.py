"""A number for every action in every row: target policies and outcome models, however a caller gives them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import polars as pl

from ..base.arrays import Floats
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.text import briefly, plain
from ..decisions.rows import number

ByAction = Mapping[str, float | pl.Expr] | pl.DataFrame | str

MOST_ACTIONS: Final = 256
"""Actions of one kind of decision. More are texts, or names of runs: there is no overlap to weight by."""
_TOLERANCE: Final = 1e-6
"""How far the probabilities of a row may be from 1."""


@dataclass(frozen=True, eq=False)
class ActionTable:
    """``values`` (rows, actions) in the order of ``actions``; ``columns`` say which states are
    distinguished."""

    actions: tuple[str, ...]
    values: Floats
    columns: tuple[str, ...]
    description: object

    def on(self, actions: tuple[str, ...], absent: float) -> Floats:
        """The values of these actions, (rows, actions); `absent` for one that the table does not have."""
        values = np.full((len(self.values), len(actions)), absent)
        place = {name: at for at, name in enumerate(self.actions)}
        for at, name in enumerate(actions):
            if name in place:
                values[:, at] = self.values[:, place[name]]
        return values


def policy_table(rows: pl.DataFrame, policy: ByAction, actions: Sequence[str] | None) -> ActionTable:
    """The probability of every action in every row; an action that is not named has 0.

    Raises
    ------
    ParameterError
        Something else than probabilities of actions, which sum to 1 in each row.
    """
    table = _table(rows, policy, "policy", "p", 0.0, actions)
    values = table.values
    if not len(values):
        return table
    bad = ~((values >= 0.0) & (values <= 1.0 + _TOLERANCE))  # NaN is bad, too
    if bad.any():
        row, at = (int(i) for i in np.argwhere(bad)[0])
        raise ParameterError(
            f"policy gives action {briefly(table.actions[at])} the probability {values[row, at]:g} in a row,"
            " expected 0 to 1"
        )
    total = values.sum(axis=1)
    off = np.abs(total - 1.0)
    if (worst := int(off.argmax())) >= 0 and off[worst] > _TOLERANCE:
        raise ParameterError(
            f"the probabilities of policy sum to {total[worst]:.9g} in a row, expected 1: name every action,"
            " and divide by the sum"
        )
    return table


def model_table(rows: pl.DataFrame, model: ByAction, actions: Sequence[str] | None) -> ActionTable:
    """The expected outcome of every action in every row.

    Raises
    ------
    ParameterError
        Something else than finite numbers by action.
    """
    table = _table(rows, model, "outcome_model", "q", math.nan, actions)
    bad = ~(np.abs(table.values) <= 1e100)
    if bad.any():
        row, at = (int(i) for i in np.argwhere(bad)[0])
        raise ParameterError(
            f"outcome_model has {table.values[row, at]:g} for action {briefly(table.actions[at])} in a row,"
            " expected a number, at most 1e+100 in size"
        )
    return table


def _table(
    rows: pl.DataFrame,
    by_action: object,
    option: str,
    column: str,
    absent: float,
    actions: Sequence[str] | None,
) -> ActionTable:
    if isinstance(by_action, pl.DataFrame):
        return _of_frame(rows, by_action, option, column, absent)
    if isinstance(by_action, str):
        return _of_column(rows, by_action, option, actions)
    if isinstance(by_action, Mapping):
        return _of_mapping(rows, by_action, option)
    raise ParameterError(
        f"{option} is {briefly(by_action)}, expected numbers or expressions by action, a frame with the"
        f" columns action and {column}, or the name of a column"
    )


def _of_mapping(rows: pl.DataFrame, by_action: Mapping[object, object], option: str) -> ActionTable:
    columns: dict[str, None] = {}
    parts = []
    for action, value in by_action.items():
        if not isinstance(action, str):
            raise ParameterError(f"{option} has the key {briefly(action)}, expected names of actions")
        if isinstance(value, pl.Expr):
            parts.append(number(rows, value, option).fill_null(math.nan).to_numpy())
            columns |= dict.fromkeys(value.meta.root_names())
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise ParameterError(
                f"{option} has {briefly(value)} for action {briefly(action)}, expected a number or expression"
            )
        else:
            parts.append(np.full(rows.height, float(value)))
    _check_actions(list(by_action), option)
    values = np.column_stack(parts).astype(np.float64)
    description = {
        name: str(value) if isinstance(value, pl.Expr) else value for name, value in by_action.items()
    }
    return ActionTable(tuple(map(str, by_action)), values, tuple(columns), description)


def _of_frame(
    rows: pl.DataFrame, frame: pl.DataFrame, option: str, column: str, absent: float
) -> ActionTable:
    for name in ("action", column):
        if name not in frame.columns:
            raise ParameterError(
                f"{option} has no column '{name}', expected action, {column}, and columns of the state"
            )
    states = [name for name in frame.columns if name not in ("action", column)]
    for name in states:
        if name not in rows.columns:
            raise ParameterError(f"{option}: " + unknown_name("column", name, rows.columns))
        if frame[name].dtype.is_nested():
            raise ParameterError(f"{option}: column '{name}' holds lists, expected numbers or words")
    if not (frame[column].dtype.is_numeric() and frame[column].null_count() == 0):
        raise ParameterError(f"column '{column}' of {option} has other values than numbers")
    if frame["action"].null_count():
        raise ParameterError(f"column 'action' of {option} has nulls, expected names of actions")
    names = frame["action"].cast(pl.String)
    actions = names.unique().sort().to_list()
    _check_actions(actions, option)
    key = "state"
    while key in states:
        key += " "
    distinct = frame.select(states).unique(maintain_order=True).with_row_index(key) if states else None
    at = np.searchsorted(np.array(actions, dtype=object), np.array(names.to_list(), dtype=object))
    state = _number_of(frame, distinct, states, key)
    cell = state * len(actions) + at
    if len(np.unique(cell)) < len(cell):
        raise ParameterError(f"{option} has two rows of one action in one state, expected one")
    values = np.full((int(state.max()) + 1, len(actions)), absent)
    values[state, at] = frame[column].cast(pl.Float64).to_numpy()
    of = _number_of(rows, distinct, states, key)
    if (of < 0).any():
        first = rows.select(states).row(int(np.flatnonzero(of < 0)[0]))
        spelled = ", ".join(f"{n} = {plain(v) or 'null'}" for n, v in zip(states, first, strict=True))
        raise ParameterError(
            f"{option} has no row for the state of {int((of < 0).sum()):,} decisions, such as {spelled[:200]}"
        )
    description = {"frame": {"states": states, "rows": frame.height}}
    return ActionTable(tuple(actions), values[of], tuple(states), description)


def _number_of(
    rows: pl.DataFrame, distinct: pl.DataFrame | None, states: list[str], key: str
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The number of the state that each row is in; -1 where the table has no such state."""
    if distinct is None:
        return np.zeros(rows.height, np.int64)
    numbered = rows.select(states).join(
        distinct, on=states, how="left", nulls_equal=True, maintain_order="left"
    )
    return numbered[key].cast(pl.Int64).fill_null(-1).to_numpy()


def _of_column(rows: pl.DataFrame, name: str, option: str, actions: Sequence[str] | None) -> ActionTable:
    if name not in rows.columns:
        raise ParameterError(f"{option}: " + unknown_name("column", name, rows.columns))
    column = rows[name]
    if isinstance(column.dtype, pl.Struct):
        names = [field.name for field in column.dtype.fields]
        _check_actions(names, option)
        parts = column.struct.unnest()
    elif isinstance(column.dtype, pl.List | pl.Array):
        if actions is None:
            raise ParameterError(
                f"{option}: column '{name}' holds lists, which do not name actions; give them in order,"
                " as in actions=['spawn', 'no_spawn']"
            )
        names = list(actions)
        _check_actions(names, option)
        lists = column.cast(pl.List(column.dtype.inner))
        if not (lists.list.len() == len(names)).all():
            raise ParameterError(
                f"{option}: column '{name}' has rows that are not lists of {len(names)} numbers, one each"
                " of actions"
            )
        parts = rows.select(lists.list.get(at).alias(f"{at}") for at in range(len(names)))
    else:
        raise ParameterError(
            f"{option}: column '{name}' is of type {column.dtype}, expected a struct with a field for each"
            " action, or a list of numbers"
        )
    if not all(dtype.is_numeric() for dtype in parts.dtypes):
        raise ParameterError(f"{option}: column '{name}' has other values than numbers")
    # a field that a row does not have is an action that it does not offer
    filled = parts.select(pl.all().cast(pl.Float64).fill_null(0.0 if option == "policy" else math.nan))
    return ActionTable(tuple(names), filled.to_numpy().astype(np.float64), (), {"column": name})


def _check_actions(names: Sequence[object], option: str) -> None:
    if not names:
        raise ParameterError(f"{option} names no action, expected one at least")
    for name in names:
        if not isinstance(name, str):
            raise ParameterError(f"{option} has the action {briefly(name)}, expected text")
    if len(set(names)) < len(names):
        raise ParameterError(f"{option} names an action twice")
    check_number_of_actions(len(names), option)


def check_number_of_actions(n: int, where: str) -> None:
    """Refuse sets of actions that are no finite set of choices.

    Raises
    ------
    ParameterError
        There are more than `MOST_ACTIONS`.
    """
    if n > MOST_ACTIONS:
        raise ParameterError(
            f"{where} has {n:,} actions, expected at most {MOST_ACTIONS}: policies are evaluated on choices"
            " among a small set, never on texts"
        )
