"""Frontiers of stopping: the quality that rules reach at what cost, the area between two, their picture."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from ..base.arguments import public
from ..base.errors import ParameterError
from ..base.schema import unknown_name
from ..base.text import briefly
from ..corpus.frames import collected
from .answer_evaluation import VALUES, evaluate

_NEEDED: Final = ("price", "method", "quality", "cost", "n_runs", "n_tasks")
#: Colors that differ for everybody (Okabe and Ito), with shapes beside them.
_COLORS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


@public
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


@public
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
        `method` is better: trapezoids over the range of costs that both cover. None where they share none.

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
    >>> epochs, _ = ot.synthetic.stops(runs=400, seed=0)
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
        own = rows.filter(pl.col("method") == name).drop_nulls(["cost", "quality"])
        best = own.group_by("cost").agg(pl.col("quality").max()).sort("cost")
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


@public
def plot_frontier(curve: pl.DataFrame | pl.LazyFrame, *, title: str = "") -> Any:
    """Draw quality over cost, a line for each rule (``pip install 'orchestrace[plot]'``).

    Parameters
    ----------
    curve
        What `frontier` returns.
    title
        Over the plot.

    Returns
    -------
    altair.Chart
        Mean quality against mean cost, a point for each price, in order of price; rules differ in color and
        shape. ``chart.save("plot.svg")`` writes it.

    Raises
    ------
    ParameterError
        Altair is not installed, a column is absent, or no row has a quality.

    Notes
    -----
    Points are means over held-out runs, without their intervals: the rows of the curve have them. O(rows).

    Examples
    --------
    >>> import orchestrace as ot
    >>> epochs, _ = ot.synthetic.stops(runs=100, seed=0)
    >>> curve = ot.stopping.frontier(epochs, ["fixed", "lsm"], prices=[0.0, 0.1], n_boot=100)
    >>> ot.stopping.plot_frontier(curve).to_dict()["height"]
    260
    """
    if not isinstance(title, str):
        raise ParameterError(f"title is {briefly(title)}, expected text")
    rows = _curve(curve).drop_nulls(["cost", "quality"])
    if rows.is_empty():
        raise ParameterError("no row of the curve has a quality: draw a frontier of the problem 'answer'")
    try:
        import altair as alt
    except ImportError:
        raise ParameterError("plot_frontier needs Altair: pip install 'orchestrace[plot]'") from None
    names = rows["method"].unique(maintain_order=True).to_list()
    values = alt.Data(values=rows.select("price", "method", "quality", "cost").to_dicts())
    told = f"{rows['n_runs'][0]:,} runs of {rows['n_tasks'][0]:,} tasks, held out"
    colors = [_COLORS[place % len(_COLORS)] for place in range(len(names))]
    base = alt.Chart(values).encode(
        x=alt.X("cost:Q", title="mean cost of a run").scale(zero=False),
        y=alt.Y("quality:Q", title="mean quality").scale(zero=False),
        color=alt.Color("method:N", title="rule", sort=names).scale(domain=names, range=colors),
        shape=alt.Shape("method:N", title="rule", sort=names).scale(domain=names),
        order="price:Q",
        tooltip=["method:N", "price:Q", "cost:Q", "quality:Q"],
    )
    chart = base.mark_line(point=alt.OverlayMarkDef(size=45, filled=True))
    return chart.properties(
        width=400,
        height=260,
        title=alt.TitleParams(title, subtitle=told),
        description=f"{title} {told}".strip(),
    )
