"""Options of off-policy evaluation: checks of their values, and what the estimates depend on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from ..base.errors import ParameterError, SchemaError
from ..base.schema import unknown_name
from ..base.text import briefly
from ..decisions.rows import named_columns
from .logged_decisions import Unit


@dataclass(frozen=True)
class Setting:
    """What the estimates hang on, beside the log and the policy."""

    unit: Unit
    discount: float
    clip: float | None
    tau: float | None
    confidence: float
    n_boot: int
    seed: int


def check_options(unit: object, at: int, folds: int, reward: object, discount: object) -> None:
    if unit not in ("decision", "sequence"):
        raise ParameterError(unknown_name("unit", str(unit), ["decision", "sequence"]))
    for name, value, smallest in (("at", at, 1), ("folds", folds, 2)):
        if value < smallest:
            raise ParameterError(f"{name} is {value}, expected a whole number from {smallest}")
    if isinstance(discount, bool) or not (isinstance(discount, int | float) and 0.0 <= discount <= 1.0):
        raise ParameterError(f"discount is {briefly(discount)}, expected a number from 0 to 1")
    if unit == "sequence" and at != 1:
        raise ParameterError(f"at is {at}, but sequences have all decisions: leave it out, or ask decisions")
    if unit == "decision" and (reward is not None or discount != 1.0):
        option = "reward" if reward is not None else "discount"
        raise ParameterError(f"{option} is for sequences: ask unit='sequence', or leave it out")


def number_option(
    value: object, name: str, least: float, *, open: bool = False, infinite: bool = False
) -> float:
    """A number from `least`, or above it."""
    if not isinstance(value, bool) and isinstance(value, int | float):
        inside = value > least if open else value >= least
        if inside and (infinite or math.isfinite(value)):
            return float(value)
    where = f"above {least:g}" if open else f"from {least:g}"
    raise ParameterError(f"{name} is {briefly(value)}, expected a number {where}")


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
