"""The lanes of both runs of pairs, side by side, as the core aligns them."""

from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from .. import _core
from ..base.arrays import Bools, Ints
from ..base.errors import ParameterError
from ..base.progress import Progress, reporting
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward
from .lanes import LABEL, Key, lane_steps, unknown_share
from .pass_rates import judged_runs

_KEYS: Final = ("trace", "label", "ordinal")
PAIR: Final = ("trace_a", "trace_b")
Pairs = Literal["outcomes", "all"] | pl.DataFrame
Order = Literal["lanes", "canonical"]


class Side:
    """The lanes of the runs of one side of pairs: an array of keys, cut into lanes, and their steps."""

    def __init__(self, steps: pl.DataFrame, order: Order) -> None:
        steps = steps.with_row_index("rank").with_columns(label=LABEL)
        if order == "canonical":
            steps = steps.with_columns(label=pl.lit(None, pl.String), ordinal=pl.lit(0, pl.UInt32))
        steps = steps.sort(*_KEYS, "rank", nulls_last=True)
        starts = steps.select(pl.struct(_KEYS).rle()).to_series().struct.field("len").to_numpy()
        self.steps = steps
        self.offsets = np.concatenate([[0], np.cumsum(starts)]).astype(np.int64)
        first = steps[self.offsets[:-1]] if len(steps) else steps
        self.lanes = first.select(*_KEYS).with_columns(
            lane=pl.int_range(pl.len(), dtype=pl.Int64), n=pl.Series(np.diff(self.offsets))
        )
        self.unknown = unknown_share(steps, "trace")

    def event(self, column: str, lane: Ints, place: Ints, is_there: Bools) -> pl.Series:
        """A column of the step at a place of a lane, null where it is not there."""
        row = np.where(is_there, self.offsets[lane] + place, 0)
        values = self.steps[column].gather(row) if len(self.steps) else pl.Series([0] * len(row))
        return pl.select(pl.when(pl.Series(is_there)).then(values.cast(pl.UInt32)))[:, 0]


