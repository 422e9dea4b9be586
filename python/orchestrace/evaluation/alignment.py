"""Where two runs part: the common beginning of what their agents did, and where they meet again."""

from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from .. import _core
from ..base.arguments import Size, Success, Threads
from ..base.arrays import Ints
from ..base.errors import ParameterError
from ..base.progress import Progress, reporting
from ..base.schema import CREDITS
from ..base.verbs import verb
from ..corpus.corpus import Corpus
from ..corpus.reward import Reward
from .lanes import LABEL, MOST_UNKNOWN, Key, lane_steps, unknown_share
from .pass_rates import judged_runs

ALIGNED: Final = pl.Schema(
    {
        "trace_a": pl.UInt32(),
        "trace_b": pl.UInt32(),
        "label": pl.String(),
        "ordinal": pl.UInt32(),
        "n_a": pl.UInt32(),
        "n_b": pl.UInt32(),
        "prefix": pl.UInt32(),
        "seq_a": pl.UInt32(),
        "seq_b": pl.UInt32(),
        "rejoin_a": pl.UInt32(),
        "rejoin_b": pl.UInt32(),
        "sustained": pl.Boolean(),
        "first": pl.Boolean(),
        "edits": pl.UInt32(),
        "similarity": pl.Float64(),
        "outcome_delta": pl.Float64(),
        "reason": CREDITS["reason"],
    }
)
"""Columns and types of what `align` returns."""

SCRIPT: Final = pl.Schema(
    {
        "trace_a": pl.UInt32(),
        "trace_b": pl.UInt32(),
        "label": pl.String(),
        "ordinal": pl.UInt32(),
        "edit": pl.Enum(["same", "only_a", "only_b"]),
        "seq_a": pl.UInt32(),
        "seq_b": pl.UInt32(),
        "type": pl.String(),
        "tool": pl.String(),
    }
)
"""Columns and types of what `edit_script` returns."""

_KEYS: Final = ("trace", "label", "ordinal")
_PAIR: Final = ("trace_a", "trace_b")
Pairs = Literal["outcomes", "all"] | pl.DataFrame
Order = Literal["lanes", "canonical"]


