"""Options of off-policy evaluation: checks of their values, and what the estimates depend on."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from ..base.errors import ParameterError, SchemaError
from ..decisions.rows import named_columns
from .logged_decisions import Unit


@dataclass(frozen=True)
class Setting:
    """The options that the estimates depend on, beside the log and the policy."""

    unit: Unit
    discount: float
    clip: float | None
    tau: float | None
    confidence: float
    n_boot: int
    seed: int


def check_unit(unit: Unit, at: int, reward: str | None, discount: float) -> None:
    """Refuse options that are of the other unit."""
    if unit == "sequence" and at != 1:
        raise ParameterError(f"at is {at}, but sequences have all decisions: leave it out, or ask decisions")
    if unit == "decision" and (reward is not None or discount != 1.0):
        option = "reward" if reward is not None else "discount"
        raise ParameterError(f"{option} is for sequences: ask unit='sequence', or leave it out")


def regression_columns(rows: pl.DataFrame, features: Sequence[str] | None) -> list[str]:
    """The columns of the regression; numbers in them are finite."""
    if features is None:
        columns = [
            name for name, kind in rows.schema.items() if name.startswith("x_") and not kind.is_nested()
        ]
    else:
        columns = named_columns(rows, features, "features")
    for name in columns:
        if rows[name].dtype.is_float() and not rows[name].is_finite().fill_null(True).all():
            raise SchemaError(f"column '{name}' of decisions has NaN or infinity, expected numbers or nulls")
    return columns