class Sides:
    """Both sides of some pairs, and the pairs."""

    def __init__(self, a: Side, b: Side, pairs: pl.DataFrame) -> None:
        self.a, self.b, self.pairs = a, b, pairs

    def lanes(self) -> pl.DataFrame:
        """A row per pair and lane: the numbers of the lane on both sides, null where a side has none."""
        number = self.pairs.with_row_index("pair")
        halves = [
            number.join(
                side.lanes.rename({"trace": f"trace_{at}", "lane": f"lane_{at}", "n": f"n_{at}"}),
                on=f"trace_{at}",
            ).select("pair", "label", "ordinal", f"lane_{at}", f"n_{at}")
            for at, side in (("a", self.a), ("b", self.b))
        ]
        on = ["pair", "label", "ordinal"]
        both = halves[0].join(halves[1], on=on, how="full", coalesce=True, nulls_equal=True)
        return number.join(both, on="pair", how="left").sort("pair", "label", "ordinal", nulls_last=True)

    def with_unknown(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows of pairs with ``unknown``: the larger share of steps without a key of the two runs."""
        for at, side in (("a", self.a), ("b", self.b)):
            share = side.unknown.rename({"trace": f"trace_{at}", "unknown": f"unknown_{at}"})
            rows = rows.join(share, on=f"trace_{at}", how="left", maintain_order="left")
        larger = pl.max_horizontal("unknown_a", "unknown_b").fill_null(0.0)
        return rows.with_columns(unknown=larger).drop("unknown_a", "unknown_b")

    def aligned(
        self, lanes: pl.DataFrame, options: dict[str, Any], threads: int | None, progress: Progress
    ) -> pl.DataFrame:
        """The core's alignment of these lanes; a lane that a side does not have is empty."""
        # runs of one group stand on both sides: the core takes their keys once
        sides = [self.a] if self.a is self.b else [self.a, self.b]
        keys = pl.concat([side.steps.select("key") for side in sides])
        # a step without a key equals nothing: a number of its own in place of a hash
        keys = keys.select(pl.coalesce("key", pl.int_range(pl.len()).hash(7)))
        starts = [self.a.offsets, *(len(self.a.steps) + side.offsets[1:] for side in sides[1:])]
        offsets = np.concatenate([*starts, [len(keys)]])
        split = 0 if self.a is self.b else len(self.a.offsets) - 1
        empty = len(offsets) - 2
        lane_a = lanes["lane_a"].fill_null(empty).to_numpy()
        lane_b = np.where(
            lanes["lane_b"].is_null().to_numpy(), empty, lanes["lane_b"].fill_null(0).to_numpy() + split
        )
        if len(keys) >= 2**32:
            raise ParameterError("pairs have more than 4,294,967,295 steps: align fewer at once")
        places = pl.DataFrame({"a": lane_a, "b": lane_b}, schema={"a": pl.UInt32, "b": pl.UInt32})
        with reporting(progress, "align") as callback:
            stream = _core.align_lanes(
                keys,
                pl.DataFrame({"offset": offsets}, schema={"offset": pl.UInt32}),
                places,
                threads=threads,
                progress=callback,
                **options,
            )
        return pl.DataFrame(stream)


def sides_of(
    corpus: Corpus,
    other: Corpus | None,
    pairs: Pairs,
    key: Key,
    order: Order,
    paid: tuple[Reward, float],
    threads: int | None,
) -> Iterator[Sides]:
    """Pairs with the steps of both sides: of pairs within groups piece by piece, of others all at once."""
    if isinstance(pairs, pl.DataFrame):
        wanted = _checked(pairs, corpus, corpus if other is None else other)
        steps_a = _steps(corpus, wanted["trace_a"], key, threads)
        steps_b = _steps(corpus if other is None else other, wanted["trace_b"], key, threads)
        yield Sides(Side(steps_a, order), Side(steps_b, order), wanted)
    elif other is not None:
        runs = (
            corpus.traces.select("trace", "task_id").collect(),
            other.traces.select("trace", "task_id").collect(),
        )
        wanted = runs[0].join(runs[1], on="task_id", suffix="_b").select(trace_a="trace", trace_b="trace_b")
        steps_a, steps_b = (
            _steps(corpus, wanted["trace_a"], key, threads),
            _steps(other, wanted["trace_b"], key, threads),
        )
        yield Sides(Side(steps_a, order), Side(steps_b, order), wanted.sort(*PAIR))
    else:
        for _, load in corpus.pieces():
            piece = load()
            runs_of = judged_runs(piece, *paid).select("trace", "group_id", "passed")
            side = Side(lane_steps(piece, key, threads=threads), order)
            yield Sides(side, side, _within_groups(runs_of, pairs))


def _within_groups(runs: pl.DataFrame, pairs: Literal["outcomes", "all"]) -> pl.DataFrame:
    if pairs == "all":
        both = runs.join(runs, on="group_id", suffix="_b").filter(pl.col("trace") < pl.col("trace_b"))
    else:
        failed, passed = runs.filter(~pl.col("passed")), runs.filter("passed")
        both = failed.join(passed, on="group_id", suffix="_b")
    return both.select(trace_a="trace", trace_b="trace_b").sort(*PAIR)


def _checked(pairs: pl.DataFrame, a: Corpus, b: Corpus) -> pl.DataFrame:
    """The pairs that a frame names, each once.

    Raises
    ------
    ParameterError
        It lacks a column, or names a trace that is none.
    """
    if not {*PAIR} <= set(pairs.columns):
        raise ParameterError(
            f"pairs has the columns {', '.join(pairs.columns)}, expected trace_a and trace_b"
        )
    for name in PAIR:
        if not pairs.schema[name].is_integer():
            raise ParameterError(
                f"pairs has {pairs.schema[name]} in {name}, expected whole numbers of traces"
            )
    wanted = pairs.select(pl.col(name).cast(pl.UInt32, strict=False) for name in PAIR).unique(
        maintain_order=True
    )
    for name, side in zip(PAIR, (a, b), strict=True):
        existing = side.traces.select("trace").collect()["trace"]
        strange = wanted.filter(pl.col(name).is_null() | ~pl.col(name).is_in(existing.implode()))[name]
        if len(strange):
            raise ParameterError(
                f"pairs names trace {strange[0]} in {name}, which is none of {len(existing)} traces"
            )
    return wanted.sort(*PAIR)


def _steps(corpus: Corpus, traces: pl.Series, key: Key, threads: int | None) -> pl.DataFrame:
    """The steps of some runs, from all pieces."""
    named = traces.unique().implode()
    frames = [
        lane_steps(load(), key, threads=threads)
        .filter(pl.col("trace").is_in(named))
        .with_columns(pl.col("owner", "role").cast(pl.String))
        for _, load in corpus.pieces()
    ]
    return pl.concat(frames)