@verb
def align(
    corpus: Corpus,
    other: Corpus | None = None,
    *,
    pairs: Pairs = "outcomes",
    key: Key = "shape",
    order: Order = "lanes",
    reward: Reward = "team",
    success: Success = 1.0,
    rejoin: Size = 3,
    budget: Size = 10_000_000,
    threads: Threads = None,
    progress: Progress = None,
) -> pl.DataFrame:
    """Say where two runs part, agent by agent: the common beginning, the first difference, where they rejoin.

    Parameters
    ----------
    corpus
        The recordings that the first run of a pair is from.
    other
        Those that the second is from, such as the same tasks by another model; None: the same.
    pairs
        Of one corpus, ``"outcomes"``: each failed run of a group with each passed one; ``"all"``: all pairs
        of a group, the earlier trace first. With `other` both are each run with each run of the same task.
        Or a frame ``trace_a trace_b`` that names pairs; a pair that comes twice is compared once.
    key
        When two steps are equal. ``"shape"``: type, tool, and role (else name) of the agent. ``"exact"``:
        also what the step says, and what its agent got since the step before.
    order
        ``"canonical"``: one sequence for the whole run, in the order of time. Which of two agents came first
        is scheduling, so that such sequences differ where nobody behaved differently.
    reward, success
        What runs are paid, and from which reward on they passed, as in `pass_rates`.
    rejoin
        Equal steps in a row, after the first difference, that count as meeting again.
    budget
        Cells of the alignment of two lanes at most.
    threads, progress
        As in `read_traces`.

    Returns
    -------
    DataFrame
        A row per pair and lane that one of the two runs has, in order of ``trace_a trace_b label ordinal``
        (UInt32, String): a lane is an agent's role (else its name) and its number among agents of that role,
        by their first steps. ``n_a n_b``: its steps in each run; ``prefix``: how many are equal from the
        start; ``seq_a seq_b``: the first step that differs, null where the lane ends before or they are
        equal; ``rejoin_a rejoin_b``: where the first `rejoin` equal steps in a row after it begin;
        ``sustained`` (Boolean): they part and do not rejoin. ``first``: of the lanes of the pair that part,
        this one does so first, in the time of run a, of b where a's lane has ended. ``edits`` (UInt32):
        steps that only one of the two has, at least; ``similarity`` (Float64): twice the steps in common over
        all. ``outcome_delta`` (Float64): reward of a less that of b.

        ``reason``: ``budget.exceeded`` (``edits`` and what needs it are null); ``field.absent`` where
        ``"exact"`` is asked for, and more than a fifth of the two runs' steps have no exact key;
        ``support.absent`` where no agent of either run owns a step.

    Raises
    ------
    ParameterError
        Unknown words or channels; a frame of pairs without these columns, or with a trace that is none.

    Notes
    -----
    What the steps have in common is described, not caused: where runs part is not why they failed. Under
    ``"exact"`` the noise of sampled texts parts most runs at their first step. Of several longest common
    sequences the one that matches earliest in a, then in b, counts. O(V D) for lanes of V steps with D edits;
    lanes that are equal are aligned once. A corpus on disk goes by piece, with `other` or a frame of pairs
    the steps of the runs that are named are in memory.
    Source: Myers, An O(ND) difference algorithm and its variations, 1986.

    Examples
    --------
    >>> import orchestrace as ot
    >>> corpus = ot.generate(traces=24, seed=0)
    >>> aligned = ot.evaluation.align(corpus, pairs="all")
    >>> bool((aligned["prefix"] <= aligned["n_a"]).all())
    True

    A run is like itself:

    >>> import polars as pl
    >>> itself = pl.DataFrame({"trace_a": [0], "trace_b": [0]})
    >>> ot.evaluation.align(corpus, pairs=itself)["similarity"].unique().to_list()
    [1.0]
    """
    options = {"budget": budget, "rejoin": rejoin, "matches": False}
    found = [
        _rows(sides, key, options, threads, progress)
        for sides in _sides(corpus, other, pairs, key, order, (reward, success), threads)
    ]
    rows = pl.concat([pl.DataFrame(schema=ALIGNED), *found])
    paid = [
        judged_runs(side, reward, success).select(pl.col("trace").alias(f"trace_{at}"), pl.col("reward").alias(at))
        for at, side in (("a", corpus), ("b", corpus if other is None else other))
    ]
    for at, column in zip(("a", "b"), paid, strict=True):
        rows = rows.join(column, on=f"trace_{at}", how="left", maintain_order="left")
    rows = rows.with_columns(outcome_delta=pl.col("a") - pl.col("b"))
    return rows.select(ALIGNED.names()).sort(*_PAIR, "label", "ordinal", nulls_last=True)


@verb
def edit_script(
    corpus: Corpus,
    other: Corpus | None = None,
    *,
    pairs: pl.DataFrame,
    key: Key = "shape",
    order: Order = "lanes",
    budget: Size = 10_000_000,
    threads: Threads = None,
) -> pl.DataFrame:
    """List what two runs did side by side: steps that both have, and steps that only one has.

    Parameters
    ----------
    corpus, other, key, order, budget, threads
        As in `align`.
    pairs
        A frame ``trace_a trace_b``.

    Returns
    -------
    DataFrame
        A row per step of the alignment, lane by lane, in order: ``trace_a trace_b label ordinal`` as in
        `align`; ``edit`` (Enum: ``same``, ``only_a``, ``only_b``); ``seq_a seq_b`` (UInt32), the events;
        ``type tool`` (String) of the step. What only a has stands before what only b has. A lane beyond the
        budget has no row: `align` says which.

    Raises
    ------
    ParameterError
        As in `align`.

    Notes
    -----
    As `align`; O(steps) rows.

    Examples
    --------
    >>> import orchestrace as ot
    >>> import polars as pl
    >>> corpus = ot.generate(traces=2, seed=0)
    >>> two = pl.DataFrame({"trace_a": [0], "trace_b": [1]})
    >>> script = ot.evaluation.edit_script(corpus, pairs=two)
    >>> aligned = ot.evaluation.align(corpus, pairs=two)
    >>> int((script["edit"] != "same").sum()) == int(aligned["edits"].sum())
    True
    """
    options = {"budget": budget, "rejoin": 1, "matches": True}
    found = [
        _script(sides, options, threads)
        for sides in _sides(corpus, other, pairs, key, order, ("team", 1.0), threads)
    ]
    rows = pl.concat([pl.DataFrame(schema=SCRIPT).drop("type", "tool"), *found])
    for at, side in (("a", corpus), ("b", corpus if other is None else other)):
        runs = rows[f"trace_{at}"].unique().implode()
        shown = side.events.filter(pl.col("trace").is_in(runs)).select(
            pl.col("trace", "seq").name.suffix(f"_{at}"), pl.col("type", "tool").cast(pl.String).name.suffix(f"_{at}")
        )
        on = [f"trace_{at}", f"seq_{at}"]
        rows = rows.join(shown.collect(), on=on, how="left", maintain_order="left")
    rows = rows.with_columns(
        type=pl.coalesce("type_a", "type_b"), tool=pl.coalesce("tool_a", "tool_b")
    )
    return rows.select(SCRIPT.names())


