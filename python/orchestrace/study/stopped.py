"""Rules of stopping in a study: what each gives up against the best rule, which is known here."""

from typing import Any, Final

import polars as pl

from ..synthetic.stopping import StopTruth, stops
from .cells import Cell

SHORTEST: Final = 2
PRICE: Final = 0.48
"""Of all epochs of the longest run together."""
END: Final = 0.8
"""How often a run is expected to end in the course of them."""


def drawn_epochs(cell: Cell, seed: int) -> tuple[pl.DataFrame, StopTruth]:
    """Runs of at most as many epochs as a run of the rung has events: the longer, the less an epoch costs."""
    deepest = max(cell.size.events, SHORTEST)
    return stops(
        cell.size.traces,
        deepest=deepest,
        price=PRICE / deepest,
        end=END / deepest,
        runs_per_task=cell.size.group_size,
        seed=seed,
    )


def judged_stops(epochs: pl.DataFrame, truth: StopTruth, values: pl.DataFrame) -> dict[str, Any]:
    """The row of one rule beside the truth; its regret is what the best rule pays more."""
    row = values.row(0, named=True)
    numbers = {name: row[name] for name in ("value", "bound", "mean_k", "early", "n_tasks")}
    numbers |= {"n_traces": row["n_runs"], "n_epochs": epochs.height, "truth": truth.value}
    numbers["regret"] = None if row["value"] is None else truth.value - row["value"]
    lower, upper = row["lower"], row["upper"]
    numbers["regret_lower"] = None if upper is None else truth.value - upper
    numbers["regret_upper"] = None if lower is None else truth.value - lower
    numbers["interval_reason"] = row["reason"]
    return numbers
