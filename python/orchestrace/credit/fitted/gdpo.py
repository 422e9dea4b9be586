"""GDPO: rewards normalized within the group one by one, then added up and normalized over the batch.

```text
A_k = (r_k - mean of the group) / (deviation of the group + ε)     of every reward k
A = Σ_k w_k A_k,   Â = (A - mean of the batch) / (deviation of the batch + ε)
```

The sum of rewards loses which of them a rollout earned: to `grpo`, rewards of 1 and 1, and of 2 and 0, are
the same. A rollout that lacks a reward is left out of that reward alone; a group in which no reward has
spread gets exactly 0. Deviations within groups have ddof 1, that of the batch 0, unless options say
otherwise. O(rewards · rollouts). Reference: S.-Y. Liu et al., arXiv 2601.05242, section 3.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import polars as pl

from ...base.schema import CREDITS
from ...corpus.corpus import Corpus
from ...corpus.names import measure_of_traces
from ..decoupled import TRL_EPSILON, decoupled
from ..parameters import Param
from ..registry import EventValues, credit_method

CHANNEL: Final = "channel "
"""What the columns of channels begin with in the rewards that the fit gets."""


def _fit(corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], _seed: int) -> pl.DataFrame:
    """``trace value why`` of every trace."""
    weights: Mapping[str, float] = params["weights"]
    groups = corpus.traces.select(
        "trace", name=pl.col("trace_id").cast(pl.String), group=pl.col("group_id").rank("dense")
    )
    frame = groups.collect().join(rewards, on="trace", how="left", maintain_order="left")
    # sums go by rewards and names of runs, whatever the order of recordings
    frame = frame.sort(*(CHANNEL + channel for channel in weights), "name")
    why = pl.lit(None, pl.String)
    batches = None
    if params["batch"] == "train_step":
        steps = measure_of_traces(corpus, "metric", "train_step")
        frame = frame.join(steps, on="trace", how="left", maintain_order="left")
        why = pl.when(pl.col("train_step").is_null()).then(pl.lit("field.absent"))
        batches = frame["train_step"].rank("dense").fill_null(0).to_numpy().astype(np.int64)
    elif params["batch"] == "corpus":
        batches = np.zeros(frame.height, np.int64)
    trl = params["compat"] == "trl"
    numbers = [frame[CHANNEL + name].fill_null(float("nan")) for name in weights]
    if params["batch"] == "train_step":
        numbers = [
            pl.select(
                pl.when(frame["train_step"].is_not_null()).then(column).otherwise(float("nan"))
            ).to_series()
            for column in numbers
        ]
    values, silent = decoupled(
        [column.to_numpy() for column in numbers],
        list(weights.values()),
        frame["group"].to_numpy().astype(np.int64) - 1,
        batches,
        ddof=params["ddof"],
        epsilon=TRL_EPSILON if trl else params["epsilon"],
        batch_ddof=1 if trl else params["batch_ddof"],
    )
    flat = pl.when(pl.Series(silent)).then(pl.lit("group.degenerate"))
    return frame.select("trace", value=pl.Series(values).fill_nan(None), why=pl.coalesce(why, flat))


@credit_method(
    "gdpo",
    summary="rewards normalized one by one within the group, added up, normalized over the batch",
    quantity="advantage",
    axioms=("zero mean",),
    params=[
        Param("ddof", 1, "1 divides the squares of a group by n - 1, 0 by n", low=0, high=1),
        Param("epsilon", 1e-6, "added to every deviation", low=0.0),
        Param(
            "batch",
            "corpus",
            "what is normalized last: all traces, those of one train_step, or nothing",
            kind=("corpus", "train_step", "none"),
        ),
        Param("batch_ddof", 0, "the same as ddof, of the batch", low=0, high=1),
        Param(
            "compat",
            None,
            "trl: 1e-4 for epsilon and 1 for batch_ddof, as in its normalize_then_sum",
            kind=("trl",),
        ),
    ],
    reference="arXiv 2601.05242, section 3",
    scope="corpus",
    fit=_fit,
)
def gdpo(
    corpus: Corpus, rewards: pl.DataFrame, params: dict[str, Any], seed: int, model: pl.DataFrame
) -> EventValues:
    """Every event has the value of its rollout."""
    here = rewards.select("trace", "amount").join(model, on="trace", how="left", maintain_order="left")
    events = corpus.events.select("trace").collect()
    values = events.join(here.select("trace", "value"), on="trace", how="left", maintain_order="left")
    traces = here.select(
        "trace", "amount", remainder=pl.lit(0.0), reason=pl.col("why").cast(CREDITS["reason"])
    )
    return EventValues(values.select("value"), traces)