class _Side:
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

    def event(self, column: str, lane: Ints, place: Ints, known: Ints) -> pl.Series:
        """A column of the step at a place of a lane, null where it is not known."""
        row = np.where(known, self.offsets[lane] + place, 0)
        values = self.steps[column].gather(row) if len(self.steps) else pl.Series([0] * len(row))
        return pl.select(pl.when(pl.Series(known)).then(values.cast(pl.UInt32)))[:, 0]


class _Sides:
    """Both sides of some pairs, and the pairs."""

    def __init__(self, a: _Side, b: _Side, pairs: pl.DataFrame) -> None:
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

    def aligned(
        self, lanes: pl.DataFrame, options: dict[str, Any], threads: int | None, progress: Progress
    ) -> pl.DataFrame:
        """The core's alignment of these lanes; a lane that a side does not have is empty."""
        keys = pl.concat([self.a.steps.select("key", "trace", "seq"), self.b.steps.select("key", "trace", "seq")])
        # a step without a key equals nothing: a number of its own in place of a hash
        keys = keys.select(pl.coalesce("key", pl.int_range(pl.len()).hash(7)))
        split, last = len(self.a.offsets) - 1, len(self.a.steps)
        offsets = np.concatenate([self.a.offsets, last + self.b.offsets[1:], [len(keys)]])
        empty = len(offsets) - 2
        one = lanes["lane_a"].fill_null(empty).to_numpy()
        two = np.where(lanes["lane_b"].is_null().to_numpy(), empty, lanes["lane_b"].fill_null(0).to_numpy() + split)
        if len(keys) >= 2**32:
            raise ParameterError("pairs have more than 4,294,967,295 steps: align fewer at once")
        places = pl.DataFrame({"a": one, "b": two}, schema={"a": pl.UInt32, "b": pl.UInt32})
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


def _sides(
    corpus: Corpus,
    other: Corpus | None,
    pairs: Pairs,
    key: Key,
    order: Order,
    paid: tuple[Reward, float],
    threads: int | None,
) -> Iterator[_Sides]:
    """Pairs with the steps of both sides: of pairs within groups piece by piece, of others all at once."""
    if isinstance(pairs, pl.DataFrame):
        wanted = _checked(pairs, corpus, corpus if other is None else other)
        one = _steps(corpus, wanted["trace_a"], key, threads)
        two = _steps(corpus if other is None else other, wanted["trace_b"], key, threads)
        yield _Sides(_Side(one, order), _Side(two, order), wanted)
    elif other is not None:
        runs = corpus.traces.select("trace", "task_id").collect(), other.traces.select("trace", "task_id").collect()
        wanted = runs[0].join(runs[1], on="task_id", suffix="_b").select(trace_a="trace", trace_b="trace_b")
        one, two = _steps(corpus, wanted["trace_a"], key, threads), _steps(other, wanted["trace_b"], key, threads)
        yield _Sides(_Side(one, order), _Side(two, order), wanted.sort(*_PAIR))
    else:
        for _, load in corpus.pieces():
            piece = load()
            runs_of = judged_runs(piece, *paid).select("trace", "group_id", "passed")
            side = _Side(lane_steps(piece, key, threads=threads), order)
            yield _Sides(side, side, _within_groups(runs_of, pairs))


