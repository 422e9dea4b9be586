"""Methods of the core that give a rollout one value, from its reward and those of all others of a corpus.

A corpus on disk is computed in two passes. The first reads traces and measures of the whole corpus, and has
the core value the rollouts: the sums are those of one machine with everything in memory, in the order of
traces. The second goes piece by piece, and gives every unit of a rollout its value.
"""

from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, Final

import polars as pl

from .. import _core
from ..base.errors import ParameterError
from ..base.schema import CREDITS
from ..corpus.corpus import Corpus
from ..corpus.parts import store_of
from ..disk.partitioned import PartitionedCorpus, on_disk

ROLLOUT_METHODS: Final = frozenset({"reinforce_pp"})
_BYTES: Final = 1024
"""Bytes of a trace in the first pass, at most."""

Facts = Mapping[str, object]
Values = tuple[tuple[pl.DataFrame, ...], Facts]
"""For each reward ``trace value why`` of every trace; and the core's facts about the call."""


class RolloutValues:
    """The engine of a call on a corpus in several pieces."""

    def __init__(self, corpus: PartitionedCorpus, options: Mapping[str, Any], outcome: Any) -> None:
        self._options = options
        self._outcome = outcome
        # the values hold the effect of parameters; without parameters every rollout with a reward has a value
        self._plain = {**options, "params": {}}
        everything = corpus.full_corpus
        valued = _held if corpus is not everything else _valued
        self._values = cache(lambda: valued(everything, Call(options)))

    def __call__(self, piece: Corpus, callback: Any) -> list[tuple[pl.DataFrame | _core.Stream, Facts]]:
        """Rows of a piece in memory."""
        if not len(piece):  # the core judges the arguments
            streams, call_facts = _core.credit(
                store_of(piece), **self._options, own=self._outcome, progress=callback
            )
            return [(stream, call_facts) for stream in streams]
        values, facts = self._values()
        streams, _ = _core.credit(store_of(piece), **self._plain, own=self._outcome, progress=callback)
        return [(_with(pl.DataFrame(rows), of), facts) for rows, of in zip(streams, values, strict=True)]


class Call:
    """Options as the key of a cache: equal where they have the same text."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = {**options, "unit": "event"}
        settings = {name: value for name, value in self.options.items() if name != "threads"}
        self._key = repr(sorted(settings.items()))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Call) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _with(rows: pl.DataFrame, values: pl.DataFrame) -> pl.DataFrame:
    """Rows of units with the values of their rollouts, where they have any."""
    if "reason" not in rows.columns:
        rows = rows.with_columns(reason=pl.lit(None, CREDITS["reason"]))
    if "credit" not in rows.columns:
        rows = rows.with_columns(credit=pl.lit(None, pl.Float64))
    is_valued = pl.col("credit").is_not_null()
    # every unit of a rollout without a value says why; the row without a unit has a reason of its own
    units = pl.col("unit_id").is_not_null() if "unit_id" in rows.columns else pl.lit(False)
    refused = pl.col("value").is_null() & units
    return (
        rows.join(values, on="trace", how="left", maintain_order="left")
        .with_columns(
            credit=pl.when(is_valued).then("value"),
            reason=pl.when(is_valued | refused).then("why").otherwise("reason"),
        )
        .drop("value", "why")
    )


def _valued(corpus: PartitionedCorpus, call: Call) -> Values:
    """The values of all rollouts: those of a corpus with one event in each."""
    options = call.options
    n_traces = len(corpus)
    if n_traces * _BYTES > on_disk(corpus).memory:
        raise ParameterError(
            f"method '{options['method']}' compares all {n_traces:,} traces of the corpus at once, which"
            f" takes up to {n_traces * _BYTES >> 20:,} MiB: read it with a larger budget (memory=), or filter"
            " it first"
        )
    channels = sorted({name for reward in options["rewards"] for name in reward})
    batch = options["params"].get("batch")
    kind, name = pl.col("kind").cast(pl.String), pl.col("name").cast(pl.String)
    of_reward = (kind == "reward") & name.is_in(channels)
    wanted = of_reward if not isinstance(batch, str) else of_reward | (kind == "metric")
    traces = corpus.traces.select("trace", "trace_id", "task_id", "group_id").collect(engine="streaming")
    measures = corpus.measures.filter(wanted).collect(engine="streaming")
    # a run without a trained agent is no rollout; agents that are not trained get no value in the pieces
    is_rollout = pl.lit(True)
    if options["over"] != "all":
        trained = corpus.agents.filter("trainable").select(pl.col("trace").unique()).collect()["trace"]
        is_rollout = pl.col("trace").is_in(trained.implode())
    events = traces.select(
        "trace",
        id=pl.lit("0"),
        t=pl.lit(0.0),
        type=pl.lit("message"),
        agent=pl.lit("0"),
        trainable=is_rollout,
    )
    alone = Corpus.from_arrow(traces=traces, events=events, measures=measures)
    streams, facts = _core.credit(store_of(alone), **options, own=None, progress=None)
    return tuple(_by_trace(pl.DataFrame(stream)) for stream in streams), facts


_held = lru_cache(maxsize=2)(_valued)
"""For the tasks of a plan, one after the other in a process, on a corpus that stays open."""


def _by_trace(rows: pl.DataFrame) -> pl.DataFrame:
    absent = [
        pl.lit(None, dtype).alias(name)
        for name, dtype in (("credit", pl.Float64), ("reason", CREDITS["reason"]))
        if name not in rows.columns
    ]
    return rows.with_columns(absent).select("trace", value="credit", why="reason")
