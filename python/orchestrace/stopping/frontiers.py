"""Frontiers of stopping: the quality that rules reach at what cost, and the area between two."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.verbs import verb
from ..corpus.frames import collected
from .answer_evaluation import VALUES, evaluate

_NEEDED: Final = ("price", "method", "quality", "cost", "n_runs", "n_tasks")


@verb
def frontier(
    epochs: pl.DataFrame,
    methods: Sequence[str] | None = None,
    *,
    prices: Sequence[float],
    cost: str = "epochs",
    **options: Any,
) -> pl.DataFrame:
    """Compute the quality and the cost that rules reach as the price of a unit of cost rises.

    Parameters
    ----------
    epochs, methods, cost
        As in `evaluate`.
    prices
        Prices to try.
    **options
        Other options of `evaluate`.

    Returns
    -------
    DataFrame
        The rows of `evaluate` at each price, with a first column ``price`` (Float64): ``quality`` over
        ``cost`` is the frontier.

    Raises
    ------
    ParameterError
        No price, or as `evaluate`.
    SchemaError
        As `evaluate`.

    Notes
    -----
    As many calls of `evaluate` as prices.

    Examples
    --------
    >>> import orchestrace as ot
    >>> epochs, _ = ot.synthetic.stops(runs=100, seed=0)
    >>> curve = ot.stopping.frontier(epochs, ["fixed"], prices=[0.0, 0.1], n_boot=100)
    >>> curve["cost"].is_sorted(descending=True)
    True
    """
    if isinstance(prices, str) or not isinstance(prices, Sequence) or not prices:
        raise ParameterError(f"prices is {prices!r}, expected a list of numbers")
    tables = [
        evaluate(epochs, methods, price=price, cost=cost, **options).select(
            pl.lit(price, pl.Float64).alias("price"), *VALUES.names()
        )
        for price in prices
    ]
    return pl.concat(tables)


def _curve(curve: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    return collected(curve, "curve", _NEEDED)


@verb
def frontier_area(curve: pl.DataFrame | pl.LazyFrame, method: str, other: str) -> float | None:
    """Compute how much more quality one rule reaches than another, summed over the costs that both reach.

    Parameters
    ----------
    curve
        What `frontier` returns.
    method, other
        Two of its rules.

    Returns
    -------
    float or None
        The area between the two lines of quality over cost, in units of quality times cost, above 0 where
        `method` is better: trapezoids over the range of costs that both cover. None where they share no cost.

    Raises
    ------
    ParameterError
        A rule that the curve does not have, or a column is absent.

    Notes
    -----
    O(rows log rows). Of several points of one cost the best quality counts; between points the lines are
    straight, as if runs were divided between two prices.

    Examples
    --------
    >>> import orchestrace as ot
    >>> epochs, _ = ot.synthetic.stops(runs=100, seed=0)
    >>> curve = ot.stopping.frontier(epochs, ["fixed", "lsm"], prices=[0.0, 0.05, 0.1, 0.2], n_boot=100)
    >>> ot.stopping.frontier_area(curve, "lsm", "fixed") > 0
    True
    """
    rows = _curve(curve)
    lines = []
    for name in (method, other):
        if name not in rows["method"]:
            raise ParameterError(
                unknown_name("rule of the curve", str(name), rows["method"].unique().to_list())
            )
        of_rule = rows.filter(pl.col("method") == name).drop_nulls(["cost", "quality"])
        best = of_rule.group_by("cost").agg(pl.col("quality").max()).sort("cost")
        lines.append((best["cost"].to_numpy(), best["quality"].to_numpy()))
    if not all(len(cost) for cost, _ in lines):
        return None
    low, high = max(cost[0] for cost, _ in lines), min(cost[-1] for cost, _ in lines)
    if not low < high:
        return None
    both = np.unique(np.concatenate([cost for cost, _ in lines]))
    at = np.unique(np.concatenate([[low], both[(low < both) & (both < high)], [high]]))
    ours, theirs = (np.interp(at, cost, quality) for cost, quality in lines)
    return float(np.trapezoid(ours - theirs, at))