def _within_groups(runs: pl.DataFrame, pairs: Literal["outcomes", "all"]) -> pl.DataFrame:
    if pairs == "all":
        both = runs.join(runs, on="group_id", suffix="_b").filter(pl.col("trace") < pl.col("trace_b"))
    else:
        failed, passed = runs.filter(~pl.col("passed")), runs.filter("passed")
        both = failed.join(passed, on="group_id", suffix="_b")
    return both.select(trace_a="trace", trace_b="trace_b").sort(*_PAIR)


def _checked(pairs: pl.DataFrame, a: Corpus, b: Corpus) -> pl.DataFrame:
    """The pairs that a frame names, each once.

    Raises
    ------
    ParameterError
        It lacks a column, or names a trace that is none.
    """
    if not {*_PAIR} <= set(pairs.columns):
        raise ParameterError(f"pairs has the columns {', '.join(pairs.columns)}, expected trace_a and trace_b")
    wanted = pairs.select(pl.col(name).cast(pl.UInt32, strict=False) for name in _PAIR).unique(maintain_order=True)
    for name, side in zip(_PAIR, (a, b), strict=True):
        known = side.traces.select("trace").collect()["trace"]
        strange = wanted.filter(pl.col(name).is_null() | ~pl.col(name).is_in(known.implode()))[name]
        if len(strange):
            raise ParameterError(f"pairs names trace {strange[0]} in {name}, which is none of {len(known)} traces")
    return wanted.sort(*_PAIR)


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


def _rows(
    sides: _Sides, key: Key, options: dict[str, Any], threads: int | None, progress: Progress
) -> pl.DataFrame:
    lanes = sides.lanes()
    found = sides.aligned(lanes, options, threads, progress)
    n_a, n_b = (lanes[f"n_{at}"].fill_null(0).to_numpy() for at in ("a", "b"))
    one, two = (lanes[f"lane_{at}"].fill_null(0).to_numpy() for at in ("a", "b"))
    prefix, common = found["prefix"].to_numpy(), found["common"].fill_null(0).to_numpy().astype(np.int64)
    met = found["rejoin_a"].is_not_null().to_numpy()
    back_a, back_b = (found[f"rejoin_{at}"].fill_null(0).to_numpy() for at in ("a", "b"))
    here_a, here_b = prefix < n_a, prefix < n_b
    total = n_a + n_b
    rank_a, rank_b = sides.a.event("rank", one, prefix, here_a), sides.b.event("rank", two, prefix, here_b)
    rows = lanes.with_columns(
        found["prefix"],
        pl.Series("n_a", n_a, pl.UInt32),
        pl.Series("n_b", n_b, pl.UInt32),
        sides.a.event("seq", one, prefix, here_a).alias("seq_a"),
        sides.b.event("seq", two, prefix, here_b).alias("seq_b"),
        sides.a.event("seq", one, back_a, met).alias("rejoin_a"),
        sides.b.event("seq", two, back_b, met).alias("rejoin_b"),
        edits=pl.Series(total - 2 * common, dtype=pl.UInt32),
        similarity=pl.Series(2.0 * common / np.maximum(total, 1)),
        parts=pl.Series(here_a | here_b),
        is_known=found["common"].is_not_null(),
        # of what differs first: its place in run a; where a's lane has ended in run b, whose clock is another
        clock=pl.select(pl.coalesce(rank_a.cast(pl.Int64), rank_b.cast(pl.Int64) + 2**32))[:, 0],
        outcome_delta=pl.lit(None, pl.Float64),
        has_lane=pl.Series(total > 0),
    )
    rows = rows.with_columns(first=pl.col("parts") & (pl.col("clock") == pl.col("clock").min().over("pair")))
    unknown = pl.lit(value=False)
    if key == "exact":
        rows = _with_unknown(rows, sides)
        unknown = pl.col("unknown") > MOST_UNKNOWN
    reason = (
        pl.when(~pl.col("has_lane"))
        .then(pl.lit("support.absent"))
        .when(unknown)
        .then(pl.lit("field.absent"))
        .when(~pl.col("is_known"))
        .then(pl.lit("budget.exceeded"))
    )
    rows = rows.with_columns(reason=reason.cast(CREDITS["reason"]), sustained=pl.col("parts") & pl.col("rejoin_a").is_null())
    no_row = pl.col("reason").is_not_null()
    hidden = pl.col("reason").is_in(["support.absent", "field.absent"])
    return rows.select(
        *_PAIR,
        "label",
        "ordinal",
        "n_a",
        "n_b",
        *(pl.when(~hidden.fill_null(value=False)).then(name) for name in ("prefix", "seq_a", "seq_b")),
        *(pl.when(~no_row).then(name) for name in ("rejoin_a", "rejoin_b", "sustained")),
        pl.when(~hidden.fill_null(value=False)).then("first"),
        *(pl.when(~no_row).then(name) for name in ("edits", "similarity")),
        "outcome_delta",
        "reason",
    ).cast(dict(ALIGNED))


def _with_unknown(rows: pl.DataFrame, sides: _Sides) -> pl.DataFrame:
    """The larger share of steps without an exact key of the two runs of a pair."""
    for at, side in (("a", sides.a), ("b", sides.b)):
        share = side.unknown.rename({"trace": f"trace_{at}", "unknown": f"unknown_{at}"})
        rows = rows.join(share, on=f"trace_{at}", how="left", maintain_order="left")
    return rows.with_columns(unknown=pl.max_horizontal("unknown_a", "unknown_b").fill_null(0.0))


def _script(sides: _Sides, options: dict[str, Any], threads: int | None) -> pl.DataFrame:
    """Steps side by side: what only a has, then what only b has, up to each match."""
    lanes = sides.lanes().filter(pl.col("lane_a").is_not_null() | pl.col("lane_b").is_not_null())
    within = sides.aligned(lanes, {**options, "matches": False}, threads, None)["common"].is_not_null()
    lanes = lanes.filter(within).with_row_index("lane")
    matches = sides.aligned(lanes, options, threads, None)
    blocks = []
    for at, side in (("a", sides.a), ("b", sides.b)):
        long = lanes.select("lane", n=pl.col(f"n_{at}").fill_null(0), of=pl.col(f"lane_{at}").fill_null(0))
        places = long.with_columns(place=pl.int_ranges("n")).explode("place").drop_nulls("place")
        seq = side.event("seq", places["of"].to_numpy(), places["place"].to_numpy(), np.ones(len(places), bool))
        matched = matches.select(
            lane=pl.col("pair"), place=pl.col(f"place_{at}").cast(pl.Int64), matched=pl.int_range(pl.len())
        )
        blocks.append(
            places.select("lane", "place", seq=seq)
            .join(matched, on=["lane", "place"], how="left", maintain_order="left")
            # a step without a match stands before the next match of its lane
            .with_columns(before=pl.col("matched").fill_null(strategy="backward").over("lane"))
        )
    ends = len(matches)
    alone = [
        block.filter(pl.col("matched").is_null()).select(
            "lane",
            pl.col("before").fill_null(ends),
            pl.lit(at, pl.Int8).alias("side"),
            "place",
            seq_a=pl.col("seq") if at == 0 else pl.lit(None, pl.UInt32),
            seq_b=pl.col("seq") if at == 1 else pl.lit(None, pl.UInt32),
        )
        for at, block in enumerate(blocks)
    ]
    both = blocks[0].drop_nulls("matched").join(blocks[1].drop_nulls("matched"), on=["lane", "matched"], suffix="_b")
    same = both.select(
        "lane", before="matched", side=pl.lit(2, pl.Int8), place="place", seq_a="seq", seq_b="seq_b"
    )
    words = {0: "only_a", 1: "only_b", 2: "same"}
    edits = pl.concat([*alone, same], how="vertical_relaxed").sort("lane", "before", "side", "place")
    return edits.join(lanes, on="lane", how="left", maintain_order="left").select(
        *_PAIR,
        "label",
        "ordinal",
        pl.col("side").replace_strict(words, return_dtype=SCRIPT["edit"]).alias("edit"),
        "seq_a",
        "seq_b",
    )
